//go:build linux || darwin

package sqlite_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/sqlite"
)

func init() {
	children["full"] = fullChild
	children["full ledger"] = fullLedgerChild
	children["readonly"] = readOnlyChild
}

// fullChild lets files grow no further, so that the write of a commit fails,
// and says what becomes of spent and fresh IDs then and afterwards.
func fullChild(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := sqlite.Open(context.Background(), path, &sqlite.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	expires := time.Now().Add(time.Hour)
	use := func(id []byte) (bool, error) { return s.Replay().Use(context.Background(), id, expires) }
	var spent [][]byte
	spend := func() error {
		id := newID()
		first, err := use(id)
		if err == nil && !first {
			err = errors.New("a fresh id was not first")
		}
		if err == nil {
			spent = append(spent, id)
		}
		return err
	}
	for range 20 {
		if err := spend(); err != nil {
			return err
		}
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	old := limit.Cur
	limit.Cur = uint64(info.Size()) + 20_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	failed := 0
	for range 50 {
		if err := spend(); err != nil {
			if failed == 0 {
				fmt.Println("error:", err)
			}
			failed++
		}
	}
	if failed == 0 {
		return errors.New("no call failed although the file could not grow")
	}
	// Connecting again has emptied the log, so that some calls had room. Now
	// none has.
	limit.Cur = 4096
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	refused := newID()
	if first, err := use(refused); first || err == nil {
		return fmt.Errorf("Use on a full disk = %v, %v", first, err)
	}
	if err := s.Ping(context.Background()); err == nil {
		return errors.New("Ping on a full disk = nil")
	}
	limit.Cur = old
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for _, id := range spent {
		if first, err := use(id); first || err != nil {
			return fmt.Errorf("spent id after the disk was full: Use = %v, %v", first, err)
		}
	}
	firsts := 0
	for range 3 {
		first, err := use(refused)
		if err != nil {
			return fmt.Errorf("Use after the disk was full: %w", err)
		}
		if first {
			firsts++
		}
	}
	if firsts > 1 {
		return fmt.Errorf("an id was first %d times", firsts)
	}
	fmt.Println("spent:", len(spent))
	return s.Close()
}

// fullLedgerChild lets files grow no further and says what becomes of operations
// then and afterwards.
func fullLedgerChild(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, &sqlite.Options{Timeout: time.Minute, PlainAtRest: true})
	if err != nil {
		return err
	}
	settle := func() (begun, done *ledger.Start, err error) {
		st := newStart(time.Now())
		_, started, err := s.Ledger().Begin(ctx, st)
		if err != nil || !started {
			return nil, nil, cmp.Or(err, errors.New("a fresh operation did not start"))
		}
		err = s.Ledger().Finish(ctx, st.ID, 1, ledger.Finish{State: ledger.Succeeded, Outcome: []byte("outcome")})
		if err != nil {
			return st, nil, err
		}
		return st, st, nil
	}
	var begun, done []*ledger.Start
	failed := 0
	try := func(n int) {
		for range n {
			b, d, err := settle()
			if b != nil {
				begun = append(begun, b)
			}
			if d != nil {
				done = append(done, d)
			}
			if err != nil {
				if failed == 0 {
					fmt.Println("error:", err)
				}
				failed++
			}
		}
	}
	try(20)
	if failed > 0 {
		return errors.New("there was room")
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	old := limit.Cur
	for _, size := range []uint64{uint64(info.Size()) + 20_000, 4096} {
		limit.Cur = size
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		try(30)
	}
	if failed == 0 {
		return errors.New("no call failed although the file could not grow")
	}
	if err := s.Ledger().Ping(ctx); err == nil {
		return errors.New("Ping on a full disk = nil")
	}
	limit.Cur = old
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for _, st := range begun {
		if _, started, err := s.Ledger().Begin(ctx, st); started || err != nil {
			return fmt.Errorf("what was begun before the disk was full: started %v, %w", started, err)
		}
	}
	for _, st := range done {
		if op, err := s.Ledger().Get(ctx, st.ID); err != nil || op.State != ledger.Succeeded || string(op.Outcome) != "outcome" {
			return fmt.Errorf("what was done before the disk was full is not: %w", err)
		}
	}
	if _, _, err := settle(); err != nil {
		return fmt.Errorf("after the disk was full: %w", err)
	}
	fmt.Println("spent:", len(done))
	return s.Close()
}

func TestDiskFull(t *testing.T)             { testDiskFull(t, "full") }
func TestDiskFullOfOperations(t *testing.T) { testDiskFull(t, "full ledger") }

func testDiskFull(t *testing.T, role string) {
	path := filepath.Join(t.TempDir(), "foil.db")
	cmd, _, out := child(t, role, path)
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("child: %v\n%s", err, text)
	}
	if !strings.Contains(string(text), "spent: ") {
		t.Fatalf("child said:\n%s", text)
	}
	t.Logf("%s", text)
}

// A disk that SQLite itself calls full is replay.ErrFull.
func TestFullIsErrFull(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), nil)
	fill(t, s)
	for range 2000 {
		first, err := s.Replay().Use(t.Context(), newID(), time.Now().Add(time.Minute))
		if err == nil {
			continue
		}
		if first || !errors.Is(err, replay.ErrFull) || !strings.Contains(err.Error(), "disk is full") {
			t.Fatalf("Use = %v, %v; want ErrFull", first, err)
		}
		return
	}
	t.Fatal("store was never full")
}

func TestFullOfHandles(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), nil)
	fill(t, s)
	for i := range 2000 {
		err := s.Handles().Put(t.Context(), [32]byte{byte(i), byte(i >> 8)}, make([]byte, 100), time.Now().Add(time.Hour))
		if err == nil {
			continue
		}
		if !errors.Is(err, sqlite.ErrFull) || !strings.Contains(err.Error(), "disk is full") {
			t.Fatalf("Put: %v; want ErrFull", err)
		}
		return
	}
	t.Fatal("store was never full")
}

// readOnlyChild prints what Open and Use say.
func readOnlyChild(path string) error {
	s, err := sqlite.Open(context.Background(), path, &sqlite.Options{Timeout: time.Minute, PlainAtRest: true})
	if err != nil {
		fmt.Println("Open:", err)
		return nil
	}
	first, err := s.Replay().Use(context.Background(), newID(), time.Now().Add(time.Hour))
	fmt.Println("Use:", first, err)
	if _, started, err := s.Ledger().Begin(context.Background(), newStart(time.Now())); started || err == nil {
		fmt.Println("Begin:", started, err)
		return errors.New("an operation started in a file that cannot be written")
	}
	return nil
}

func TestReadOnly(t *testing.T) {
	for _, tc := range []struct {
		name              string
		fileMode, dirMode os.FileMode
	}{
		{"file", 0o444, 0o777},
		{"directory", 0o666, 0o555},
		{"unreadable", 0o000, 0o777},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// Not t.TempDir: an unprivileged child must be able to reach it.
			dir, err := os.MkdirTemp("", "foil")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = os.Chmod(dir, 0o700)
				_ = os.RemoveAll(dir)
			})
			path := filepath.Join(dir, "foil.db")
			s := open(t, path, nil)
			mustUse(t, s, newID(), true)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tc.fileMode); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(copyOfSelf(t, dir), "-test.run=^$")
			cmd.Env = append(os.Environ(), childEnv+"=readonly", "FOIL_SQLITE_TEST_PATH="+path)
			if os.Getuid() == 0 { // who may write everywhere
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			}
			if err := os.Chmod(dir, tc.dirMode); err != nil {
				t.Fatal(err)
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("child: %v\n%s", err, out)
			}
			text := string(out)
			t.Logf("%s", text)
			if !strings.HasPrefix(text, "Open: ") && !strings.HasPrefix(text, "Use: false sqlite: ") {
				t.Error("store took an id that it could not write")
			}
			if !strings.Contains(text, "read-only") && !strings.Contains(text, "permission denied") && !strings.Contains(text, "check the permissions") {
				t.Error("error does not say what is wrong")
			}
		})
	}
}

// copyOfSelf copies the test binary to where an unprivileged child can run it.
func copyOfSelf(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "child")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
