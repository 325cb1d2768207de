package aesgcm_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
)

var ctx = context.Background()

func sealed(t *testing.T, c *aesgcm.Codec, payload string) string {
	t.Helper()
	token, err := c.Seal(ctx, []byte(payload), time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func wantReason(t *testing.T, c *aesgcm.Codec, what, token string, want ...foil.Reason) {
	t.Helper()
	payload, err := c.Open(ctx, token)
	got := foil.ReasonOf(err)
	for _, w := range want {
		if got == w && errors.Is(err, foil.ErrInvalid) && payload == nil {
			return
		}
	}
	t.Errorf("%s: payload %q, error %v; want %v", what, payload, err, want)
}

func TestRoundTrip(t *testing.T) {
	c := aesgcm.Ephemeral()
	for _, n := range []int{0, 1, 2, 3, 15, 16, 17, 1000, 60000} {
		payload := strings.Repeat("x", n)
		token := sealed(t, c, payload)
		got, err := c.Open(ctx, token)
		if err != nil || string(got) != payload {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if again := sealed(t, c, payload); again == token {
			t.Fatalf("%d bytes: two seals gave one token", n)
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "v1."))
		if err != nil || len(raw) != 4+12+n+16 {
			t.Fatalf("%d bytes: token holds %d bytes, %v", n, len(raw), err)
		}
	}
	if !c.Encrypts() {
		t.Error("Encrypts() = false")
	}
}

// Every bit of every byte matters, and so does every character of the text.
func TestEveryFlipIsRefused(t *testing.T) {
	c := aesgcm.Ephemeral()
	token := sealed(t, c, `{"v":1}`)
	raw, err := base64.RawURLEncoding.DecodeString(token[3:])
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			f := bytes.Clone(raw)
			f[i] ^= 1 << bit
			want := foil.ReasonTampered
			if i < 4 {
				want = foil.ReasonUnknownKey
			}
			wantReason(t, c, fmt.Sprintf("byte %d bit %d", i, bit), "v1."+base64.RawURLEncoding.EncodeToString(f), want)
		}
	}
	for i := range token {
		for b := range 256 {
			if byte(b) == token[i] {
				continue
			}
			f := []byte(token)
			f[i] = byte(b)
			wantReason(t, c, fmt.Sprintf("character %d = %#x", i, b), string(f), foil.ReasonMalformed, foil.ReasonTampered, foil.ReasonUnknownKey)
		}
	}
}

// A token has one spelling: whoever keyed a set of spent tokens on the text
// could rely on it.
func TestAliasesAreMalformed(t *testing.T) {
	c := aesgcm.Ephemeral()
	for _, payload := range []string{"", "a", "ab"} { // the three lengths of the last group
		token := sealed(t, c, payload)
		body := token[3:]
		aliases := map[string]string{
			"padding":         token + "=",
			"two paddings":    token + "==",
			"newline at end":  token + "\n",
			"newline inside":  "v1." + body[:10] + "\n" + body[10:],
			"return inside":   "v1." + body[:10] + "\r" + body[10:],
			"crlf x2 inside":  "v1." + body[:8] + "\r\n\r\n" + body[8:],
			"space":           " " + token,
			"tab":             token + "\t",
			"quotes":          `"` + token + `"`,
			"percent":         "v1%2E" + body,
			"upper prefix":    "V1." + body,
			"other prefix":    "v2." + body,
			"no prefix":       body,
			"double prefix":   "v1." + token,
			"suffix":          token + "-TAMPERED",
			"one more char":   token + "A",
			"four more chars": token + "AAAA",
			"nul":             token + "\x00",
			"empty":           "",
			"prefix alone":    "v1.",
		}
		if alt := strings.NewReplacer("-", "+", "_", "/").Replace(body); alt != body {
			aliases["other alphabet"] = "v1." + alt
		}
		for what, alias := range aliases {
			wantReason(t, c, what, alias, foil.ReasonMalformed, foil.ReasonTampered)
		}
		for i := range len(token) {
			wantReason(t, c, fmt.Sprintf("cut to %d", i), token[:i], foil.ReasonMalformed, foil.ReasonTampered)
		}
		// The last character's unused bits.
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		last := token[len(token)-1]
		for i := range len(alphabet) {
			if alphabet[i] != last {
				wantReason(t, c, "last character", token[:len(token)-1]+alphabet[i:i+1], foil.ReasonMalformed, foil.ReasonTampered)
			}
		}
	}
}

// movable is a ring that a test replaces.
type movable struct{ atomic.Pointer[keyring.Ring] }

func (m *movable) Ring() (*keyring.Ring, error) {
	if r := m.Load(); r != nil {
		return r, nil
	}
	return nil, errors.New("no ring")
}

func ring(t *testing.T, keys string, extra ...string) *keyring.Ring {
	t.Helper()
	revoked := "[]"
	if len(extra) > 0 {
		revoked = extra[0]
	}
	r, err := keyring.Parse([]byte(`{"version":1,"serial":1,"interop":false,"propagation":300,"skew":60,"max_ttl":600,"keep":86400,"keys":[` + keys + `],"revoked":` + revoked + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func key(id, fill string, from int64, until int64) string {
	s := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(fill, 32)))
	u := ""
	if until != 0 {
		u = fmt.Sprintf(`,"open_until":%d`, until)
	}
	return fmt.Sprintf(`{"id":%q,"secret":%q,"seal_from":%d%s}`, id, s, from, u)
}

func TestKeysFollowTheRing(t *testing.T) {
	now := time.Unix(10_000, 0)
	var m movable
	m.Store(ring(t, key("a", "a", 0, 0)))
	c, err := aesgcm.New(&m, &aesgcm.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	underA := sealed(t, c, "a")

	m.Store(ring(t, key("a", "a", 0, 30_000)+","+key("b", "b", 20_000, 0)))
	if c.RingID(c.KeyID(sealed(t, c, "still a"))) != "a" {
		t.Error("a pending key seals")
	}
	now = time.Unix(20_000, 0)
	underB := sealed(t, c, "b")
	if c.RingID(c.KeyID(underB)) != "b" {
		t.Error("the key in force does not seal")
	}
	for what, token := range map[string]string{"a": underA, "b": underB} {
		if got, err := c.Open(ctx, token); err != nil || string(got) != what {
			t.Errorf("token under %s: %q, %v", what, got, err)
		}
	}
	now = time.Unix(30_000, 0) // exactly open_until
	wantReason(t, c, "retired", underA, foil.ReasonUnknownKey)
	if _, err := c.Open(ctx, underB); err != nil {
		t.Errorf("b after a retired: %v", err)
	}

	m.Store(ring(t, key("a", "a", 0, 30_000)+","+key("b", "b", 20_000, 0), `["b"]`))
	wantReason(t, c, "revoked", underB, foil.ReasonUnknownKey)
	if _, err := c.Seal(ctx, nil, now); !errors.Is(err, keyring.ErrNoSealingKey) {
		t.Errorf("sealing under a revoked key: %v", err)
	}

	m.Store(nil)
	if _, err := c.Open(ctx, underB); err == nil || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("no ring: %v, want a system failure", err)
	}
	if _, err := c.Seal(ctx, nil, now); err == nil {
		t.Error("sealed without a ring")
	}
}

// Another key's id in front of a token does not make it that key's.
func TestKeySwap(t *testing.T) {
	var m movable
	m.Store(ring(t, key("a", "a", 0, 200_000_000_000)+","+key("b", "b", 0, 0)))
	c, err := aesgcm.New(&m, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := base64.RawURLEncoding.DecodeString(sealed(t, c, "x")[3:])
	m.Store(ring(t, key("a", "a", 0, 0)+","+key("b", "b", 200_000_000_000, 0)))
	a, _ := base64.RawURLEncoding.DecodeString(sealed(t, c, "x")[3:])
	copy(a[:4], b[:4])
	wantReason(t, c, "swapped", "v1."+base64.RawURLEncoding.EncodeToString(a), foil.ReasonTampered)
}

func TestConcurrentUseWhileTheRingChanges(t *testing.T) {
	var m movable
	one, two := ring(t, key("a", "a", 0, 0)), ring(t, key("a", "a", 0, 200_000_000_000)+","+key("b", "b", 1, 0))
	m.Store(one)
	c, err := aesgcm.New(&m, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				if i%10 == 0 {
					m.Store([]*keyring.Ring{one, two}[i/10%2])
				}
				token, err := c.Seal(ctx, []byte("x"), time.Time{})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Open(ctx, token); err != nil && foil.ReasonOf(err) != foil.ReasonUnknownKey {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestKeyID(t *testing.T) {
	c := aesgcm.Ephemeral()
	token := sealed(t, c, "x")
	if id := c.KeyID(token); len(id) != 8 {
		t.Errorf("KeyID = %q", id)
	}
	for _, bad := range []string{"", "v1.", "v1.AAAA", "h1." + token[3:], token + "\n"} {
		if id := c.KeyID(bad); id != "" {
			t.Errorf("KeyID(%q) = %q, want none", bad, id)
		}
	}
}

func TestPrintsNoKey(t *testing.T) {
	c := aesgcm.Ephemeral()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if s := fmt.Sprintf(verb, c); s != "aesgcm.Codec" {
			t.Errorf("%s prints %q", verb, s)
		}
	}
}

func FuzzOpen(f *testing.F) {
	c := aesgcm.Ephemeral()
	token, err := c.Seal(ctx, []byte(`{"v":1}`), time.Time{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Add("v1." + strings.Repeat("A", 43))
	f.Add("v1.\r\n")
	for _, file := range []string{"python-sdk.json", "sdk-tokens.json"} {
		text, err := os.ReadFile("../testdata/vectors/" + file)
		if err != nil {
			f.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"(?:token|rs1|rs2)": "([^"]+)"`).FindAllSubmatch(text, -1) {
			f.Add(string(m[1]))
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		payload, err := c.Open(ctx, s)
		if err == nil {
			if again := "v1." + base64.RawURLEncoding.EncodeToString(mustDecode(t, s)); again != s || payload == nil {
				t.Fatalf("accepted %q, whose one spelling is %q", s, again)
			}
		} else if payload != nil || !errors.Is(err, foil.ErrInvalid) {
			t.Fatalf("%q: payload %v, error %v", s, payload, err)
		}
	})
}

func mustDecode(t *testing.T, token string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(token[3:])
	if err != nil {
		t.Fatal(err)
	}
	return b
}
