//go:build unix

package crash_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleEnv names what a copy of this test binary is to be instead of testing.
const roleEnv = "FOIL_CRASH_ROLE"

var roles = map[string]func() error{
	"provider": provide,
	"worker":   work,
	"full":     fullChild,
	"readonly": readOnlyChild,
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
}

// A process is a copy of this binary in another role.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	url   string
	at    chan string   // the flow, once it waits at its point
	ended chan struct{} // closed when it is gone
}

// start starts a process that listens, and returns once it does.
func start(role string, env ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self), at: make(chan string, 1), ended: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), roleEnv+"="+role), env...)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	listens := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			what, rest, _ := strings.Cut(lines.Text(), " ")
			switch what {
			case "listens":
				listens <- rest
			case "at":
				p.at <- rest
			}
		}
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	select {
	case p.url = <-listens:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s ended before it listened", role)
	case <-time.After(time.Minute):
		p.kill()
		return nil, fmt.Errorf("%s does not listen", role)
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process as kill -9 does, wherever it is, and reports whether it was
// still there.
func (p *process) kill() bool {
	err := p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.ended
	return err == nil
}

func (p *process) stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// letGo wakes a process that was stopped, and lets it leave its point.
func (p *process) letGo() error {
	_, err := io.WriteString(p.in, "go\n")
	return errors.Join(p.cmd.Process.Signal(syscall.SIGCONT), err)
}

// listening says where, and then does what the parent says: go on, or end.
func listening(url string, goOn chan struct{}) {
	fmt.Println("listens", url)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if goOn != nil {
			close(goOn)
			goOn = nil
		}
	}
	os.Exit(0) // the parent is done, or dead
}
