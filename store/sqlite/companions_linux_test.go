package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompanionsRemoved(t *testing.T) {
	t.Parallel() // it mostly waits for its processes
	for _, suffixes := range [][]string{{"-shm"}, {"-wal"}, {"-wal", "-shm"}} {
		for _, oldFirst := range []bool{true, false} {
			t.Run(fmt.Sprint(suffixes, " old first ", oldFirst), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "foil.db")
				a := startServer(t, path)
				wantShared(t, "before", a)
				for _, suffix := range suffixes {
					if err := os.Remove(path + suffix); err != nil {
						t.Fatal(err)
					}
				}
				if oldFirst { // it notices by itself
					wantSplit(t, "alone", a)
				}
				b := startServer(t, path)
				if b.said == "ready" || !strings.Contains(b.said, "stop every process") {
					t.Errorf("second process said %q; want that it was refused, and what to do", b.said)
				}
				wantSplit(t, "both", a, b)
				b.stop()
				wantSplit(t, "after", a, startServer(t, path))
				// The clean stop and the new start that the error asks for.
				a.stop()
				c, d := startServer(t, path), startServer(t, path)
				wantShared(t, "again", c, d)
				for i := range 20 {
					if first, line := c.use(fmt.Sprint("before", i)); first {
						t.Fatalf("id is forgotten after the clean stop: %s", line)
					}
				}
			})
		}
	}
}

func TestHardLinkIsRefused(t *testing.T) {
	t.Parallel() // it mostly waits for its processes
	dir := t.TempDir()
	path, link := filepath.Join(dir, "foil.db"), filepath.Join(mkdir(t, filepath.Join(dir, "x")), "foil.db")
	a := startServer(t, path)
	wantShared(t, "before", a)
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	wantSplit(t, "open", a, startServer(t, link))
	a.stop()
	wantOpenError(t, path, "has 2 hard links")
	wantOpenError(t, link, "has 2 hard links")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	wantShared(t, "again", startServer(t, path), startServer(t, path))
}

func TestBindMountOfTheFileIsRefused(t *testing.T) {
	t.Parallel() // it mostly waits for its processes
	for _, mountedFirst := range []bool{false, true} {
		t.Run(fmt.Sprint("mounted first ", mountedFirst), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, other := filepath.Join(dir, "foil.db"), filepath.Join(mkdir(t, filepath.Join(dir, "x")), "foil.db")
			for _, p := range []string{path, other} {
				if err := os.WriteFile(p, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			starts := []func() *server{
				func() *server { return startServer(t, path) },
				func() *server { return startMounted(t, other, path+"=>"+other) },
			}
			if mountedFirst {
				starts[0], starts[1] = starts[1], starts[0]
			}
			a, b := starts[0](), starts[1]()
			wantReady(t, a)
			if !strings.Contains(b.said, "bind mount") {
				t.Errorf("second process said %q; want that it was refused", b.said)
			}
			wantSplit(t, "both", a, b)
			// The one that was first is not disturbed.
			wantShared(t, "first", a)
			a.stop()
			wantShared(t, "second", starts[1]())
		})
	}
}

func TestTwoPathsAtOnce(t *testing.T) {
	t.Parallel() // it mostly waits for its processes
	dir := t.TempDir()
	path, other := filepath.Join(dir, "foil.db"), filepath.Join(mkdir(t, filepath.Join(dir, "x")), "foil.db")
	for _, p := range []string{path, other} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		second := make(chan *server, 1)
		go func() { second <- startMounted(t, other, path+"=>"+other) }()
		a := startServer(t, path)
		b := <-second
		wantOnce(t, fmt.Sprint(round, " "), a, b)
		if a.said == "ready" && b.said == "ready" {
			t.Error("both were let in")
		}
		a.stop()
		b.stop()
	}
}

// What shares the companions may share the file, by whatever path.
func TestSharing(t *testing.T) {
	t.Parallel() // it mostly waits for its processes
	dir := t.TempDir()
	path := filepath.Join(mkdir(t, filepath.Join(dir, "data")), "foil.db")
	linked := filepath.Join(dir, "linked.db")
	if err := os.Symlink(path, linked); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(path), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	paths := []string{path, path, linked, filepath.Join(dir, "linked", "foil.db")}
	var all []*server
	startAll := func() {
		all = nil
		for _, p := range paths {
			all = append(all, startServer(t, p))
		}
	}
	startAll()
	wantShared(t, "first", all...)
	for _, p := range all {
		p.stop()
	}
	startAll()
	wantShared(t, "reopened", all...)
	all[1].kill()
	wantShared(t, "one killed", all[0], all[2], all[3], startServer(t, path))
	for _, p := range all {
		p.kill()
	}
	startAll()
	wantShared(t, "all killed", all...)
}

func TestSharingADirectoryUnderTwoMounts(t *testing.T) {
	t.Parallel() // it mostly waits for its processes
	dir := t.TempDir()
	data, other := mkdir(t, filepath.Join(dir, "data")), mkdir(t, filepath.Join(dir, "other"))
	a := startServer(t, filepath.Join(data, "foil.db"))
	b := startMounted(t, filepath.Join(other, "foil.db"), data+"=>"+other)
	wantShared(t, "first", a, b)
	a.kill()
	wantShared(t, "killed", startServer(t, filepath.Join(data, "foil.db")), b)
}

// Stores of one process on one file: closing one must take no lock from the
// others.
func TestSharingInOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	a := open(t, path, nil)
	for i := range 20 {
		b := open(t, path, nil)
		mustUse(t, b, fmt.Append(nil, "a", i), true)
		mustUse(t, a, fmt.Append(nil, "a", i), false)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := descriptors(t, path); n > 6 { // a's, and those that wait for a to be closed
		t.Errorf("%d descriptors are open on the file after 20 stores came and went", n)
	}
	// If SQLite's locks were gone, this process would take itself for the last
	// one and delete the companions.
	p := startServer(t, path)
	wantShared(t, "b", p)
	p.stop()
	mustUse(t, a, []byte("b0"), false)
	mustUse(t, a, []byte("fresh"), true)
	wantShared(t, "c", startServer(t, path))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if n := descriptors(t, path); n != 0 {
		t.Errorf("%d descriptors are open on the file after the last store was closed", n)
	}
}

// descriptors returns how many descriptors this process has on the file.
func descriptors(t *testing.T, path string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("needs /proc: mount it: %v", err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == path {
			n++
		}
	}
	return n
}

// A store that lost its connection may come back to other companions, and must
// be seen there.
func TestReconnectTakesTheLockAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	mustUse(t, s, newID(), true)
	s.Drop(t)          // the last connection: SQLite deletes the companions
	for i := range 4 { // whose inodes must not come back as those of the next
		if err := os.WriteFile(fmt.Sprint(path, i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := startServer(t, path)
	wantShared(t, "while away", p)
	mustUse(t, s, []byte("while away0"), false)
	s.Drop(t)
	p.stop()
	mustUse(t, s, newID(), true)
	removeCompanions(t, path)
	if q := startServer(t, path); q.said == "ready" {
		t.Error("a second process was let in with other companions")
	}
}

func removeCompanions(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{"-shm", "-wal"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
}

// What was accepted before the log lost its name stays spent.
func TestRemovedLogIsSalvaged(t *testing.T) {
	t.Run("noticed, then killed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "foil.db")
		a := startServer(t, path)
		wantShared(t, "a", a)
		removeCompanions(t, path)
		wantSplit(t, "b", a)
		a.kill()
		mustUse(t, open(t, path, nil), []byte("a19"), false)
	})
	t.Run("closed while another has the file open", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "foil.db")
		a := startServer(t, path)
		wantShared(t, "a", a)
		removeCompanions(t, path)
		other := raw(t, path) // as a process does that will be refused
		execute(t, other, "SELECT count(*) FROM sqlite_schema")
		a.stop()
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		mustUse(t, open(t, path, nil), []byte("a19"), false)
	})
}

// Open does not give up on a process that is just closing.
func TestOpenWaitsForTheLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	a := startServer(t, path)
	wantShared(t, "a", a)
	removeCompanions(t, path)
	time.AfterFunc(100*time.Millisecond, func() { _ = a.in.Close() })
	mustUse(t, open(t, path, nil), []byte("a19"), false)
}
