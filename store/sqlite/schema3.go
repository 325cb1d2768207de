package sqlite

// schema3 leads from version 2 to 3. In what is sealed at rest the column sealed
// names the key, as atrest.KeyID does, and is NULL for what is kept as it was
// given. What a caller chooses (names, targets, notes) are bytes, as not all of
// it is UTF-8. The columns that may be long come last: a row is read from its
// front, and what is not read of a long one stays on the disk.
var schema3 = []string{
	`CREATE TABLE foil_schema (
		one     INTEGER PRIMARY KEY CHECK (one = 1),
		version INTEGER NOT NULL CHECK (typeof(version) = 'integer')
	)`,
	`INSERT INTO foil_schema (one, version) VALUES (1, 3)`,

	`ALTER TABLE spent ADD COLUMN attempt BLOB CHECK (attempt IS NULL OR (typeof(attempt) = 'blob' AND length(attempt) = 16))`,
	// All marks are one row, read in one step: of spent IDs, of operations, and
	// the moment before which no token was minted that is accepted.
	`ALTER TABLE sweep_mark ADD COLUMN operations INTEGER NOT NULL DEFAULT 0 CHECK (typeof(operations) = 'integer')`,
	`ALTER TABLE sweep_mark ADD COLUMN restored INTEGER NOT NULL DEFAULT 0 CHECK (typeof(restored) = 'integer')`,
	`ALTER TABLE claim ADD COLUMN sealed TEXT CHECK (sealed IS NULL OR typeof(sealed) = 'text')`,

	`CREATE TABLE foil_handle (
		key     BLOB    NOT NULL PRIMARY KEY CHECK (typeof(key) = 'blob' AND length(key) = 32),
		expires INTEGER NOT NULL CHECK (typeof(expires) = 'integer'),
		sealed  TEXT    CHECK (sealed IS NULL OR typeof(sealed) = 'text'),
		payload BLOB    NOT NULL CHECK (typeof(payload) = 'blob')
	)`,
	`CREATE INDEX foil_handle_expires ON foil_handle (expires)`,
	`CREATE TABLE foil_handle_total (
		one     INTEGER PRIMARY KEY CHECK (one = 1),
		handles INTEGER NOT NULL CHECK (typeof(handles) = 'integer' AND handles >= 0),
		bytes   INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes >= 0)
	)`,
	`INSERT INTO foil_handle_total (one, handles, bytes) VALUES (1, 0, 0)`,
	`CREATE TRIGGER foil_handle_put AFTER INSERT ON foil_handle BEGIN
		UPDATE foil_handle_total SET handles = handles + 1, bytes = bytes + length(new.payload) WHERE one = 1;
	END`,
	`CREATE TRIGGER foil_handle_dropped AFTER DELETE ON foil_handle BEGIN
		UPDATE foil_handle_total SET handles = handles - 1, bytes = bytes - length(old.payload) WHERE one = 1;
	END`,

	// States are the numbers of ledger.State. An operation that has not ended
	// has neither finished nor kept_until nor an outcome.
	`CREATE TABLE foil_operation (
		id          BLOB    NOT NULL PRIMARY KEY CHECK (typeof(id) = 'blob' AND length(id) = 16),
		flow        BLOB    NOT NULL CHECK (typeof(flow) = 'blob' AND length(flow) = 16),
		round       INTEGER NOT NULL CHECK (typeof(round) = 'integer' AND round >= 1),
		answers     BLOB    NOT NULL CHECK (typeof(answers) = 'blob' AND length(answers) = 32),
		principal   BLOB    CHECK (principal IS NULL OR (typeof(principal) = 'blob' AND length(principal) = 24)),
		expires     INTEGER NOT NULL CHECK (typeof(expires) = 'integer'),
		state       INTEGER NOT NULL CHECK (typeof(state) = 'integer' AND state BETWEEN 1 AND 4),
		fence       INTEGER NOT NULL CHECK (typeof(fence) = 'integer' AND fence >= 1),
		started     INTEGER NOT NULL CHECK (typeof(started) = 'integer'),
		lease_until INTEGER NOT NULL CHECK (typeof(lease_until) = 'integer'),
		keep        INTEGER NOT NULL CHECK (typeof(keep) = 'integer'),
		retention   INTEGER NOT NULL CHECK (typeof(retention) = 'integer' AND retention >= 0),
		steps       INTEGER NOT NULL CHECK (typeof(steps) = 'integer' AND steps >= 0),
		finished    INTEGER CHECK (finished IS NULL OR typeof(finished) = 'integer'),
		kept_until  INTEGER CHECK (kept_until IS NULL OR typeof(kept_until) = 'integer'),
		method      BLOB    NOT NULL CHECK (typeof(method) = 'blob'),
		target      BLOB    NOT NULL CHECK (typeof(target) = 'blob'),
		resolved_by BLOB    CHECK (resolved_by IS NULL OR typeof(resolved_by) = 'blob'),
		note        BLOB    CHECK (note IS NULL OR typeof(note) = 'blob'),
		sealed      TEXT    CHECK (sealed IS NULL OR typeof(sealed) = 'text'),
		outcome     BLOB    CHECK (outcome IS NULL OR typeof(outcome) = 'blob'),
		CHECK ((state IN (2, 3)) = (finished IS NOT NULL) AND (finished IS NULL) = (kept_until IS NULL)),
		CHECK (outcome IS NULL OR finished IS NOT NULL),
		CHECK (sealed IS NULL OR outcome IS NOT NULL)
	)`,
	`CREATE INDEX foil_operation_started ON foil_operation (started, id)`,
	`CREATE INDEX foil_operation_open ON foil_operation (started, id) WHERE kept_until IS NULL`,
	`CREATE INDEX foil_operation_kept ON foil_operation (kept_until, state) WHERE kept_until IS NOT NULL`,

	// seq gives the order in which steps began.
	`CREATE TABLE foil_step (
		seq       INTEGER PRIMARY KEY,
		operation BLOB    NOT NULL CHECK (typeof(operation) = 'blob' AND length(operation) = 16),
		name      BLOB    NOT NULL CHECK (typeof(name) = 'blob' AND length(name) BETWEEN 1 AND 256),
		fence     INTEGER NOT NULL CHECK (typeof(fence) = 'integer' AND fence >= 1),
		began     INTEGER NOT NULL CHECK (typeof(began) = 'integer'),
		ended     INTEGER CHECK (ended IS NULL OR typeof(ended) = 'integer'),
		sealed    TEXT    CHECK (sealed IS NULL OR typeof(sealed) = 'text'),
		result    BLOB    CHECK (result IS NULL OR typeof(result) = 'blob'),
		UNIQUE (operation, name),
		CHECK (result IS NULL OR ended IS NOT NULL),
		CHECK (sealed IS NULL OR result IS NOT NULL)
	)`,
}
