package ringtable_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/signed"
)

type current struct{ atomic.Pointer[keyring.Ring] }

func (c *current) Ring() (*keyring.Ring, error) { return c.Load(), nil }

// The keys of a storage ring seal no tokens, whenever the ring turns out to be one.
func TestCodecsRefuseStorageRings(t *testing.T) {
	ring := func(storage bool) *keyring.Ring {
		r, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: storage})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const says = "make a ring for tokens with foil keys new, without --storage"
	for name, open := range map[string]func(keyring.Current) (foil.Codec, error){
		"aesgcm": func(k keyring.Current) (foil.Codec, error) { return aesgcm.New(k, nil) },
		"signed": func(k keyring.Current) (foil.Codec, error) { return signed.New(k, nil) },
	} {
		if _, err := open(keyring.Fixed(ring(true))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: New: %v", name, err)
		}
		var keys current
		keys.Store(ring(false))
		c, err := open(&keys)
		if err != nil {
			t.Fatal(err)
		}
		token, err := c.Seal(t.Context(), nil, time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		keys.Store(ring(true))
		if token, err := c.Seal(t.Context(), nil, time.Now().Add(time.Minute)); token != "" || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: Seal: %v", name, err)
		}
		if _, err := c.Open(t.Context(), token); err == nil || errors.Is(err, foil.ErrInvalid) {
			t.Errorf("%s: Open: %v, want a failure and no refusal", name, err)
		}
	}
}
