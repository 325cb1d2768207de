package sqlite

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/foilmcp/foil/replay"
)

// InTx spends IDs in a transaction of the caller's, on a connection of the
// caller's to the file of an open [Store]: the mark and the caller's own rows in
// that file become true together, when the caller commits, or not at all.
//
// The connection must be of the driver of this package, modernc.org/sqlite, and
// in the process that has the Store open; it must be closed before the Store is.
// UseAs checks what the mark stands on and is an error if the connection does not
// sync its commits (PRAGMA synchronous below FULL; on macOS also without PRAGMA
// fullfsync), has another database attached (in WAL mode a transaction over
// several files is not atomic), hides foil's tables behind temporary ones, or is
// to another file. After an error, roll back.
//
// While the transaction is open nothing else can write to the file, so it must be
// short, and must not call the Store, which would wait for it until its timeout.
// Give the connection a busy timeout and let it begin with BEGIN IMMEDIATE: with
// this driver, _pragma=busy_timeout(5000) and _txlock=immediate in the DSN.
// Without, a transaction that has read before it writes may be refused as busy.
func InTx(tx *sql.Tx) replay.Tx { return inTx{tx} }

type inTx struct{ tx *sql.Tx }

// UseAs implements [replay.Tx].
func (t inTx) UseAs(ctx context.Context, id []byte, expires time.Time, attempt []byte) (first bool, err error) {
	if err := checkAttempt(id, expires, attempt); err != nil {
		return false, err
	}
	if t.tx == nil {
		return false, errors.New("sqlite: InTx: the transaction is nil")
	}
	if err = t.check(ctx); err == nil {
		first, err = t.use(ctx, id, ceilMillis(expires), attempt)
	}
	switch {
	case err == nil:
		return first, nil
	case errors.Is(err, replay.ErrSwept), errors.Is(err, replay.ErrRestored):
		return false, err
	case isBusy(err):
		return false, fmt.Errorf("sqlite: InTx: the database is busy: another connection is writing, or has written since this transaction first read; roll back and try again, and see InTx on how to begin: %w", err)
	}
	return false, full(fmt.Errorf("sqlite: InTx: %w", plain(err)), replay.ErrFull)
}

func (t inTx) use(ctx context.Context, id []byte, expires int64, attempt []byte) (first bool, err error) {
	var m marks
	if err := t.tx.QueryRowContext(ctx, selectMarks).Scan(&m.spent, &m.operations, &m.restored); err != nil {
		return false, fmt.Errorf("reading the marks: %w", err)
	}
	if err := m.refuse(id, expires); err != nil {
		return false, err
	}
	// From here on the transaction has the write lock, and what it has read
	// still holds: else SQLite says that it is busy.
	n, err := changed(t.tx.ExecContext(ctx, insertAttempt, id, expires, attempt))
	if err != nil || n == 1 {
		return err == nil, err
	}
	var by []byte
	if err := t.tx.QueryRowContext(ctx, selectAttempt, id).Scan(&by); err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(by, attempt) == 1, nil
}

// check reports whether a mark in this transaction would be as good as one of
// the store's own. Within a transaction none of it can change.
func (t inTx) check(ctx context.Context) error {
	main, err := t.mainFile(ctx)
	if err != nil {
		return err
	}
	if err := checkOpen(main); err != nil {
		return err
	}
	var app, ours, level, full, hidden int
	var mode string
	for _, r := range []struct {
		query string
		to    any
	}{
		{"PRAGMA main.application_id", &app},
		{"SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name IN ('foil_schema', 'spent', 'sweep_mark')", &ours},
		{"PRAGMA main.synchronous", &level},
		{"PRAGMA main.journal_mode", &mode},
		{"PRAGMA fullfsync", &full},
		{"SELECT (SELECT count(*) FROM temp.sqlite_schema WHERE lower(tbl_name) IN " + reserved + ") + " +
			"(SELECT count(*) FROM main.sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) IN ('spent', 'sweep_mark'))", &hidden},
	} {
		if err := t.tx.QueryRowContext(ctx, r.query).Scan(r.to); err != nil {
			return fmt.Errorf("looking at the connection: %w", err)
		}
	}
	switch {
	case app != applicationID || ours != 3:
		return errors.New("the main database of the connection is not foil's")
	case level < 2:
		return fmt.Errorf("synchronous is %d on this connection, want 2 (FULL) or more: a spent token would not survive a loss of power", level)
	case !strings.EqualFold(mode, "wal"):
		return fmt.Errorf("journal_mode is %s on this connection, want wal", mode)
	case runtime.GOOS == "darwin" && full == 0:
		return errors.New("fullfsync is off on this connection: without it a spent token would not survive a loss of power on macOS")
	case hidden != 0:
		return errors.New("the connection has temporary tables or triggers of the names of foil's, or there are triggers on those: the mark could go elsewhere")
	}
	var version int
	if err := t.tx.QueryRowContext(ctx, "SELECT version FROM main.foil_schema WHERE one = 1").Scan(&version); err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	return checkVersion(version)
}

// reserved are the tables that a temporary one must not hide.
const reserved = "('spent', 'sweep_mark', 'foil_schema')"

// mainFile returns the file of the connection's main database, its only one.
func (t inTx) mainFile(ctx context.Context) (main string, err error) {
	rows, err := t.tx.QueryContext(ctx, "PRAGMA database_list")
	if err != nil {
		return "", fmt.Errorf("looking at the connection: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var seq int
		var name string
		var file sql.NullString
		if err := rows.Scan(&seq, &name, &file); err != nil {
			return "", err
		}
		switch name {
		case "main":
			main = file.String
		case "temp":
		default:
			return "", errors.New("the connection has another database attached: in WAL mode a transaction over several files is not atomic, so detach it")
		}
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	if main == "" {
		return "", errors.New("the main database of the connection is in memory")
	}
	return main, nil
}

// openStores are the stores of this process: only a connection to the file of
// one of them is known to share its log with all other processes.
var openStores = struct {
	sync.Mutex
	m map[*Store]struct{}
}{m: make(map[*Store]struct{})}

func addOpen(s *Store) {
	openStores.Lock()
	defer openStores.Unlock()
	openStores.m[s] = struct{}{}
}

func removeOpen(s *Store) {
	openStores.Lock()
	defer openStores.Unlock()
	delete(openStores.m, s)
}

// checkOpen reports whether a store of this process has the file open, by the
// same companions.
func checkOpen(main string) error {
	info, err := os.Stat(main)
	if err != nil {
		return fmt.Errorf("database file of the connection is gone: %w", err)
	}
	openStores.Lock()
	defer openStores.Unlock() // keeps the store from closing meanwhile
	for s := range openStores.m {
		if os.SameFile(info, s.file) {
			return s.shares(main)
		}
	}
	return errors.New("no store of this process has the file of the connection open: open it with Open, and keep it open")
}
