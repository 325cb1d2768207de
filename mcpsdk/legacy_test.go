package mcpsdk_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// add gives a server one raw tool.
func add(s *mcp.Server, name string, h mcp.ToolHandler) {
	s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, h)
}

// For every version of the protocol the middleware must judge as the SDK does
// whether the SDK asks the client itself: else a plain state would leave, or an
// older client would get a sealed one.
func TestWhoAsks(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			s := newShop(newWorld(t, nil).protect(fixed()))
			cs := inMemory(t, s.Server, newClient(false), version)
			if version < "2025-06-18" {
				t.Logf("version %s has no elicitation; the SDK asks anyway", version)
			}
			r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "raw", Arguments: map[string]any{}})
			if err != nil {
				t.Fatal(err)
			}
			if version >= modern {
				if !r.NeedsInput() || !strings.HasPrefix(r.RequestState, "v1.") {
					t.Errorf("got %+v", r)
				}
			} else if toolText(r) != "done "+secret || r.RequestState != "" {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// A handshake that asks for the new version is answered with an older one, but
// the SDK goes by what was asked for and sends the questions out.
func TestHandshakeForTheNewVersion(t *testing.T) {
	s := newShop(newWorld(t, nil).protect(fixed()))
	near, far := mcp.NewInMemoryTransports()
	if _, err := s.Connect(t.Context(), far, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := near.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(doc string) {
		t.Helper()
		m, err := jsonrpc.DecodeMessage([]byte(doc))
		if err == nil {
			err = conn.Write(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	receive := func() string {
		t.Helper()
		m, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28","capabilities":{"elicitation":{}},"clientInfo":{"name":"odd","version":"0"}}}`)
	receive()
	send(`{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}`)
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"raw","arguments":{}}}`)
	if got := receive(); !strings.Contains(got, `"requestState":"v1.`) || strings.Contains(got, secret) || !strings.Contains(got, "input_required") {
		t.Errorf("got %s", got)
	}
}

// The SDK would send a second question out unsealed and in a form that an older
// client does not know.
func TestSecondQuestionToAnOlderClient(t *testing.T) {
	for _, door := range doors[3:] {
		w := newWorld(t, nil)
		s, cs := door.open(t, w, false)
		add(s.Server, "twice", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{InputRequests: ask("q", confirm("?")), RequestState: secret}, nil
		})
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "twice"})
		if got, want := remote(t, err), `{"code":-32603,"message":"the tool needs more than one round of input, which needs protocol version 2026-07-28"}`; got != want {
			t.Errorf("%s: got %s", door.name, got)
		}
		w.logs.want(t, "second question")
		if strings.Contains(w.logs.String(), secret) {
			t.Error("the log holds the state")
		}
	}
	// A newer client is asked as often as it takes.
	s := newShop(newWorld(t, nil).protect(fixed()))
	r, err := inMemory(t, s.Server, newClient(true), modern).CallTool(t.Context(), &mcp.CallToolParams{Name: "twice"})
	if err != nil || toolText(r) != "done "+secret+"2" {
		t.Errorf("got %+v %v", r, err)
	}
}

// An older client's own state meets the same checks, and its bare answers too.
func TestOlderClientsOwnState(t *testing.T) {
	w := newWorld(t, nil)
	s := newShop(w.protect(fixed()))
	cs := inMemory(t, s.Server, newClient(false), legacy)
	for _, state := range []string{"forged", secret} {
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "raw", RequestState: state, InputResponses: accept()})
		if got := remote(t, err); got != refusal {
			t.Errorf("%s: %s", state, got)
		}
	}
	if s.runs.Load() != 0 {
		t.Error("a handler ran")
	}
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "raw", InputResponses: accept()})
	if err != nil || toolText(r) != "done "+secret || s.runs.Load() != 2 {
		t.Errorf("bare answers: %+v %v, ran %d times, want the person asked", r, err, s.runs.Load())
	}

	// One that is valid goes on as it would elsewhere.
	first, err := inMemory(t, s.Server, newClient(false), modern).CallTool(t.Context(), &mcp.CallToolParams{Name: "raw"})
	if err != nil {
		t.Fatal(err)
	}
	r, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "raw", RequestState: first.RequestState, InputResponses: accept()})
	if err != nil || toolText(r) != "done "+secret {
		t.Errorf("valid state: %+v %v", r, err)
	}
	// And if its question has changed, this client is asked the new one.
	first, err = inMemory(t, s.Server, newClient(false), modern).CallTool(t.Context(), &mcp.CallToolParams{Name: "raw"})
	if err != nil {
		t.Fatal(err)
	}
	s.price.Add(1)
	runs := s.runs.Load()
	r, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "raw", RequestState: first.RequestState, InputResponses: accept()})
	if err != nil || toolText(r) != "done "+secret || s.runs.Load() != runs+2 {
		t.Errorf("reworded: %+v %v, ran %d times", r, err, s.runs.Load()-runs)
	}
}

// The question that Answer saw first is the one that was answered.
func TestRewordedWithinOneCall(t *testing.T) {
	w := newWorld(t, nil)
	s := newShop(w.protect(fixed()))
	var seen []foil.AnswerStatus
	messages := []string{"Pay 3?", "Pay 4?"}
	add(s.Server, "changing", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		q := confirm(messages[min(len(seen), 1)])
		a, status := mcpsdk.Answer(ctx, req, "confirm", q)
		if (a != nil) != (status == foil.Answered) {
			t.Errorf("answer %v with status %v", a, status)
		}
		seen = append(seen, status)
		if status == foil.Answered {
			return text("acted"), nil
		}
		return &mcp.CallToolResult{InputRequests: ask("confirm", q)}, nil
	})
	_, err := inMemory(t, s.Server, newClient(false), legacy).CallTool(t.Context(), &mcp.CallToolParams{Name: "changing"})
	if err == nil || len(seen) != 2 || seen[0] != foil.Missing || seen[1] != foil.Reworded {
		t.Errorf("saw %v, %v", seen, err)
	}
}

// An answer to a question that Answer never saw cannot be taken for consent.
func TestAskingBeforeAnswer(t *testing.T) {
	w := newWorld(t, nil)
	s := newShop(w.protect(fixed()))
	add(s.Server, "hasty", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(req.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{InputRequests: ask("confirm", confirm("Pay 3?"))}, nil
		}
		_, status := mcpsdk.Answer(ctx, req, "confirm", confirm("Pay 3?"))
		return text(status.String()), nil
	})
	r, err := inMemory(t, s.Server, newClient(false), legacy).CallTool(t.Context(), &mcp.CallToolParams{Name: "hasty"})
	if err != nil || toolText(r) != "reworded" {
		t.Errorf("got %+v %v", r, err)
	}
	w.logs.want(t, "call mcpsdk.Answer before asking")
}

// A claim is redeemed once, whichever client asks: by the state's round, or
// within the process.
func TestClaims(t *testing.T) {
	for _, version := range []string{modern, legacy} {
		t.Run(version, func(t *testing.T) {
			store := claimcheck.NewMemory(nil)
			w := newWorld(t, func(o *foil.Options) { o.Claims = store })
			s := newShop(w.protect(fixed()))
			var claim string
			add(s.Server, "plan", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if _, status := mcpsdk.Answer(ctx, req, "confirm", confirm("?")); status != foil.Answered {
					var err error
					claim, err = store.Issue(ctx, []byte("the plan"), time.Minute)
					return &mcp.CallToolResult{InputRequests: ask("confirm", confirm("?")), RequestState: claim}, err
				}
				claims := mcpsdk.Opened(ctx).Claims()
				for range 2 { // idempotent within one call
					if b, err := mcpsdk.Opened(ctx).Claims().Redeem(ctx, req.Params.RequestState); err != nil || string(b) != "the plan" {
						t.Errorf("got %q %v", b, err)
					}
				}
				if claims != mcpsdk.Opened(ctx).Claims() {
					t.Error("one call has two names")
				}
				return text("ok"), nil
			})
			r, err := inMemory(t, s.Server, newClient(true), version).CallTool(t.Context(), &mcp.CallToolParams{Name: "plan"})
			if err != nil || toolText(r) != "ok" {
				t.Fatalf("got %+v %v", r, err)
			}
			if _, err := w.guard.Claims().Redeem(t.Context(), claim); err != claimcheck.ErrRedeemed {
				t.Errorf("another presentation: %v", err)
			}
		})
	}
}

// A question to an older client carries no state of any kind.
func TestOlderClientSeesNoState(t *testing.T) {
	s := newShop(newWorld(t, nil).protect(nil))
	near, far := mcp.NewInMemoryTransports()
	if _, err := s.Connect(t.Context(), far, nil); err != nil {
		t.Fatal(err)
	}
	var wire logs
	cs, err := newClient(false).Connect(t.Context(), &mcp.LoggingTransport{Transport: near, Writer: &wire}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "stateless", Arguments: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(wire.String(), "requestState") || !strings.Contains(wire.String(), "elicitation/create") {
		t.Errorf("on the wire:\n%s", &wire)
	}
}
