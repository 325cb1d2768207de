package storagejanitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/replay"
)

// A claimStore counts the calls of a store and can be down.
type claimStore struct {
	claimcheck.Store
	mu                       sync.Mutex
	issued, redeems, revokes int
	downIssue, downRedeem    bool
	downRevoke               bool
}

var errDown = errors.New("connection refused by 10.1.2.3")

// IdempotentRedeem is what a guard that settles asks for.
func (c *claimStore) IdempotentRedeem() bool { return true }

func (c *claimStore) Issue(ctx context.Context, payload []byte, ttl time.Duration) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.downIssue {
		return "", errDown
	}
	c.issued++
	return c.Store.Issue(ctx, payload, ttl)
}

func (c *claimStore) Redeem(ctx context.Context, claim, by string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redeems++
	if c.downRedeem {
		return nil, errDown
	}
	return c.Store.Redeem(ctx, claim, by)
}

func (c *claimStore) Revoke(ctx context.Context, claim string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revokes++
	if c.downRevoke {
		return errDown
	}
	return c.Store.Revoke(ctx, claim)
}

// A fixture is a bucket and what replicas share.
type fixture struct {
	dir    string
	claims *claimStore
	guard  *foil.Guard
	// What may be set before the first server.
	janitor storagejanitor.Options
	protect mcpsdk.Options

	mu      sync.Mutex
	deleted []string
}

func newFixture(t testing.TB, guardOpts *foil.Options) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir(), claims: &claimStore{Store: claimcheck.NewMemory(nil)}}
	o := foil.Options{Replay: replay.NewMemory(nil)}
	if guardOpts != nil {
		o = *guardOpts
	}
	o.Audience, o.Claims, o.Logger = "storage-janitor", f.claims, slog.New(slog.DiscardHandler)
	guard, err := foil.New(aesgcm.Ephemeral(), &o)
	if err != nil {
		t.Fatal(err)
	}
	f.guard = guard
	f.protect = mcpsdk.Options{Principal: mcpsdk.Fixed("local"), Logger: o.Logger}
	f.janitor = storagejanitor.Options{Bucket: f.dir, Claims: f.claims, Logger: o.Logger, OnDelete: func(name string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.deleted = append(f.deleted, name)
	}}
	return f
}

// server is one replica.
func (f *fixture) server(t testing.TB) *mcp.Server {
	t.Helper()
	j, err := storagejanitor.New(&f.janitor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	s := mcp.NewServer(&mcp.Implementation{Name: "storage-janitor", Version: "test"}, nil)
	j.Register(s)
	s.AddReceivingMiddleware(mcpsdk.Protect(f.guard, &f.protect))
	return s
}

func (f *fixture) write(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		write(t, f.dir, n, n)
	}
}

// wasDeleted checks what the janitor deleted and that just that is gone.
func (f *fixture) wasDeleted(t testing.TB, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.deleted, want) {
		t.Errorf("deleted %q, want %q", f.deleted, want)
	}
	for _, n := range want {
		if exists(t, f.dir, n) {
			t.Errorf("%s is still there", n)
		}
	}
}

func (f *fixture) keeps(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		if !exists(t, f.dir, n) {
			t.Errorf("%s is gone", n)
		}
	}
}

// An asker answers elicitations and remembers the questions.
type asker struct {
	answer    func(message string) *mcp.ElicitResult
	questions []string
}

func (a *asker) handle(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	a.questions = append(a.questions, r.Params.Message)
	return a.answer(r.Params.Message), nil
}

func accept(content map[string]any) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: content}
}

func yes(string) *mcp.ElicitResult { return accept(map[string]any{"confirm": true}) }

const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

func newClient(a *asker, manual bool) *mcp.Client {
	o := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: manual}}
	if a != nil {
		o.ElicitationHandler = a.handle
	}
	return mcp.NewClient(&mcp.Implementation{Name: "client", Version: "test"}, o)
}

// connect connects a client in memory.
func connect(t testing.TB, s *mcp.Server, c *mcp.Client, version string) *mcp.ClientSession {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	ss, err := s.Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := c.Connect(t.Context(), near, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close(); ss.Wait() })
	return cs
}

// manual connects a client that gives out questions as results.
func (f *fixture) manual(t testing.TB) *mcp.ClientSession {
	t.Helper()
	return connect(t, f.server(t), newClient(&asker{}, true), modern)
}

// serve serves over Streamable HTTP behind a login where the token is the user.
func serve(t testing.TB, s *mcp.Server, stateless bool) string {
	t.Helper()
	login := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour), Extra: map[string]any{"iss": "https://login.example"}}, nil
	}, nil)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	ts := httptest.NewServer(login(h))
	t.Cleanup(ts.Close)
	return ts.URL
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func dial(t testing.TB, c *mcp.Client, url, user, version string) *mcp.ClientSession {
	t.Helper()
	cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(user)}},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close() })
	return cs
}

type args = map[string]any

func purge(t testing.TB, cs *mcp.ClientSession, a args) *mcp.CallToolResult {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: storagejanitor.PurgeTool, Arguments: a})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// retry answers a result that asks.
func retry(t testing.TB, cs *mcp.ClientSession, a args, asked *mcp.CallToolResult, answer *mcp.ElicitResult) (*mcp.CallToolResult, error) {
	t.Helper()
	p := &mcp.CallToolParams{Name: storagejanitor.PurgeTool, Arguments: a, RequestState: asked.RequestState}
	if answer != nil {
		key, _ := question(t, asked)
		p.InputResponses = mcp.InputResponseMap{key: answer}
	}
	return cs.CallTool(t.Context(), p)
}

func mustRetry(t testing.TB, cs *mcp.ClientSession, a args, asked *mcp.CallToolResult, answer *mcp.ElicitResult) *mcp.CallToolResult {
	t.Helper()
	res, err := retry(t, cs, a, asked, answer)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// question returns the one question of a result that asks.
func question(t testing.TB, res *mcp.CallToolResult) (key, message string) {
	t.Helper()
	if len(res.InputRequests) != 1 || res.RequestState == "" {
		t.Fatalf("the result asks %d questions, with a state of %d bytes: %s", len(res.InputRequests), len(res.RequestState), textOf(res))
	}
	for k, q := range res.InputRequests {
		key, message = k, q.(*mcp.ElicitParams).Message
	}
	return key, message
}

func textOf(res *mcp.CallToolResult) string {
	if len(res.Content) == 0 {
		return ""
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// output checks the outcome of a finished call.
func output(t testing.TB, res *mcp.CallToolResult, outcome string) (out storagejanitor.PurgeOutput) {
	t.Helper()
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil || out.Outcome != outcome {
		t.Fatalf("outcome %q (%v), want %q: %s", out.Outcome, err, outcome, textOf(res))
	}
	return out
}

// frozen checks that err is the one refusal of states.
func frozen(t testing.TB, err error) {
	t.Helper()
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams || e.Message != "Invalid or expired requestState" {
		t.Errorf("error %v, want the frozen refusal", err)
	}
}
