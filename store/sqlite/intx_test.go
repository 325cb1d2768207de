package sqlite_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/replay/replaytest"
	"github.com/foilmcp/foil/store/sqlite"
)

func attemptMark() []byte {
	b := make([]byte, replay.AttemptLen)
	rand.Read(b)
	return b
}

// business is what a user of the store opens for its own tables in the file.
func business(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

const patient = "?_pragma=busy_timeout(60000)&_txlock=immediate"

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func inTx(t *testing.T, tx *sql.Tx, id, attempt []byte, want bool) {
	t.Helper()
	first, err := sqlite.InTx(tx).UseAs(t.Context(), id, time.Now().Add(10*time.Minute), attempt)
	if err != nil || first != want {
		t.Fatalf("UseAs in the transaction = %v, %v; want %v", first, err, want)
	}
}

// refused checks that an ID cannot be spent in tx, and that the error says why
// and does not tell it.
func refused(t *testing.T, tx *sql.Tx, want string) {
	t.Helper()
	id, attempt := newID(), attemptMark()
	first, err := sqlite.InTx(tx).UseAs(t.Context(), id, time.Now().Add(10*time.Minute), attempt)
	if first || err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("UseAs = %v, %v; want an error with %q", first, err, want)
	}
	for _, secret := range [][]byte{id, attempt} {
		if text := fmt.Sprintf("%v %x", err, err); strings.Contains(text, fmt.Sprintf("%x", secret)) || strings.Contains(text, string(secret)) {
			t.Error("error tells an id or an attempt")
		}
	}
}

func wantAttempt(t *testing.T, s *sqlite.Store, id, want []byte, wantSpent bool) {
	t.Helper()
	got, spent, err := s.Replay().Attempt(t.Context(), id)
	if err != nil || spent != wantSpent || !bytes.Equal(got, want) {
		t.Fatalf("Attempt = %x, %v, %v; want %x, %v", got, spent, err, want, wantSpent)
	}
}

func TestInTx(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	db := business(t, path+patient)
	if _, err := db.Exec("CREATE TABLE payment (id BLOB)"); err != nil {
		t.Fatal(err)
	}
	payments := func() (n int) {
		t.Helper()
		if err := db.QueryRow("SELECT count(*) FROM payment").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	id, attempt := newID(), attemptMark()
	for i, commit := range []bool{false, true} {
		tx := begin(t, db)
		if _, err := tx.Exec("INSERT INTO payment VALUES (?)", id); err != nil {
			t.Fatal(err)
		}
		inTx(t, tx, id, attempt, true)
		inTx(t, tx, id, attempt, true) // the one attempt may ask twice
		inTx(t, tx, id, attemptMark(), false)
		if commit {
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			wantAttempt(t, s, id, attempt, true)
		} else {
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			wantAttempt(t, s, id, nil, false)
		}
		if n := payments(); n != i {
			t.Fatalf("%d payments after round %d, want %d", n, i, i)
		}
	}
	// It is spent for everybody.
	mustUse(t, s, id, false)
	mustUse(t, open(t, path, nil), id, false)
	tx := begin(t, db)
	inTx(t, tx, id, attemptMark(), false)
	inTx(t, tx, id, attempt, true)
	_ = tx.Rollback()
	// And the other way round.
	used := newID()
	mustUse(t, s, used, true)
	tx = begin(t, db)
	inTx(t, tx, used, attempt, false)
	for _, bad := range [][]byte{nil, attempt[:15], append(bytes.Clone(attempt), 0)} {
		if first, err := sqlite.InTx(tx).UseAs(t.Context(), newID(), time.Now().Add(time.Minute), bad); first || err == nil {
			t.Errorf("UseAs with an attempt of %d bytes = %v, %v; want an error", len(bad), first, err)
		}
	}
	_ = tx.Rollback()
	wantSound(t, s)
}

// An attempt sees only what is committed, and the store waits for the caller.
func TestInTxIsUnseenUntilCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	tx := begin(t, business(t, path+patient))
	id, attempt := newID(), attemptMark()
	inTx(t, tx, id, attempt, true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if first, err := s.Replay().Use(ctx, id, time.Now().Add(time.Minute)); first || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Use while the transaction is open = %v, %v; want a timeout", first, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		mustUse(t, s, id, false)
	}()
	waitFor(t, s, 0)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	<-done
	wantAttempt(t, s, id, attempt, true)
}

func TestInTxMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	clock := replaytest.NewClock(time.Now())
	s := open(t, path, &sqlite.Options{Now: clock.Now})
	db := business(t, path+patient)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	try := func(id []byte, expires time.Time, want error) {
		t.Helper()
		tx := begin(t, db)
		defer tx.Rollback()
		if first, err := sqlite.InTx(tx).UseAs(t.Context(), id, expires, attemptMark()); first != (want == nil) || !errors.Is(err, want) {
			t.Errorf("UseAs = %v, %v; want %v", first, err, want)
		}
	}
	mark := clock.Now().Add(-sqlite.DefaultSkew)
	try(newID(), mark.Truncate(time.Millisecond), replay.ErrSwept)
	try(newID(), mark.Add(time.Second), nil)
	restored(t, s)
	try(newID(), clock.Now().Add(time.Hour), replay.ErrRestored)
	try([]byte("no time in here"), clock.Now().Add(time.Hour), nil)
}

// What the mark would not stand on is refused.
func TestInTxChecksTheConnection(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "foil.db"), filepath.Join(dir, "other.db")
	open(t, path, nil)
	foreign := filepath.Join(dir, "foreign.db")
	execute(t, raw(t, foreign), "CREATE TABLE spent (id BLOB PRIMARY KEY, expires INTEGER, attempt BLOB)")
	closed := sqliteOpen(t, other)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, file, want, query string }{
		{"synchronous off", path, "synchronous is 0", "PRAGMA synchronous = OFF"},
		{"synchronous normal", path, "synchronous is 1", "PRAGMA synchronous = NORMAL"},
		{"temporary table", path, "temporary tables", "CREATE TEMP TABLE Spent (id BLOB PRIMARY KEY, expires INTEGER, attempt BLOB)"},
		{"temporary view", path, "temporary tables", "CREATE TEMP VIEW sweep_mark AS SELECT 1 AS one, 0 AS until, 0 AS operations, 0 AS restored"},
		{"temporary trigger", path, "temporary tables", "CREATE TEMP TRIGGER t BEFORE INSERT ON main.spent BEGIN SELECT RAISE(IGNORE); END"},
		{"attached", path, "another database attached", "ATTACH '" + foreign + "' AS other"},
		{"attached in memory", path, "another database attached", "ATTACH ':memory:' AS other"},
		{"foil's file is the attached one", foreign, "another database attached", "ATTACH '" + path + "' AS foil"},
		{"in memory", ":memory:", "in memory", "SELECT 1"},
		{"another file", foreign, "no store of this process", "SELECT 1"},
		{"closed store", other, "no store of this process", "SELECT 1"},
		{"read only", path, "read-only", "PRAGMA query_only = ON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			db := business(t, tc.file)
			db.SetMaxOpenConns(1)
			if _, err := db.Exec(tc.query); err != nil {
				t.Fatal(err)
			}
			refused(t, begin(t, db), tc.want)
		})
	}
	refused(t, nil, "transaction is nil")
	tx := begin(t, business(t, path+patient))
	inTx(t, tx, newID(), attemptMark(), true) // a plain connection is as it should be
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	refused(t, tx, "transaction has already been committed")
	for _, change := range []struct{ do, undo, want string }{
		{"CREATE TRIGGER forget AFTER INSERT ON spent BEGIN DELETE FROM spent WHERE id = new.id; END", "DROP TRIGGER forget", "triggers"},
		{"UPDATE foil_schema SET version = 4", "UPDATE foil_schema SET version = 3", "schema version 4 is newer"},
		{"PRAGMA application_id = 7", "PRAGMA application_id = 1718577516", "not foil's"},
	} {
		execute(t, raw(t, path), change.do)
		tx := begin(t, business(t, path+patient))
		refused(t, tx, change.want)
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		execute(t, raw(t, path), change.undo)
	}
}

// sqliteOpen is open for a store that the test closes itself.
func sqliteOpen(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, &sqlite.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestInTxBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	tx := begin(t, business(t, path)) // deferred: it reads first
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM spent").Scan(&n); err != nil {
		t.Fatal(err)
	}
	mustUse(t, s, newID(), true) // so what it has read no longer holds
	refused(t, tx, "the database is busy")
	_ = tx.Rollback()
	unlock := lock(t, path)
	defer unlock()
	refused(t, begin(t, business(t, path)), "the database is busy")
}
