package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/sqlite"
)

// version1 is what the first version of this package made.
var version1 = []string{
	"PRAGMA journal_mode = WAL",
	`CREATE TABLE spent (
		id      BLOB    NOT NULL PRIMARY KEY CHECK (typeof(id) = 'blob' AND length(id) BETWEEN 1 AND 64),
		expires INTEGER NOT NULL CHECK (typeof(expires) = 'integer')
	) WITHOUT ROWID`,
	`CREATE INDEX spent_expires ON spent (expires)`,
	`CREATE TABLE sweep_mark (
		one   INTEGER PRIMARY KEY CHECK (one = 1),
		until INTEGER NOT NULL CHECK (typeof(until) = 'integer')
	)`,
	`INSERT INTO sweep_mark (one, until) VALUES (1, 1700000000000)`,
	`CREATE TABLE claim (
		key     BLOB    NOT NULL PRIMARY KEY CHECK (typeof(key) = 'blob' AND length(key) = 32),
		expires INTEGER NOT NULL CHECK (typeof(expires) = 'integer'),
		by      BLOB    CHECK (by IS NULL OR (typeof(by) = 'blob' AND length(by) = 32)),
		payload BLOB    NOT NULL CHECK (typeof(payload) = 'blob')
	)`,
	`CREATE INDEX claim_expires ON claim (expires)`,
	"PRAGMA application_id = 1718577516",
	"PRAGMA user_version = 1",
}

func TestMigrateFromVersion1(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	c := raw(t, path)
	execute(t, c, version1...)
	id, claim, payload := newID(), claimcheck.NewClaim(), bytes.Repeat([]byte("p"), 100)
	key, _ := claimcheck.Key(claim)
	expires := time.Now().Add(time.Hour).UnixMilli()
	for _, row := range []struct {
		query string
		args  []any
	}{
		{"INSERT INTO spent (id, expires) VALUES (?, ?)", []any{id, expires}},
		{"INSERT INTO claim (key, expires, payload) VALUES (?, ?, ?)", []any{key[:], expires, payload}},
	} {
		if _, err := c.ExecContext(t.Context(), row.query, row.args...); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, path, &sqlite.Options{MaxClaimTotalBytes: 150})
	wantVersion(t, c)
	wantTotals(t, path, 1, 100)
	mustUse(t, s, id, false)
	mustUse(t, s, newID(), true)
	if _, err := s.Replay().Use(t.Context(), newID(), time.UnixMilli(1_700_000_000_000)); !errors.Is(err, replay.ErrSwept) {
		t.Errorf("Use at the mark: %v, want ErrSwept", err)
	}
	if _, err := s.Claims().Issue(t.Context(), make([]byte, 51), time.Minute); !errors.Is(err, claimcheck.ErrFull) {
		t.Errorf("Issue beyond the limit: %v, want ErrFull", err)
	}
	if got, err := s.Claims().Redeem(t.Context(), claim, "op"); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("Redeem of a claim from before: %v", err)
	}
	if err := s.Claims().Revoke(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	wantTotals(t, path, 0, 0)
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
}

// wantVersion checks what a program of this version and one of the version
// before, which knows user_version alone, make of the file.
func wantVersion(t *testing.T, c *sql.Conn) {
	t.Helper()
	var version, user int
	if err := c.QueryRowContext(t.Context(), "SELECT version, (SELECT user_version FROM pragma_user_version) FROM foil_schema").Scan(&version, &user); err != nil || version != 3 || user != 3 {
		t.Errorf("schema version is %d, user_version %d (%v), want 3", version, user, err)
	}
}

// version2 leads from what the first version of this package made to the second.
var version2 = []string{
	`CREATE TABLE ping (
		one   INTEGER PRIMARY KEY CHECK (one = 1),
		count INTEGER NOT NULL CHECK (typeof(count) = 'integer'),
		pad   BLOB    NOT NULL CHECK (typeof(pad) = 'blob')
	)`,
	`INSERT INTO ping (one, count, pad) VALUES (1, 0, randomblob(16384))`,
	`CREATE TABLE claim_total (
		one    INTEGER PRIMARY KEY CHECK (one = 1),
		claims INTEGER NOT NULL CHECK (typeof(claims) = 'integer' AND claims >= 0),
		bytes  INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes >= 0)
	)`,
	`INSERT INTO claim_total (one, claims, bytes) SELECT 1, count(*), coalesce(sum(length(payload)), 0) FROM claim`,
	`CREATE TRIGGER claim_issued AFTER INSERT ON claim BEGIN
		UPDATE claim_total SET claims = claims + 1, bytes = bytes + length(new.payload) WHERE one = 1;
	END`,
	`CREATE TRIGGER claim_dropped AFTER DELETE ON claim BEGIN
		UPDATE claim_total SET claims = claims - 1, bytes = bytes - length(old.payload) WHERE one = 1;
	END`,
	"PRAGMA user_version = 2",
}

// A process of the version before, whose statements these are, may still be at
// work on the file that this one migrates.
func TestMigrateFromVersion2(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	old := raw(t, path)
	execute(t, old, version1...)
	execute(t, old, version2...)
	id, late, claim, payload := newID(), newID(), claimcheck.NewClaim(), bytes.Repeat([]byte("p"), 100)
	key, _ := claimcheck.Key(claim)
	expires := time.Now().Add(time.Hour).UnixMilli()
	var stmts []*sql.Stmt
	for _, query := range []string{
		"INSERT INTO spent (id, expires) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING",
		"INSERT INTO claim (key, expires, by, payload) VALUES (?1, ?2, NULL, ?3)",
	} {
		stmt, err := old.PrepareContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()
		stmts = append(stmts, stmt)
	}
	write := func(stmt *sql.Stmt, args ...any) {
		t.Helper()
		if _, err := stmt.ExecContext(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	write(stmts[0], id, expires)
	write(stmts[1], key[:], expires, payload)
	s := open(t, path, nil)
	wantVersion(t, old)
	write(stmts[0], late, expires)
	for _, id := range [][]byte{id, late} {
		mustUse(t, s, id, false)
		if attempt, spent, err := s.Replay().Attempt(t.Context(), id); attempt != nil || !spent || err != nil {
			t.Errorf("Attempt of an id from before = %x, %v, %v; want none, spent", attempt, spent, err)
		}
	}
	mustUse(t, s, newID(), true)
	if got, err := s.Claims().Redeem(t.Context(), claim, "op"); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("Redeem of a claim from before: %v", err)
	}
	if _, err := s.Replay().Use(t.Context(), newID(), time.UnixMilli(1_700_000_000_000)); !errors.Is(err, replay.ErrSwept) {
		t.Errorf("Use at the mark: %v, want ErrSwept", err)
	}
	wantSound(t, s)
	if err := s.Ledger().Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
}

// The user's own tables and user_version do not disturb, as long as foil was
// there first.
func TestBusinessTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	execute(t, raw(t, path), "CREATE TABLE operation (id INTEGER PRIMARY KEY)", "CREATE TABLE step (id)", "CREATE TABLE handle (id)",
		"INSERT INTO operation VALUES (1)", "PRAGMA user_version = 77")
	id := newID()
	mustUse(t, s, id, true)
	for _, s := range []*sqlite.Store{s, open(t, path, nil)} {
		mustUse(t, s, id, false)
		wantSound(t, s)
	}
	for _, version := range []int{0, 1, 2, 3, 4} {
		execute(t, raw(t, path), fmt.Sprint("PRAGMA user_version = ", version))
		mustUse(t, open(t, path, nil), id, false)
	}
}
