package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// elsewhereWait is how long Open tries again when another store holds other
// companions: one that is just closing still does for a moment.
const elsewhereWait = time.Second

// errElsewhere says that another store writes spent tokens to another place,
// and neither would see the other.
var errElsewhere = errors.New("the database is open with other -wal and -shm companions than those next to this path: it was opened by two paths (a bind mount of the single file has this effect; mount its directory), or the companions were removed while it was open; " + advice)

const advice = "a token could be accepted twice, so none is: stop every process that uses the database, let each end by itself, then start them again with one path, and leave the -wal and -shm companions alone"

// companions are the files next to the database through which connections see
// each other: the log, where commits go first, and its index, which is also
// where SQLite's locks are. SQLite finds them by name and not by the database,
// so two processes share a database only if they have the same companions.
type companions struct {
	main     string // path of the database as SQLite has resolved it
	wal, shm os.FileInfo
}

// findCompanions returns the companions that SQLite has open on sc, which must
// have read the database before.
func findCompanions(ctx context.Context, sc *sql.Conn) (c companions, err error) {
	var seq, name string
	if err := sc.QueryRowContext(ctx, "PRAGMA database_list").Scan(&seq, &name, &c.main); err != nil {
		return c, plain(err)
	}
	if c.wal, err = os.Stat(c.main + "-wal"); err == nil {
		c.shm, err = os.Stat(c.main + "-shm")
	}
	if err != nil {
		return c, fmt.Errorf("the database lacks a companion (%w): it was removed, or the database is open under another path; %s", err, advice)
	}
	return c, nil
}

// check reports whether the names still are those of the files that are open.
func (c *companions) check() error {
	for _, f := range []struct {
		suffix string
		open   os.FileInfo
	}{{"-wal", c.wal}, {"-shm", c.shm}} {
		now, err := os.Stat(c.main + f.suffix)
		if err != nil {
			return fmt.Errorf("the database's %s companion is gone while it is open (%w); %s", f.suffix, err, advice)
		}
		if !os.SameFile(now, f.open) {
			return fmt.Errorf("the database's %s companion was removed or replaced while it was open; %s", f.suffix, advice)
		}
	}
	return nil
}

// checkFile reports whether the path still names the file that was opened. A
// process that writes into a deleted file would not see what others spend.
func (s *Store) checkFile(path string) error {
	now, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("database file is gone: %w", err)
	}
	if !os.SameFile(now, s.file) {
		return errors.New("database file was replaced while it was open")
	}
	return checkLinks(now)
}

// checkLinks refuses a file with several names.
func checkLinks(info os.FileInfo) error {
	if n := links(info); n > 1 {
		return fmt.Errorf("database file has %d hard links, want 1, as each name has companions of its own; %s and one name", n, advice)
	}
	return nil
}

// checkFiles is asked in each transaction, before it commits.
func (s *Store) checkFiles() error {
	if err := s.checkFile(s.path); err != nil {
		return err
	}
	if s.companions.main != s.path { // there are symbolic links
		if err := s.checkFile(s.companions.main); err != nil {
			return err
		}
	}
	return s.companions.check()
}

// hold finds the companions of the connection and lets no other store in that
// has others. Nothing of ours may be written before.
func (s *Store) hold(ctx context.Context, sc *sql.Conn) error {
	var n int
	if err := sc.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil {
		return plain(err)
	}
	c, err := findCompanions(ctx, sc)
	if err != nil {
		return err
	}
	if err := s.checkFile(c.main); err != nil {
		return err
	}
	if err := s.lock.take(s.file, c); err != nil {
		return err
	}
	s.filesMu.Lock()
	s.companions = c
	s.filesMu.Unlock()
	return nil
}

// shares reports whether who opens the database by the name main, which SQLite
// has resolved, has the same companions as the store.
func (s *Store) shares(main string) error {
	if err := s.checkFile(main); err != nil {
		return err
	}
	s.filesMu.Lock()
	c := s.companions
	s.filesMu.Unlock()
	c.main = main
	return c.check()
}

// sharesItself is shares for the name that the store itself was opened by.
func (s *Store) sharesItself() error {
	if err := s.checkFile(s.path); err != nil {
		return err
	}
	s.filesMu.Lock()
	main := s.companions.main
	s.filesMu.Unlock()
	return s.shares(main)
}

// explain returns errElsewhere instead of err, which reading the database came
// to, if that is why: a log that is not the one of the index is too short.
func (s *Store) explain(ctx context.Context, sc *sql.Conn, err error) error {
	if code(err) != sqlite3.SQLITE_IOERR {
		return err
	}
	if c, none := findCompanions(ctx, sc); none == nil && errors.Is(s.lock.take(s.file, c), errElsewhere) {
		return errElsewhere
	}
	return err
}

// salvage moves the commits that are in a log without its name to the database,
// where they outlive this process. Closing would do so too, but only if no
// other process has the file open just then. It must not be done if somebody
// might write to the database through another log.
func (s *Store) salvage() {
	if !companionsAreCertain || s.conn == nil || s.companions.check() == nil {
		return
	}
	_, _ = s.conn.sql.ExecContext(context.Background(), "PRAGMA wal_checkpoint(FULL)")
}
