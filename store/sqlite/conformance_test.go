package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/foilmcp/foil/store/sqlite"
)

func open(t testing.TB, path string, opts *sqlite.Options) *sqlite.Store {
	t.Helper()
	var o sqlite.Options
	if opts != nil {
		o = *opts
	}
	o.Timeout = time.Minute // the machine may be busy; see SetTimeout
	o.PlainAtRest = o.AtRest == nil
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
