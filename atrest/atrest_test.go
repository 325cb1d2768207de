package atrest_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/keyring"
)

func b64(secret []byte) string { return base64.RawURLEncoding.EncodeToString(secret) }

func secretOf(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

// doc is a storage ring whose key n was made of secretOf(n) and seals from second n.
func doc(revoked string, keys ...byte) string {
	var list []string
	for _, n := range keys {
		list = append(list, fmt.Sprintf(`{"id":"key-%d","secret":%q,"seal_from":%d}`, n, b64(secretOf(n)), n))
	}
	return `{"version":1,"serial":1,"interop":false,"storage":true,"propagation":300,"skew":60,"max_ttl":600,"keep":0,"keys":[` +
		strings.Join(list, ",") + `],"revoked":[` + revoked + `]}`
}

func parse(t *testing.T, doc string) *keyring.Ring {
	t.Helper()
	r, err := keyring.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// movable is a key source that a test changes; nil is one that is away.
type movable struct{ atomic.Pointer[keyring.Ring] }

var errAway = errors.New("source is away")

func (m *movable) Ring() (*keyring.Ring, error) {
	if r := m.Load(); r != nil {
		return r, nil
	}
	return nil, errAway
}

func newSealer(t *testing.T, doc string) (*atrest.Sealer, *movable) {
	t.Helper()
	var m movable
	m.Store(parse(t, doc))
	s, err := atrest.New(&m)
	if err != nil {
		t.Fatal(err)
	}
	return s, &m
}

func seal(t *testing.T, s *atrest.Sealer, plaintext string) []byte {
	t.Helper()
	sealed, err := s.Seal("handles", []byte("row"), "payload", []byte(plaintext))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func opens(t *testing.T, s *atrest.Sealer, sealed []byte, plaintext string) {
	t.Helper()
	got, err := s.Open("handles", []byte("row"), "payload", sealed)
	if err != nil || string(got) != plaintext {
		t.Errorf("Open = %q, %v; want %q", got, err, plaintext)
	}
}

func refuses(t *testing.T, s *atrest.Sealer, what string, sealed []byte) {
	t.Helper()
	if got, err := s.Open("handles", []byte("row"), "payload", sealed); got != nil || err != atrest.ErrSealed {
		t.Errorf("%s: %q, %v; want ErrSealed and nothing more", what, got, err)
	}
}

func TestRoundTrip(t *testing.T) {
	s, _ := newSealer(t, doc("", 1))
	for _, n := range []int{0, 1, 15, 16, 17, 1000, 1 << 20} {
		p := strings.Repeat("x", n)
		sealed := seal(t, s, p)
		if len(sealed) != n+atrest.Overhead {
			t.Errorf("%d bytes are sealed in %d", n, len(sealed))
		}
		before := bytes.Clone(sealed)
		opens(t, s, sealed, p)
		opens(t, s, sealed, p)
		if !bytes.Equal(sealed, before) {
			t.Error("Open changed what is sealed")
		}
		if n > 16 && bytes.Contains(sealed, []byte(p[:16])) {
			t.Error("the plaintext can be seen")
		}
		if bytes.Equal(seal(t, s, p), sealed) {
			t.Error("two seals are equal")
		}
	}
}

// The bytes are those of docs/wire.md, made here by hand.
func TestFormat(t *testing.T) {
	s, _ := newSealer(t, doc("", 1))
	k, err := hkdf.Key(sha256.New, secretOf(1), nil, "foil/at-rest/v1", 32)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("foil/at-rest/v1/kid:" + string(k)))
	block, err := aes.NewCipher(k)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	const ad = "handles\x00row\x00payload"
	sealed := seal(t, s, "plain")
	if !bytes.Equal(sealed[:4], sum[:4]) {
		t.Errorf("kid %x, want %x", sealed[:4], sum[:4])
	}
	if got, err := aead.Open(nil, sealed[4:16], sealed[16:], []byte(ad)); err != nil || string(got) != "plain" {
		t.Errorf("by hand: %q, %v", got, err)
	}
	nonce := bytes.Repeat([]byte{7}, 12)
	hand := aead.Seal(append(bytes.Clone(sum[:4]), nonce...), nonce, []byte("by hand"), []byte(ad))
	opens(t, s, hand, "by hand")
	// So that a change of any of it is seen, whatever made it.
	if got := hex.EncodeToString(hand); got != "a9035db107070707070707070707070761e2981aa8d858315d7912a0f1cf2208eee37fd76b751c" {
		t.Errorf("vector is %s", got)
	}
	want := hex.EncodeToString(sum[:4])
	if got := atrest.KeyID(sealed); got != want {
		t.Errorf("KeyID = %s, want %s", got, want)
	}
	if got, err := atrest.KeyIDOf(parse(t, doc("", 1)).Keys()[0]); got != want || err != nil {
		t.Errorf("KeyIDOf = %s, %v; want %s", got, err, want)
	}
	for n := range atrest.Overhead {
		if got := atrest.KeyID(sealed[:n]); got != "" {
			t.Errorf("KeyID of %d bytes = %q", n, got)
		}
	}
}

// No value opens in another place than its own, whatever bytes a row has.
func TestPlaces(t *testing.T) {
	s, _ := newSealer(t, doc("", 1))
	type place struct{ table, row, column string }
	places := []place{
		{"t", "r", "c"}, {"t", "r", "d"}, {"t", "s", "c"}, {"u", "r", "c"},
		{"tr", "", "c"}, {"", "tr", "c"}, {"t", "", "rc"}, {"t", "rc", ""}, {"", "", ""}, {"", "\x00", ""}, {"", "\x00\x00", ""},
		{"t", "r\x00c", "c"}, {"t", "r\x00", "c"}, {"t", "\x00r", "c"}, {"t", "r\x00c\x00", "c"}, {"t", "c\x00r", "c"}, {"t", "r\x00d", "c"},
		{"t", "\x00", "c"}, {"t", "r\x00c\x00c", "c"}, {"T", "r", "c"},
	}
	for _, from := range places {
		sealed, err := s.Seal(from.table, []byte(from.row), from.column, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range places {
			got, err := s.Open(to.table, []byte(to.row), to.column, sealed)
			if from == to && (err != nil || string(got) != "x") {
				t.Errorf("%q: %v", from, err)
			}
			if from != to && (got != nil || !errors.Is(err, atrest.ErrSealed)) {
				t.Errorf("sealed for %q, opened for %q: %q, %v", from, to, got, err)
			}
		}
	}
	for _, bad := range []place{{"t\x00", "r", "c"}, {"\x00", "r", "c"}, {"t", "r", "\x00c"}, {"t", "r", "c\x00d"}} {
		if sealed, err := s.Seal(bad.table, []byte(bad.row), bad.column, nil); sealed != nil || err == nil {
			t.Errorf("Seal for %q: %v", bad, err)
		}
		if _, err := s.Open(bad.table, []byte(bad.row), bad.column, make([]byte, 64)); err == nil || errors.Is(err, atrest.ErrSealed) {
			t.Errorf("Open for %q: %v", bad, err)
		}
	}
}

func TestDamage(t *testing.T) {
	s, _ := newSealer(t, doc("", 1))
	sealed := seal(t, s, "some plaintext")
	for i := range sealed {
		for bit := range 8 {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1 << bit
			refuses(t, s, fmt.Sprintf("bit %d of byte %d", bit, i), bad)
		}
		refuses(t, s, fmt.Sprintf("the first %d bytes", i), sealed[:i])
	}
	refuses(t, s, "a byte more", append(bytes.Clone(sealed), 0))
	refuses(t, s, "nothing", nil)
	refuses(t, s, "zeros", make([]byte, 100))
	refuses(t, s, "plaintext", []byte(strings.Repeat("plain text that nobody sealed ", 3)))
}

// A key opens for as long as it is in the ring, before it seals and long after,
// unless it was revoked.
func TestRing(t *testing.T) {
	s, ring := newSealer(t, doc("", 1))
	other, _ := newSealer(t, doc("", 9))
	one := seal(t, s, "one")
	refuses(t, other, "a key of another ring", one)
	future := `{"id":"key-f","secret":"` + b64(secretOf(5)) + `","seal_from":253402300799}`
	withFuture := strings.Replace(doc("", 1, 2), `],"revoked"`, ","+future+`],"revoked"`, 1)
	ring.Store(parse(t, withFuture))
	two := seal(t, s, "two")
	if atrest.KeyID(one) == atrest.KeyID(two) {
		t.Error("the superseded key seals")
	}
	opens(t, s, one, "one")
	opens(t, s, two, "two")
	ahead, _ := newSealer(t, doc("", 5)) // a replica where the pending key seals already
	opens(t, s, seal(t, ahead, "five"), "five")

	ring.Store(parse(t, doc(`"key-1"`, 1, 2)))
	refuses(t, s, "a revoked key", one)
	opens(t, s, two, "two")
	ring.Store(parse(t, doc(``, 2)))
	refuses(t, s, "a dropped key", one)
	ring.Store(parse(t, doc(``, 1, 2, 3)))
	opens(t, s, one, "one")
	if got := atrest.KeyID(seal(t, s, "three")); got == atrest.KeyID(two) || got == atrest.KeyID(one) {
		t.Error("the new key does not seal")
	}
	// The one in force is revoked: no other seals in its place.
	ring.Store(parse(t, doc(`"key-3"`, 1, 2, 3)))
	if sealed, err := s.Seal("t", nil, "c", nil); sealed != nil || !errors.Is(err, keyring.ErrNoSealingKey) {
		t.Errorf("Seal = %x, %v; want ErrNoSealingKey", sealed, err)
	}
	opens(t, s, one, "one")
}

// Without its ring a Sealer fails, which is not to say that a value is bad.
func TestRingAway(t *testing.T) {
	s, ring := newSealer(t, doc("", 1))
	sealed := seal(t, s, "x")
	ring.Store(nil)
	if got, err := s.Seal("t", nil, "c", nil); got != nil || !errors.Is(err, errAway) {
		t.Errorf("Seal = %x, %v", got, err)
	}
	for _, v := range [][]byte{sealed, nil, make([]byte, 100)} {
		if got, err := s.Open("handles", []byte("row"), "payload", v); got != nil || !errors.Is(err, errAway) || errors.Is(err, atrest.ErrSealed) {
			t.Errorf("Open = %q, %v", got, err)
		}
	}
	if _, err := atrest.New(ring); !errors.Is(err, errAway) {
		t.Errorf("New = %v", err)
	}
	if _, err := atrest.New(nil); err == nil {
		t.Error("New of nil: no error")
	}
}

// A ring's keys never do both jobs.
func TestRefusesRingsForTokens(t *testing.T) {
	token, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	fromSecrets, err := keyring.FromSecrets(secretOf(1))
	if err != nil {
		t.Fatal(err)
	}
	const says = "foil keys new --storage"
	for _, r := range []*keyring.Ring{token, fromSecrets, keyring.NewEphemeral()} {
		if _, err := atrest.New(keyring.Fixed(r)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("New of %v: %v", r, err)
		}
		s, ring := newSealer(t, doc("", 1))
		sealed := seal(t, s, "x")
		ring.Store(r)
		if got, err := s.Seal("t", nil, "c", nil); got != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Seal under %v: %v", r, err)
		}
		if got, err := s.Open("handles", []byte("row"), "payload", sealed); got != nil || err == nil || errors.Is(err, atrest.ErrSealed) {
			t.Errorf("Open under %v: %v", r, err)
		}
	}
}

// The ring may change under many callers; what was sealed opens under each that
// has the key.
func TestConcurrent(t *testing.T) {
	s, ring := newSealer(t, doc("", 1))
	rings := []*keyring.Ring{ring.Load(), parse(t, doc("", 1, 2)), parse(t, doc("", 1, 2, 3))}
	old := seal(t, s, "old")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				if i == 0 {
					ring.Store(rings[j%len(rings)])
				}
				p := fmt.Sprint("payload ", i, " ", j)
				sealed, err := s.Seal("handles", []byte("row"), "payload", []byte(p))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := s.Open("handles", []byte("row"), "payload", sealed); err == nil && string(got) != p {
					t.Errorf("got %q, want %q", got, p)
				} else if err != nil && err != atrest.ErrSealed { // the key may be out again
					t.Error(err)
				}
				opens(t, s, old, "old")
			}
		})
	}
	wg.Wait()
}

func TestPrintsNothing(t *testing.T) {
	s, _ := newSealer(t, doc("", 1))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if got := fmt.Sprintf(verb, s); got != "atrest.Sealer" {
			t.Errorf("%s prints %.100s", verb, got)
		}
	}
	for _, doc := range []string{doc("", 1), doc(`"key-1"`, 1)} {
		s, _ := newSealer(t, doc)
		_, err1 := s.Seal("t\x00secret", []byte("secret row"), "c", []byte("secret plaintext"))
		_, err2 := s.Open("t", []byte("secret row"), "c", []byte("secret sealed value, long enough to be one"))
		_, err3 := s.Seal("t", []byte("secret row"), "c", []byte("secret plaintext"))
		for _, err := range []error{err1, err2, err3} {
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "secret") || strings.Contains(text, b64(secretOf(1))[:8]) {
				t.Errorf("an error says %s", text)
			}
		}
	}
}
