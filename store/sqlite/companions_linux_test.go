package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/foilmcp/foil/store/sqlite"
)

func init() { children["serve"] = serveChild }

// mountEnv names what a child mounts first, in a mount namespace of its own, on
// the path of its store or on the directory of it.
const mountEnv = "FOIL_SQLITE_TEST_MOUNT"

// serveChild uses each ID that it reads and says what came of it.
func serveChild(path string) error {
	if from, to, ok := strings.Cut(os.Getenv(mountEnv), "=>"); ok {
		if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	s, err := sqlite.Open(context.Background(), path, nil)
	if err != nil {
		fmt.Println("open:", err)
		return nil
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		first, err := s.Replay().Use(context.Background(), in.Bytes(), time.Now().Add(time.Hour))
		fmt.Println(first, err)
	}
	return s.Close()
}

// server is a process that has a store open, or could not open it.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said string // when it opened
}

func (p *server) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("child said %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// use returns whether the process accepted id, and what it said.
func (p *server) use(id string) (bool, string) {
	p.t.Helper()
	if p.said != "ready" {
		return false, p.said
	}
	if _, err := fmt.Fprintln(p.in, id); err != nil {
		p.t.Fatal(err)
	}
	line := p.line()
	return strings.HasPrefix(line, "true"), line
}

// stop lets the process close its store and end.
func (p *server) stop() {
	p.t.Helper()
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("child: %v", err)
	}
}

// kill ends it by SIGKILL.
func (p *server) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func startServer(t *testing.T, path string) *server { return startMounted(t, path, "") }

// startMounted is startServer in a mount namespace where what is "FROM=>TO".
func startMounted(t *testing.T, path, what string) *server {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"=serve", "FOIL_SQLITE_TEST_PATH="+path, mountEnv+"="+what)
	cmd.Stderr = os.Stderr
	if what != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		if what != "" && errors.Is(err, os.ErrPermission) {
			t.Skipf("needs the right to mount: run as root with CAP_SYS_ADMIN: %v", err)
		}
		t.Fatal(err)
	}
	p := &server{t: t, cmd: cmd, in: in, out: bufio.NewReader(pipe)}
	t.Cleanup(p.kill)
	p.said = p.line()
	return p
}

func wantReady(t *testing.T, servers ...*server) {
	t.Helper()
	for _, p := range servers {
		if p.said != "ready" {
			t.Fatalf("child said %q, want ready", p.said)
		}
	}
}

// wantOnce offers IDs to all servers, in turns of who is first, and checks that
// none is accepted twice. It returns how many were accepted and the last error.
func wantOnce(t *testing.T, prefix string, servers ...*server) (accepted int, said string) {
	t.Helper()
	for i := range 20 {
		n := 0
		for j := range servers {
			first, line := servers[(i+j)%len(servers)].use(fmt.Sprint(prefix, i))
			if first {
				n++
			} else if line != "false <nil>" {
				said = line
			}
		}
		if n > 1 {
			t.Errorf("id %s%d was accepted %d times", prefix, i, n)
		}
		accepted += n
	}
	return accepted, said
}

// wantShared checks that the servers serve one store.
func wantShared(t *testing.T, prefix string, servers ...*server) {
	t.Helper()
	wantReady(t, servers...)
	if accepted, said := wantOnce(t, prefix, servers...); accepted != 20 || said != "" {
		t.Errorf("%d of 20 ids were accepted, last error %q; want all and none", accepted, said)
	}
}

// wantSplit checks that what the servers do not share is refused, and why.
func wantSplit(t *testing.T, prefix string, servers ...*server) {
	t.Helper()
	_, said := wantOnce(t, prefix, servers...)
	if !strings.Contains(said, "stop every process") {
		t.Errorf("nobody was told what to do: %q", said)
	}
	t.Logf("%s", said)
}

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
	s.Drop(t) // the last connection: SQLite deletes the companions
	p := startServer(t, path)
	wantShared(t, "while away", p)
	mustUse(t, s, []byte("while away0"), false)
	s.Drop(t)
	p.stop()
	mustUse(t, s, newID(), true)
	for _, suffix := range []string{"-shm", "-wal"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	if q := startServer(t, path); q.said == "ready" {
		t.Error("a second process was let in with other companions")
	}
}
