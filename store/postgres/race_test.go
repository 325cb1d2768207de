package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/jackc/pgx/v5"
)

// transaction is one of a foreign session, left open.
func (w *world) transaction(t *testing.T, iso pgx.TxIsoLevel, statements ...string) pgx.Tx {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), w.direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: iso})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := tx.Exec(t.Context(), strings.ReplaceAll(s, "{s}", w.schema)); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// A sweep deletes the row of an earlier Use while a Use is under way that has
// read the mark before: it finds no row in its way, and must not be first.
func TestSweepOvertakesUse(t *testing.T) {
	w := newWorld(t, nil)
	s := w.open(t)
	r := s.Replay()
	callers := map[string]func(id []byte) (bool, error){
		"Use":   func(id []byte) (bool, error) { return r.Use(context.Background(), id, soon()) },
		"UseAs": func(id []byte) (bool, error) { return r.UseAs(context.Background(), id, soon(), newID()) },
		"InTx": func(id []byte) (first bool, err error) {
			tx := w.transaction(t, pgx.ReadCommitted)
			defer func() { _ = tx.Rollback(context.Background()) }()
			return r.InTx(tx).UseAs(context.Background(), id, soon(), newID())
		},
	}
	for name, use := range callers {
		t.Run(name, func(t *testing.T) {
			id := newID()
			if first, err := r.Use(t.Context(), id, soon()); err != nil || !first {
				t.Fatalf("Use = %v, %v", first, err)
			}
			sweep := w.transaction(t, pgx.ReadCommitted, `UPDATE {s}.mark SET swept = 1::bigint << 42`, `DELETE FROM {s}.spent`)
			type result struct {
				first bool
				err   error
			}
			got := make(chan result, 1)
			go func() {
				first, err := use(id)
				got <- result{first, err}
			}()
			w.waiting(t, 1)
			commit(t, sweep)
			if g := <-got; g.first || !errors.Is(g.err, replay.ErrSwept) {
				t.Errorf("%s of a swept id = %v, %v; want ErrSwept", name, g.first, g.err)
			}
			w.sql(t, `UPDATE {s}.mark SET swept = 0`)
		})
	}
}

// The same in a transaction whose snapshot is older than the sweep.
func TestSweepOvertakesSnapshot(t *testing.T) {
	w := newWorld(t, nil)
	r := w.open(t).Replay()
	for _, iso := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		id := newID()
		if first, err := r.Use(t.Context(), id, soon()); err != nil || !first {
			t.Fatalf("Use = %v, %v", first, err)
		}
		tx := w.transaction(t, iso, `SELECT 1 FROM {s}.mark`)
		w.sql(t, `UPDATE {s}.mark SET swept = (1::bigint << 42)`, `DELETE FROM {s}.spent`)
		if first, err := r.InTx(tx).UseAs(t.Context(), id, soon(), newID()); first || err == nil {
			t.Errorf("%s: UseAs of a swept id = %v, %v; want an error", iso, first, err)
		}
		_ = tx.Rollback(t.Context())
		w.sql(t, `UPDATE {s}.mark SET swept = 0`)
		tx = w.transaction(t, iso)
		if first, err := r.InTx(tx).UseAs(t.Context(), newID(), soon(), newID()); err != nil || !first {
			t.Errorf("%s: UseAs of a fresh id = %v, %v; want true", iso, first, err)
		}
		commit(t, tx)
	}
}

func TestSweepOvertakesBegin(t *testing.T) {
	w := newWorld(t, nil)
	l := w.open(t).Ledger()
	start := newStart()
	if _, started, err := l.Begin(t.Context(), start); err != nil || !started {
		t.Fatalf("Begin = %v, %v", started, err)
	}
	sweep := w.transaction(t, pgx.ReadCommitted, `UPDATE {s}.mark SET ended = 1::bigint << 42`, `DELETE FROM {s}.operation`)
	got := make(chan error, 1)
	go func() {
		_, started, err := l.Begin(context.Background(), start)
		if started {
			err = errors.New("it started again")
		}
		got <- err
	}()
	w.waiting(t, 1)
	commit(t, sweep)
	if err := <-got; !errors.Is(err, ledger.ErrSwept) {
		t.Errorf("Begin of what was swept: %v, want ErrSwept", err)
	}
	if _, err := l.Get(t.Context(), start.ID); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("Get of what was refused: %v, want ErrNotFound", err)
	}
}

// A transaction of a caller's that takes its time keeps nobody waiting but who
// presents the same token, and no sweep.
func TestLongTransaction(t *testing.T) {
	w := newWorld(t, nil)
	s := w.open(t)
	r := s.Replay()
	id, attempt := newID(), newID()
	tx := w.transaction(t, pgx.ReadCommitted)
	if first, err := r.InTx(tx).UseAs(t.Context(), id, soon(), attempt); err != nil || !first {
		t.Fatalf("UseAs = %v, %v", first, err)
	}
	if first, err := r.Use(t.Context(), newID(), soon()); err != nil || !first {
		t.Errorf("Use of another = %v, %v; want true", first, err)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	if got, spent, err := r.Attempt(t.Context(), id); err != nil || spent || got != nil {
		t.Errorf("Attempt before the commit = %x, %v, %v; want unspent", got, spent, err)
	}
	patient := s.SetTimeout(200 * time.Millisecond)
	if first, err := r.Use(t.Context(), id, soon()); first || err == nil {
		t.Errorf("Use of what is being spent = %v, %v; want an error", first, err)
	}
	patient()
	commit(t, tx)
	if first, err := r.Use(t.Context(), id, soon()); err != nil || first {
		t.Errorf("Use after the commit = %v, %v; want false", first, err)
	}
	if got, spent, err := r.Attempt(t.Context(), id); err != nil || !spent || string(got) != string(attempt) {
		t.Errorf("Attempt = %x, %v, %v; want the caller's", got, spent, err)
	}
}
