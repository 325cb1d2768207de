package keyring_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// b64 returns a 32-byte secret, different for each n, as a document writes it.
func b64(n byte) string {
	return base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32))
}

// doc returns a document with the given keys member.
func doc(keys string) string {
	return `{"version":1,"serial":7,"interop":false,"propagation":300,"skew":60,"max_ttl":600,"keep":86400,"keys":` + keys + `,"revoked":[]}`
}

func mustParse(t *testing.T, s string) *keyring.Ring {
	t.Helper()
	r, err := keyring.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newRing(t *testing.T, o *keyring.RingOptions) *keyring.Ring {
	t.Helper()
	r, err := keyring.NewRing(start, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sealing(t *testing.T, r *keyring.Ring, now time.Time) string {
	t.Helper()
	k, err := r.Sealing(now)
	if err != nil {
		if !errors.Is(err, keyring.ErrNoSealingKey) || k != nil {
			t.Fatalf("Sealing: %v, %v", k, err)
		}
		return "none"
	}
	return k.ID()
}

func TestNewRing(t *testing.T) {
	r := newRing(t, nil)
	if r.Serial() != 1 || r.Interop() || r.Propagation() != 5*time.Minute || r.Skew() != time.Minute ||
		r.MaxTTL() != 10*time.Minute || r.Keep() != 24*time.Hour || len(r.Keys()) != 1 {
		t.Errorf("defaults: %s", r.Marshal())
	}
	// A replica whose clock is behind by the whole skew seals at once as well.
	if got := sealing(t, r, start.Add(-time.Minute)); got != "2026-11-30a" {
		t.Errorf("sealing at start-skew: %s", got)
	}
	if got := sealing(t, r, start.Add(-time.Minute-time.Second)); got != "none" {
		t.Errorf("sealing before: %s", got)
	}
	none := newRing(t, &keyring.RingOptions{Skew: -1, Keep: -1})
	if none.Skew() != 0 || none.Keep() != 0 {
		t.Error("negative skew or keep is not none")
	}
	if io := newRing(t, &keyring.RingOptions{Interop: true}); io.Keep() != 0 || !io.Interop() {
		t.Error("an interop ring keeps nothing by default")
	}
	for _, o := range []keyring.RingOptions{
		{Propagation: time.Millisecond}, {Propagation: -1}, {MaxTTL: -1}, {MaxTTL: 1500 * time.Millisecond},
		{Keep: 1 << 62}, {Skew: time.Nanosecond},
	} {
		if _, err := keyring.NewRing(start, &o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
}

func TestSealing(t *testing.T) {
	key := func(id string, n byte, rest string) string {
		return `{"id":"` + id + `","secret":"` + b64(n) + `"` + rest + `}`
	}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	base := doc("[" + key("a", 1, `,"seal_from":100,"open_until":900`) + "," + key("b", 2, `,"seal_from":200`) + "," +
		key("c", 3, `,"seal_from":200`) + "," + key("d", 4, `,"seal_from":150`) + "]")
	revoked := func(ids string) string { return strings.Replace(base, `"revoked":[]`, `"revoked":[`+ids+`]`, 1) }
	for _, tc := range []struct {
		name, doc string
		now       int64
		want      string
	}{
		{"before all", base, 99, "none"},
		{"first second", base, 100, "a"},
		{"order of seal_from, not of the document", base, 199, "d"},
		{"later entry on ties", base, 200, "c"},
		{"superseded does not come back", revoked(`"c"`), 200, "none"},
		{"nor for a revoked tie loser", revoked(`"b"`), 200, "c"},
		{"revoked one not yet in force", revoked(`"c"`), 199, "d"},
		{"past open_until", doc("[" + key("a", 1, `,"seal_from":100,"open_until":900`) + "]"), 900, "none"},
		{"before open_until", doc("[" + key("a", 1, `,"seal_from":100,"open_until":900`) + "]"), 899, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := sealing(t, mustParse(t, tc.doc), at(tc.now)); got != tc.want {
				t.Errorf("sealing key is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestOpens(t *testing.T) {
	r := mustParse(t, strings.Replace(doc(`[{"id":"a","secret":"`+b64(1)+`","seal_from":100,"open_until":900},{"id":"b","secret":"`+b64(2)+`","seal_from":5000},{"id":"c","secret":"`+b64(3)+`","seal_from":100}]`),
		`"revoked":[]`, `"revoked":["c"]`, 1))
	for _, tc := range []struct {
		id   string
		now  time.Time
		want bool
	}{
		{"a", time.Unix(0, 0), true}, {"a", time.Unix(900, 0).Add(-1), true}, {"a", time.Unix(900, 0), false},
		{"b", time.Unix(0, 0), true}, {"b", time.Unix(1<<40, 0), true}, {"c", time.Unix(200, 0), false},
	} {
		if got := r.Key(tc.id).Opens(tc.now); got != tc.want {
			t.Errorf("%s opens at %v: %v", tc.id, tc.now, got)
		}
	}
	if until, ok := r.Key("a").OpenUntil(); !ok || until.Unix() != 900 {
		t.Error("OpenUntil of a")
	}
	if _, ok := r.Key("b").OpenUntil(); ok || r.Key("b").SealFrom().Unix() != 5000 || !r.Key("c").Revoked() || r.Key("x") != nil {
		t.Error("accessors")
	}
}

// The expected bytes were computed apart from this code, with two HMACs in Python.
func TestDerive(t *testing.T) {
	r, err := keyring.FromSecrets(bytes.Repeat([]byte{0x0b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	k := r.Keys()[0]
	got, err := k.Derive("mcp/request-state/v1/aes-256-gcm", 32)
	if err != nil || len(got) != 32 {
		t.Fatal(got, err)
	}
	if want := "701897972f0592282d85a783586cf15ca4fef1fa7e71783f1d49cf9bcb8d58a2"; hex.EncodeToString(got) != want {
		t.Errorf("derived %x, want %s", got, want)
	}
	again, _ := k.Derive("mcp/request-state/v1/aes-256-gcm", 32)
	other, _ := k.Derive("mcp/request-state/v1/aes-256-gcn", 32)
	if !bytes.Equal(got, again) || bytes.Equal(got, other) {
		t.Error("not a function of info")
	}
	for _, n := range []int{-1, 0, 255*32 + 1} {
		if _, err := k.Derive("x", n); err == nil {
			t.Errorf("n=%d accepted", n)
		}
	}
}

func TestFromSecrets(t *testing.T) {
	a, b, c := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 48), bytes.Repeat([]byte{3}, 32)
	r, err := keyring.FromSecrets(a, b, c)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interop() || sealing(t, r, start) != "secret-1" || len(r.Keys()) != 3 {
		t.Errorf("%v", r)
	}
	for _, k := range r.Keys() {
		if !k.Opens(start) {
			t.Errorf("%v does not open", k)
		}
	}
	want, _ := r.Keys()[0].Derive("x", 32)
	a[0] ^= 1
	if got, _ := r.Keys()[0].Derive("x", 32); !bytes.Equal(got, want) {
		t.Error("changing the input changed the key")
	}
	if _, err := keyring.Parse(r.Marshal()); err != nil {
		t.Error(err)
	}
	for name, secrets := range map[string][][]byte{
		"none": {}, "short": {b, make([]byte, 31)}, "twice": {b, b}, "huge": {make([]byte, 1025)},
	} {
		if _, err := keyring.FromSecrets(secrets...); err == nil {
			t.Errorf("%s accepted", name)
		} else if name == "short" && !strings.Contains(err.Error(), "keys[1]") {
			t.Errorf("%v does not name the key", err)
		}
	}
}

func TestEphemeral(t *testing.T) {
	a, b := keyring.NewEphemeral(), keyring.NewEphemeral()
	ka, _ := a.Keys()[0].Derive("x", 32)
	kb, _ := b.Keys()[0].Derive("x", 32)
	if bytes.Equal(ka, kb) || sealing(t, a, start) != "ephemeral" || a.Interop() {
		t.Error("ephemeral ring is wrong")
	}
}

func TestFixed(t *testing.T) {
	r := keyring.NewEphemeral()
	if got, err := keyring.Fixed(r).Ring(); got != r || err != nil {
		t.Error(got, err)
	}
	if _, err := keyring.Fixed(nil).Ring(); err == nil {
		t.Error("a nil ring is given out")
	}
}

func TestNothingPrintsASecret(t *testing.T) {
	raw := []byte("correct horse battery staple 123")
	r, err := keyring.FromSecrets(raw)
	if err != nil {
		t.Fatal(err)
	}
	k := r.Keys()[0]
	type hidden struct {
		r  *keyring.Ring
		rv keyring.Ring
		k  *keyring.Key
		kv keyring.Key
	}
	values := []any{r, *r, k, *k, r.Keys(), hidden{r, *r, k, *k}, &hidden{r, *r, k, *k}, keyring.Fixed(r)}
	var out strings.Builder
	for _, v := range values {
		for _, verb := range "vTtbcdoOqxXUeEfFgGsp" {
			for _, flag := range []string{"", "+", "#"} {
				fmt.Fprintf(&out, "%"+flag+string(verb)+"\n", v)
			}
		}
		j, _ := json.Marshal(v)
		out.Write(j)
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
	}
	for _, form := range []string{"correct", "Y29ycm", hex.EncodeToString(raw[:4]), strings.ToUpper(hex.EncodeToString(raw[:4])),
		"99 111 114", "0x63, 0x6f", "143 157", "1100011 1101111"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("a secret shows as %q", form)
		}
	}
	if !strings.Contains(out.String(), "secret-1") {
		t.Error("the id does not show")
	}
}

// What a document may say must not overflow where it is used.
func TestLongestDurations(t *testing.T) {
	month := strings.NewReplacer(`"propagation":300`, `"propagation":2592000`, `"skew":60`, `"skew":2592000`, `"max_ttl":600`, `"max_ttl":2592000`, `"keep":86400`, `"keep":3162240000`).
		Replace(doc(`[{"id":"a","secret":"` + b64(1) + `","seal_from":100}]`))
	ring := mustParse(t, month)
	r, err := keyring.NewRefresher(t.Context(), &fakeSource{ring: ring}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := ring.Rotate(start, 0); err != nil {
		t.Error(err)
	}
	for _, more := range []string{`"propagation":2592001`, `"skew":2592001`, `"max_ttl":2592001`, `"keep":3162240001`} {
		name, _, _ := strings.Cut(more, ":")
		i := strings.Index(month, name)
		end := i + strings.IndexByte(month[i:], ',')
		if _, err := keyring.Parse([]byte(month[:i] + more + month[end:])); err == nil {
			t.Errorf("%s was taken", more)
		}
	}
}
