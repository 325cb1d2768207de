package python_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pythonServer is server.py with this ring; name is its audience.
func pythonServer(t *testing.T, ring *keyring.Ring, name string) (url string) {
	t.Helper()
	environment(t)
	export, err := ring.ExportPython(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p, err := start("server.py")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	if err := json.NewEncoder(p.stdin).Encode(map[string]string{"export": export, "name": name}); err != nil {
		t.Fatal(err)
	}
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		p.stop()
		t.Fatalf("server.py: %v\n%s", err, p.stderr.String())
	}
	return strings.TrimSpace(line)
}

// goServer has the same tool, prompt and resource, protected by foil.
func goServer(t *testing.T, ring *keyring.Ring, name string) (url string) {
	t.Helper()
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	guard, err := foil.New(codec, &foil.Options{Audience: name, Once: foil.Off, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	s.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Logger: quiet}))

	// turn tells whether to ask, and with what, or what was done.
	turn := func(ctx context.Context, req mcp.Request, what, state string) (asks mcp.InputRequestMap, text string) {
		question := &mcp.ElicitParams{Message: what + "?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
		if _, status := mcpsdk.Answer(ctx, req, "confirm", question); status != foil.Answered {
			return mcp.InputRequestMap{"confirm": question}, "foil plans " + what
		}
		return nil, "foil acts on: " + state
	}
	s.AddTool(&mcp.Tool{Name: "purge", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		asks, text := turn(ctx, req, "logs/", req.Params.RequestState)
		if asks != nil {
			return &mcp.CallToolResult{InputRequests: asks, RequestState: text}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "brief"}, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		asks, text := turn(ctx, req, "cats", req.Params.RequestState)
		if asks != nil {
			return &mcp.GetPromptResult{InputRequests: asks, RequestState: text}, nil
		}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
	})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "shop://{name}", Name: "shop"}, func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		asks, text := turn(ctx, req, "raw", req.Params.RequestState)
		if asks != nil {
			return &mcp.ReadResourceResult{InputRequests: asks, RequestState: text, Contents: []*mcp.ResourceContents{}}, nil
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: text}}}, nil
	})

	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		user, _, _ := strings.Cut(token, "#")
		return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour), Extra: map[string]any{"iss": "https://as.test", "client_id": "app"}}, nil
	}
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	ts := httptest.NewServer(auth.RequireBearerToken(verify, nil)(h))
	t.Cleanup(ts.Close)
	return ts.URL
}

// A message is what a client sends. Params is raw text without the last brace.
type message struct {
	method, name, params, bearer, state string
}

// send posts a message and returns the result and the error, as raw JSON.
func send(t *testing.T, url string, m message) (result, failure json.RawMessage) {
	t.Helper()
	params := m.params
	if m.state != "" {
		state, err := json.Marshal(m.state)
		if err != nil {
			t.Fatal(err)
		}
		params += fmt.Sprintf(`,"requestState":%s,"inputResponses":{"confirm":{"action":"accept","content":{}}}`, state)
	}
	body := `{"jsonrpc":"2.0","id":7,"method":"` + m.method + `","params":` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": m.method, "Mcp-Name": m.name, "Authorization": "Bearer " + m.bearer,
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
	var doc struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(b, &doc); err != nil || (doc.Result == nil) == (doc.Error == nil) {
		t.Fatalf("%d %s: %v", res.StatusCode, b, err)
	}
	return doc.Result, doc.Error
}

// TestServersFinishEachOthersFlows runs a server of each SDK, behind one login and
// with one ring, as two replicas of one service.
func TestServersFinishEachOthersFlows(t *testing.T) {
	ring := interopRing(t, time.Now())
	urls := map[string]string{"python": pythonServer(t, ring, "storage"), "foil": goServer(t, ring, "storage")}
	stranger := goServer(t, ring, "billing")
	want := frozen(t)

	for _, m := range []message{
		{method: "tools/call", name: "purge", params: `{"name":"purge","arguments":{"prefix":"logs/"}`},
		{method: "prompts/get", name: "brief", params: `{"name":"brief","arguments":{"topic":"cats"}`},
		{method: "resources/read", name: "shop://raw", params: `{"uri":"shop://raw"`},
	} {
		for _, pair := range [][2]string{{"python", "foil"}, {"foil", "python"}} {
			m, asks, acts := m, pair[0], pair[1]
			t.Run(m.method+" asked by "+asks+", confirmed on "+acts, func(t *testing.T) {
				m.bearer = "alice#1"
				result, failure := send(t, urls[asks], m)
				var asked struct{ ResultType, RequestState string }
				if failure != nil || json.Unmarshal(result, &asked) != nil || asked.ResultType != "input_required" || !strings.HasPrefix(asked.RequestState, "v1.") {
					t.Fatalf("%s does not ask: %s %s", asks, result, failure)
				}
				m.state = asked.RequestState

				refused := func(what string, m message) {
					t.Helper()
					if result, failure := send(t, urls[acts], m); string(failure) != want {
						t.Errorf("%s: %s%s, want %s", what, result, failure, want)
					}
				}
				other := m
				other.bearer = "bob#1"
				refused("other user", other)
				other = m
				other.state = flip(-1)(m.state)
				refused("tampered", other)
				other = m
				other.params = strings.NewReplacer("logs/", "", "cats", "dogs", "raw", "new").Replace(m.params)
				if strings.HasPrefix(m.name, "shop:") {
					other.name = "shop://new"
				}
				refused("changed request", other)
				if acts == "foil" {
					if result, failure := send(t, stranger, m); string(failure) != want {
						t.Errorf("other service: %s%s, want %s", result, failure, want)
					}
				}

				m.bearer = "alice#2" // the login was renewed in between
				result, failure = send(t, urls[acts], m)
				if line := acts + " acts on: " + asks + " plans "; failure != nil || !strings.Contains(string(result), line) {
					t.Errorf("%s%s, want %q", result, failure, line)
				}
			})
		}
	}
}
