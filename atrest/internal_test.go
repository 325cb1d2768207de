package atrest

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

func newRing(t *testing.T) *keyring.Ring {
	t.Helper()
	r, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Two keys may share a kid: each is tried.
func TestKeyIDsMayCollide(t *testing.T) {
	ring := newRing(t)
	s, err := New(keyring.Fixed(ring))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := s.Seal("t", nil, "c", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := makeReady(newRing(t).Keys()[0])
	if err != nil {
		t.Fatal(err)
	}
	// Nobody finds two such keys in the time of a test, so one is put there.
	t0 := s.keys.table.Load()
	own := t0.byKID[[kidSize]byte(sealed)]
	for _, both := range [][]*ready{{other, own[0]}, {own[0], other}} {
		t0.byKID[[kidSize]byte(sealed)] = both
		if got, err := s.Open("t", nil, "c", sealed); err != nil || string(got) != "x" {
			t.Errorf("Open = %q, %v", got, err)
		}
	}
	t0.byKID[[kidSize]byte(sealed)] = []*ready{other}
	if got, err := s.Open("t", nil, "c", sealed); err != ErrSealed {
		t.Errorf("Open with the wrong key alone = %q, %v", got, err)
	}
}

// A key seals so much in one process and no more, over all Sealers.
func TestSealsAreCounted(t *testing.T) {
	ring := newRing(t)
	var current atomic.Pointer[keyring.Ring]
	current.Store(ring)
	var sealers []*Sealer
	for range 2 {
		s, err := New(following{&current})
		if err != nil {
			t.Fatal(err)
		}
		s.refuseAfter = 4
		sealers = append(sealers, s)
	}
	for i := range 4 {
		if _, err := sealers[i%2].Seal("t", nil, "c", nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range sealers {
		if got, err := s.Seal("t", nil, "c", nil); got != nil || err == nil || !strings.Contains(err.Error(), "rotate the storage ring") {
			t.Errorf("the fifth of four = %x, %v", got, err)
		}
	}
	// The next key has sealed nothing.
	c, err := ring.RevokeStored(time.Now(), ring.Keys()[0].ID())
	if err != nil {
		t.Fatal(err)
	}
	current.Store(c.Ring)
	if _, err := sealers[0].Seal("t", nil, "c", nil); err != nil {
		t.Error(err)
	}
}

type following struct{ *atomic.Pointer[keyring.Ring] }

func (f following) Ring() (*keyring.Ring, error) { return f.Load(), nil }
