package main

import (
	"bufio"
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/examples/storagejanitor"
)

// A served is `foil demo --serve` in a process of its own.
type served struct {
	cmd  *exec.Cmd
	dir  string   // its temporary directory
	urls []string // the front, then the replicas
}

// serve starts the demo and waits until it has told how to connect.
func serve(t *testing.T) *served {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &served{dir: t.TempDir()}
	// The test binary is foil if it is called so; see TestMain.
	s.cmd = &exec.Cmd{Path: exe, Args: []string{"foil", "demo", "--serve"}, Env: append(os.Environ(), "TMPDIR="+s.dir)}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		s.urls = append(s.urls, regexp.MustCompile(`http://\S+`).FindAllString(lines.Text(), -1)...)
		if strings.Contains(lines.Text(), "Ctrl-C") {
			break
		}
	}
	if len(s.urls) != 3 {
		t.Fatalf("told %d URLs, want the front and 2 replicas", len(s.urls))
	}
	return s
}

// gone waits until no replica answers and the directory is empty.
func (s *served) gone(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		var left []string
		for _, u := range s.urls {
			p, err := url.Parse(u)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := net.Dial("tcp", p.Host); err == nil {
				c.Close()
				left = append(left, p.Host)
			}
		}
		entries, err := os.ReadDir(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %q", left)
		}
		time.Sleep(20 * time.Millisecond) // another process's end has no event
	}
}

func TestServeClient(t *testing.T) {
	s := serve(t)
	bucket, err := filepath.Glob(filepath.Join(s.dir, "*", "bucket", "logs-1", "*"))
	if err != nil || len(bucket) != 3 {
		t.Fatalf("objects %q, %v; want 3", bucket, err)
	}
	// The official client, which knows nothing of foil, on the front.
	var asked string
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked = req.Params.Message
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.urls[0], MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{
		Name: storagejanitor.PurgeTool, Arguments: map[string]any{"prefix": "logs-1/"},
	})
	if err != nil || res.IsError {
		t.Fatalf("purge: %+v, %v", res, err)
	}
	if !strings.HasPrefix(asked, "Purge 3 object(s) under 'logs-1/'?") {
		t.Errorf("asked %q", asked)
	}
	for _, name := range bucket {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s is still there", filepath.Base(name))
		}
	}
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	s.gone(t)
}

// TestParentKilled shows that the replicas end by the closed pipe, and clean up
// in the place of a parent that had no chance to.
func TestParentKilled(t *testing.T) {
	s := serve(t)
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err == nil {
		t.Error("it was killed and says it was not")
	}
	s.gone(t)
}
