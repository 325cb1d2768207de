package python_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A request is one line to peer.py. Text travels as bytes, so that lone
// surrogates and white space arrive as they are.
type request struct {
	Op        string   `json:"op"`
	Keys      []string `json:"keys"` // nil: those given at start
	TTL       float64  `json:"ttl"`
	Now       float64  `json:"now"`
	Method    string   `json:"method"`
	Params    []byte   `json:"params"`
	State     []byte   `json:"state"`
	Principal []byte   `json:"principal"` // nil: the SDK's own binding, to the login
	Login     *login   `json:"login"`
	Audience  []byte   `json:"audience"`
	Token     []byte   `json:"token"`
	Export    []byte   `json:"export"`
}

// A login is what an OAuth verifier found out.
type login struct {
	Client  string  `json:"client_id"`
	Issuer  *string `json:"iss"`
	Subject *string `json:"sub"`
}

// A reply is one line from peer.py.
type reply struct {
	Token   string `json:"token"`
	Claims  []byte `json:"claims"`
	State   []byte `json:"state"`
	Refused string `json:"refused"` // the SDK's reason, as it logs it
	Wire    string `json:"wire"`    // the error it sends
	Error   string `json:"error"`   // a fault of peer.py or of the test
}

const python = ".venv/bin/python"

// environment skips the test if there is no virtual environment that fits the
// pins.
func environment(t *testing.T) {
	t.Helper()
	pins, err := os.ReadFile("requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pins)
	stamp, err := os.ReadFile(".venv/stamp")
	switch {
	case err == nil && strings.TrimSpace(string(stamp)) == hex.EncodeToString(sum[:]):
	case os.Getenv("CI") == "true":
		t.Fatal("the MCP Python SDK is not set up: run interop/python/setup.sh")
	default:
		t.Skip("the MCP Python SDK is not set up: run interop/python/setup.sh")
	}
}

// A process is a Python program that ends when its input is closed.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
	once   sync.Once
}

func start(program string) (*process, error) {
	if _, err := os.Stat(program); err != nil { // go test notices that it changed
		return nil, err
	}
	p := &process{name: program, cmd: exec.Command(python, "-I", program)}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) stop() {
	p.once.Do(func() {
		p.stdin.Close()
		kill := time.AfterFunc(10*time.Second, func() { p.cmd.Process.Kill() })
		defer kill.Stop()
		_ = p.cmd.Wait() // its answers were what counts
	})
}

// A peer is a peer.py. Its clock is that of each request.
type peer struct {
	*process
	mu sync.Mutex
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	environment(t)
	p, err := start("peer.py")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return &peer{process: p}
}

var shared struct {
	sync.Mutex
	peer *peer
}

// thePeer is one peer for all tests that need nothing of its state.
func thePeer(t *testing.T) *peer {
	t.Helper()
	environment(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.peer == nil {
		p, err := start("peer.py")
		if err != nil {
			t.Fatal(err)
		}
		shared.peer = &peer{process: p}
	}
	return shared.peer
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.peer != nil {
		shared.peer.stop()
	}
	os.Exit(code)
}

// ask sends requests and returns the replies, in order.
func (p *peer) ask(t *testing.T, requests ...request) []reply {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, func() { p.cmd.Process.Kill() })()
	written := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(p.stdin)
		enc := json.NewEncoder(w)
		for i := range requests {
			if err := enc.Encode(&requests[i]); err != nil {
				written <- err
				return
			}
		}
		written <- w.Flush()
	}()
	replies := make([]reply, len(requests))
	var err error
	for i := range replies {
		var line []byte
		if line, err = p.stdout.ReadBytes('\n'); err != nil {
			break
		}
		if err = json.Unmarshal(line, &replies[i]); err == nil && replies[i].Error != "" {
			err = errors.New(replies[i].Error)
		}
		if err != nil {
			err = fmt.Errorf("request %d: %w", i, err)
			break
		}
	}
	if err != nil {
		p.stdin.Close()
		p.stop()
		t.Fatalf("peer.py: %v, %v\n%s", err, <-written, p.stderr.String())
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	return replies
}

func (p *peer) ask1(t *testing.T, r request) reply {
	t.Helper()
	return p.ask(t, r)[0]
}
