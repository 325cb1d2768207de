package signed_test

import (
	"crypto/rand"
	"encoding/base64"
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
		keys.Store(ring(t, key("one", one, 0, 0)))
		open := func(k keyring.Current) foil.Codec {
			c, err := signed.New(k, nil)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		return &codectest.Harness{
			Codec: open(&keys),
			Peer:  func(*testing.T) foil.Codec { return open(&keys) },
			Other: func(t *testing.T) foil.Codec { return open(keyring.Fixed(ring(t, key("two", two, 0, 0)))) },
			Foreign: func(t *testing.T) []foil.Codec {
				c, err := aesgcm.New(&keys, nil)
				if err != nil {
					t.Fatal(err)
				}
				return []foil.Codec{c}
			},
			Revoke: func(t *testing.T) { keys.Store(ring(t, key("one", one, 0, 0)+","+key("two", two, 1, 0), `["one"]`)) },
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
			Codec: signed.Ephemeral(), Ephemeral: true, SoleFormat: true, CannotRevoke: true, CannotBreak: true,
			Other: func(*testing.T) foil.Codec { return signed.Ephemeral() },
		}
	})
}

func randomSecret() string {
	var b [24]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:]) // 32 characters
}
