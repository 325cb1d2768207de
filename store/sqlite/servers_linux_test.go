package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
