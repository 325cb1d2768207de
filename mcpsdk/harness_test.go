package mcpsdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/replay"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
	secret = "the-handler's-plain-state"
)

// The frozen errors, as they are on the wire.
const (
	refusal     = `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`
	ambiguous   = `{"code":-32602,"message":"Invalid params","data":{"reason":"ambiguous_arguments"}}`
	unavailable = `{"code":-32603,"message":"Internal error","data":{"reason":"request_state_unavailable"}}`
)

// logs is a logger whose text a test can read.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logs) want(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(l.String(), text) {
		t.Errorf("log does not contain %q:\n%s", text, l)
	}
}

// world is a guard and the clock and log that go with it.
type world struct {
	guard *foil.Guard
	logs  *logs
	ahead atomic.Int64 // of the real clock
}

func newWorld(t *testing.T, change func(*foil.Options)) *world {
	t.Helper()
	w := &world{logs: &logs{}}
	now := func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	o := &foil.Options{
		Audience: "test", Logger: w.logs.logger(), Now: now,
		Replay: replay.NewMemory(&replay.MemoryOptions{Now: now}),
	}
	if change != nil {
		change(o)
	}
	g, err := foil.New(aesgcm.Ephemeral(), o)
	if err != nil {
		t.Fatal(err)
	}
	w.guard = g
	return w
}

// protect installs the middleware with the log of w.
func (w *world) protect(opts *mcpsdk.Options) mcp.Middleware {
	var o mcpsdk.Options
	if opts != nil {
		o = *opts
	}
	o.Logger = w.logs.logger()
	return mcpsdk.Protect(w.guard, &o)
}

// step calls the middleware by hand, without a session, around one handler.
func step(mw mcp.Middleware, req mcp.Request, handler func(context.Context, mcp.Request) (mcp.Result, error)) (mcp.Result, error) {
	method := ""
	switch req.(type) {
	case *mcp.CallToolRequest:
		method = "tools/call"
	case *mcp.GetPromptRequest:
		method = "prompts/get"
	case *mcp.ReadResourceRequest:
		method = "resources/read"
	}
	return mw(func(ctx context.Context, _ string, req mcp.Request) (mcp.Result, error) {
		return handler(ctx, req)
	})(context.Background(), method, req)
}

func fixed() *mcpsdk.Options { return &mcpsdk.Options{Principal: mcpsdk.Fixed("local")} }

func confirm(message string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{"ok": map[string]any{"type": "boolean"}},
	}}
}

func ask(key string, q mcp.InputRequest) mcp.InputRequestMap { return mcp.InputRequestMap{key: q} }

func accept() mcp.InputResponseMap {
	return mcp.InputResponseMap{"confirm": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}}
}

// wireOf gives an error as the SDK would send it. Only a bare *jsonrpc.Error
// keeps its data.
func wireOf(t *testing.T, err error) string {
	t.Helper()
	e, ok := err.(*jsonrpc.Error)
	if !ok {
		t.Fatalf("error is a %T, not a bare *jsonrpc.Error: %v", err, err)
	}
	return errorText(e)
}

func errorText(e *jsonrpc.Error) string {
	b, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// remote gives an error that a client received.
func remote(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		t.Fatalf("no JSON-RPC error: %v", err)
	}
	return errorText(e)
}

// A shop is a server with handlers of every kind that ask before they act.
type shop struct {
	*mcp.Server
	runs  atomic.Int64 // every time a handler runs
	acts  atomic.Int64 // every time one acts
	price atomic.Int64
}

func newShop(mw mcp.Middleware) *shop {
	s := &shop{Server: mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)}
	s.AddReceivingMiddleware(mw)
	type order struct {
		Item string `json:"item"`
	}
	done := func(req mcp.Request, state string) string {
		s.acts.Add(1)
		return "done " + state
	}
	question := func() *mcp.ElicitParams { return confirm(fmt.Sprintf("Pay %d?", s.price.Load())) }
	mcp.AddTool(s.Server, &mcp.Tool{Name: "typed"}, func(ctx context.Context, req *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
		s.runs.Add(1)
		if _, status := mcpsdk.Answer(ctx, req, "confirm", question()); status != foil.Answered {
			return &mcp.CallToolResult{InputRequests: ask("confirm", question()), RequestState: secret}, nil, nil
		}
		return text(done(req, req.Params.RequestState)), nil, nil
	})
	raw := func(name string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.runs.Add(1)
			return h(ctx, req)
		})
	}
	raw("raw", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if _, status := mcpsdk.Answer(ctx, req, "confirm", question()); status != foil.Answered {
			return &mcp.CallToolResult{InputRequests: ask("confirm", question()), RequestState: secret}, nil
		}
		return text(done(req, req.Params.RequestState)), nil
	})
	raw("stateless", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(req.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{InputRequests: ask("confirm", question())}, nil
		}
		return text(done(req, req.Params.RequestState)), nil
	})
	raw("twice", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.RequestState == "" {
			return &mcp.CallToolResult{InputRequests: ask("first", confirm("first?")), RequestState: secret + "1"}, nil
		}
		if _, status := mcpsdk.Answer(ctx, req, "second", confirm("second?")); status != foil.Answered {
			return &mcp.CallToolResult{InputRequests: ask("second", confirm("second?")), RequestState: secret + "2"}, nil
		}
		return text(done(req, req.Params.RequestState)), nil
	})
	raw("nothing", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	raw("plain", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("plain"), nil })
	s.AddPrompt(&mcp.Prompt{Name: "raw"}, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		s.runs.Add(1)
		if _, status := mcpsdk.Answer(ctx, req, "confirm", question()); status != foil.Answered {
			return &mcp.GetPromptResult{InputRequests: ask("confirm", question()), RequestState: secret}, nil
		}
		return &mcp.GetPromptResult{Description: done(req, req.Params.RequestState), Messages: []*mcp.PromptMessage{}}, nil
	})
	s.AddResource(&mcp.Resource{URI: "shop://raw", Name: "raw"}, func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		s.runs.Add(1)
		if _, status := mcpsdk.Answer(ctx, req, "confirm", question()); status != foil.Answered {
			// For older clients the SDK refuses an asking resource without Contents.
			return &mcp.ReadResourceResult{InputRequests: ask("confirm", question()), RequestState: secret, Contents: []*mcp.ResourceContents{},
				Cacheable: mcp.Cacheable{TTLMs: 60000, CacheScope: "public"}}, nil
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: done(req, req.Params.RequestState)}},
			Cacheable: mcp.Cacheable{TTLMs: 60000, CacheScope: "public"}}, nil
	})
	return s
}

// newClient accepts everything if auto, else hands questions to the test.
func newClient(auto bool) *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
		},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: !auto},
	})
}

// inMemory connects as a client on stdio would.
func inMemory(t *testing.T, s *mcp.Server, c *mcp.Client, version string) *mcp.ClientSession {
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

// verify stands for an OAuth verifier. A bearer token is user#serial, where the
// serial changes on renewal; "nobody" has no subject, "noissuer" no issuer.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	user, _, _ := strings.Cut(token, "#")
	info := &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour), Extra: map[string]any{"iss": "https://as.test", "client_id": "app"}}
	switch user {
	case "nobody":
		info.UserID = ""
	case "blank":
		info.UserID = " \t\u00a0"
	case "noissuer":
		delete(info.Extra, "iss")
	case "oddissuer":
		info.Extra["iss"] = 7
	}
	return info, nil
}

func serve(t *testing.T, s *mcp.Server, opts *mcp.StreamableHTTPOptions) string {
	t.Helper()
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts)
	ts := httptest.NewServer(auth.RequireBearerToken(verify, nil)(h))
	t.Cleanup(ts.Close)
	return ts.URL
}

type bearer string

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(req)
}

func dial(t *testing.T, c *mcp.Client, url, token, version string) *mcp.ClientSession {
	t.Helper()
	cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}, DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close() })
	return cs
}

// A reply is what came back for one POST.
type reply struct {
	status  int
	headers string
	body    string
}

// result unmarshals the result, out of an SSE event too.
func (r reply) result(t *testing.T) (m struct {
	Type          string `json:"resultType"`
	State         string `json:"requestState"`
	InputRequests json.RawMessage
	Content       []struct{ Text string }
}) {
	t.Helper()
	body := r.body
	if _, after, ok := strings.Cut(body, "data: "); ok {
		body, _, _ = strings.Cut(after, "\n")
	}
	var doc struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal([]byte(body), &doc); err != nil || doc.Result == nil {
		t.Fatalf("no result in %d %s", r.status, r.body)
	}
	if err := json.Unmarshal(doc.Result, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// post sends params, an object without its closing brace, as raw text.
func post(t *testing.T, url, token, method, name, params string) reply {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": modern, "Mcp-Method": method, "Mcp-Name": name, "Authorization": "Bearer " + token,
	} {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	res.Header.Del("Date")
	return reply{res.StatusCode, fmt.Sprint(res.Header), strings.TrimSpace(string(b))}
}
