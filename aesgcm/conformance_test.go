package aesgcm_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/codectest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/signed"
)

func TestConformance(t *testing.T) {
	codectest.Run(t, func(t *testing.T) *codectest.Harness {
		one, two := randomSecret(), randomSecret()
		var keys movable
		keys.Store(ring(t, keyOf("one", one, 0)))
		open := func(k keyring.Current) foil.Codec {
			c, err := aesgcm.New(k, nil)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		return &codectest.Harness{
			Codec: open(&keys),
			Peer:  func(*testing.T) foil.Codec { return open(&keys) },
			Other: func(t *testing.T) foil.Codec { return open(keyring.Fixed(ring(t, keyOf("two", two, 0)))) },
			Foreign: func(t *testing.T) []foil.Codec {
				c, err := signed.New(&keys, nil)
				if err != nil {
					t.Fatal(err)
				}
				return []foil.Codec{c}
			},
			Revoke: func(t *testing.T) { keys.Store(ring(t, keyOf("one", one, 0)+","+keyOf("two", two, 1), `["one"]`)) },
			Break: func(*testing.T) func() {
				was := keys.Swap(nil)
				return func() { keys.Store(was) }
			},
		}
	})
}

func TestEphemeralConformance(t *testing.T) {
	codectest.Run(t, func(t *testing.T) *codectest.Harness {
		return &codectest.Harness{
			Codec: aesgcm.Ephemeral(), Ephemeral: true, SoleFormat: true, CannotRevoke: true, CannotBreak: true,
			Other: func(*testing.T) foil.Codec { return aesgcm.Ephemeral() },
		}
	})
}

func randomSecret() string {
	var b [24]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:]) // 32 characters
}

func keyOf(id, secret string, from int64) string {
	return fmt.Sprintf(`{"id":%q,"secret":%q,"seal_from":%d}`, id, base64.RawURLEncoding.EncodeToString([]byte(secret)), from)
}

// Two secrets whose key ids collide in all four bytes, found by trying: both
// open.
func TestKeyIDsMayCollide(t *testing.T) {
	one, two := fmt.Sprintf("%032d", 35028), fmt.Sprintf("%032d", 44271)
	open := func(keys ...string) *aesgcm.Codec {
		c, err := aesgcm.New(keyring.Fixed(ring(t, strings.Join(keys, ","))), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := open(keyOf("one", one, 0), keyOf("two", two, 1))
	a, b := sealed(t, open(keyOf("one", one, 0)), "a"), sealed(t, open(keyOf("two", two, 0)), "b")
	if c.KeyID(a) != c.KeyID(b) || c.RingID(c.KeyID(a)) != "one,two" {
		t.Fatalf("key ids %q and %q", c.KeyID(a), c.KeyID(b))
	}
	for want, token := range map[string]string{"a": a, "b": b} {
		if got, err := c.Open(ctx, token); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	wantReason(t, c, "neither", a[:len(a)-16]+b[len(b)-16:], foil.ReasonTampered)
}
