package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/claimcheck/claimchecktest"
	"github.com/foilmcp/foil/handle"
	"github.com/foilmcp/foil/handle/handletest"
	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/ledger/ledgertest"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/replay/replaytest"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var schemas atomic.Int64

// world is one schema of the shared server, reached through a proxy.
type world struct {
	schema string
	direct string // DSN past the proxy
	dsn    string
	proxy  *proxy
	clock  *replaytest.Clock
	opts   postgres.Options
	stores []*postgres.Store
}

func newWorld(t testing.TB, change func(o *postgres.Options)) *world {
	t.Helper()
	server := pgtest.Shared(t)
	w := &world{schema: fmt.Sprintf("s%d", schemas.Add(1)), direct: server.DSN("postgres")}
	w.proxy = newProxy(t, server.Addr())
	w.dsn = w.proxy.through(w.direct)
	w.clock = replaytest.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	w.opts = postgres.Options{Schema: w.schema, Migrate: true, Timeout: time.Minute, AtRest: sealer(t)}
	if change != nil {
		change(&w.opts)
	}
	return w
}

// frozen makes the store go by the world's clock.
func (w *world) frozen(o *postgres.Options) { o.Clock(w.clock.Now) }

func (w *world) open(t testing.TB) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), w.dsn, &w.opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	w.stores = append(w.stores, s)
	return s
}

// takeAway makes the server unreachable, for calls that give up soon.
func (w *world) takeAway() (restore func()) {
	back := w.proxy.takeAway()
	for _, s := range w.stores {
		patient := s.SetTimeout(200 * time.Millisecond)
		back = func(before func()) func() { return func() { patient(); before() } }(back)
	}
	return back
}

// sql runs statements as a foreign program would; {s} is the schema.
func (w *world) sql(t testing.TB, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), w.direct)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), strings.ReplaceAll(s, "{s}", w.schema)); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// scan reads one row.
func (w *world) scan(t testing.TB, query string, to ...any) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), w.direct)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(context.Background(), strings.ReplaceAll(query, "{s}", w.schema)).Scan(to...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// fill makes a table refuse to grow, as on a full disk.
func (w *world) fill(t testing.TB, table string) {
	t.Helper()
	w.sql(t, `CREATE FUNCTION {s}.full() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`,
		`CREATE TRIGGER full_disk BEFORE INSERT ON {s}.`+table+` FOR EACH ROW EXECUTE FUNCTION {s}.full()`)
}

func sealer(t testing.TB) *atrest.Sealer {
	t.Helper()
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := atrest.New(keyring.Fixed(ring))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func replayHarness(t *testing.T) *replaytest.Harness {
	w := newWorld(t, nil)
	w.frozen(&w.opts)
	w.clock.Advance(123_456_789)
	s := w.open(t)
	return &replaytest.Harness{
		Store:    s.Replay(),
		Skew:     postgres.DefaultSkew,
		Clock:    w.clock,
		Sweep:    func(ctx context.Context) error { _, err := s.Sweep(ctx); return err },
		Reopen:   func(t *testing.T) replay.Store { w.proxy.cut(); return w.open(t).Replay() },
		Peer:     func(t *testing.T) replay.Store { return w.open(t).Replay() },
		Restored: func(t *testing.T) { restored(t, s) },
		Full:     func(t *testing.T) { w.fill(t, "spent") },
		Break:    func(t *testing.T) func() { return w.takeAway() },
		Secret:   pgtest.Shared(t).Password,
	}
}

func restored(t testing.TB, s *postgres.Store) {
	t.Helper()
	if _, err := s.Restored(context.Background()); err != nil {
		t.Fatalf("Restored: %v", err)
	}
}

func TestReplayConformance(t *testing.T)   { replaytest.Run(t, replayHarness) }
func TestDeferredConformance(t *testing.T) { replaytest.RunDeferred(t, replayHarness) }

func TestClaimsConformance(t *testing.T) {
	claimchecktest.Run(t, func(t *testing.T) *claimchecktest.Harness {
		w := newWorld(t, func(o *postgres.Options) { o.MaxClaimBytes = 1 << 16 })
		w.frozen(&w.opts)
		s := w.open(t)
		return &claimchecktest.Harness{
			Store:      s.Claims(),
			Advance:    w.clock.Advance,
			MaxPayload: 1 << 16,
			Secret:     pgtest.Shared(t).Password,
			Reopen:     func(t *testing.T) claimcheck.Store { w.proxy.cut(); return w.open(t).Claims() },
			Peer:       func(t *testing.T) claimcheck.Store { return w.open(t).Claims() },
			Full:       func(t *testing.T) { w.fill(t, "claim") },
			Break:      func(t *testing.T) func() { return w.takeAway() },
		}
	})
}

func TestHandlesConformance(t *testing.T) {
	handletest.Run(t, func(t *testing.T) *handletest.Harness {
		w := newWorld(t, func(o *postgres.Options) { o.MaxHandles = 700 })
		clock := handletest.NewClock(w.clock.Now())
		w.opts.Clock(clock.Now)
		s := w.open(t)
		return &handletest.Harness{
			Store:  s.Handles(),
			Skew:   postgres.DefaultSkew,
			Clock:  clock,
			Sweep:  func(ctx context.Context) error { _, err := s.Sweep(ctx); return err },
			Reopen: func(t *testing.T) handle.Store { w.proxy.cut(); return w.open(t).Handles() },
			Peer:   func(t *testing.T) handle.Store { return w.open(t).Handles() },
			Full:   func(t *testing.T) {},
			Break:  func(t *testing.T) func() { return w.takeAway() },
			Raw: func(t *testing.T) (all []byte) {
				w.scan(t, `SELECT string_agg(key || payload, '') FROM {s}.handle`, &all)
				return all
			},
			Swap: func(t *testing.T, a, b [32]byte) {
				w.sql(t, fmt.Sprintf(`UPDATE {s}.handle h SET payload = o.payload, sealed = o.sealed FROM {s}.handle o
					WHERE (h.key, o.key) IN (('\x%x', '\x%x'), ('\x%x', '\x%x'))`, a, b, b, a))
			},
			Secret: pgtest.Shared(t).Password,
		}
	})
}

func ledgerHarness(t *testing.T) *ledgertest.Harness {
	w := newWorld(t, func(o *postgres.Options) { o.MaxOutcome = 1 << 16; o.MaxSteps(50) })
	w.frozen(&w.opts)
	s := w.open(t)
	return &ledgertest.Harness{
		Store:      s.Ledger(),
		Skew:       postgres.DefaultSkew,
		Now:        w.clock.Now,
		Advance:    w.clock.Advance,
		Sweep:      func(ctx context.Context) error { _, err := s.Sweep(ctx); return err },
		MaxOutcome: 1 << 16,
		MaxSteps:   50,
		Reopen:     func(t *testing.T) ledger.Store { w.proxy.cut(); return w.open(t).Ledger() },
		Peer:       func(t *testing.T) ledger.Store { return w.open(t).Ledger() },
		Restored:   func(t *testing.T) { restored(t, s) },
		Full:       func(t *testing.T) { w.fill(t, "operation") },
		Break:      func(t *testing.T) func() { return w.takeAway() },
		Secret:     pgtest.Shared(t).Password,
	}
}

func TestLedgerConformance(t *testing.T) { ledgertest.Run(t, ledgerHarness) }

func TestLedgerModel(t *testing.T) { ledgertest.Model(t, ledgerHarness) }
