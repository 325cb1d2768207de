package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// applicationID marks a file as ours in SQLite's header: "foil" in ASCII.
const applicationID = 0x666f696c

// schemaVersion is the newest schema that this program knows. Since version 3 it
// is kept in the table foil_schema, because SQLite's user_version belongs to
// whoever else has tables in the file; lastUserVersion was the last kept there.
const (
	schemaVersion   = 3
	lastUserVersion = 2
)

// schema holds the steps: schema[n] leads from version n to n+1. A step is
// never changed once released. Times are Unix milliseconds, rounded so that
// nothing is forgotten early. The primary key of spent IDs is the table itself
// (WITHOUT ROWID): the IDs of tokens begin with their time, so inserts go to
// its end. Payloads are long, so claims have a row ID. Tables since version 3
// begin with foil_, because the file may hold its user's own.
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
}, schema3}

// readVersion returns the schema version of the file, 0 if it is empty. It
// writes nothing, so that a foreign file stays as it was. It must run in a
// transaction: another process may be migrating between two of its reads.
func readVersion(ctx context.Context, q *sql.Conn) (version int, err error) {
	var app, user, tables, ours int
	for _, r := range []struct {
		query string
		to    *int
	}{
		{"PRAGMA main.application_id", &app},
		{"PRAGMA main.user_version", &user},
		{"SELECT count(*) FROM main.sqlite_schema", &tables},
		{"SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = 'foil_schema'", &ours},
	} {
		if err := q.QueryRowContext(ctx, r.query).Scan(r.to); err != nil {
			return 0, plain(err)
		}
	}
	switch {
	case app == 0 && user == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, errors.New("this is another program's SQLite database; not touched")
	case ours == 0 && user >= 1 && user <= lastUserVersion:
		return user, nil
	case ours == 0:
		return 0, fmt.Errorf("schema version %d is none of ours: database file is corrupted", user)
	}
	if err := q.QueryRowContext(ctx, "SELECT version FROM main.foil_schema WHERE one = 1").Scan(&version); err != nil {
		return 0, fmt.Errorf("reading the schema version: %w", plain(err))
	}
	return version, checkVersion(version)
}

// checkVersion judges what foil_schema says.
func checkVersion(version int) error {
	switch {
	case version > schemaVersion:
		return fmt.Errorf("schema version %d is newer than this program knows (%d); use a newer foil", version, schemaVersion)
	case version <= lastUserVersion:
		return fmt.Errorf("schema version %d is none of ours: database file is corrupted", version)
	}
	return nil
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
	old := version <= lastUserVersion
	for ; version < schemaVersion; version++ {
		for _, statement := range schema[version] {
			if _, err := sc.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("migrating to schema version %d: %w", version+1, plain(err))
			}
		}
	}
	statements := []string{fmt.Sprintf("UPDATE foil_schema SET version = %d WHERE one = 1", schemaVersion)}
	if old {
		// A program that knows no foil_schema refuses the file by user_version.
		// PRAGMA takes no parameters; both values are constants.
		statements = append(statements, fmt.Sprintf("PRAGMA application_id = %d", applicationID),
			fmt.Sprintf("PRAGMA user_version = %d", lastUserVersion+1))
	}
	for _, statement := range append(statements, "COMMIT") {
		if _, err := sc.ExecContext(ctx, statement); err != nil {
			return plain(err)
		}
	}
	return nil
}
