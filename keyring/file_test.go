package keyring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/keyring/keyringtest"
)

// The test binary is also the process that rotates, or that is killed, in the
// tests of many processes.
func TestMain(m *testing.M) {
	path := os.Getenv("KEYRING_TEST_FILE")
	switch os.Getenv("KEYRING_TEST_DO") {
	case "":
		os.Exit(m.Run())
	case "every":
		os.Exit(everyOnce(path))
	case "endless":
		for {
			_, err := keyring.OpenFile(path).Update(context.Background(), func(r *keyring.Ring) (*keyring.Ring, error) {
				c, err := r.Rotate(start, 0)
				return c.Ring, err
			})
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
	}
}

func child(t *testing.T, do, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "KEYRING_TEST_DO="+do, "KEYRING_TEST_FILE="+path)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd
}

// everyOnce rotates a day-old ring as each replica's timer does.
func everyOnce(path string) int {
	_, err := keyring.OpenFile(path).Update(context.Background(), func(r *keyring.Ring) (*keyring.Ring, error) {
		c, err := r.Rotate(start.Add(25*time.Hour), 24*time.Hour)
		if err != nil {
			return nil, err
		}
		return c.Ring, nil
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func needUnix(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		t.Skip("ring files are written on Unix only: run the tests on a Unix")
	}
}

func newFile(t *testing.T) (*keyring.File, string) {
	t.Helper()
	needUnix(t)
	path := filepath.Join(t.TempDir(), "ring.json")
	f := keyring.OpenFile(path)
	if err := f.Create(t.Context(), newRing(t, nil)); err != nil {
		t.Fatal(err)
	}
	return f, path
}

func rotateFile(ctx context.Context, f keyring.Store) (*keyring.Ring, error) {
	return f.Update(ctx, func(r *keyring.Ring) (*keyring.Ring, error) {
		c, err := r.Rotate(start, 0)
		if err != nil {
			return nil, err
		}
		return c.Ring, nil
	})
}

func TestFile(t *testing.T) {
	f, path := newFile(t)
	ctx := t.Context()
	r, err := f.Load(ctx)
	if err != nil || r.Serial() != 1 {
		t.Fatal(r, err)
	}
	info, _ := os.Stat(path)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := f.Create(ctx, newRing(t, nil)); !errors.Is(err, keyring.ErrExists) {
		t.Error("Create over a ring:", err)
	}
	if again, _ := f.Load(ctx); !bytes.Equal(again.Marshal(), r.Marshal()) {
		t.Error("Create overwrote the ring")
	}
	if updated, err := rotateFile(ctx, f); err != nil || updated.Serial() != 2 {
		t.Error(updated, err)
	}
	if again, _ := f.Load(ctx); again.Serial() != 2 {
		t.Error("the update is not stored")
	}
	// Nothing to write, and nothing left behind.
	before, _ := os.Stat(path)
	same, err := f.Update(ctx, func(r *keyring.Ring) (*keyring.Ring, error) { return r, nil })
	after, _ := os.Stat(path)
	if err != nil || same.Serial() != 2 || !os.SameFile(before, after) {
		t.Error("an update without a change writes", err)
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	if len(entries) != 2 {
		t.Errorf("files: %v", entries)
	}
	if f.String() != "file:"+path {
		t.Error(f.String())
	}
}

func TestFileUpdateRefuses(t *testing.T) {
	f, path := newFile(t)
	ctx := t.Context()
	old, _ := f.Load(ctx)
	before, _ := os.ReadFile(path)
	boom := errors.New("boom")
	skipped := rotate(t, rotate(t, old, start).Ring, start).Ring
	other, _ := newRing(t, &keyring.RingOptions{Interop: true}).Stage(start)
	for name, fn := range map[string]func(*keyring.Ring) (*keyring.Ring, error){
		"an error":         func(*keyring.Ring) (*keyring.Ring, error) { return nil, boom },
		"no ring":          func(*keyring.Ring) (*keyring.Ring, error) { return nil, nil },
		"a skipped serial": func(*keyring.Ring) (*keyring.Ring, error) { return skipped, nil },
		"the same serial":  func(*keyring.Ring) (*keyring.Ring, error) { return newRing(t, nil), nil },
		"another kind":     func(*keyring.Ring) (*keyring.Ring, error) { return other.Ring, nil },
	} {
		_, err := f.Update(ctx, fn)
		if err == nil || name == "an error" && !errors.Is(err, boom) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(after, before) {
		t.Error("a refused update wrote")
	}
}

func TestFileModeIsRefused(t *testing.T) {
	f, path := newFile(t)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644, 0o610, 0o660} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: %v", mode, err)
		}
		if _, err := rotateFile(t.Context(), f); err == nil {
			t.Errorf("mode %o: updated", mode)
		}
	}
	// Read-only stays read-only, whatever the process's umask is.
	os.Chmod(path, 0o400)
	if _, err := rotateFile(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o400 {
		t.Errorf("mode %v after an update", info.Mode())
	}
}

func TestFileIsNotAFile(t *testing.T) {
	needUnix(t)
	dir := t.TempDir()
	if _, err := keyring.OpenFile(dir).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	if _, err := keyring.OpenFile(filepath.Join(dir, "none")).Load(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := rotateFile(t.Context(), keyring.OpenFile(filepath.Join(dir, "none"))); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	bad := filepath.Join(dir, "bad")
	os.WriteFile(bad, []byte("secret words"), 0o600)
	if _, err := keyring.OpenFile(bad).Load(t.Context()); err == nil || strings.Contains(err.Error(), "secret words") {
		t.Error(err)
	}
	huge := filepath.Join(dir, "huge")
	os.WriteFile(huge, nil, 0o600)
	os.Truncate(huge, 1<<40)
	if _, err := keyring.OpenFile(huge).Load(t.Context()); err == nil {
		t.Error("a terabyte is read")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := keyring.OpenFile(bad).Load(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestFileSymlinks(t *testing.T) {
	f, path := newFile(t)
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	linked := keyring.OpenFile(link)
	if _, err := rotateFile(t.Context(), linked); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Lstat(link); info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link became a file")
	}
	if r, err := f.Load(t.Context()); err != nil || r.Serial() != 2 {
		t.Error("the file behind the link was not written", err)
	}
	if err := linked.Create(t.Context(), newRing(t, nil)); !errors.Is(err, keyring.ErrExists) {
		t.Error("Create through a link:", err)
	}
	dangling := filepath.Join(dir, "dangling")
	os.Symlink(filepath.Join(dir, "nowhere"), dangling)
	if err := keyring.OpenFile(dangling).Create(t.Context(), newRing(t, nil)); !errors.Is(err, keyring.ErrExists) {
		t.Error("Create through a dangling link:", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("Create wrote where a link led")
	}
	// Nor is the lock taken through a link that somebody left there.
	os.Symlink(filepath.Join(dir, "victim"), filepath.Join(dir, "new.lock"))
	if err := keyring.OpenFile(filepath.Join(dir, "new")).Create(t.Context(), newRing(t, nil)); err == nil {
		t.Error("the lock followed a link")
	}
}

func TestFileOwnerStays(t *testing.T) {
	f, path := newFile(t)
	if os.Getuid() != 0 {
		t.Skip("only root can give a file away: run the tests as root in a container")
	}
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := rotateFile(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, path + ".lock"} {
		if uid, gid := owner(t, p); uid != 12345 || gid != 12345 {
			t.Errorf("%s belongs to %d:%d: the service cannot use it any more", p, uid, gid)
		}
	}
}

// A service that plants another file under the lock's name does not get it.
func TestLockWithASecondName(t *testing.T) {
	f, path := newFile(t)
	if os.Getuid() != 0 {
		t.Skip("only root can give a file away: run the tests as root in a container")
	}
	victim := filepath.Join(filepath.Dir(path), "victim")
	if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Chown(path, 12345, 12345), os.Remove(path+".lock"), os.Link(victim, path+".lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := rotateFile(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if uid, _ := owner(t, victim); uid != 0 {
		t.Errorf("the file was given to %d", uid)
	}
}

// Whoever waits for a lock that is then removed must not end up with one that
// keeps nobody out.
func TestLockRemovedWhileWaiting(t *testing.T) {
	_, path := newFile(t)
	var inside atomic.Int32
	write := func(entered chan<- struct{}, leave <-chan struct{}) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := keyring.OpenFile(path).Update(t.Context(), func(r *keyring.Ring) (*keyring.Ring, error) {
				inside.Add(1)
				defer inside.Add(-1)
				close(entered)
				<-leave
				return r, nil
			})
			done <- err
		}()
		return done
	}
	signal := func() chan struct{} { return make(chan struct{}) }
	in1, out1, in2, in3, out3 := signal(), signal(), signal(), signal(), signal()
	first := write(in1, out1)
	<-in1
	second := write(in2, out3)        // waits at the lock that is there
	time.Sleep(50 * time.Millisecond) // it has opened it by now, or sees the new one
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	third := write(in3, out3) // makes a new one
	<-in3
	close(out1) // the second gets the old lock now
	if err := <-first; err != nil {
		t.Error(err)
	}
	time.Sleep(100 * time.Millisecond) // ten times the pause between its tries
	if n := inside.Load(); n != 1 {
		t.Errorf("%d writers at once", n)
	}
	close(out3)
	for _, done := range []<-chan error{second, third} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestFileManyGoroutines(t *testing.T) {
	f, path := newFile(t)
	const n = 24
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := rotateFile(t.Context(), keyring.OpenFile(path)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r, err := f.Load(t.Context()); err != nil || r.Serial() != 1+n || len(r.Keys()) != 1+n {
		t.Errorf("%v, %v: an update was lost", r, err)
	}
}

// Twelve replicas whose timers fire at once: one rotates.
func TestFileManyProcesses(t *testing.T) {
	f, path := newFile(t)
	var children []*exec.Cmd
	for range 12 {
		cmd := child(t, "every", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if r, err := f.Load(t.Context()); err != nil || r.Serial() != 2 || len(r.Keys()) != 2 {
		t.Errorf("%v, %v: not exactly one rotation", r, err)
	}
}

// A writer that is killed at any moment leaves the old document or the new one,
// whole, a free lock, and in the end no temporary file.
func TestFileKilledWriter(t *testing.T) {
	f, path := newFile(t)
	serial := int64(1)
	for i := range 15 {
		cmd := child(t, "endless", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Wait until it writes, then a different time each round.
		for deadline := time.Now().Add(time.Minute); ; {
			r, err := f.Load(t.Context())
			if err != nil {
				t.Fatalf("while it writes: %v", err)
			}
			if r.Serial() > serial {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the writer does not write")
			}
		}
		for n := time.Now(); time.Since(n) < time.Duration(i)*731*time.Microsecond; {
			runtime.Gosched()
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		r, err := f.Load(t.Context())
		if err != nil || r.Serial() <= serial || int64(len(r.Keys())) != r.Serial() {
			t.Fatalf("round %d: %v, %v", i, r, err)
		}
		serial = r.Serial()
	}
	// What a killed writer left is gone after the next write.
	left := filepath.Join(filepath.Dir(path), ".ring.json.tmp-1")
	os.WriteFile(left, []byte("half a docu"), 0o600)
	if _, err := rotateFile(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestFileLockWaits(t *testing.T) {
	f, _ := newFile(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := f.Update(t.Context(), func(r *keyring.Ring) (*keyring.Ring, error) {
		if _, err := rotateFile(ctx, f); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second writer: %v", err)
		}
		return r, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFileConformance(t *testing.T) {
	needUnix(t)
	keyringtest.Run(t, func(t *testing.T) *keyringtest.Harness {
		dir := filepath.Join(t.TempDir(), "rings")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "ring.json")
		move := func(t *testing.T, from, to string) {
			t.Helper()
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		return &keyringtest.Harness{
			Store: keyring.OpenFile(path),
			Peer:  func(*testing.T) keyring.Store { return keyring.OpenFile(path) },
			Put: func(t *testing.T, doc []byte) {
				if err := os.WriteFile(path, doc, 0o600); err != nil {
					t.Fatal(err)
				}
			},
			Break: func(t *testing.T) func() {
				move(t, dir, dir+".away")
				return func() { move(t, dir+".away", dir) }
			},
			NoSecret: true,
		}
	})
}
