package attack

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
)

// TestNeedles shows that a secret is found in every usual spelling, and in part.
func TestNeedles(t *testing.T) {
	const (
		token = "v1.qg7XwZk3S1Jq0aE9bB5vYw2cD4eF6gH8iJ0kL1mN2oP3qR4sT5uV"
		state = `{"step":"confirm","plan":"é <logs/>"}`
	)
	key := "\x00\x01key\xffbytes\n\x80that are 32 lo"
	n := newNeedles()
	n.add("a token", token)
	n.add("a state", state)
	n.add("a key", key)
	n.literal("a claim check", "foil-claim.")
	n.word("a principal", "bob")
	for text, want := range map[string]string{
		"level=INFO token=" + token:               "a token",
		"token=" + token[5:40]:                    "a token",
		"cut=" + token[len(token)-32:]:            "a token",
		fmt.Sprintf("%x", token):                  "a token",
		fmt.Sprintf("%X", token):                  "a token",
		fmt.Sprintf("% x", token):                 "a token",
		fmt.Sprint([]byte(token)):                 "a token",
		fmt.Sprintf("%q", state):                  "a state",
		fmt.Sprintf("%q", fmt.Sprintf("%q", key)): "", // twice is not usual
		state: "a state",
		base64.StdEncoding.EncodeToString([]byte("x" + state + "y")): "a state",
		base64.RawURLEncoding.EncodeToString([]byte("xy" + state)):   "a state",
		"%7B%22step%22%3A%22confirm%22%2C%22plan%22%3A%22":           "a state",
		strings.ReplaceAll(state, `"`, `\"`):                         "a state",
		key:                                                          "a key",
		fmt.Sprintf("%q", key):                                       "a key",
		fmt.Sprintf("%v", []byte(key)):                               "a key",
		hex.EncodeToString([]byte(key)):                              "a key",
		base64.StdEncoding.EncodeToString([]byte(key)):               "a key",
		"claim=foil-claim.AAAA":                                      "a claim check",
		"user=bob":                                                   "a principal",
		"user=\"bob\" x":                                             "a principal",
		"flow=xbobx kid=bob-1 bobs":                                  "",
		"token=" + token[:12]:                                        "",
		"an honest line of a log":                                    "",
		"":                                                           "",
	} {
		if got := n.find([]byte(text)); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}

// TestLongSecrets are looked for at both ends.
func TestLongSecrets(t *testing.T) {
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "%05d,", i)
	}
	n := newNeedles()
	n.add("long", long.String())
	for _, part := range []string{long.String()[:100], long.String()[long.Len()-100:]} {
		if n.find([]byte(part)) == "" {
			t.Error("an end of it was not found")
		}
	}
	if len(n.chunks) > 20_000 {
		t.Errorf("%d pieces", len(n.chunks))
	}
}

// TestLeakNeedsTheServersLog shows that the attack does not hold by looking
// elsewhere.
func TestLeakNeedsTheServersLog(t *testing.T) {
	_, minter, err := NewRing(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(minter.Secrets) != 3 {
		t.Errorf("%d secrets, want those of the service's three keys", len(minter.Secrets))
	}
	a := Named("leak")[0]
	if got, err := a.run(&bout{Config: &Config{Minter: minter, Mode: Mode{Once: foil.Redeem}}, ctx: t.Context(), seen: &evidence{}}); err == nil {
		t.Errorf("without logs: %q", got)
	}
}
