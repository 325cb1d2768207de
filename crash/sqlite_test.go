//go:build unix

package crash_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/store/sqlite"
)

// What a Guard does when its SQLite file fails: a clear error, and nothing executed.

// modes are the modes in which a Guard asks the file before the handler.
var modes = []foil.Once{foil.Redeem, foil.Settle}

// onFile is a carrier over a file, with a log that can be read.
type onFile struct {
	carrier
	calls []string
	log   strings.Builder
	store *sqlite.Store
}

func openFile(ctx context.Context, path string, codec foil.Codec, once foil.Once, opts *sqlite.Options, now func() time.Time) (*onFile, error) {
	o := sqlite.Options{PlainAtRest: true, Timeout: time.Minute}
	if opts != nil {
		o = *opts
	}
	store, err := sqlite.Open(ctx, path, &o)
	if err != nil {
		return nil, err
	}
	f := &onFile{store: store}
	f.carrier.calls = &f.calls
	f.guard, err = foil.New(codec, &foil.Options{
		Audience: "crash", Once: once, Replay: store.Replay(), Ledger: store.Ledger(), StoreTimeout: time.Minute,
		Logger: slog.New(slog.NewTextHandler(&f.log, nil)), Now: now,
	})
	return f, err
}

// closed checks that the token is not accepted, that nothing was executed, and that
// the client and the log are told what they should be.
func (f *onFile) closed(ctx context.Context, token string, why ...string) error {
	before := len(f.calls)
	_, err := f.carry(ctx, token)
	switch {
	case !errors.Is(err, foil.ErrUnavailable) || errors.Is(err, foil.ErrInvalid):
		return fmt.Errorf("the token gave %v, want unavailable", err)
	case len(f.calls) != before:
		return fmt.Errorf("executed: %v", f.calls)
	}
	if w := foil.Wire(err); w.Code != -32603 || strings.Contains(w.Message+string(w.Data), "sqlite") {
		return fmt.Errorf("the client is told %+v", w)
	}
	for _, text := range why {
		if strings.Contains(f.log.String(), text) {
			return nil
		}
	}
	return fmt.Errorf("the log names none of %q:\n%s", why, &f.log)
}

// recovers checks that the same token is good once the file is, for one execution.
func (f *onFile) recovers(ctx context.Context, token string) error {
	var first string
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if first, err = f.carry(ctx, token); !errors.Is(err, foil.ErrUnavailable) {
			break // the Guard asks a store that is down once a second
		}
	}
	if err != nil || first != "done" || len(f.calls) != 2 {
		return fmt.Errorf("the file is good again: %q, %v, calls %v", first, err, f.calls)
	}
	_, _ = f.carry(ctx, token)
	if len(f.calls) != 2 {
		return fmt.Errorf("executed twice: %v", f.calls)
	}
	return nil
}

func TestFileIsLocked(t *testing.T) {
	for _, once := range modes {
		t.Run(once.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "foil.db")
			f, err := openFile(t.Context(), path, aesgcm.Ephemeral(), once, &sqlite.Options{PlainAtRest: true, Timeout: 300 * time.Millisecond}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.store.Close() }()
			token, err := ask(t.Context(), f.guard)
			if err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
			if err := f.closed(t.Context(), token, "locked"); err != nil {
				t.Error(err)
			}
			if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			if err := f.recovers(t.Context(), token); err != nil {
				t.Error(err)
			}
		})
	}
}

// A file of a newer program is refused at Open, before there is a Guard; one that
// becomes so under a running Guard stops it.
func TestFileOfAnotherSchema(t *testing.T) {
	for _, once := range modes {
		t.Run(once.String(), func(t *testing.T) {
			path, codec := filepath.Join(t.TempDir(), "foil.db"), aesgcm.Ephemeral()
			f, err := openFile(t.Context(), path, codec, once, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			token, err := ask(t.Context(), f.guard)
			if err != nil {
				t.Fatal(err)
			}
			execute := func(text string) {
				t.Helper()
				db, err := sql.Open("sqlite", path)
				if err == nil {
					_, err = db.ExecContext(t.Context(), text)
				}
				if err = errors.Join(err, db.Close()); err != nil {
					t.Fatal(err)
				}
			}
			table := map[foil.Once]string{foil.Redeem: "spent", foil.Settle: "foil_operation"}[once]
			execute("ALTER TABLE " + table + " RENAME TO elsewhere")
			if err := f.closed(t.Context(), token, "no such table"); err != nil {
				t.Error(err)
			}
			execute("ALTER TABLE elsewhere RENAME TO " + table)
			if err := f.recovers(t.Context(), token); err != nil {
				t.Error(err)
			}
			if err := f.store.Close(); err != nil {
				t.Fatal(err)
			}
			execute("UPDATE foil_schema SET version = version + 1")
			if f, err := openFile(t.Context(), path, codec, once, nil, nil); f != nil || err == nil || !strings.Contains(err.Error(), "newer than this program knows") {
				t.Errorf("a newer schema is opened: %v", err)
			}
		})
	}
}

// A clock that is set back by an hour revives no token that was executed, whether or
// not the file has forgotten it since.
func TestClockSetBack(t *testing.T) {
	for _, once := range modes {
		for _, swept := range []bool{false, true} {
			t.Run(fmt.Sprint(once, " swept ", swept), func(t *testing.T) {
				start := time.Now()
				now := start
				clock := func() time.Time { return now }
				f, err := openFile(t.Context(), filepath.Join(t.TempDir(), "foil.db"), aesgcm.Ephemeral(), once,
					&sqlite.Options{PlainAtRest: true, Timeout: time.Minute, Now: clock}, clock)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = f.store.Close() }()
				token, err := ask(t.Context(), f.guard)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.carry(t.Context(), token); err != nil || len(f.calls) != 2 {
					t.Fatalf("%v, calls %v", err, f.calls)
				}
				if swept {
					now = start.Add(100 * 24 * time.Hour)
					if n, err := f.store.Sweep(t.Context()); err != nil || n.Spent+n.Operations == 0 {
						t.Fatalf("nothing was swept: %+v, %v", n, err)
					}
				}
				for _, back := range []time.Duration{0, time.Hour} {
					now = start.Add(time.Minute - back)
					got, err := f.carry(t.Context(), token)
					if len(f.calls) != 2 {
						t.Fatalf("set back by %v it is executed again: %v", back, f.calls)
					}
					if err == nil && (once != foil.Settle || got != "done" || swept) {
						t.Errorf("set back by %v: %q, no error", back, got)
					}
				}
			})
		}
	}
}

// fullChild lets files grow no further, so that nothing can be committed, and says
// what becomes of tokens then and afterwards.
func fullChild() error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for _, once := range modes {
		f, err := openFile(ctx, os.Getenv("FOIL_CRASH_FILE"), aesgcm.Ephemeral(), once, nil, nil)
		if err != nil {
			return err
		}
		token, err := ask(ctx, f.guard)
		if err != nil {
			return err
		}
		full := limit
		full.Cur = 4096
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
			return err
		}
		if err := f.closed(ctx, token, "disk I/O error", "full"); err != nil {
			return fmt.Errorf("%v: %w", once, err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		if err := f.recovers(ctx, token); err != nil {
			return fmt.Errorf("%v: %w", once, err)
		}
		if err := f.store.Close(); err != nil {
			return err
		}
	}
	return nil
}

func TestDiskFull(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=full", "FOIL_CRASH_FILE="+filepath.Join(t.TempDir(), "foil.db"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// readOnlyChild is a user who may read the file and not write it.
func readOnlyChild() error {
	ctx := context.Background()
	for _, once := range modes {
		f, err := openFile(ctx, os.Getenv("FOIL_CRASH_FILE"), aesgcm.Ephemeral(), once, nil, nil)
		if err != nil {
			if !strings.Contains(err.Error(), "read-only") && !strings.Contains(err.Error(), "permission") {
				return fmt.Errorf("the error does not say what is wrong: %w", err)
			}
			continue // there is no Guard
		}
		token, err := ask(ctx, f.guard)
		if err != nil {
			return err
		}
		if err := f.closed(ctx, token, "read-only", "readonly", "permission"); err != nil {
			return fmt.Errorf("%v: %w", once, err)
		}
	}
	return nil
}

func TestFileIsReadOnly(t *testing.T) {
	for _, mode := range []struct {
		name      string
		file, dir os.FileMode
	}{{"file", 0o444, 0o777}, {"directory", 0o666, 0o555}} {
		t.Run(mode.name, func(t *testing.T) {
			// Not t.TempDir: a user without rights must get there.
			dir, err := os.MkdirTemp("", "foil-crash-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = os.Chmod(dir, 0o700)
				_ = os.RemoveAll(dir)
			})
			path, self := filepath.Join(dir, "foil.db"), filepath.Join(dir, "child")
			f, err := openFile(t.Context(), path, aesgcm.Ephemeral(), foil.Redeem, nil, nil)
			if err == nil {
				err = f.store.Close()
			}
			if err := errors.Join(err, copyFile(self, os.Args[0]), os.Chmod(path, mode.file), os.Chmod(dir, mode.dir)); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), roleEnv+"=readonly", "FOIL_CRASH_FILE="+path)
			if os.Getuid() == 0 { // who may write everywhere
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
