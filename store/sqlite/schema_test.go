package sqlite_test

import (
	"bytes"
	"errors"
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
	var version int
	if err := c.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil || version != 2 {
		t.Errorf("schema version is %d (%v), want 2", version, err)
	}
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
