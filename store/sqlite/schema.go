package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// applicationID marks a file as ours in SQLite's header: "foil" in ASCII.
const applicationID = 0x666f696c

// schemaVersion is the newest schema that this program knows. It is kept in
// SQLite's user_version.
const schemaVersion = 2

// schema holds the steps: schema[n] leads from version n to n+1. A step is
// never changed once released. Times are Unix milliseconds, rounded so that
// nothing is forgotten early. The primary key of spent IDs is the table itself
// (WITHOUT ROWID): the IDs of tokens begin with their time, so inserts go to
// its end. Payloads are long, so claims have a row ID.
var schema = [schemaVersion][]string{{
	`CREATE TABLE spent (
		id      BLOB    NOT NULL PRIMARY KEY CHECK (typeof(id) = 'blob' AND length(id) BETWEEN 1 AND 64),
		expires INTEGER NOT NULL CHECK (typeof(expires) = 'integer')
	) WITHOUT ROWID`,
	`CREATE INDEX spent_expires ON spent (expires)`,
	`CREATE TABLE sweep_mark (
		one   INTEGER PRIMARY KEY CHECK (one = 1),
		until INTEGER NOT NULL CHECK (typeof(until) = 'integer')
	)`,
	`INSERT INTO sweep_mark (one, until) VALUES (1, 0)`,
	`CREATE TABLE claim (
		key     BLOB    NOT NULL PRIMARY KEY CHECK (typeof(key) = 'blob' AND length(key) = 32),
		expires INTEGER NOT NULL CHECK (typeof(expires) = 'integer'),
		by      BLOB    CHECK (by IS NULL OR (typeof(by) = 'blob' AND length(by) = 32)),
		payload BLOB    NOT NULL CHECK (typeof(payload) = 'blob')
	)`,
	`CREATE INDEX claim_expires ON claim (expires)`,
}, {
	// What Ping writes: as much as a spent ID may touch, and random, because
	// SQLite leaves out the writing of what is there already.
	`CREATE TABLE ping (
		one   INTEGER PRIMARY KEY CHECK (one = 1),
		count INTEGER NOT NULL CHECK (typeof(count) = 'integer'),
		pad   BLOB    NOT NULL CHECK (typeof(pad) = 'blob')
	)`,
	`INSERT INTO ping (one, count, pad) VALUES (1, 0, randomblob(16384))`,
	// What the claims come to, kept by the database itself, so that it is right
	// whoever deletes.
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
}}

// readVersion returns the schema version of the file, 0 if it is empty. It
// writes nothing, so that a foreign file stays as it was. It must run in a
// transaction: another process may be migrating between two of its reads.
func readVersion(ctx context.Context, q *sql.Conn) (version int, err error) {
	var app, tables int
	for _, r := range []struct {
		query string
		to    *int
	}{
		{"PRAGMA application_id", &app},
		{"PRAGMA user_version", &version},
		{"SELECT count(*) FROM sqlite_schema", &tables},
	} {
		if err := q.QueryRowContext(ctx, r.query).Scan(r.to); err != nil {
			return 0, plain(err)
		}
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, errors.New("this is another program's SQLite database; not touched")
	case version > schemaVersion:
		return 0, fmt.Errorf("schema version %d is newer than this program knows (%d); use a newer foil", version, schemaVersion)
	case version < 1:
		return 0, fmt.Errorf("schema version %d is none of ours: database file is corrupted", version)
	}
	return version, nil
}

// migrate brings the file to schemaVersion in one transaction. Of several
// processes that try at once one does it and the others find it done.
func migrate(ctx context.Context, sc *sql.Conn) (err error) {
	if _, err := sc.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return plain(err)
	}
	// On an error the caller closes the connection, which rolls back.
	version, err := readVersion(ctx, sc)
	if err != nil {
		return err
	}
	for ; version < schemaVersion; version++ {
		for _, statement := range schema[version] {
			if _, err := sc.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("migrating to schema version %d: %w", version+1, plain(err))
			}
		}
	}
	// PRAGMA takes no parameters; both values are constants.
	for _, statement := range []string{
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", schemaVersion),
		"COMMIT",
	} {
		if _, err := sc.ExecContext(ctx, statement); err != nil {
			return plain(err)
		}
	}
	return nil
}

// prepare compiles every statement that a store runs.
func (c *conn) prepare(ctx context.Context) error {
	for _, p := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&c.begin, `BEGIN IMMEDIATE`},
		{&c.commit, `COMMIT`},
		{&c.rollback, `ROLLBACK`},

		{&c.readMark, `SELECT until FROM sweep_mark WHERE one = 1`},
		{&c.raiseMark, `UPDATE sweep_mark SET until = ?1 WHERE one = 1 AND until < ?1`},

		{&c.use, `INSERT INTO spent (id, expires) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING`},
		{&c.dueIDs, `SELECT EXISTS (SELECT 1 FROM spent WHERE expires <= ?1)`},
		{&c.sweepIDs, `DELETE FROM spent WHERE id IN (SELECT id FROM spent WHERE expires <= ?1 ORDER BY expires LIMIT ?2)`},

		{&c.ping, `UPDATE ping SET count = count + 1, pad = randomblob(length(pad)) WHERE one = 1`},

		{&c.total, `SELECT claims, bytes FROM claim_total WHERE one = 1`},
		{&c.issue, `INSERT INTO claim (key, expires, by, payload) VALUES (?1, ?2, NULL, ?3)`},
		{&c.bind, `UPDATE claim SET by = ?3 WHERE key = ?1 AND expires > ?2 AND by IS NULL`},
		{&c.payload, `SELECT by, payload FROM claim WHERE key = ?1 AND expires > ?2`},
		{&c.revoke, `DELETE FROM claim WHERE key = ?1`},
		{&c.sweepClaims, `DELETE FROM claim WHERE rowid IN (SELECT rowid FROM claim WHERE expires <= ?1 ORDER BY expires LIMIT ?2)`},
	} {
		stmt, err := c.sql.PrepareContext(ctx, p.query)
		if err != nil {
			return plain(err)
		}
		c.all = append(c.all, stmt)
		*p.to = stmt
	}
	return nil
}
