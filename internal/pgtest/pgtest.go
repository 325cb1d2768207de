// Package pgtest starts PostgreSQL servers for tests: each in a directory of its
// own, on a free port of the loopback interface, with a random password. It is
// for tests alone.
//
// One server for all tests of a package, each in a database of its own:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestSomething(t *testing.T) { dsn := pgtest.Database(t) … }
//
// A test that stops, restarts or kills a server takes one from [Start]. Without
// PostgreSQL tests are skipped, or fail if the environment has CI=true.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds each step of a server; machines that test may be busy.
const patience = 2 * time.Minute

// ErrMissing says that PostgreSQL is not installed.
var ErrMissing = errors.New("pgtest: PostgreSQL is not installed; get it with: apt-get install postgresql")

// A Server is one PostgreSQL server. Its methods must not be called by two
// goroutines at once, but for DSN and Database.
type Server struct {
	// Password is the superuser's.
	Password string

	dir    string
	port   int
	flags  []string
	binary string
	run    *process // nil while stopped
	names  sync.Mutex
	n      int
}

// Launch starts a server with settings such as "max_wal_size=64MB". The caller
// must Remove it. Tests call Start or Database instead.
func Launch(settings ...string) (*Server, error) {
	initdb, postgres, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "foil-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{Password: rand.Text(), dir: dir, binary: postgres}
	for _, setting := range settings {
		s.flags = append(s.flags, "-c", setting)
	}
	if err := s.create(initdb); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	if err := s.Resume(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// binaries finds initdb and postgres in PATH or where Debian has them.
func binaries() (initdb, postgres string, err error) {
	if p, err := exec.LookPath("postgres"); err == nil {
		if i, err := exec.LookPath("initdb"); err == nil {
			return i, p, nil
		}
	}
	best := -1
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	for _, p := range all {
		bin := filepath.Dir(p)
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		if err == nil && version > best {
			best, initdb, postgres = version, filepath.Join(bin, "initdb"), p
		}
	}
	if best < 0 {
		return "", "", ErrMissing
	}
	return initdb, postgres, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }
func (s *Server) log() string  { return filepath.Join(s.dir, "log") }

func (s *Server) create(initdb string) error {
	pw := filepath.Join(s.dir, "password")
	if err := os.WriteFile(pw, []byte(s.Password), 0o600); err != nil {
		return err
	}
	for _, path := range []string{s.dir, pw} {
		if err := give(path); err != nil {
			return err
		}
	}
	cmd := exec.Command(initdb, "-D", s.data(), "-U", "postgres", "-A", "scram-sha-256", "--pwfile="+pw, "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	cmd.Dir = s.dir
	unprivileged(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	return nil
}

// Resume starts a server that was stopped, on the port and data it had.
func (s *Server) Resume() error {
	if s.run != nil {
		return errors.New("pgtest: server is running")
	}
	for try := 0; ; try++ {
		if s.port == 0 || try > 0 {
			port, err := freePort()
			if err != nil {
				return err
			}
			s.port = port
		}
		err := s.start()
		if err == nil || try == 4 || !s.addressInUse() {
			return err
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *Server) start() error {
	args := append([]string{
		"-D", s.data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "max_connections=400", "-c", "max_prepared_transactions=0", "-c", "logging_collector=off",
	}, s.flags...)
	run, err := launch(s.binary, args, s.dir, s.log())
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	s.run = run
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-run.done:
		case <-ctx.Done():
			_ = s.Kill()
		case <-time.After(20 * time.Millisecond):
			continue
		}
		s.run = nil
		tail, _ := os.ReadFile(s.log())
		return fmt.Errorf("pgtest: the server did not start: %w\n%s", err, tail)
	}
}

func (s *Server) addressInUse() bool {
	out, _ := os.ReadFile(s.log())
	return strings.Contains(string(out), "could not bind") || strings.Contains(string(out), "could not create any TCP/IP sockets")
}

// Stop ends the server in good order: open transactions are rolled back.
func (s *Server) Stop() error { return s.end(os.Interrupt) }

// Kill ends the server as a crash of all its processes does.
func (s *Server) Kill() error { return s.end(crash) }

func (s *Server) end(sig os.Signal) error {
	if s.run == nil {
		return nil
	}
	run := s.run
	s.run = nil
	if err := run.signal(sig); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	select {
	case <-run.done:
		return nil
	case <-time.After(patience):
		_ = run.signal(os.Kill)
		return errors.New("pgtest: the server did not end")
	}
}

// Remove ends the server and deletes its data.
func (s *Server) Remove() error {
	return errors.Join(s.Kill(), os.RemoveAll(s.dir))
}

// Addr is the host and port of the server.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// DSN is a URL by which the superuser reaches a database.
func (s *Server) DSN(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", s.Password), Host: s.Addr(), Path: "/" + database,
		RawQuery: "sslmode=disable&connect_timeout=30",
	}
	return u.String()
}

// Database creates an empty database and returns its DSN.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	s.names.Lock() // also because CREATE DATABASE wants its template to itself
	defer s.names.Unlock()
	s.n++
	name := fmt.Sprintf("test%d", s.n)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s.DSN(name)
}

// Start starts a server for one test, and ends it with the test.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Launch(settings...)
	check(t, err)
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

var shared struct {
	sync.Mutex
	server  *Server
	err     error
	started bool
	main    bool
}

// Main runs the tests of a package and then ends the server that [Database] has
// started; TestMain passes its result to os.Exit.
func Main(m *testing.M) int {
	shared.main = true
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// Shared returns the server that all tests of this package share. It never stops
// before they end.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.main {
		t.Fatal("pgtest: the package lacks a TestMain that calls pgtest.Main")
	}
	if !shared.started {
		shared.started = true
		shared.server, shared.err = Launch()
	}
	check(t, shared.err)
	return shared.server
}

// Database creates an empty database on the shared server; see [Main].
func Database(t testing.TB) (dsn string) {
	t.Helper()
	return Shared(t).Database(t)
}
