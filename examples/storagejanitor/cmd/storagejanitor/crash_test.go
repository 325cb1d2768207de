package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/keyring"
)

// childEnv makes the test binary the program.
const childEnv = "STORAGEJANITOR_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// spawn runs the program as a process of its own, until kill.
func spawn(t *testing.T, flags []string) (url string, kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := &logged{url: make(chan string, 1)}
	cmd := exec.Command(exe, flags...)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"=1"), log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	kill = func() {
		_ = cmd.Process.Kill() // not to be caught
		ended <- <-ended
	}
	t.Cleanup(kill)
	select {
	case url = <-log.url:
	case err := <-ended:
		ended <- err
		t.Fatalf("ended with %v: %s", err, log)
	}
	return url, kill
}

// storageRing writes a ring beside the bucket and returns the flag that names it.
func storageRing(t *testing.T, bucket string) []string {
	t.Helper()
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(bucket), "storage-ring.json")
	if err := keyring.OpenFile(path).Create(t.Context(), ring); err != nil {
		t.Fatal(err)
	}
	return []string{"-storage-ring", path}
}

func fill(t testing.TB, bucket, dir string, n int) (names []string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(bucket, dir), 0o777); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprintf("%s/%04d", dir, i)
		if err := os.WriteFile(filepath.Join(bucket, filepath.FromSlash(name)), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// left is how many files there are in a directory of the bucket.
func left(t testing.TB, bucket, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(bucket, dir))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// confirm answers every question about a directory but the last, and returns the
// call that answers that.
func confirm(t testing.TB, cs *mcp.ClientSession, dir string, n int) *mcp.CallToolParams {
	t.Helper()
	p := &mcp.CallToolParams{Name: storagejanitor.PurgeTool, Arguments: map[string]any{"prefix": dir + "/"}}
	for {
		res, err := cs.CallTool(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if res.RequestState == "" {
			t.Fatalf("not asked: %s", text(res))
		}
		next := *p
		next.RequestState = res.RequestState
		last := n <= storagejanitor.DefaultAskTwiceAbove
		content := map[string]any{"confirm": true}
		key := "confirm"
		if _, ok := res.InputRequests["count"]; ok {
			content, key, last = map[string]any{"count": n}, "count", true
		}
		next.InputResponses = mcp.InputResponseMap{key: &mcp.ElicitResult{Action: "accept", Content: content}}
		if p = &next; last {
			return p
		}
	}
}

// eventually repeats a call for as long as the purge counts as in progress, which
// is much less than the lease that a server has without -lease.
func eventually(t *testing.T, cs *mcp.ClientSession, p *mcp.CallToolParams) *mcp.CallToolResult {
	t.Helper()
	for deadline := time.Now().Add(25 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		res, err := cs.CallTool(t.Context(), p)
		if err == nil {
			return res
		}
		var e *jsonrpc.Error
		if !errors.As(err, &e) || !strings.Contains(string(e.Data), "operation_in_progress") || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func purged(t testing.TB, res *mcp.CallToolResult) (out storagejanitor.PurgeOutput) {
	t.Helper()
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil || out.Outcome != storagejanitor.OutcomePurged {
		t.Fatalf("outcome %q, %v: %s", out.Outcome, err, text(res))
	}
	return out
}

// A process that is killed in the middle of a purge leaves it to the next one,
// which finishes just what was confirmed when the same person asks again.
func TestKilledInTheMiddle(t *testing.T) {
	const n = 400
	bucket, flags := setup(t)
	flags = append(append(flags, storageRing(t, bucket)...), "-once", "settle", "-lease", "1s")
	all := fill(t, bucket, "tmp", n)

	one, kill := spawn(t, flags)
	alice := mustConnect(t, one, aliceToken)
	last := confirm(t, alice, "tmp", n)
	lost := make(chan error, 1)
	go func() {
		_, err := alice.CallTool(t.Context(), last)
		lost <- err
	}()
	for deadline := time.Now().Add(time.Minute); left(t, bucket, "tmp") > n-5; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is deleted")
		}
	}
	kill()
	if err := <-lost; err == nil {
		t.Fatal("the purge was through before the process was killed")
	}
	gone := n - left(t, bucket, "tmp")
	if gone < 5 || gone >= n {
		t.Fatalf("%d of %d objects are gone", gone, n)
	}
	for _, name := range []string{"tmp/0000", "tmp/late"} {
		if err := os.WriteFile(filepath.Join(bucket, filepath.FromSlash(name)), []byte("new"), 0o666); err != nil {
			t.Fatal(err)
		}
	}

	two, kill := spawn(t, flags)
	_, err := mustConnect(t, two, bobToken).CallTool(t.Context(), last)
	frozen(t, err)
	alice = mustConnect(t, two, aliceToken)
	no := *last
	no.InputResponses = mcp.InputResponseMap{"count": &mcp.ElicitResult{Action: "decline"}}
	_, err = alice.CallTool(t.Context(), &no)
	frozen(t, err)
	first := eventually(t, alice, last)
	out := purged(t, first)
	was := out.Interrupted
	if was == nil || was.Before.Count != gone || was.Probably.Count > 1 || was.Now.Count != n-gone || out.Deleted.Count != n || out.Bytes != n {
		t.Fatalf("%d were gone; output %+v, interrupted %+v", gone, out, was)
	}
	if !slices.Equal(was.Before.Names, all[:min(gone, 100)]) || was.Now.Names[0] != all[gone] || was.From.IsZero() || was.Until.Before(was.From) {
		t.Errorf("interrupted %+v", was)
	}
	if says := text(first); !strings.Contains(says, fmt.Sprintf("interrupted and carried on: %d deleted before, ", gone)) || !strings.Contains(says, fmt.Sprintf(" %d deleted now: %s, ", n-gone, all[gone])) {
		t.Errorf("told %s", says)
	}
	if left(t, bucket, "tmp") != 2 {
		t.Errorf("%d objects left, want the two that are new", left(t, bucket, "tmp"))
	}
	kill()

	// The outcome is there for a third process, and for one person.
	three, _ := spawn(t, flags)
	alice = mustConnect(t, three, aliceToken)
	for range 2 {
		again := eventually(t, alice, last)
		a, errA := json.Marshal(again)
		b, errB := json.Marshal(first)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("again %s\nfirst %s", a, b)
		}
	}
	_, err = mustConnect(t, three, bobToken).CallTool(t.Context(), last)
	frozen(t, err)
	if left(t, bucket, "tmp") != 2 {
		t.Error("objects were deleted when the outcome was told again")
	}

	// Nothing of it can be read in the store.
	files, err := filepath.Glob(filepath.Join(filepath.Dir(bucket), "store.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %q, %v", files, err)
	}
	for _, f := range files {
		if raw, err := os.ReadFile(f); err != nil || bytes.Contains(raw, []byte("tmp/0")) {
			t.Errorf("%s holds names of objects, %v", filepath.Base(f), err)
		}
	}
}

// A ring is of one kind: what seals tokens does not seal the store, nor the other
// way round.
func TestRingsOfTheOtherKind(t *testing.T) {
	bucket, flags := setup(t)
	storage := storageRing(t, bucket)[1]
	for _, extra := range [][]string{{"-storage-ring", filepath.Join(filepath.Dir(bucket), "ring.json")}, {"-ring", storage}} {
		var stderr bytes.Buffer
		if code := run(t.Context(), append(append(flags[:len(flags):len(flags)], "-listen", "256.0.0.1:0"), extra...), nil, nil, &stderr); code == exitOK || strings.Contains(stderr.String(), "256.0.0.1") {
			t.Errorf("%q: ended with %d: %s", extra[0], code, &stderr)
		}
	}
}

// On stdio the memory of what was done lasts as long as the process.
func TestStdioSettles(t *testing.T) {
	bucket, _ := setup(t)
	cs := stdio(t, "-bucket", bucket, "-once", "settle")
	last := confirm(t, cs, "logs", 2)
	first, again := eventually(t, cs, last), eventually(t, cs, last)
	if text(first) != "Purged 2 object(s): logs/a.log, logs/b.log." || text(again) != text(first) {
		t.Errorf("told %q, again %q", text(first), text(again))
	}
}

// Each deletion under settle takes two durable writes.
func BenchmarkPurge(b *testing.B) {
	for _, once := range []string{"redeem", "settle"} {
		b.Run(once, func(b *testing.B) {
			const n = 1000
			bucket, flags := setup(b)
			url, _, _ := start(b, append(flags, "-once", once))
			cs := mustConnect(b, url, aliceToken)
			for b.Loop() {
				b.StopTimer()
				fill(b, bucket, "tmp", n)
				last := confirm(b, cs, "tmp", n)
				b.StartTimer()
				res, err := cs.CallTool(b.Context(), last)
				if err != nil {
					b.Fatal(err)
				}
				if out := purged(b, res); out.Deleted.Count != n {
					b.Fatal(text(res))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/object")
		})
	}
}
