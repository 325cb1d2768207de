package signed_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/signed"
)

var ctx = context.Background()

func sealed(t *testing.T, c *signed.Codec, payload string) string {
	t.Helper()
	token, err := c.Seal(ctx, []byte(payload), time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func wantReason(t *testing.T, c *signed.Codec, what, token string, want ...foil.Reason) {
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

func fromSecret(t *testing.T, secret string) *signed.Codec {
	t.Helper()
	ring, err := keyring.FromSecrets([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	c, err := signed.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func unb64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The bytes of the format, computed by Python's hmac and hashlib.
func TestVectors(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, v := range []struct{ secret, payload, kid, token string }{
		{"0123456789abcdef0123456789abcdef", "", "48bc5be4", "h1.SLxb5A.BqPlUGss7je0xc3H-m3cYHfBa5NENWfCxJQbwUnd5tg"},
		{"0123456789abcdef0123456789abcdef", "a", "48bc5be4", "h1.SLxb5GE.dbgGX2rpAx3B4ikuFrAgKl2fIohl_lygf-1uUU3wbVA"},
		{"0123456789abcdef0123456789abcdef", `{"v":1,"s":"caf\u00e9 >?>?"}`, "48bc5be4",
			"h1.SLxb5HsidiI6MSwicyI6ImNhZlx1MDBlOSA-Pz4_In0.RUYCKtxT0YN_hqkx-zXbGU5eMCY-ZaY4Vjgh2DNZX-o"},
		{"0123456789abcdef0123456789abcdef", string(all), "48bc5be4",
			"h1.SLxb5AABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj9AQUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVpbXF1eX2BhYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ent8fX5_gIGCg4SFhoeIiYqLjI2Oj5CRkpOUlZaXmJmam5ydnp-goaKjpKWmp6ipqqusra6vsLGys7S1tre4ubq7vL2-v8DBwsPExcbHyMnKy8zNzs_Q0dLT1NXW19jZ2tvc3d7f4OHi4-Tl5ufo6err7O3u7_Dx8vP09fb3-Pn6-_z9_v8.X238BTU0qZNJfDtxpx890BI1Xq4gnPyliqsojhYg2a8"},
		{string(all[:32]), "payload", "3ed3fc7b", "h1.PtP8e3BheWxvYWQ.H69-viDtFjmYJH1vAYqLC-5ZED3jtHvdryUNS_8dwUo"},
	} {
		c := fromSecret(t, v.secret)
		if got := sealed(t, c, v.payload); got != v.token {
			t.Errorf("seal %q = %s, want %s", v.payload, got, v.token)
		}
		if got, err := c.Open(ctx, v.token); err != nil || string(got) != v.payload {
			t.Errorf("open = %q, %v; want %q", got, err, v.payload)
		}
		if got := c.KeyID(v.token); got != v.kid {
			t.Errorf("KeyID = %s, want %s", got, v.kid)
		}
	}
}

// Every bit of every byte of both parts matters.
func TestEveryFlipIsRefused(t *testing.T) {
	c := signed.Ephemeral()
	body, mac, _ := strings.Cut(strings.TrimPrefix(sealed(t, c, `{"v":1}`), "h1."), ".")
	for part, raw := range [][]byte{unb64(t, body), unb64(t, mac)} {
		for i := range raw {
			for bit := range 8 {
				f := bytes.Clone(raw)
				f[i] ^= 1 << bit
				token, want := "h1."+b64(f)+"."+mac, foil.ReasonTampered
				if part == 1 {
					token = "h1." + body + "." + b64(f)
				} else if i < 4 {
					want = foil.ReasonUnknownKey
				}
				wantReason(t, c, fmt.Sprintf("part %d byte %d bit %d", part, i, bit), token, want)
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	c := signed.Ephemeral()
	for _, payload := range []string{"", "a", "ab", "abc"} { // every length of the last group
		token := sealed(t, c, payload)
		body, mac, _ := strings.Cut(token[3:], ".")
		raw := unb64(t, mac)
		forms := map[string]string{
			"padding of the mac":  token + "=",
			"padding of the body": "h1." + body + strings.Repeat("=", (4-len(body)%4)%4+1) + "." + mac,
			"line feed behind":    token + "\n",
			"line feed in body":   "h1." + body[:4] + "\n" + body[4:] + "." + mac,
			"CR LF in mac":        "h1." + body + "." + mac[:8] + "\r\n" + mac[8:],
			"CR before the dot":   "h1." + body + "\r." + mac,
			"space":               "h1. " + body + "." + mac,
			"upper prefix":        "H1" + token[2:],
			"other format":        "v1" + token[2:],
			"two dots":            "h1." + body + ".." + mac,
			"a third part":        token + "." + mac,
			"an empty third part": token + ".",
			"no mac":              "h1." + body,
			"empty mac":           "h1." + body + ".",
			"no body":             "h1.." + mac,
			"short body":          "h1.AAAA." + mac,
			"mac of 31 bytes":     "h1." + body + "." + b64(raw[:31]),
			"mac of 33 bytes":     "h1." + body + "." + b64(append(bytes.Clone(raw), 0)),
			"mac twice":           "h1." + body + "." + b64(append(bytes.Clone(raw), raw...)),
			"prefix alone":        "h1.",
			"empty":               "",
		}
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		n := strings.IndexByte(alphabet, token[len(token)-1]) // a mac of 32 bytes leaves 2 bits over
		for i := 1; i < 4; i++ {
			forms[fmt.Sprintf("stray bits %d of the mac", i)] = token[:len(token)-1] + alphabet[n|i:n|i+1]
		}
		spare := map[int]int{0: 0, 2: 15, 3: 3}[len(body)%4]
		for i := 1; i <= spare; i++ {
			n := strings.IndexByte(alphabet, body[len(body)-1])
			forms[fmt.Sprintf("stray bits %d of the body", i)] = "h1." + body[:len(body)-1] + alphabet[n|i:n|i+1] + "." + mac
		}
		if alt := strings.NewReplacer("-", "+", "_", "/").Replace(token); alt != token {
			forms["other alphabet"] = alt
		}
		for what, form := range forms {
			wantReason(t, c, payload+": "+what, form, foil.ReasonMalformed)
			if kid, err := signed.Parse(form); kid != "" || foil.ReasonOf(err) != foil.ReasonMalformed {
				t.Errorf("%s: Parse = %q, %v", what, kid, err)
			}
			if kid := c.KeyID(form); kid != "" {
				t.Errorf("%s: KeyID = %q", what, kid)
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
	r, err := keyring.Parse([]byte(`{"version":1,"serial":1,"interop":false,"propagation":300,"skew":30,"max_ttl":500,"keep":86400,"keys":[` + keys + `],"revoked":` + revoked + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func key(id, secret string, from, until int64) string {
	u := ""
	if until != 0 {
		u = fmt.Sprintf(`,"open_until":%d`, until)
	}
	return fmt.Sprintf(`{"id":%q,"secret":%q,"seal_from":%d%s}`, id, b64([]byte(secret)), from, u)
}

var (
	secretA = strings.Repeat("a", 32)
	secretB = strings.Repeat("b", 32)
)

func TestKeysFollowTheRing(t *testing.T) {
	now := time.Unix(10_000, 0)
	var m movable
	m.Store(ring(t, key("a", secretA, 0, 0)))
	c, err := signed.New(&m, &signed.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	underA := sealed(t, c, "a")

	m.Store(ring(t, key("a", secretA, 0, 30_000)+","+key("b", secretB, 20_000, 0)))
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

	m.Store(ring(t, key("a", secretA, 0, 30_000)+","+key("b", secretB, 20_000, 0), `["b"]`))
	wantReason(t, c, "revoked", underB, foil.ReasonUnknownKey)
	if token, err := c.Seal(ctx, nil, now); token != "" || !errors.Is(err, keyring.ErrNoSealingKey) {
		t.Errorf("sealing under a revoked key: %q, %v", token, err)
	}
	if got, want := c.KeyLimits(), (foil.KeyLimits{MaxTTL: 500 * time.Second, Keep: 24 * time.Hour, Skew: 30 * time.Second}); got != want {
		t.Errorf("KeyLimits %+v, want %+v", got, want)
	}

	m.Store(nil)
	if payload, err := c.Open(ctx, underB); payload != nil || err == nil || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("no ring: %q, %v; want a system failure", payload, err)
	}
	if token, err := c.Seal(ctx, nil, now); err == nil || token != "" {
		t.Error("sealed without a ring")
	}
	if got := c.KeyLimits(); got.MaxTTL != 500*time.Second {
		t.Errorf("KeyLimits without a ring %+v; want those of the last one", got)
	}
}

// Another key's id in front of a payload does not make it that key's, and the
// MAC covers the id.
func TestKeySwap(t *testing.T) {
	ab := ring(t, key("a", secretA, 0, 200_000_000_000)+","+key("b", secretB, 0, 0))
	c, err := signed.New(keyring.Fixed(ab), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := sealed(t, fromSecret(t, secretA), "x"), sealed(t, c, "x")
	for _, token := range []string{a, b} {
		if _, err := c.Open(ctx, token); err != nil {
			t.Fatal(err)
		}
	}
	bodyA, macA, _ := strings.Cut(a[3:], ".")
	bodyB, macB, _ := strings.Cut(b[3:], ".")
	wantReason(t, c, "b's id, a's mac", "h1."+bodyB+"."+macA, foil.ReasonTampered)
	wantReason(t, c, "a's id, b's mac", "h1."+bodyA+"."+macB, foil.ReasonTampered)
}

// Two secrets whose key ids collide in all four bytes: both open.
func TestKeyIDsMayCollide(t *testing.T) {
	one, two := fmt.Sprintf("%032d", 46001), fmt.Sprintf("%032d", 56441) // found by trying
	c, err := signed.New(keyring.Fixed(ring(t, key("one", one, 0, 200_000_000_000)+","+key("two", two, 1, 0))), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := sealed(t, fromSecret(t, one), "x"), sealed(t, fromSecret(t, two), "x")
	if a == b || c.KeyID(a) != c.KeyID(b) || c.RingID(c.KeyID(a)) != "one,two" {
		t.Fatalf("tokens %s and %s, key ids %q", a, b, c.RingID(c.KeyID(a)))
	}
	for _, token := range []string{a, b} {
		if got, err := c.Open(ctx, token); err != nil || string(got) != "x" {
			t.Errorf("%q, %v", got, err)
		}
	}
	forged := a[:len(a)-43] + strings.Repeat("A", 43)
	wantReason(t, c, "neither", forged, foil.ReasonTampered)
}

func TestConcurrentUseWhileTheRingChanges(t *testing.T) {
	var m movable
	one, two := ring(t, key("a", secretA, 0, 0)), ring(t, key("a", secretA, 0, 200_000_000_000)+","+key("b", secretB, 1, 0))
	m.Store(one)
	c, err := signed.New(&m, nil)
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

// A readable codec must not carry what redeems a plan.
func TestGuardRefusesClaimChecks(t *testing.T) {
	c := signed.Ephemeral()
	if c.Encrypts() {
		t.Error("Encrypts() = true")
	}
	g, err := foil.New(c, &foil.Options{NoAudience: true, Once: foil.Off, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	req := foil.Request{Method: foil.MethodToolsCall, Target: "purge", Principal: foil.Anonymous()}
	token, err := g.Seal(ctx, req, foil.Outgoing{State: `{"claim":"` + claimcheck.Prefix + `abc"}`})
	if token != "" || err == nil || errors.Is(err, foil.ErrInvalid) || errors.Is(err, foil.ErrUnavailable) {
		t.Errorf("Seal of a claim = %q, %v; want a server's mistake", token, err)
	}
	if token, err = g.Seal(ctx, req, foil.Outgoing{State: "a plan by value"}); err != nil {
		t.Fatal(err)
	}
	if o, err := g.Open(ctx, req, token); err != nil || o.State() != "a plan by value" {
		t.Errorf("Open: %v", err)
	}
	body, _, _ := strings.Cut(token[3:], ".")
	if !bytes.Contains(unb64(t, body), []byte("a plan by value")) {
		t.Error("the state cannot be read in the token")
	}
}

func TestNewNeedsKeys(t *testing.T) {
	if _, err := signed.New(nil, nil); err == nil || !strings.HasPrefix(err.Error(), "signed: ") {
		t.Errorf("New(nil) = %v", err)
	}
	if _, err := signed.New(&movable{}, nil); err == nil || !strings.Contains(err.Error(), "no ring") {
		t.Errorf("New without a ring = %v", err)
	}
	if l := signed.Ephemeral().KeyLimits(); l != (foil.KeyLimits{Ephemeral: true}) {
		t.Errorf("limits of an ephemeral key: %+v", l)
	}
}

func TestKIDNamesTheKey(t *testing.T) {
	r := ring(t, key("a", secretA, 0, 0))
	c, err := signed.New(keyring.Fixed(r), nil)
	if err != nil {
		t.Fatal(err)
	}
	kid, err := signed.KID(r.Key("a"))
	if err != nil || kid != c.KeyID(sealed(t, c, "x")) {
		t.Errorf("KID = %q, %v", kid, err)
	}
	for _, none := range []string{"", "00000000", kid[:6], kid + "00", "zzzzzzzz"} {
		if id := c.RingID(none); id != "" {
			t.Errorf("RingID(%q) = %q", none, id)
		}
	}
}

func TestPrintsNoKey(t *testing.T) {
	c := signed.Ephemeral()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if s := fmt.Sprintf(verb, c); s != "signed.Codec" {
			t.Errorf("%s prints %q", verb, s)
		}
	}
}

func FuzzOpen(f *testing.F) {
	c := signed.Ephemeral()
	token, err := c.Seal(ctx, []byte(`{"v":1}`), time.Time{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Add("h1." + strings.Repeat("A", 8) + "." + strings.Repeat("A", 43))
	f.Add("h1.\r\n.")
	f.Fuzz(func(t *testing.T, s string) {
		payload, err := c.Open(ctx, s)
		if err != nil {
			if payload != nil || !errors.Is(err, foil.ErrInvalid) {
				t.Fatalf("%q: payload %v, error %v", s, payload, err)
			}
			return
		}
		// Sealing is deterministic, so there is one token for a payload.
		if again := sealed(t, c, string(payload)); again != s {
			t.Fatalf("accepted %q, whose one spelling is %q", s, again)
		}
	})
}
