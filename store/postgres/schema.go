package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schemaVersion is the newest schema that this program knows.
const schemaVersion = 1

// migrations holds the steps: migrations[n] leads from version n to n+1. A step
// is never changed once released. Times are Unix milliseconds, rounded so that
// nothing is forgotten early. What callers give as text is bytea, as it may be no
// UTF-8 and hold zero bytes.
var migrations = [schemaVersion][]string{{
	`CREATE TABLE {s}.schema_version (
		one     boolean PRIMARY KEY CHECK (one),
		version integer NOT NULL
	)`,
	`INSERT INTO {s}.schema_version (one, version) VALUES (true, 0)`,

	// What may have been forgotten: spent tokens that expire at or before swept,
	// operations that had to start at or before ended, and all that was minted
	// before restored.
	`CREATE TABLE {s}.mark (
		one      boolean PRIMARY KEY CHECK (one),
		swept    bigint NOT NULL,
		ended    bigint NOT NULL,
		restored bigint NOT NULL
	)`,
	`INSERT INTO {s}.mark (one, swept, ended, restored) VALUES (true, 0, 0, 0)`,

	// attempt is of the presentation that was first, named if it is the
	// caller's and not made up by the store.
	`CREATE TABLE {s}.spent (
		id      bytea   PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 64),
		expires bigint  NOT NULL,
		attempt bytea   NOT NULL CHECK (octet_length(attempt) = 16),
		named   boolean NOT NULL
	)`,
	`CREATE INDEX spent_expires ON {s}.spent (expires)`,

	`CREATE TABLE {s}.claim (
		key     bytea   PRIMARY KEY CHECK (octet_length(key) = 32),
		expires bigint  NOT NULL,
		by      bytea   CHECK (octet_length(by) = 32),
		payload bytea   NOT NULL,
		sealed  boolean NOT NULL
	)`,
	`CREATE INDEX claim_expires ON {s}.claim (expires)`,
	`CREATE TABLE {s}.handle (
		key     bytea   PRIMARY KEY CHECK (octet_length(key) = 32),
		expires bigint  NOT NULL,
		payload bytea   NOT NULL,
		sealed  boolean NOT NULL
	)`,
	`CREATE INDEX handle_expires ON {s}.handle (expires)`,

	// What claims and handles come to, kept by the database itself, so that it
	// is right whoever deletes. One row for each sixteenth of the keys: one row
	// for all would let one transaction in at a time.
	`CREATE TABLE {s}.total (
		kind  text    NOT NULL CHECK (kind IN ('claim', 'handle')),
		shard integer NOT NULL CHECK (shard BETWEEN 0 AND 15),
		count bigint  NOT NULL CHECK (count >= 0),
		bytes bigint  NOT NULL CHECK (bytes >= 0),
		PRIMARY KEY (kind, shard)
	)`,
	`INSERT INTO {s}.total (kind, shard, count, bytes) SELECT k, n, 0, 0 FROM unnest(ARRAY['claim', 'handle']) k, generate_series(0, 15) n`,
	`CREATE FUNCTION {s}.count_row() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF TG_OP = 'INSERT' THEN
			UPDATE {s}.total SET count = count + 1, bytes = bytes + octet_length(NEW.payload)
			WHERE kind = TG_TABLE_NAME AND shard = get_byte(NEW.key, 0) % 16;
		ELSE
			UPDATE {s}.total SET count = count - 1, bytes = bytes - octet_length(OLD.payload)
			WHERE kind = TG_TABLE_NAME AND shard = get_byte(OLD.key, 0) % 16;
		END IF;
		RETURN NULL;
	END $$`,
	`CREATE TRIGGER count_row AFTER INSERT OR DELETE ON {s}.claim FOR EACH ROW EXECUTE FUNCTION {s}.count_row()`,
	`CREATE TRIGGER count_row AFTER INSERT OR DELETE ON {s}.handle FOR EACH ROW EXECUTE FUNCTION {s}.count_row()`,

	// state is as in package ledger; executing whether or not the lease has run
	// out. attempt is of the Begin that started it.
	`CREATE TABLE {s}.operation (
		id          bytea    PRIMARY KEY CHECK (octet_length(id) = 16),
		flow        bytea    NOT NULL CHECK (octet_length(flow) = 16),
		round       integer  NOT NULL CHECK (round >= 1),
		method      bytea    NOT NULL,
		target      bytea    NOT NULL,
		principal   bytea    CHECK (octet_length(principal) = 24),
		answers     bytea    NOT NULL CHECK (octet_length(answers) = 32),
		expires     bigint   NOT NULL,
		state       smallint NOT NULL CHECK (state BETWEEN 1 AND 4),
		fence       bigint   NOT NULL CHECK (fence >= 1),
		started     bigint   NOT NULL,
		finished    bigint,
		lease_until bigint   NOT NULL,
		keep        bigint   NOT NULL,
		retention   bigint   NOT NULL,
		kept_until  bigint,
		outcome     bytea,
		sealed      boolean  NOT NULL,
		resolved_by bytea,
		note        bytea,
		attempt     bytea    NOT NULL CHECK (octet_length(attempt) = 16)
	)`,
	`CREATE INDEX operation_started ON {s}.operation (started, id)`,
	`CREATE INDEX operation_flow ON {s}.operation (flow)`,
	`CREATE INDEX operation_kept_until ON {s}.operation (kept_until) WHERE kept_until IS NOT NULL`,
	`CREATE INDEX operation_open ON {s}.operation (state) WHERE state IN (1, 4)`,
	`CREATE TABLE {s}.step (
		operation bytea   NOT NULL REFERENCES {s}.operation (id) ON DELETE CASCADE,
		name      bytea   NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 256),
		seq       integer NOT NULL CHECK (seq >= 1),
		fence     bigint  NOT NULL CHECK (fence >= 1),
		began     bigint  NOT NULL,
		ended     bigint,
		result    bytea,
		sealed    boolean NOT NULL,
		PRIMARY KEY (operation, name),
		UNIQUE (operation, seq)
	)`,
}}

var schemaName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

func checkSchemaName(name string) error {
	if !schemaName.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("postgres: schema is %q, want a lower-case letter, then letters, digits and underscores", name)
	}
	return nil
}

// migrationLock is the advisory lock under which schemas are migrated: "foil" in
// ASCII, then 1.
const migrationLock = 0x666f696c_00000001

// querier is what a pool, a connection and a transaction have in common.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the version of the schema: 0 if it is not there or empty, -1 if
// it holds something else.
func version(ctx context.Context, q querier, schema string) (v int, err error) {
	var ours, others bool
	err = q.QueryRow(ctx, `SELECT
		EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'schema_version'),
		EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1)`, schema).Scan(&ours, &others)
	if err != nil {
		return 0, plain(err)
	}
	if !ours {
		if others {
			return -1, nil
		}
		return 0, nil
	}
	if err := q.QueryRow(ctx, fill("SELECT version FROM {s}.schema_version WHERE one", schema, serverTime)).Scan(&v); err != nil {
		return 0, fmt.Errorf("reading the schema's version: %w", plain(err))
	}
	if v < 1 {
		return 0, fmt.Errorf("schema version %d is none of ours", v)
	}
	return v, nil
}

// checkVersion refuses what this program cannot work with.
func checkVersion(v int, schema string) error {
	switch {
	case v < 0:
		return fmt.Errorf("postgres: the schema %s holds tables of another program; not touched", schema)
	case v > schemaVersion:
		return fmt.Errorf("postgres: schema version %d is newer than this program knows (%d); use a newer foil", v, schemaVersion)
	case v < schemaVersion:
		return fmt.Errorf("postgres: schema version is %d, want %d: run foil store migrate, or set Options.Migrate", v, schemaVersion)
	}
	return nil
}

// Migrate creates the schema and its tables, or brings them up to date, in one
// transaction; a schema of another program, or newer than this program knows, is
// refused and left as it is. Of several that try at once one does it and the
// others find it done. The role needs CREATE on the database, or, for a schema
// that is there, CREATE on it and to own its tables. schema "" means
// DefaultSchema.
func Migrate(ctx context.Context, dsn, schema string) error {
	schema = or(schema, DefaultSchema)
	if err := checkSchemaName(schema); err != nil {
		return err
	}
	pool, err := connect(ctx, dsn, &Options{Timeout: DefaultTimeout, MaxConns: 1})
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer pool.Close()
	return migrate(ctx, pool, schema)
}

func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("postgres: %w", plain(err))
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', true), pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
		return fmt.Errorf("postgres: %w", plain(err))
	}
	v, err := version(ctx, tx, schema)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if v < 0 || v >= schemaVersion {
		return checkVersion(v, schema)
	}
	if err := advance(ctx, tx, schema, v); err != nil {
		return fmt.Errorf("postgres: migrating to schema version %d: %w", schemaVersion, plain(err))
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("postgres: migrating: %w", plain(err))
	}
	return nil
}

func advance(ctx context.Context, tx pgx.Tx, schema string, from int) error {
	var there bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", schema).Scan(&there); err != nil {
		return err
	}
	if !there { // CREATE SCHEMA wants the right to do so even if it then does nothing
		if _, err := tx.Exec(ctx, fill("CREATE SCHEMA {s}", schema, serverTime)); err != nil {
			return err
		}
	}
	for _, step := range migrations[from:] {
		for _, statement := range step {
			if _, err := tx.Exec(ctx, fill(statement, schema, serverTime)); err != nil {
				return err
			}
		}
	}
	tag, err := tx.Exec(ctx, fill("UPDATE {s}.schema_version SET version = $1 WHERE one", schema, serverTime), schemaVersion)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("the row of the version is missing")
	}
	return err
}

// Grants returns the statements that give a role every right that a store needs,
// but for migrating, and no other. schema "" means DefaultSchema.
func Grants(schema, role string) (string, error) {
	schema = or(schema, DefaultSchema)
	if err := checkSchemaName(schema); err != nil {
		return "", err
	}
	if role == "" || strings.ContainsRune(role, 0) {
		return "", errors.New("postgres: the name of the role is empty or has a zero byte")
	}
	text := `GRANT USAGE ON SCHEMA {s} TO {role};
GRANT SELECT ON {s}.schema_version TO {role};
GRANT SELECT, UPDATE ON {s}.mark, {s}.total TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {s}.spent, {s}.claim, {s}.handle, {s}.operation, {s}.step TO {role};
`
	return strings.ReplaceAll(fill(text, schema, serverTime), "{role}", pgx.Identifier{role}.Sanitize()), nil
}
