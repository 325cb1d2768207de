package mcpsdk_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// doors are the ways a client can come in.
var doors = []struct {
	name string
	open func(t *testing.T, w *world, auto bool) (*shop, *mcp.ClientSession)
}{
	{"memory", func(t *testing.T, w *world, auto bool) (*shop, *mcp.ClientSession) {
		s := newShop(w.protect(fixed()))
		return s, inMemory(t, s.Server, newClient(auto), modern)
	}},
	{"http-sse", func(t *testing.T, w *world, auto bool) (*shop, *mcp.ClientSession) {
		s := newShop(w.protect(nil))
		return s, dial(t, newClient(auto), serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true}), "alice", modern)
	}},
	{"http-json", func(t *testing.T, w *world, auto bool) (*shop, *mcp.ClientSession) {
		s := newShop(w.protect(nil))
		return s, dial(t, newClient(auto), serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}), "alice", modern)
	}},
	{"legacy-memory", func(t *testing.T, w *world, auto bool) (*shop, *mcp.ClientSession) {
		s := newShop(w.protect(nil)) // nothing is sealed, so no principal is needed
		return s, inMemory(t, s.Server, newClient(auto), legacy)
	}},
	{"legacy-http", func(t *testing.T, w *world, auto bool) (*shop, *mcp.ClientSession) {
		s := newShop(w.protect(nil))
		return s, dial(t, newClient(auto), serve(t, s.Server, nil), "alice", legacy)
	}},
}

// get calls a handler of each kind and returns the text that it answers.
var kinds = []struct {
	name string
	get  func(ctx context.Context, cs *mcp.ClientSession) (string, error)
}{
	{"typed tool", func(ctx context.Context, cs *mcp.ClientSession) (string, error) {
		r, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "typed", Arguments: map[string]any{"item": "tea"}})
		return toolText(r), err
	}},
	{"raw tool", func(ctx context.Context, cs *mcp.ClientSession) (string, error) {
		r, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "raw", Arguments: map[string]any{"item": "tea"}})
		return toolText(r), err
	}},
	{"prompt", func(ctx context.Context, cs *mcp.ClientSession) (string, error) {
		r, err := cs.GetPrompt(ctx, &mcp.GetPromptParams{Name: "raw", Arguments: map[string]string{"item": "<tea>"}})
		if err != nil {
			return "", err
		}
		return r.Description, nil
	}},
	{"resource", func(ctx context.Context, cs *mcp.ClientSession) (string, error) {
		r, err := cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: "shop://raw"})
		if err != nil || len(r.Contents) == 0 {
			return "", err
		}
		return r.Contents[0].Text, nil
	}},
}

func toolText(r *mcp.CallToolResult) string {
	if r == nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func TestRoundTripThroughEveryDoor(t *testing.T) {
	for _, d := range doors {
		for _, k := range kinds {
			t.Run(d.name+"/"+k.name, func(t *testing.T) {
				w := newWorld(t, nil)
				s, cs := d.open(t, w, true)
				got, err := k.get(t.Context(), cs)
				if err != nil || got != "done "+secret {
					t.Fatalf("got %q, %v", got, err)
				}
				if s.runs.Load() != 2 || s.acts.Load() != 1 {
					t.Errorf("ran %d times, acted %d times", s.runs.Load(), s.acts.Load())
				}
				if log := w.logs.String(); log != "" {
					t.Errorf("an honest flow is logged:\n%s", log)
				}
			})
		}
	}
}

func TestStateLeavesSealed(t *testing.T) {
	for _, tool := range []string{"typed", "raw", "stateless"} {
		t.Run(tool, func(t *testing.T) {
			s := newShop(newWorld(t, nil).protect(nil))
			url := serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
			r := post(t, url, "alice", "tools/call", tool, `{"name":"`+tool+`","arguments":{"item":"tea"}`)
			if m := r.result(t); m.Type != "input_required" || !strings.HasPrefix(m.State, "v1.") {
				t.Errorf("got %s", r.body)
			}
			if strings.Contains(r.body, secret) {
				t.Errorf("the plain state left: %s", r.body)
			}
		})
	}
}

// A state alone, without questions, is a way to be called again.
func TestStateOnlyRound(t *testing.T) {
	mw := newWorld(t, nil).protect(fixed())
	res, err := step(mw, tool("shed", `{}`, "", nil), func(context.Context, mcp.Request) (mcp.Result, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}, RequestState: secret}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := res.(*mcp.CallToolResult)
	if !strings.HasPrefix(r.RequestState, "v1.") || r.InputRequests == nil {
		t.Fatalf("got %+v", r)
	}
	ran := false
	_, err = step(mw, tool("shed", `{}`, r.RequestState, mcp.InputResponseMap{}), func(_ context.Context, req mcp.Request) (mcp.Result, error) {
		p := req.(*mcp.CallToolRequest).Params
		if ran = true; p.RequestState != secret || p.InputResponses != nil {
			t.Errorf("handler got %+v", p)
		}
		return text("ok"), nil
	})
	if err != nil || !ran {
		t.Errorf("ran %v, %v", ran, err)
	}
}

func tool(name, args, state string, answers mcp.InputResponseMap) *mcp.CallToolRequest {
	return &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: name, Arguments: []byte(args), RequestState: state, InputResponses: answers}}
}

// sealed runs a first round and returns its token.
func sealed(t *testing.T, mw mcp.Middleware, req mcp.Request, questions mcp.InputRequestMap) string {
	t.Helper()
	res, err := step(mw, req, func(context.Context, mcp.Request) (mcp.Result, error) {
		switch req.(type) {
		case *mcp.GetPromptRequest:
			return &mcp.GetPromptResult{InputRequests: questions, RequestState: secret}, nil
		case *mcp.ReadResourceRequest:
			return &mcp.ReadResourceResult{InputRequests: questions, RequestState: secret}, nil
		}
		return &mcp.CallToolResult{InputRequests: questions, RequestState: secret}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	switch r := res.(type) {
	case *mcp.GetPromptResult:
		return r.RequestState
	case *mcp.ReadResourceResult:
		return r.RequestState
	}
	return res.(*mcp.CallToolResult).RequestState
}

func TestFlowGoesOn(t *testing.T) {
	w := newWorld(t, nil)
	mw := w.protect(fixed())
	var flow string
	var rounds []int
	state := ""
	for range 3 {
		res, err := step(mw, tool("x", `{}`, state, nil), func(ctx context.Context, req mcp.Request) (mcp.Result, error) {
			o := mcpsdk.Opened(ctx)
			rounds = append(rounds, o.Round())
			if o.Round() == 0 {
				if o.Flow() != "" || o.State() != "" || !o.Expires().IsZero() || !o.Deadline().IsZero() {
					t.Errorf("a call without a state has %v %v %v %v", o, o.State(), o.Expires(), o.Deadline())
				}
			} else {
				if flow == "" {
					flow = o.Flow()
				}
				if o.Flow() != flow || o.State() != secret || o.Expires().IsZero() || !o.Deadline().After(o.Expires()) {
					t.Errorf("round %d has %v %v %v %v", o.Round(), o, o.State(), o.Expires(), o.Deadline())
				}
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}, RequestState: secret}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		state = res.(*mcp.CallToolResult).RequestState
	}
	if len(rounds) != 3 || rounds[0] != 0 || rounds[1] != 1 || rounds[2] != 2 {
		t.Errorf("rounds %v", rounds)
	}
}

func TestOpenedWithoutProtect(t *testing.T) {
	o := mcpsdk.Opened(context.Background())
	if a, s := o.Answer("confirm", confirm("?")); a != nil || s != foil.Missing || o.Round() != 0 {
		t.Errorf("got %v %v %v", a, s, o)
	}
	// A server that forgot Protect must not take answers for consent.
	if a, s := mcpsdk.Answer(context.Background(), tool("x", `{}`, "", accept()), "confirm", confirm("?")); a != nil || s != foil.Missing {
		t.Errorf("got %v %v", a, s)
	}
	if _, err := o.Claims().Redeem(context.Background(), "foil-claim.x"); err == nil {
		t.Error("redeemed without a store")
	}
}

func TestOtherMethodsPassUntouched(t *testing.T) {
	mw := newWorld(t, nil).protect(&mcpsdk.Options{Principal: func(context.Context, mcp.Request) (foil.Principal, error) {
		panic("asked for the principal")
	}})
	in := &mcp.ListToolsRequest{Params: &mcp.ListToolsParams{}}
	out := &mcp.ListToolsResult{}
	got, err := mw(func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method != "tools/list" || req != mcp.Request(in) {
			t.Errorf("got %s %v", method, req)
		}
		return out, nil
	})(context.Background(), "tools/list", in)
	if err != nil || got != mcp.Result(out) {
		t.Errorf("got %v %v", got, err)
	}
}

func TestProtectPanicsOnMistakes(t *testing.T) {
	w := newWorld(t, nil)
	for name, f := range map[string]func(){
		"nil guard": func() { mcpsdk.Protect(nil, nil) },
		"contradiction": func() {
			mcpsdk.Protect(w.guard, &mcpsdk.Options{Principal: mcpsdk.Anonymous, Issuer: "https://as.test"})
		},
		"blank issuer": func() { mcpsdk.Protect(w.guard, &mcpsdk.Options{Issuer: " "}) },
		"unknown":      func() { mcpsdk.Protect(w.guard, &mcpsdk.Options{BareAnswers: 9}) },
		"blank name":   func() { mcpsdk.Fixed(" ") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "mcpsdk: ") {
					t.Errorf("panic %q", s)
				}
			}()
			f()
		})
	}
}

// One token presented by many at once acts once.
func TestConcurrentPresentations(t *testing.T) {
	s := newShop(newWorld(t, nil).protect(fixed()))
	cs := inMemory(t, s.Server, newClient(false), modern)
	args := map[string]any{"item": "tea"}
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "raw", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var ok, refused atomic.Int64
	for range 64 {
		wg.Go(func() {
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "raw", Arguments: args, RequestState: r.RequestState, InputResponses: accept()})
			switch {
			case err == nil && toolText(res) == "done "+secret:
				ok.Add(1)
			case err != nil && remote(t, err) == refusal:
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if ok.Load() != 1 || refused.Load() != 63 || s.acts.Load() != 1 {
		t.Errorf("%d accepted, %d refused, acted %d times", ok.Load(), refused.Load(), s.acts.Load())
	}
}
