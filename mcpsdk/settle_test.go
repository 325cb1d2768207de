package mcpsdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func settling(o *foil.Options) {
	o.Once, o.Replay = foil.Settle, nil
	o.Ledger = ledger.NewMemory(&ledger.MemoryOptions{Now: o.Now})
}

// counting settles in a ledger whose states can be counted.
func counting(l **ledger.Memory) func(*foil.Options) {
	return func(o *foil.Options) {
		settling(o)
		*l = o.Ledger.(*ledger.Memory)
	}
}

const yes = `"inputResponses":{"confirm":{"action":"accept","content":{"ok":true}}}`

// retryOf is params with the answers and a state.
func retryOf(params, state string) string {
	return params + `,` + yes + `,"requestState":"` + state + `"`
}

// The first answer and every repetition are the same bytes, whatever the kind of
// result, but for the JSON-RPC id, which post keeps.
func TestSettledResultsAreExact(t *testing.T) {
	w := newWorld(t, settling)
	s := newShop(w.protect(nil))
	var runs atomic.Int64
	s.AddTool(&mcp.Tool{Name: "digits", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if _, status := mcpsdk.Answer(ctx, req, "confirm", confirm("?")); status != foil.Answered {
			return &mcp.CallToolResult{InputRequests: ask("confirm", confirm("?"))}, nil
		}
		return &mcp.CallToolResult{
			Meta:              mcp.Meta{"big": json.RawMessage(`9007199254740993`)},
			StructuredContent: json.RawMessage(`{"n":9007199254740993,"run":` + fmt.Sprint(runs.Add(1)) + `}`),
		}, nil
	})
	url := serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	for _, c := range []struct{ method, name, params string }{
		{"tools/call", "digits", `{"name":"digits","arguments":{}`},
		{"tools/call", "typed", `{"name":"typed","arguments":{"item":"x"}`},
		{"tools/call", "raw", `{"name":"raw","arguments":{}`},
		{"prompts/get", "raw", `{"name":"raw"`},
		{"resources/read", "shop://raw", `{"uri":"shop://raw"`},
	} {
		t.Run(c.method+" "+c.name, func(t *testing.T) {
			before := s.acts.Load()
			state := post(t, url, "ann#1", c.method, c.name, c.params).result(t).State
			first := post(t, url, "ann#1", c.method, c.name, retryOf(c.params, state))
			if strings.Contains(first.body, "error") || strings.Contains(first.body, "requestState") || !strings.Contains(first.body, "serverInfo") {
				t.Fatalf("first: %s", first.body)
			}
			if c.name == "digits" && strings.Count(first.body, "9007199254740993") != 2 {
				t.Errorf("first: %s", first.body)
			}
			for range 3 {
				if again := post(t, url, "ann#2", c.method, c.name, retryOf(c.params, state)); again.body != first.body || again.status != first.status {
					t.Errorf("again  %s\nfirst  %s", again.body, first.body)
				}
			}
			if c.name != "digits" && s.acts.Load() != before+1 {
				t.Errorf("acted %d times", s.acts.Load()-before)
			}
			other := strings.Replace(retryOf(c.params, state), "accept", "decline", 1)
			if r := post(t, url, "ann#1", c.method, c.name, other); !strings.Contains(r.body, refusal) {
				t.Errorf("other answers: %s", r.body)
			}
			if r := post(t, url, "bob#1", c.method, c.name, retryOf(c.params, state)); !strings.Contains(r.body, refusal) {
				t.Errorf("another user: %s", r.body)
			}
		})
	}
}

// A second question is asked again under a fresh state of the same identity.
func TestSettledQuestion(t *testing.T) {
	w := newWorld(t, settling)
	s := newShop(w.protect(nil))
	url := serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	const params = `{"name":"twice","arguments":{}`
	first := func(state string) string {
		return params + `,"inputResponses":{"first":{"action":"accept","content":{}}},"requestState":"` + state + `"`
	}
	second := func(state string) string {
		return params + `,"inputResponses":{"second":{"action":"accept","content":{}}},"requestState":"` + state + `"`
	}
	one := post(t, url, "ann#1", "tools/call", "twice", params).result(t).State
	two := post(t, url, "ann#1", "tools/call", "twice", first(one)).result(t)
	copied := post(t, url, "ann#1", "tools/call", "twice", first(one)).result(t)
	if two.Type != "input_required" || copied.Type != two.Type || copied.State == "" || string(copied.InputRequests) != string(two.InputRequests) {
		t.Fatalf("asked %+v, again %+v", two, copied)
	}
	done := post(t, url, "ann#1", "tools/call", "twice", second(copied.State))
	if !strings.Contains(done.body, "done "+secret+"2") {
		t.Fatalf("done: %s", done.body)
	}
	if again := post(t, url, "ann#1", "tools/call", "twice", second(two.State)); again.body != done.body {
		t.Errorf("the other copy: %s", again.body)
	}
	if s.acts.Load() != 1 {
		t.Errorf("acted %d times", s.acts.Load())
	}
}

// How a handler ends decides what its retry is told.
func TestSettledEndings(t *testing.T) {
	boom := errors.New("boom")
	coded := &jsonrpc.Error{Code: -32099, Message: "no room", Data: json.RawMessage(`{"free":0}`)}
	const unknown = `operation_unknown`
	for _, c := range []struct {
		name        string
		typed, raw  error
		isError     bool
		panics      bool
		first, then string // then "" means the same
	}{
		{name: "typed error", typed: boom, first: `boom`, then: unknown},
		{name: "typed no effect", typed: ledger.NoEffect(boom), first: `boom`},
		{name: "typed refusal", isError: true, first: `refused`},
		{name: "raw error", raw: boom, first: `boom`, then: unknown},
		{name: "raw no effect", raw: ledger.NoEffect(boom), first: `boom`},
		{name: "raw coded", raw: ledger.NoEffect(coded), first: `{"code":-32099,"message":"no room","data":{"free":0}}`},
		{name: "raw wrapped", raw: fmt.Errorf("storing: %w", ledger.NoEffect(coded)), first: `{"code":-32099,"message":"storing: no room"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l *ledger.Memory
			w := newWorld(t, counting(&l))
			var runs atomic.Int64
			s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
			s.AddReceivingMiddleware(w.protect(nil))
			if c.raw != nil {
				s.AddTool(&mcp.Tool{Name: "t", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					if req.Params.InputResponses == nil {
						return &mcp.CallToolResult{InputRequests: ask("confirm", confirm("?"))}, nil
					}
					runs.Add(1)
					return nil, c.raw
				})
			} else {
				mcp.AddTool(s, &mcp.Tool{Name: "t"}, func(ctx context.Context, req *mcp.CallToolRequest, in struct{}) (*mcp.CallToolResult, any, error) {
					if req.Params.InputResponses == nil {
						return &mcp.CallToolResult{InputRequests: ask("confirm", confirm("?"))}, nil, nil
					}
					runs.Add(1)
					if c.isError {
						r := text("refused")
						r.IsError = true
						return r, nil, nil
					}
					return nil, nil, c.typed
				})
			}
			url := serve(t, s, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
			const params = `{"name":"t","arguments":{}`
			state := post(t, url, "ann#1", "tools/call", "t", params).result(t).State
			first := post(t, url, "ann#1", "tools/call", "t", retryOf(params, state))
			again := post(t, url, "ann#1", "tools/call", "t", retryOf(params, state))
			if !strings.Contains(first.body, c.first) {
				t.Errorf("first: %s", first.body)
			}
			if c.then == "" && again.body != first.body || !strings.Contains(again.body, c.then) {
				t.Errorf("again: %s\nfirst: %s", again.body, first.body)
			}
			if runs.Load() != 1 {
				t.Errorf("ran %d times", runs.Load())
			}
			want := ledger.Counts{Failed: 1}
			if c.then == unknown {
				want = ledger.Counts{Unknown: 1}
			}
			if got, err := l.Counts(t.Context()); err != nil || got != want {
				t.Errorf("counts %+v, %v", got, err)
			}
		})
	}
}

// A handler that asks when the flow may not ask any more has done nothing: the
// refusal is its outcome.
func TestSettledTooManyRounds(t *testing.T) {
	var l *ledger.Memory
	mw := newWorld(t, func(o *foil.Options) { counting(&l)(o); o.MaxRounds = 1 }).protect(fixed())
	state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	runs := 0
	for range 2 {
		_, err := step(mw, tool("x", `{}`, state, accept()), func(context.Context, mcp.Request) (mcp.Result, error) {
			runs++
			return &mcp.CallToolResult{InputRequests: ask("more", confirm("?"))}, nil
		})
		if got := wireOf(t, err); got != refusal {
			t.Error(got)
		}
	}
	if got, err := l.Counts(t.Context()); err != nil || got != (ledger.Counts{Failed: 1}) || runs != 1 {
		t.Errorf("counts %+v, %v; ran %d times", got, err, runs)
	}
}

// What could not be recorded is not told.
func TestSettledNotRecorded(t *testing.T) {
	mw := newWorld(t, func(o *foil.Options) {
		settling(o)
		o.Ledger = mute{o.Ledger.(*ledger.Memory)}
	}).protect(fixed())
	state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	_, err := step(mw, tool("x", `{}`, state, accept()), func(context.Context, mcp.Request) (mcp.Result, error) { return text("done"), nil })
	if got := wireOf(t, err); !strings.Contains(got, `"reason":"operation_unknown"`) {
		t.Error(got)
	}
}

// mute records no outcome.
type mute struct{ *ledger.Memory }

func (mute) Finish(context.Context, [ledger.IDLen]byte, uint64, ledger.Finish) error {
	return ledger.ErrFenced
}

// A handler that is to spend the state itself, and does not, is not heard.
func TestDeferredResult(t *testing.T) {
	mw := newWorld(t, func(o *foil.Options) { o.Once = foil.Deferred }).protect(fixed())
	for _, redeems := range []bool{true, false} {
		state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
		handler := func(ctx context.Context, _ mcp.Request) (mcp.Result, error) {
			if redeems {
				if err := mcpsdk.Opened(ctx).Redeem(ctx, nil); err != nil {
					return nil, err
				}
			}
			return text("done"), nil
		}
		_, err := step(mw, tool("x", `{}`, state, accept()), handler)
		if redeems && err != nil || !redeems && wireOf(t, err) != unavailable {
			t.Errorf("redeems %v: %v", redeems, err)
		}
		redeems = true
		_, err = step(mw, tool("x", `{}`, state, accept()), handler)
		if got := wireOf(t, err); got != refusal {
			t.Errorf("again: %s", got)
		}
	}
}

func TestSettledPanic(t *testing.T) {
	mw := newWorld(t, settling).protect(fixed())
	state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	func() {
		defer func() {
			if recover() != "bang" {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = step(mw, tool("x", `{}`, state, accept()), func(context.Context, mcp.Request) (mcp.Result, error) { panic("bang") })
	}()
	_, err := step(mw, tool("x", `{}`, state, accept()), func(context.Context, mcp.Request) (mcp.Result, error) {
		t.Error("ran again")
		return text(""), nil
	})
	if got := wireOf(t, err); !strings.Contains(got, `"reason":"operation_unknown"`) {
		t.Error(got)
	}
}

// The bytes get the SDK's _meta and the state, wherever they have their own.
func TestSplice(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`:               `{"_meta":{"s":1},"requestState":"T"}`,
		`{"content":null}`: `{"_meta":{"s":1},"requestState":"T","content":null}`,
		`{"a":1,"_meta":{"big":9007199254740993},"b":2}`: `{"requestState":"T","a":1,"_meta":{"big":9007199254740993,"s":1},"b":2}`,
		`{"_meta":{}}`:                `{"requestState":"T","_meta":{"s":1}}`,
		`{"_meta":{"s":"own"},"a":1}`: `{"requestState":"T","_meta":{"s":"own"},"a":1}`,
	} {
		if got := mcpsdk.Splice(t, []byte(raw), "T", "s", 1); got != want {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
	}
}
