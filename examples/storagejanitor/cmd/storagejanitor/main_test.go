package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/keyring"
)

const (
	aliceToken = "alice-token-0123456789abcdef"
	bobToken   = "bob-token-0123456789abcdef"
)

// setup writes a bucket, a ring and a token file.
func setup(t testing.TB) (bucket string, flags []string) {
	t.Helper()
	dir := t.TempDir()
	bucket = filepath.Join(dir, "bucket")
	if err := os.MkdirAll(filepath.Join(bucket, "logs"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"logs/a.log", "logs/b.log", "keep"} {
		if err := os.WriteFile(filepath.Join(bucket, n), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	ring, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyring.OpenFile(filepath.Join(dir, "ring.json")).Create(t.Context(), ring); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens"), []byte("# users\nalice "+aliceToken+"\n\nbob "+bobToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return bucket, []string{
		"-bucket", bucket, "-listen", "127.0.0.1:0", "-ring", filepath.Join(dir, "ring.json"),
		"-store", filepath.Join(dir, "store.db"), "-tokens", filepath.Join(dir, "tokens"),
	}
}

// logged gives out the URL once the server has logged it.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
	url chan string
}

var urlLine = regexp.MustCompile(`msg=serving url=(\S+)`)

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(p)
	if m := urlLine.FindSubmatch(p); m != nil {
		l.url <- string(m[1])
	}
	return len(p), nil
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// start runs a replica until the returned function is called, which gives its
// exit code.
func start(t testing.TB, flags []string) (url string, log *logged, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log = &logged{url: make(chan string, 1)}
	code := make(chan int, 1)
	go func() { code <- run(ctx, flags, nil, nil, log) }()
	var once sync.Once
	var result int
	stop = func() int {
		once.Do(func() { cancel(); result = <-code })
		return result
	}
	t.Cleanup(func() { stop() })
	select {
	case url = <-log.url:
		return url, log, stop
	case c := <-code:
		code <- c
		t.Fatalf("ended with %d: %s", c, log)
		return "", nil, nil
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func client() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "client", Version: "test"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("not here")
		},
	})
}

func connect(t testing.TB, url, token string) (*mcp.ClientSession, error) {
	t.Helper()
	cs, err := client().Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err == nil {
		t.Cleanup(func() { cs.Close() })
	}
	return cs, err
}

func mustConnect(t testing.TB, url, token string) *mcp.ClientSession {
	t.Helper()
	cs, err := connect(t, url, token)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func call(t *testing.T, cs *mcp.ClientSession, state string) (*mcp.CallToolResult, error) {
	t.Helper()
	p := &mcp.CallToolParams{Name: "purge_objects", Arguments: map[string]any{"prefix": "logs/"}, RequestState: state}
	if state != "" {
		p.InputResponses = mcp.InputResponseMap{"confirm": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}}
	}
	return cs.CallTool(t.Context(), p)
}

func mustCall(t *testing.T, cs *mcp.ClientSession, state string) *mcp.CallToolResult {
	t.Helper()
	res, err := call(t, cs, state)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func text(res *mcp.CallToolResult) string {
	if len(res.Content) == 0 {
		return ""
	}
	return res.Content[0].(*mcp.TextContent).Text
}

func frozen(t *testing.T, err error) {
	t.Helper()
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("error %v, want the frozen refusal", err)
	}
}

func TestHTTP(t *testing.T) {
	bucket, flags := setup(t)
	one, _, stopOne := start(t, flags)
	asked := mustCall(t, mustConnect(t, one, aliceToken), "")
	if asked.RequestState == "" {
		t.Fatalf("not asked: %s", text(asked))
	}
	if code := stopOne(); code != exitOK {
		t.Errorf("the first replica ended with %d", code)
	}

	// Another replica, after the first has gone.
	two, log, stopTwo := start(t, flags)
	_, err := call(t, mustConnect(t, two, bobToken), asked.RequestState)
	frozen(t, err)
	if res := mustCall(t, mustConnect(t, two, aliceToken), asked.RequestState); text(res) != "Purged 2 object(s): logs/a.log, logs/b.log." {
		t.Errorf("answered %q", text(res))
	}
	if left, err := os.ReadDir(bucket); err != nil || len(left) != 2 {
		t.Errorf("%d entries left in the bucket, %v", len(left), err)
	}
	stopTwo()
	for _, secret := range []string{asked.RequestState, aliceToken, bobToken, "foil-claim."} {
		if strings.Contains(log.String(), secret) {
			t.Error("the log holds a secret")
		}
	}

	three, _, _ := start(t, flags)
	_, err = call(t, mustConnect(t, three, aliceToken), asked.RequestState)
	frozen(t, err)
}

// A ring that allows clocks to be far apart makes the store remember for as long.
func TestStoreHasTheSkewOfTheRing(t *testing.T) {
	const skew = 20 * time.Minute
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Skew: skew})
	if err != nil {
		t.Fatal(err)
	}
	store, err := openStore(t.Context(), filepath.Join(t.TempDir(), "store.db"), keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	id, expires := []byte("a confirmation"), time.Now().Add(-skew/2)
	if first, err := store.Replay().Use(t.Context(), id, expires); !first || err != nil {
		t.Fatalf("Use = %v, %v", first, err)
	}
	if _, err := store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first, err := store.Replay().Use(t.Context(), id, expires); first || err != nil {
		t.Errorf("Use within the skew = %v, %v; want false: it must be remembered", first, err)
	}
	if _, err := openStore(t.Context(), filepath.Join(t.TempDir(), "store.db"), keyring.Fixed(nil), nil); err == nil {
		t.Error("a store without a ring was opened")
	}
}

func TestHTTPLogin(t *testing.T) {
	_, flags := setup(t)
	url, _, _ := start(t, flags)
	for _, token := range []string{"", "alice", aliceToken + "x", "wrong-token-0123456789abcdef"} {
		if _, err := connect(t, url, token); err == nil {
			t.Errorf("%q: connected", token)
		}
	}
	res, err := http.Get(strings.TrimSuffix(url, "/mcp") + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("readyz: %s", res.Status)
	}
}

func TestHTTPAnonymous(t *testing.T) {
	_, flags := setup(t)
	flags = append(flags[:len(flags)-2], "-anonymous", "-once", "off")
	url, _, _ := start(t, flags)
	cs := mustConnect(t, url, "")
	asked := mustCall(t, cs, "")
	if res := mustCall(t, cs, asked.RequestState); res.IsError {
		t.Errorf("answered %q", text(res))
	}
	if res := mustCall(t, cs, asked.RequestState); !strings.HasPrefix(text(res), "REFUSED") || !res.IsError {
		t.Errorf("the second time answered %q", text(res))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://evil.example")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin got %s", res.Status)
	}
}

// stdio runs the program with a client on its standard input and output.
func stdio(t *testing.T, flags ...string) *mcp.ClientSession {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- run(context.Background(), append(flags, "-stdio"), inR, outW, &stderr) }()
	cs, err := client().Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cs.Close()
		if c := <-code; c != exitOK {
			t.Errorf("ended with %d: %s", c, &stderr)
		}
	})
	return cs
}

func TestStdio(t *testing.T) {
	bucket, _ := setup(t)
	cs := stdio(t, "-bucket", bucket)
	asked := mustCall(t, cs, "")
	if res := mustCall(t, cs, asked.RequestState); res.IsError || text(res) != "Purged 2 object(s): logs/a.log, logs/b.log." {
		t.Errorf("answered %q", text(res))
	}
	_, err := call(t, cs, asked.RequestState)
	frozen(t, err)
}

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		flags string
		want  int
		says  string
	}{
		{"-help", exitOK, "-bucket directory"},
		{"", exitUsage, "-bucket is missing"},
		{"-bucket b", exitUsage, "-ring is missing"},
		{"-bucket b -ring r", exitUsage, "-store is missing"},
		{"-bucket b -ring r -store s", exitUsage, "-tokens is missing"},
		{"-bucket b -ring r -store s -tokens t -anonymous", exitUsage, "exclude"},
		{"-bucket b -stdio -ring r", exitUsage, "-ring is for HTTP"},
		{"-bucket b -stdio -listen :0", exitUsage, "-listen is for HTTP"},
		{"-bucket b -stdio -once twice", exitUsage, "twice"},
		{"-bucket b -stdio -ttl 0s", exitUsage, "-ttl"},
		{"-bucket b -stdio -storage-ring r", exitUsage, "-storage-ring is for HTTP"},
		{"-bucket b -stdio -once deferred", exitUsage, "deferred"},
		{"-bucket b -stdio -lease 2s", exitUsage, "-lease goes with"},
		{"-bucket b -stdio -once settle -lease 999ms", exitUsage, "at least 1s"},
		{"-bucket b -ring r -store s -anonymous -once settle", exitUsage, "needs a login"},
		{"-bucket b -ring r -store memory -tokens t", exitUsage, "-store memory"},
		{"-bucket b -stdio extra", exitUsage, "extra"},
		{"-bucket b -stdio -nonsense", exitUsage, "nonsense"},
		{"-bucket /nonexistent/bucket -stdio", exitSystem, "open bucket"},
		{"-bucket b -ring /nonexistent/ring -store s -anonymous", exitSystem, "key ring"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(tc.flags), nil, nil, &stderr); code != tc.want || !strings.Contains(stderr.String(), tc.says) ||
			strings.Contains(stderr.String(), "storagejanitor: storagejanitor:") {
			t.Errorf("%q: ended with %d: %s", tc.flags, code, &stderr)
		}
	}
}

// What does not go with the ring is a mistake in the flags too.
func TestTTLAboveTheRings(t *testing.T) {
	_, flags := setup(t)
	var stderr bytes.Buffer
	if code := run(t.Context(), append(flags, "-ttl", "11m"), nil, nil, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "max_ttl 10m0s") {
		t.Errorf("ended with %d: %s", code, &stderr)
	}
}

func TestTokenFile(t *testing.T) {
	for doc, says := range map[string]string{
		"":                                      "no token",
		"# alice " + aliceToken:                 "no token",
		"alice":                                 "line 1",
		"\nalice short":                         "line 2",
		"alice " + aliceToken + " x":            "line 1",
		"a " + aliceToken + "\nb " + aliceToken: "line 2",
	} {
		if u, err := parseTokens(doc); err == nil || u != nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), aliceToken) {
			t.Errorf("%q: %v", doc, err)
		}
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("alice "+aliceToken), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readTokens(path); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a file that others can read: %v", err)
	}
}
