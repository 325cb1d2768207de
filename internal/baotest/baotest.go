// Package baotest gives tests an OpenBao server: a real one, and a stand-in inside the
// process whose answers were recorded from a real one. It is for tests alone.
//
//	func TestMain(m *testing.M) { os.Exit(baotest.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		baotest.Each(t, func(t *testing.T, srv *baotest.Server) { … })
//	}
//
// The real server is the one at BAO_ADDR, with BAO_TOKEN a root token, or else a bao
// in dev mode, which is started if bao is on PATH. All tests of a package share it, each
// with mounts of its own ([Server.Name]). Without either, what needs it is skipped, by
// name, and how to get it is said at the end.
package baotest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// HowToGet says how to get what the real server is started from.
const HowToGet = "put bao (openbao.org, Downloads) on PATH, or set BAO_ADDR and BAO_TOKEN to a server for tests"

// patience bounds each step of a server; machines that test may be busy.
const patience = 2 * time.Minute

// A Server is a server for tests, whichever it is.
type Server struct {
	Addr  string // URL
	Token string // may do anything
	Real  bool

	standIn *standIn // nil: a real one

	log  string // file
	cmd  *exec.Cmd
	done chan struct{}
}

var shared struct {
	sync.Mutex
	started bool
	server  *Server
	err     error
	skipped []string
}

// Main runs the tests of a package and ends the shared server.
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.end()
	}
	if n := len(shared.skipped); n > 0 {
		fmt.Printf("baotest: %d tests were skipped that need a real OpenBao; %s\n", n, HowToGet)
	}
	return code
}

// Each runs test on the stand-in and on a real server.
func Each(t *testing.T, test func(t *testing.T, srv *Server)) {
	t.Run("stand-in", func(t *testing.T) { test(t, StandIn(t)) })
	t.Run("real", func(t *testing.T) { test(t, Real(t)) })
}

// Real returns the real server that all tests share.
func Real(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.started {
		shared.started = true
		shared.server, shared.err = launch()
	}
	if errors.Is(shared.err, errMissing) {
		shared.skipped = append(shared.skipped, t.Name())
		t.Skip("no real OpenBao: " + HowToGet)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// EachOwn is Each with a real server of the test's own, which it may seal.
func EachOwn(t *testing.T, test func(t *testing.T, srv *Server)) {
	t.Run("stand-in", func(t *testing.T) { test(t, StandIn(t)) })
	t.Run("real", func(t *testing.T) { test(t, Start(t)) })
}

// Start starts a real server for this test alone, which may seal or stop it.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if errors.Is(err, errMissing) {
		shared.Lock()
		shared.skipped = append(shared.skipped, t.Name())
		shared.Unlock()
		t.Skip("no bao on PATH to start: " + HowToGet)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}

var errMissing = errors.New("baotest: there is no bao")

func launch() (*Server, error) {
	if addr := os.Getenv("BAO_ADDR"); addr != "" {
		s := &Server{Addr: addr, Token: os.Getenv("BAO_TOKEN"), Real: true}
		if code, _, err := s.call("GET", "auth/token/lookup-self", nil); err != nil || code != 200 {
			return nil, fmt.Errorf("baotest: BAO_ADDR is set, but that server does not take BAO_TOKEN (status %d, %v)", code, err)
		}
		return s, nil
	}
	return start()
}

var keyLine = regexp.MustCompile(`(?m)^Unseal Key: (\S+)`)

func start() (*Server, error) {
	binary, err := exec.LookPath("bao")
	if err != nil {
		return nil, errMissing
	}
	for range 5 { // somebody else may take the port
		addr, freeErr := freeAddr()
		if freeErr != nil {
			return nil, freeErr
		}
		s := &Server{Addr: "http://" + addr, Token: "root-of-the-tests", Real: true, done: make(chan struct{})}
		if err = s.run(binary, addr); err == nil {
			return s, nil
		}
		s.end()
	}
	return nil, err
}

func (s *Server) run(binary, addr string) error {
	dir, err := os.MkdirTemp("", "foil-bao-")
	if err != nil {
		return err
	}
	s.log = filepath.Join(dir, "log")
	f, err := os.Create(s.log)
	if err != nil {
		return err
	}
	s.cmd = exec.Command(binary, "server", "-dev", "-dev-no-store-token", "-dev-root-token-id="+s.Token, "-dev-listen-address="+addr, "-log-level=error")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, f, f
	s.cmd.Env = append(os.Environ(), "HOME="+dir)
	endWithParent(s.cmd)
	started := make(chan error)
	go func() { // the thread that starts it must live as long as it does
		runtime.LockOSThread()
		err := s.cmd.Start()
		_ = f.Close()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
		}
		_ = os.RemoveAll(dir)
		close(s.done)
	}()
	if err := <-started; err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-s.done:
			return errors.New("baotest: bao ended at once")
		case <-time.After(20 * time.Millisecond):
		}
		if code, _, err := s.call("GET", "auth/token/lookup-self", nil); err == nil && code == 200 {
			return nil
		}
	}
	text, _ := os.ReadFile(s.log)
	return fmt.Errorf("baotest: bao does not answer: %s", text)
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

func (s *Server) end() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

var names atomic.Int64

// Name returns a name that no other test of this run has, beginning with what.
func (s *Server) Name(what string) string {
	return fmt.Sprintf("%s-%d-%d", what, os.Getpid(), names.Add(1))
}

// Call makes a request as root and returns status and answer. It fails the test only
// if there is no answer.
func (s *Server) Call(t testing.TB, method, path string, body any) (int, map[string]any) {
	t.Helper()
	code, doc, err := s.call(method, path, body)
	if err != nil {
		t.Fatalf("baotest: %s %s: %v", method, path, err)
	}
	return code, doc
}

// Must is Call for what must work.
func (s *Server) Must(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	code, doc := s.Call(t, method, path, body)
	if code < 200 || code > 299 {
		t.Fatalf("baotest: %s %s: status %d: %v", method, path, code, doc)
	}
	return doc
}

func (s *Server) call(method, path string, body any) (int, map[string]any, error) {
	return request(s.Addr, s.Token, method, path, body, nil)
}

// Request makes a request under any token, with more headers.
func (s *Server) Request(t testing.TB, token, method, path string, body any, header map[string]string) (int, map[string]any) {
	t.Helper()
	code, doc, err := request(s.Addr, token, method, path, body, header)
	if err != nil {
		t.Fatalf("baotest: %s %s: %v", method, path, err)
	}
	return code, doc
}

func request(addr, token, method, path string, body any, header map[string]string) (int, map[string]any, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, addr+"/v1/"+path, r)
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		req.Header.Set("X-Vault-Token", token)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var doc map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return resp.StatusCode, nil, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return resp.StatusCode, doc, nil
}

// KV mounts a KV engine of version 2 for the test and returns its mount.
func (s *Server) KV(t testing.TB) string {
	t.Helper()
	mount := s.Name("kv")
	s.mount(t, mount, map[string]any{"type": "kv", "options": map[string]string{"version": "2"}})
	// A fresh engine of version 2 is busy with itself for a moment.
	for range 500 {
		if code, _ := s.Call(t, "POST", mount+"/data/ready", map[string]any{"data": map[string]any{}}); code == 200 {
			s.Must(t, "DELETE", mount+"/metadata/ready", nil)
			return mount
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("baotest: the KV engine does not get ready")
	return ""
}

// Transit mounts a Transit engine with a key for the test and returns MOUNT/KEY.
func (s *Server) Transit(t testing.TB) string {
	t.Helper()
	mount := s.Name("transit")
	s.mount(t, mount, map[string]any{"type": "transit"})
	s.Must(t, "POST", mount+"/keys/state", map[string]any{"type": "aes256-gcm96"})
	return mount + "/state"
}

func (s *Server) mount(t testing.TB, mount string, body any) {
	t.Helper()
	s.Must(t, "POST", "sys/mounts/"+mount, body)
	t.Cleanup(func() { _, _, _ = s.call("DELETE", "sys/mounts/"+mount, nil) })
}

// AppRole makes an AppRole with these policies and returns its role ID and a secret ID.
// more is put into the role as it is, and may be nil.
func (s *Server) AppRole(t testing.TB, policies []string, more map[string]any) (roleID, secretID string) {
	t.Helper()
	if code, _ := s.Call(t, "GET", "sys/auth/approle/tune", nil); code != 200 {
		if code, doc := s.Call(t, "POST", "sys/auth/approle", map[string]any{"type": "approle"}); code > 299 && code != 400 {
			t.Fatalf("baotest: enable approle: %d %v", code, doc)
		}
	}
	role := s.Name("role")
	body := map[string]any{"token_policies": policies, "token_no_default_policy": true, "token_ttl": "20m"}
	for k, v := range more {
		body[k] = v
	}
	s.Must(t, "POST", "auth/approle/role/"+role, body)
	t.Cleanup(func() { _, _, _ = s.call("DELETE", "auth/approle/role/"+role, nil) })
	return s.LoginOf(t, role)
}

// LoginOf returns the role ID and a new secret ID of an AppRole.
func (s *Server) LoginOf(t testing.TB, role string) (roleID, secretID string) {
	t.Helper()
	id, _ := s.Must(t, "GET", "auth/approle/role/"+role+"/role-id", nil)["data"].(map[string]any)
	secret, _ := s.Must(t, "POST", "auth/approle/role/"+role+"/secret-id", map[string]any{})["data"].(map[string]any)
	return fmt.Sprint(id["role_id"]), fmt.Sprint(secret["secret_id"])
}

// Seal seals the server, and Unseal takes it back. They are for a server of the test's
// own.
func (s *Server) Seal(t testing.TB) {
	t.Helper()
	if s.standIn != nil {
		s.standIn.sealed.Store(true)
		return
	}
	s.Must(t, "POST", "sys/seal", map[string]any{})
}

// Unseal undoes Seal.
func (s *Server) Unseal(t testing.TB) {
	t.Helper()
	if s.standIn != nil {
		s.standIn.sealed.Store(false)
		return
	}
	log, err := os.ReadFile(s.log)
	key := keyLine.FindSubmatch(log)
	if err != nil || key == nil {
		t.Fatalf("baotest: no unseal key in what the server said (%v)", err)
	}
	s.Must(t, "POST", "sys/unseal", map[string]any{"key": string(key[1])})
	for range 500 {
		if code, _, err := s.call("GET", "auth/token/lookup-self", nil); err == nil && code == 200 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("baotest: the server stays sealed")
}
