package postgres_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// newID returns an ID as tokens have it: 48 bits of milliseconds, 80 random.
func newID() []byte {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	ms := time.Now().UnixMilli()
	for i := 5; i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	return id
}

func soon() time.Time { return time.Now().Add(10 * time.Minute) }

func newStart() *ledger.Start {
	return &ledger.Start{
		ID: [16]byte(newID()), Flow: [16]byte(newID()), Round: 1, Method: "tools/call", Target: "purge",
		Expires: soon(), Lease: 30 * time.Second, Keep: soon(), Retention: time.Hour,
	}
}

// warm opens a store with one connection that has prepared its statements, so
// that the next request is one exchange; pgx would first ask a connection that
// has been idle for a second whether it is there.
func (w *world) warm(t *testing.T) *postgres.Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := postgres.New(t.Context(), pool, &w.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.NoSweep()
	if first, err := s.Replay().Use(t.Context(), newID(), soon()); err != nil || !first {
		t.Fatalf("Use = %v, %v", first, err)
	}
	if first, err := s.Replay().UseAs(t.Context(), newID(), soon(), newID()); err != nil || !first {
		t.Fatalf("UseAs = %v, %v", first, err)
	}
	if _, started, err := s.Ledger().Begin(t.Context(), newStart()); err != nil || !started {
		t.Fatalf("Begin = %v, %v", started, err)
	}
	return s
}

var faults = map[string]fault{"before the server has it": beforeServer, "after the commit": afterCommit}

// A Use whose answer was lost finds out by itself that it was first, or was not.
func TestLostUse(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			s := w.warm(t)
			r := s.Replay()
			spent, fresh, attempt := newID(), newID(), newID()
			if first, err := r.Use(t.Context(), spent, soon()); err != nil || !first {
				t.Fatalf("Use = %v, %v", first, err)
			}
			for _, c := range []struct {
				name string
				use  func() (bool, error)
				want bool
			}{
				{"Use of a fresh id", func() (bool, error) { return r.Use(t.Context(), fresh, soon()) }, true},
				{"Use of it again", func() (bool, error) { return r.Use(t.Context(), fresh, soon()) }, false},
				{"Use of a spent id", func() (bool, error) { return r.Use(t.Context(), spent, soon()) }, false},
				{"UseAs of a spent id", func() (bool, error) { return r.UseAs(t.Context(), spent, soon(), attempt) }, false},
				{"UseAs of a fresh id", func() (bool, error) { return r.UseAs(t.Context(), attempt, soon(), attempt) }, true},
			} {
				hit := w.proxy.arm(f)
				if first, err := c.use(); err != nil || first != c.want {
					t.Errorf("%s = %v, %v; want %v", c.name, first, err, c.want)
				}
				<-hit
			}
		})
	}
}

func TestLostBegin(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			l := w.warm(t).Ledger()
			start := newStart()
			for _, want := range []bool{true, false} {
				hit := w.proxy.arm(f)
				op, started, err := l.Begin(t.Context(), start)
				if err != nil || started != want || op.Fence != 1 || op.State != ledger.Executing {
					t.Fatalf("Begin = %+v, %v, %v; want started %v", op, started, err, want)
				}
				<-hit
			}
		})
	}
}

// The first try is still under way when the second one asks: it must wait for
// what becomes of the first.
func TestLostUseUnderWay(t *testing.T) {
	w := newWorld(t, nil)
	s := w.warm(t)
	unlock := w.lock(t, "spent")
	hit := w.proxy.arm(midway)
	id := newID()
	done := make(chan error, 1)
	go func() {
		first, err := s.Replay().Use(context.Background(), id, soon())
		if err == nil && !first {
			err = errors.New("not first")
		}
		done <- err
	}()
	<-hit
	w.waiting(t, 2) // the first try, which nobody listens to, and the second
	unlock()
	if err := <-done; err != nil {
		t.Fatalf("Use: %v", err)
	}
	if first, err := s.Replay().Use(t.Context(), id, soon()); err != nil || first {
		t.Fatalf("Use again = %v, %v; want false", first, err)
	}
}

// lock keeps everybody from writing to a table.
func (w *world) lock(t *testing.T, table string) (unlock func()) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), w.direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, s := range []string{"BEGIN", "LOCK TABLE " + w.schema + "." + table + " IN SHARE MODE"} {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		if _, err := conn.Exec(context.Background(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
}

// waiting returns once n sessions wait for a lock on what is in the schema.
func (w *world) waiting(t *testing.T, n int) {
	t.Helper()
	for began := time.Now(); ; {
		var found int
		w.scan(t, `SELECT count(DISTINCT pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"{s}"%'`, &found)
		if found >= n {
			return
		}
		if time.Since(began) > 30*time.Second {
			var all string
			w.scan(t, `SELECT string_agg(concat_ws(' ', pid, state, wait_event_type, wait_event, left(query, 60)), E'\n') FROM pg_stat_activity`, &all)
			t.Fatalf("%d sessions wait, want %d:\n%s", found, n, all)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// If the answer is lost and the server stays away, it is an error and never true.
func TestLostForGood(t *testing.T) {
	id, start := newID(), newStart()
	for name, call := range map[string]func(s *postgres.Store) (bool, error){
		"Use":   func(s *postgres.Store) (bool, error) { return s.Replay().Use(t.Context(), id, soon()) },
		"UseAs": func(s *postgres.Store) (bool, error) { return s.Replay().UseAs(t.Context(), id, soon(), id) },
		"Begin": func(s *postgres.Store) (bool, error) {
			_, started, err := s.Ledger().Begin(t.Context(), start)
			return started, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			s := w.warm(t)
			w.proxy.thenAway = true
			hit := w.proxy.arm(afterCommit)
			patient := s.SetTimeout(5 * time.Second)
			ok, err := call(s)
			patient()
			if ok || err == nil || !strings.Contains(err.Error(), "could not be found out") {
				t.Errorf("= %v, %v; want an error that says so", ok, err)
			}
			<-hit
			w.proxy.admit()
			if ok, err := call(s); name != "UseAs" && (err != nil || ok) {
				t.Errorf("after the server came back = %v, %v; want false", ok, err)
			} else if name == "UseAs" && (err != nil || !ok) { // the caller's own attempt
				t.Errorf("after the server came back = %v, %v; want true", ok, err)
			}
		})
	}
}

// Redemptions are never tried again by the store, but the same by may.
func TestLostRedeem(t *testing.T) {
	w := newWorld(t, nil)
	c := w.warm(t).Claims()
	claim, err := c.Issue(t.Context(), []byte("plan"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Issue(t.Context(), []byte("other"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Redeem(t.Context(), other, "warm"); err != nil {
		t.Fatal(err)
	}
	hit := w.proxy.arm(afterCommit)
	if payload, err := c.Redeem(t.Context(), claim, "one"); err == nil || errors.Is(err, claimcheck.ErrRedeemed) {
		t.Fatalf("Redeem whose answer was lost = %q, %v; want an error", payload, err)
	}
	<-hit
	if _, err := c.Redeem(t.Context(), claim, "another"); !errors.Is(err, claimcheck.ErrRedeemed) {
		t.Fatalf("Redeem by another: %v, want ErrRedeemed", err)
	}
	if payload, err := c.Redeem(t.Context(), claim, "one"); err != nil || !bytes.Equal(payload, []byte("plan")) {
		t.Fatalf("Redeem by the same = %q, %v", payload, err)
	}
}

// Whoever finds that an earlier try was carried out writes the row again, so that
// the commit waits for the standbys that the lost answer had waited for.
func TestLostIsWrittenAgain(t *testing.T) {
	w := newWorld(t, nil)
	s := w.warm(t)
	w.sql(t, `CREATE TABLE {s}.seen (tab text)`, `CREATE FUNCTION {s}.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO {s}.seen VALUES (TG_TABLE_NAME); RETURN NULL; END $$`)
	for _, table := range []string{"spent", "operation", "claim"} {
		w.sql(t, `CREATE TRIGGER zz_see AFTER UPDATE ON {s}.`+table+` FOR EACH ROW EXECUTE FUNCTION {s}.see()`)
	}
	hit := w.proxy.arm(afterCommit)
	if first, err := s.Replay().Use(t.Context(), newID(), soon()); err != nil || !first {
		t.Fatalf("Use = %v, %v; want true", first, err)
	}
	<-hit
	if _, _, err := s.Ledger().Begin(t.Context(), newStart()); err != nil { // on the new connection
		t.Fatal(err)
	}
	hit = w.proxy.arm(afterCommit)
	if _, started, err := s.Ledger().Begin(t.Context(), newStart()); err != nil || !started {
		t.Fatalf("Begin = %v, %v; want true", started, err)
	}
	<-hit
	claim, err := s.Claims().Issue(t.Context(), nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Claims().Redeem(t.Context(), claim, "one"); err != nil {
			t.Fatal(err)
		}
	}
	for table, want := range map[string]int{"spent": 1, "operation": 1, "claim": 2} {
		var n int
		w.scan(t, `SELECT count(*) FROM {s}.seen WHERE tab = '`+table+`'`, &n)
		if n != want {
			t.Errorf("%d rows of %s were written again, want %d", n, table, want)
		}
	}
}
