package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/jackc/pgx/v5"
)

func TestInTx(t *testing.T) {
	w := newWorld(t, nil)
	s := w.open(t)
	r := s.Replay()
	id, attempt := newID(), newID()
	use := func(tx pgx.Tx, attempt []byte) (bool, error) {
		return r.InTx(tx).UseAs(context.Background(), id, soon(), attempt)
	}

	tx := w.transaction(t, pgx.ReadCommitted)
	if first, err := use(tx, attempt); err != nil || !first {
		t.Fatalf("UseAs = %v, %v; want true", first, err)
	}
	_ = tx.Rollback(t.Context())
	if _, spent, err := r.Attempt(t.Context(), id); err != nil || spent {
		t.Fatalf("after a rollback: spent %v, %v", spent, err)
	}

	tx = w.transaction(t, pgx.ReadCommitted, `CREATE TABLE {s}.own (n integer)`, `INSERT INTO {s}.own VALUES (1)`)
	for range 2 { // a presentation may ask twice
		if first, err := use(tx, attempt); err != nil || !first {
			t.Fatalf("UseAs = %v, %v; want true", first, err)
		}
	}
	if first, err := use(tx, newID()); err != nil || first {
		t.Fatalf("UseAs of another attempt = %v, %v; want false", first, err)
	}
	commit(t, tx)
	var n int
	w.scan(t, `SELECT count(*) FROM {s}.own`, &n)
	if got, spent, err := r.Attempt(t.Context(), id); n != 1 || err != nil || !spent || string(got) != string(attempt) {
		t.Fatalf("after the commit: %d rows of the caller's, attempt %x, %v, %v", n, got, spent, err)
	}
}

func TestInTxRefuses(t *testing.T) {
	w := newWorld(t, nil)
	s := w.open(t)
	r := s.Replay()
	use := func(tx pgx.Tx) error {
		t.Helper()
		first, err := r.InTx(tx).UseAs(t.Context(), newID(), soon(), newID())
		if first {
			t.Error("UseAs = true")
		}
		return err
	}
	if err := use(nil); err == nil {
		t.Error("UseAs without a transaction: no error")
	}
	tx := w.transaction(t, pgx.ReadCommitted)
	_, _ = tx.Exec(t.Context(), "SELECT 1/0")
	if err := use(tx); err == nil || !strings.Contains(err.Error(), "has failed before") {
		t.Errorf("UseAs in a transaction that has failed: %v", err)
	}
	tx = w.transaction(t, pgx.ReadCommitted, "SET TRANSACTION READ ONLY")
	if err := use(tx); err == nil || !strings.Contains(err.Error(), "takes no writes") {
		t.Errorf("UseAs in a read-only transaction: %v", err)
	}
	tx = w.transaction(t, pgx.ReadCommitted)
	commit(t, tx)
	if err := use(tx); err == nil {
		t.Error("UseAs in a transaction that has ended: no error")
	}
	tx = w.transaction(t, pgx.ReadCommitted)
	if _, err := r.InTx(tx).UseAs(t.Context(), newID(), soon(), []byte("short")); err == nil {
		t.Error("UseAs of a short attempt: no error")
	}
	if first, err := r.InTx(tx).UseAs(t.Context(), newID(), soon().AddDate(-10, 0, 0), newID()); err != nil || !first {
		t.Errorf("UseAs above the mark = %v, %v", first, err)
	}
	commit(t, tx)
	if _, err := s.Restored(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx = w.transaction(t, pgx.ReadCommitted)
	if err := use(tx); !errors.Is(err, replay.ErrRestored) {
		t.Errorf("UseAs of what is older than the restored store: %v, want ErrRestored", err)
	}
	commit(t, tx)
	for _, version := range []string{"0", "2"} {
		w.sql(t, `UPDATE {s}.schema_version SET version = `+version)
		if err := use(w.transaction(t, pgx.ReadCommitted)); err == nil || !strings.Contains(err.Error(), "schema version") {
			t.Errorf("UseAs with schema version %s: %v", version, err)
		}
	}
	// The default schema is not there.
	w.sql(t, `DROP SCHEMA IF EXISTS foil CASCADE`)
	if _, err := postgres.InTx(w.transaction(t, pgx.ReadCommitted)).UseAs(t.Context(), newID(), soon(), newID()); err == nil || !strings.Contains(err.Error(), "foil store migrate") {
		t.Errorf("UseAs without a schema: %v", err)
	}
}
