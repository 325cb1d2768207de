//go:build unix

// Package redistest starts Redis servers for tests: real ones, on free ports of the
// loopback, with their data in a directory of the test. It is for tests alone.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Server is one server process, which may be stopped and started again on the
// same address and the same data.
type Server struct {
	Addr string

	dir      string
	config   []string
	password string
	cmd      *exec.Cmd
}

// Durable are the lines of a server that loses nothing that it has confirmed.
var Durable = []string{"appendonly yes", "appendfsync always", "maxmemory-policy noeviction"}

// Start starts a server with these lines in its configuration and ends it with
// the test. Without redis-server the test is skipped, and fails where CI is set.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is not in PATH: install the Debian package redis-server")
		}
		t.Skip("redis-server is not in PATH: install the Debian package redis-server")
	}
	s := &Server{dir: t.TempDir(), config: config}
	for _, line := range config {
		if p, ok := strings.CutPrefix(line, "requirepass "); ok {
			s.password = p
		}
	}
	t.Cleanup(func() { s.Kill(t) })
	// Between finding a free port and listening on it somebody else may take it.
	for range 5 {
		s.Addr = freeAddr(t)
		if s.start(t) {
			return s
		}
	}
	t.Fatalf("redis-server does not start: %s", s.log())
	return nil
}

// StartReplica starts a server that copies primary.
func StartReplica(t testing.TB, primary *Server, config ...string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr)
	return Start(t, append([]string{fmt.Sprintf("replicaof %s %s", host, port)}, config...)...)
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (s *Server) start(t testing.TB) bool {
	t.Helper()
	host, port, _ := net.SplitHostPort(s.Addr)
	lines := append([]string{"bind " + host, "port " + port, "dir " + s.dir, "logfile " + s.logFile(), `save ""`, "daemonize no", "repl-diskless-sync-delay 0"}, s.config...)
	file := filepath.Join(s.dir, "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", file)
	if err := cmd.Start(); err != nil {
		t.Fatalf("redis-server: %v", err)
	}
	s.cmd = cmd
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	c := s.client()
	defer func() { _ = c.Close() }()
	for range 3000 {
		select {
		case <-ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if c.Ping(context.Background()).Err() == nil {
			return true
		}
	}
	t.Fatalf("redis-server does not answer: %s", s.log())
	return false
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

func (s *Server) log() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (s *Server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, Password: s.password, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
}

// Client returns a client of this server alone, as an operator would have it, and
// closes it with the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := s.client()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// URL is how a program says where the server is.
func (s *Server) URL() string {
	if s.password != "" {
		return "redis://:" + s.password + "@" + s.Addr
	}
	return "redis://" + s.Addr
}

// Kill ends the server as a crash would, and waits until it is gone.
func (s *Server) Kill(t testing.TB) { t.Helper(); s.end(t, syscall.SIGKILL) }

// Stop lets the server end in order.
func (s *Server) Stop(t testing.TB) { t.Helper(); s.end(t, syscall.SIGTERM) }

func (s *Server) end(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if s.cmd == nil {
		return
	}
	p := s.cmd.Process
	s.cmd = nil
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal: %v", err)
	}
	_ = p.Signal(syscall.SIGCONT) // one that was paused cannot end in order
	for range 3000 {
		if errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("redis-server does not end")
}

// Restart starts an ended server again on its data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if !s.start(t) {
		t.Fatalf("redis-server does not start again: %s", s.log())
	}
}

// Reconfigure adds lines to the configuration; they hold from the next Restart.
func (s *Server) Reconfigure(lines ...string) {
	s.config = append(s.config[:len(s.config):len(s.config)], lines...)
}

// Pause lets the process stand still until Resume.
func (s *Server) Pause(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("signal: %v", err)
	}
}

// Port returns the port of the server.
func (s *Server) Port() int {
	_, port, _ := net.SplitHostPort(s.Addr)
	n, _ := strconv.Atoi(port)
	return n
}

// Files returns everything that the server has on its disk.
func (s *Server) Files(t testing.TB) []byte {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, b...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
