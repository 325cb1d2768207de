package postgres_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// impatient makes call and cancels its wait for the standby, of which there is none.
// It makes it again until it has waited, as a server takes its time to notice what
// it was set to.
func impatient(t *testing.T, admin *pgx.Conn, call func() error) error {
	t.Helper()
	for range 1000 {
		done := make(chan error, 1)
		go func() { done <- call() }()
		waited := false
		for over := false; !over; {
			var n int
			if err := admin.QueryRow(t.Context(), `SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			waited = waited || n > 0
			select {
			case err := <-done:
				if waited {
					return err
				}
				over = true
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	t.Fatal("no call waited for the standby")
	return nil
}

// A commit that no standby has is not one, though the server answers COMMIT.
func TestCancelledWaitForStandby(t *testing.T) {
	server := pgtest.Start(t)
	dsn, err := url.Parse(server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	opts := postgres.Options{Migrate: true, PlainAtRest: true, Timeout: time.Minute}
	open := func(pool *pgxpool.Pool) *postgres.Store {
		t.Helper()
		var s *postgres.Store
		var err error
		if pool == nil {
			s, err = postgres.Open(t.Context(), dsn.String(), &opts)
		} else {
			s, err = postgres.New(t.Context(), pool, &opts)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.NoSweep()
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	pool := func(watched bool) *pgxpool.Pool {
		t.Helper()
		config, err := pgxpool.ParseConfig(dsn.String())
		if err != nil {
			t.Fatal(err)
		}
		if watched {
			postgres.Watch(config)
		}
		p, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	own, watched, unwatched := open(nil), open(pool(true)), open(pool(false))
	q := dsn.Query()
	q.Set("client_min_messages", "error") // as the role could have it
	dsn.RawQuery = q.Encode()
	quiet := open(nil)
	if first, err := unwatched.Replay().Use(t.Context(), newID(), soon()); err != nil || !first {
		t.Fatalf("Use without any standby = %v, %v", first, err)
	}
	begun := newStart()
	if _, _, err := own.Ledger().Begin(t.Context(), begun); err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), dsn.String())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	for _, sql := range []string{`ALTER SYSTEM SET synchronous_standby_names = 'nobody'`, `SELECT pg_reload_conf()`} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for name, s := range map[string]*postgres.Store{"Open": own, "New of a pool that is watched": watched, "a role that hides warnings": quiet} {
		for call, fn := range map[string]func() error{
			"Use": func() error {
				first, err := s.Replay().Use(t.Context(), newID(), soon())
				if err != nil && first {
					t.Errorf("%s: Use says first, with an error", name)
				}
				return err
			},
			"Begin": func() error {
				_, started, err := s.Ledger().Begin(t.Context(), newStart())
				if err != nil && started {
					t.Errorf("%s: Begin says started, with an error", name)
				}
				return err
			},
			"Renew":   func() error { return s.Ledger().Renew(t.Context(), begun.ID, 1, time.Hour) },
			"EndStep": func() error { return s.Ledger().EndStep(t.Context(), begun.ID, 1, string(newID()), nil, time.Hour) },
			"Put": func() error {
				return s.Handles().Put(t.Context(), [32]byte(append(newID(), newID()...)), []byte("x"), soon())
			},
		} {
			if err := impatient(t, admin, fn); err == nil || !strings.Contains(err.Error(), "outcome unknown") || !strings.Contains(err.Error(), "standby") {
				t.Errorf("%s: %s that no standby has: %v; want an error that says that the outcome is unknown", name, call, err)
			}
		}
	}
	var refused error
	_ = impatient(t, admin, func() error {
		_, refused = unwatched.Replay().Use(t.Context(), newID(), soon())
		return refused
	})
	if refused == nil || !strings.Contains(refused.Error(), "postgres.Watch") {
		t.Errorf("Use by a pool that hides the warnings: %v; want an error that says what to do", refused)
	}
	// What is over does not stick to the connection.
	for _, sql := range []string{`ALTER SYSTEM RESET synchronous_standby_names`, `SELECT pg_reload_conf()`} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*postgres.Store{own, watched, quiet} {
		if err := s.Ledger().Finish(t.Context(), begun.ID, 1, ledger.Finish{State: ledger.Succeeded}); err != nil {
			t.Errorf("Finish once nobody waits: %v", err)
		}
	}
}
