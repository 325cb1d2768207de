//go:build unix

package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/claimcheck/claimchecktest"
	"github.com/foilmcp/foil/handle"
	"github.com/foilmcp/foil/handle/handletest"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/ledger/ledgertest"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/replay/replaytest"
	"github.com/foilmcp/foil/store/redis"
)

const password = "the-password-of-the-server"

// open opens a store on a server, patiently: the machine may be busy.
func open(t testing.TB, srv *redistest.Server, opts redis.Options) *redis.Store {
	t.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = time.Minute
	}
	if opts.AtRest == nil && !opts.PlainAtRest {
		opts.AtRest = sealer(t)
	}
	s, err := redis.Open(t.Context(), srv.URL(), &opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

var storageRing = func() *keyring.Ring {
	r, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		panic(err)
	}
	return r
}()

func sealer(t testing.TB) *atrest.Sealer {
	t.Helper()
	s, err := atrest.New(keyring.Fixed(storageRing))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A world is a server of a whole suite, and a prefix for each of its tests.
type world struct {
	srv   *redistest.Server
	tests int
}

func newWorld(t *testing.T) *world {
	return &world{srv: redistest.Start(t, append([]string{"requirepass " + password}, redistest.Durable...)...)}
}

// bench is one store of a world, under a clock that moves when told.
type bench struct {
	w     *world
	opts  redis.Options
	clock *replaytest.Clock
	now   func() time.Time // of clock, or of another
	s     *redis.Store
}

func (w *world) bench(t *testing.T) *bench {
	w.tests++
	b := &bench{w: w, opts: redis.Options{Prefix: fmt.Sprintf("test%d:", w.tests), MaxClaimBytes: 1 << 16}, clock: replaytest.NewClock(time.Now().Truncate(time.Second))}
	b.now = b.clock.Now
	b.s = b.open(t)
	return b
}

// open returns another store on the same data and clock.
func (b *bench) open(t *testing.T) *redis.Store {
	s := open(t, b.w.srv, b.opts)
	s.SetClock(t, b.now)
	return s
}

// crash ends the server and brings it back.
func (b *bench) crash(t *testing.T) *redis.Store {
	b.w.srv.Kill(t)
	b.w.srv.Restart(t)
	return b.open(t)
}

// full leaves the server hardly any memory.
func (b *bench) full(t *testing.T) {
	c := b.w.srv.Client(t)
	info, err := c.InfoMap(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	var used int
	if _, err := fmt.Sscan(info["Memory"]["used_memory"], &used); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used+30_000)).Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.w.srv.Client(t).ConfigSet(context.Background(), "maxmemory", "0").Err(); err != nil {
			t.Error(err)
		}
	})
}

// away takes the server away until restore is called.
func (b *bench) away(t *testing.T) (restore func()) {
	b.w.srv.Kill(t)
	return func() {
		b.w.srv.Restart(t)
		// After many failures the client looks but once a second.
		for range 600 {
			if b.s.Ping(t.Context()) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Fatal("the store does not find its server again")
	}
}

// key is the name of a key of the store's.
func (b *bench) key(name string) string { return "{" + b.opts.Prefix + "}" + name }

func (b *bench) restored(t *testing.T) {
	t.Helper()
	if _, err := b.s.Restored(t.Context()); err != nil {
		t.Fatalf("Restored: %v", err)
	}
}

func (b *bench) sweep(ctx context.Context) error { _, err := b.s.Sweep(ctx); return err }

func TestReplayConformance(t *testing.T) {
	w := newWorld(t)
	replaytest.Run(t, func(t *testing.T) *replaytest.Harness {
		b := w.bench(t)
		return &replaytest.Harness{
			Store: b.s.Replay(), Skew: redis.DefaultSkew, Clock: b.clock, Sweep: b.sweep, Secret: password,
			Reopen:   func(t *testing.T) replay.Store { return b.crash(t).Replay() },
			Peer:     func(t *testing.T) replay.Store { return b.open(t).Replay() },
			Full:     b.full,
			Break:    b.away,
			Restored: b.restored,
		}
	})
}

// TestReplayByTheServersClock is the suite without the clock of a test.
func TestReplayByTheServersClock(t *testing.T) {
	w := newWorld(t)
	replaytest.Run(t, func(t *testing.T) *replaytest.Harness {
		b := w.bench(t)
		s := open(t, w.srv, b.opts)
		return &replaytest.Harness{
			Store: s.Replay(), Skew: redis.DefaultSkew, NoClock: true, NoSweep: true, Secret: password,
			Reopen: func(t *testing.T) replay.Store { b.crash(t); return open(t, w.srv, b.opts).Replay() },
			Peer:   func(t *testing.T) replay.Store { return open(t, w.srv, b.opts).Replay() },
			Full:   b.full,
			Break:  b.away,
		}
	})
}

func TestClaimsConformance(t *testing.T) {
	w := newWorld(t)
	claimchecktest.Run(t, func(t *testing.T) *claimchecktest.Harness {
		b := w.bench(t)
		return &claimchecktest.Harness{
			Store: b.s.Claims(), Advance: b.clock.Advance, MaxPayload: 1 << 16, Secret: password,
			Reopen: func(t *testing.T) claimcheck.Store { return b.crash(t).Claims() },
			Peer:   func(t *testing.T) claimcheck.Store { return b.open(t).Claims() },
			Full:   b.full,
			Break:  b.away,
		}
	})
}

func TestHandlesConformance(t *testing.T) {
	w := newWorld(t)
	handletest.Run(t, func(t *testing.T) *handletest.Harness {
		b := w.bench(t)
		clock := handletest.NewClock(b.now())
		b.now = clock.Now
		b.s = b.open(t)
		return &handletest.Harness{
			Store: b.s.Handles(), Skew: redis.DefaultSkew, Clock: clock, Sweep: b.sweep, Secret: password,
			Reopen: func(t *testing.T) handle.Store { return b.crash(t).Handles() },
			Peer:   func(t *testing.T) handle.Store { return b.open(t).Handles() },
			Full:   func(*testing.T) { b.s.SetLimits(50, 1<<20) },
			Break:  b.away,
			Raw:    func(t *testing.T) []byte { return w.srv.Files(t) },
			Swap: func(t *testing.T, a, k [32]byte) {
				c, ctx := w.srv.Client(t), t.Context()
				name := func(k [32]byte) string { return b.key("handle:" + string(k[:])) }
				for _, r := range [][2]string{{name(a), b.key("x")}, {name(k), name(a)}, {b.key("x"), name(k)}} {
					if err := c.Rename(ctx, r[0], r[1]).Err(); err != nil {
						t.Fatal(err)
					}
				}
			},
		}
	})
}

func ledgerHarness(w *world) func(t *testing.T) *ledgertest.Harness {
	return func(t *testing.T) *ledgertest.Harness {
		b := w.bench(t)
		b.opts.MaxOutcome = 1 << 16
		b.s = b.open(t)
		b.s.SetMaxSteps(200)
		return &ledgertest.Harness{
			Store: b.s.Ledger(), Skew: redis.DefaultSkew, Now: b.clock.Now, Advance: b.clock.Advance, Sweep: b.sweep, Secret: password,
			MaxOutcome: 1 << 16, MaxSteps: 200,
			Reopen:   func(t *testing.T) ledger.Store { return b.crash(t).Ledger() },
			Peer:     func(t *testing.T) ledger.Store { return b.open(t).Ledger() },
			Restored: b.restored,
			Full:     b.full,
			Break:    b.away,
		}
	}
}

func TestLedgerConformance(t *testing.T) { ledgertest.Run(t, ledgerHarness(newWorld(t))) }

func TestLedgerModel(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	w := newWorld(t)
	ledgertest.Model(t, ledgerHarness(w))
}

// TestReplayIsNoDeferrer: no transaction of the caller's can hold the mark, so a
// Guard must not be led to believe so.
func TestReplayIsNoDeferrer(t *testing.T) {
	var s replay.Store = (&redis.Store{}).Replay()
	if _, ok := s.(replay.Deferrer); ok {
		t.Error("Replay says that it is a Deferrer")
	}
}
