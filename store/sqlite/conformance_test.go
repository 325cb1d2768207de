package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/claimcheck/claimchecktest"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/replay/replaytest"
	"github.com/foilmcp/foil/store/sqlite"
)

func open(t testing.TB, path string, opts *sqlite.Options) *sqlite.Store {
	t.Helper()
	var o sqlite.Options
	if opts != nil {
		o = *opts
	}
	o.Timeout = time.Minute // the machine may be busy; see SetTimeout
	s, err := sqlite.Open(t.Context(), path, &o)
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

// raw opens the file with the driver alone, as a foreign program would.
func raw(t testing.TB, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = db.Close()
	})
	return conn
}

func execute(t testing.TB, c *sql.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.ExecContext(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// lock takes the write lock of the file away from everybody.
func lock(t testing.TB, path string) (unlock func()) {
	t.Helper()
	c := raw(t, path)
	execute(t, c, "PRAGMA busy_timeout = 60000", "BEGIN IMMEDIATE")
	return func() {
		t.Helper()
		execute(t, c, "ROLLBACK")
	}
}

// takeAway locks the file for so long that calls give up.
func takeAway(t *testing.T, s *sqlite.Store, path string) (restore func()) {
	t.Helper()
	unlock := lock(t, path)
	patient := s.SetTimeout(200 * time.Millisecond)
	return func() {
		t.Helper()
		patient()
		unlock()
	}
}

// fill makes the file refuse to grow.
func fill(t *testing.T, s *sqlite.Store) {
	t.Helper()
	s.Pragma(t, "PRAGMA max_page_count = 12") // SQLite raises it to the present size
}

func TestReplayConformance(t *testing.T) {
	replaytest.Run(t, func(t *testing.T) *replaytest.Harness {
		path := filepath.Join(t.TempDir(), "foil.db")
		clock := replaytest.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 123_456_789, time.UTC))
		opts := &sqlite.Options{Now: clock.Now}
		s := open(t, path, opts)
		return &replaytest.Harness{
			Store: s.Replay(),
			Skew:  sqlite.DefaultSkew,
			Clock: clock,
			Sweep: func(ctx context.Context) error { _, err := s.Sweep(ctx); return err },
			Reopen: func(t *testing.T) replay.Store {
				// Nobody closes the first one: the file must be good as it lies.
				return open(t, path, opts).Replay()
			},
			Peer:  func(t *testing.T) replay.Store { return open(t, path, opts).Replay() },
			Full:  func(t *testing.T) { fill(t, s) },
			Break: func(t *testing.T) func() { return takeAway(t, s, path) },

			NoSecret: true,
		}
	})
}

func TestClaimsConformance(t *testing.T) {
	claimchecktest.Run(t, func(t *testing.T) *claimchecktest.Harness {
		path := filepath.Join(t.TempDir(), "foil.db")
		clock := replaytest.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
		opts := &sqlite.Options{Now: clock.Now, MaxClaimBytes: 1 << 16}
		s := open(t, path, opts)
		return &claimchecktest.Harness{
			Store:      s.Claims(),
			Advance:    clock.Advance,
			MaxPayload: 1 << 16,
			NoSecret:   true,
			Reopen:     func(t *testing.T) claimcheck.Store { return open(t, path, opts).Claims() },
			Peer:       func(t *testing.T) claimcheck.Store { return open(t, path, opts).Claims() },
			Full:       func(t *testing.T) { fill(t, s) },
			Break:      func(t *testing.T) func() { return takeAway(t, s, path) },
		}
	})
}
