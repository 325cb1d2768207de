package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// lockWait is how long SQLite itself waits for a lock. It is short, so that
// calls whose time is up are dropped before the lock is there.
const lockWait = 50 * time.Millisecond

// creating keeps a second Open in this process out until the first has closed
// the file that it creates: by POSIX, closing a file drops every lock that the
// process holds on it, SQLite's too.
var creating sync.Mutex

// create makes an empty file, unless there is one. SQLite would create it with
// the mode that the umask leaves.
func create(path string) error {
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// open creates the file if there is none, connects and migrates.
func (s *Store) open(ctx context.Context) error {
	err := create(s.path)
	if err != nil {
		return err
	}
	s.db, err = sql.Open("sqlite", dsn(s.path, "rw"))
	if err != nil {
		return err
	}
	// A connection that is given back is closed, never reused.
	s.db.SetMaxIdleConns(0)
	s.db.SetMaxOpenConns(1)
	if s.file, err = os.Stat(s.path); err == nil {
		s.conn, err = s.connectRetry(ctx)
	}
	if err != nil {
		_ = s.db.Close()
		s.lock.release()
		return err
	}
	addOpen(s)
	return nil
}

// dsn is a URI, because a plain name could not contain a question mark. Mode rw,
// and ro for who only reads, keep SQLite from creating a file that has gone away.
func dsn(path, mode string) string {
	path = filepath.ToSlash(path)
	if runtime.GOOS == "windows" {
		path = "/" + path
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode":          {mode},
		"_busy_timeout": {strconv.FormatInt(lockWait.Milliseconds(), 10)},
	}.Encode()}
	return u.String()
}

// connectRetry connects while another process holds the lock, until the
// store's timeout. Switching to WAL does not wait for locks by itself.
func (s *Store) connectRetry(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Timeout, errLocked)
	defer cancel()
	began := time.Now()
	for {
		c, err := s.connect(ctx)
		if err == nil {
			return c, nil
		}
		elsewhere := errors.Is(err, errElsewhere)
		if elsewhere && (ctx.Err() != nil || time.Since(began) > elsewhereWait) {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !isBusy(err) && !elsewhere {
			return nil, err
		}
		pause := time.NewTimer(lockWait / 5)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

func (s *Store) connect(ctx context.Context) (_ *conn, err error) {
	if err := s.checkFile(s.path); err != nil {
		return nil, err
	}
	sc, err := s.db.Conn(ctx)
	if err != nil {
		return nil, plain(err)
	}
	c := &conn{sql: sc}
	defer func() {
		if err != nil {
			c.close()
			s.lock.drop()
		}
	}()
	// Nothing is written before it is known whose file this is.
	if _, err := sc.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, plain(err)
	}
	version, err := readVersion(ctx, sc)
	if err != nil {
		return nil, s.explain(ctx, sc, err)
	}
	if _, err := sc.ExecContext(ctx, "ROLLBACK"); err != nil {
		return nil, plain(err)
	}
	if err := checkPragmas(ctx, sc); err != nil {
		return nil, err
	}
	if err := s.hold(ctx, sc); err != nil {
		return nil, err
	}
	if version < schemaVersion {
		if err := migrate(ctx, sc); err != nil {
			return nil, err
		}
	}
	for _, pragma := range s.pragmas {
		if _, err := sc.ExecContext(ctx, pragma); err != nil {
			return nil, plain(err)
		}
	}
	return c, c.prepare(ctx)
}

// checkPragmas sets and then reads what single use stands on, on the very
// connection that will write. In WAL mode only FULL syncs at each commit.
func checkPragmas(ctx context.Context, sc *sql.Conn) error {
	var mode string
	if err := sc.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return fmt.Errorf("journal_mode: %w", plain(err))
	}
	if !strings.EqualFold(mode, "wal") {
		return fmt.Errorf("journal_mode is %s, want wal: is the file on a local, writable disk?", mode)
	}
	for _, pragma := range []string{
		"PRAGMA synchronous = FULL",
		"PRAGMA fullfsync = ON", // on macOS fsync alone does not reach the disk
		"PRAGMA checkpoint_fullfsync = ON",
	} {
		if _, err := sc.ExecContext(ctx, pragma); err != nil {
			return plain(err)
		}
	}
	return checkSynchronous(ctx, sc)
}

func checkSynchronous(ctx context.Context, sc *sql.Conn) error {
	var level int
	if err := sc.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return plain(err)
	}
	if level < 2 {
		return fmt.Errorf("synchronous is %d, want 2 (FULL) or more", level)
	}
	return nil
}

// close closes the connection for good; an open transaction is rolled back.
// SQLite would keep a connection, with its locks, that still has statements,
// and database/sql leaves closing those of a Conn to its user.
func (c *conn) close() {
	if c == nil {
		return
	}
	for _, stmt := range c.all {
		_ = stmt.Close()
	}
	_ = c.sql.Close()
}

// code returns SQLite's primary result code, or 0.
func code(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// isBusy reports whether another connection holds the lock.
func isBusy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_PROTOCOL
}

// plain says in plain words what SQLite's commonest codes mean for an operator.
func plain(err error) error {
	var hint string
	switch code(err) {
	case sqlite3.SQLITE_NOTADB:
		hint = "not a SQLite database"
	case sqlite3.SQLITE_CORRUPT:
		hint = "database file is corrupted"
	case sqlite3.SQLITE_READONLY:
		hint = "database file or its directory is read-only"
	case sqlite3.SQLITE_CANTOPEN:
		hint = "cannot open the database file for writing, or create its -wal and -shm companions: check the permissions of the file and its directory"
	case sqlite3.SQLITE_FULL:
		hint = "disk is full"
	case sqlite3.SQLITE_IOERR:
		hint = "disk error"
	default:
		return err
	}
	return fmt.Errorf("%s: %w", hint, err)
}
