package sqlite_test

import (
	"database/sql"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func init() { children["leave"] = leaveChild }

// leaveChild tries to turn the file's log off, which SQLite allows to who is
// alone with it, and prints what it says.
func leaveChild(path string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	var mode string
	err = db.QueryRow("PRAGMA journal_mode = DELETE").Scan(&mode)
	fmt.Println(mode, err)
	return db.Close()
}

// A connection of the user's that outlives the store keeps its locks: no other
// process may take itself for the only one.
func TestInTxOutlivesTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := sqliteOpen(t, path)
	db := business(t, path+patient)
	db.SetMaxOpenConns(1)
	spend := func() []byte {
		t.Helper()
		id := newID()
		tx := begin(t, db)
		inTx(t, tx, id, attemptMark(), true)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		return id
	}
	ids := [][]byte{spend()}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, out := child(t, "leave", path)
	said, err := io.ReadAll(out)
	if err != nil || !strings.Contains(string(said), "database is locked") {
		t.Fatalf("another process that turns the log off hears %q (%v), want that the database is locked", said, err)
	}
	s = open(t, path, nil)
	ids = append(ids, spend())
	for _, id := range ids {
		mustUse(t, s, id, false)
	}
}
