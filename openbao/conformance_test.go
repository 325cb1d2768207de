package openbao_test

import (
	"context"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/claimcheck/claimchecktest"
	"github.com/foilmcp/foil/codectest"
	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/keyring/keyringtest"
	"github.com/foilmcp/foil/openbao"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/replay/replaytest"
)

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// broken takes the line away.
func broken(p *baotest.Proxy) func(*testing.T) func() {
	return func(*testing.T) func() {
		p.Set(baotest.Fault{Cut: true})
		return p.Mend
	}
}

func TestRing(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		keyringtest.Run(t, func(t *testing.T) *keyringtest.Harness {
			mount := srv.KV(t)
			c, proxy := behind(t, srv, patient)
			peer := client(t, srv)
			ring := func(c *openbao.Client) keyring.Store { return must(openbao.OpenRing(c, mount+"/mcp/ring"))(t) }
			return &keyringtest.Harness{
				Store: ring(c),
				Peer:  func(*testing.T) keyring.Store { return ring(peer) },
				Put: func(t *testing.T, doc []byte) {
					srv.Must(t, "POST", mount+"/data/mcp/ring", map[string]any{"data": map[string]string{"ring": string(doc)}})
				},
				Break:  broken(proxy),
				Secret: srv.Token,
			}
		})
	})
}

func TestTransit(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		codectest.Run(t, func(t *testing.T) *codectest.Harness {
			path := srv.Transit(t)
			c, proxy := behind(t, srv, patient)
			codec := must(openbao.NewTransit(t.Context(), c, path, nil))(t)
			return &codectest.Harness{
				Codec: codec,
				Peer: func(t *testing.T) foil.Codec {
					return must(openbao.NewTransit(t.Context(), client(t, srv), path, nil))(t)
				},
				Other: func(t *testing.T) foil.Codec {
					// A token names the version of its key and not the key, so the
					// other key seals under another version.
					other := srv.Transit(t)
					key := must(openbao.OpenTransitKey(c, other))(t)
					must(key.Rotate(t.Context()))(t)
					return must(openbao.NewTransit(t.Context(), c, other, nil))(t)
				},
				Foreign: func(*testing.T) []foil.Codec { return []foil.Codec{aesgcm.Ephemeral()} },
				Revoke: func(t *testing.T) {
					key := must(openbao.OpenTransitKey(c, path))(t)
					must(key.Revoke(t.Context(), must(key.Status(t.Context()))(t).Latest))(t)
				},
				Break: broken(proxy),
			}
		})
	})
}

func TestClaims(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		claimchecktest.Run(t, func(t *testing.T) *claimchecktest.Harness {
			c, proxy := behind(t, srv, patient)
			claims := func(c *openbao.Client) claimcheck.Store {
				return must(openbao.OpenClaims(c, &openbao.ClaimsOptions{MaxPayload: 10_000}))(t)
			}
			return &claimchecktest.Harness{
				Store:      claims(c),
				NoClock:    true,
				MaxPayload: 10_000,
				Reopen: func(t *testing.T) claimcheck.Store {
					_ = c.Close()
					return claims(client(t, srv))
				},
				Peer:      func(t *testing.T) claimcheck.Store { return claims(client(t, srv)) },
				Unbounded: true,
				Break:     broken(proxy),
				Secret:    srv.Token,
				OnceOnly:  true,
			}
		})
	})
}

func TestReplay(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		replaytest.Run(t, func(t *testing.T) *replaytest.Harness {
			mount := srv.KV(t)
			c, proxy := behind(t, srv, patient)
			clock := replaytest.NewClock(time.Now().Truncate(time.Second))
			opts := &openbao.ReplayOptions{Skew: 30 * time.Second, Now: clock.Now}
			store := func(c *openbao.Client) replay.Store { return must(openbao.OpenReplay(c, mount, opts))(t) }
			sweeper := must(openbao.OpenSweeper(client(t, srv), mount, opts))(t)
			return &replaytest.Harness{
				Store: store(c),
				Skew:  2 * opts.Skew, // which is how much longer it keeps IDs
				Clock: clock,
				Sweep: func(ctx context.Context) error { _, err := sweeper.Sweep(ctx); return err },
				Reopen: func(t *testing.T) replay.Store {
					_ = c.Close()
					return store(client(t, srv))
				},
				Peer:      func(t *testing.T) replay.Store { return store(client(t, srv)) },
				Unbounded: true,
				Break:     broken(proxy),
				Restored: func(t *testing.T) {
					if _, err := sweeper.Restored(t.Context()); err != nil {
						t.Fatal(err)
					}
				},
				Secret: srv.Token,
			}
		})
	})
}
