package mcpsdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// requests has one of each guarded type; each call makes a fresh one.
var requests = map[string]func(state string, answers mcp.InputResponseMap) mcp.Request{
	"tool": func(state string, answers mcp.InputResponseMap) mcp.Request {
		r := tool("x", `{"a":1}`, state, answers)
		r.Params.Meta, r.Extra = mcp.Meta{"m": 1}, &mcp.RequestExtra{}
		return r
	},
	"prompt": func(state string, answers mcp.InputResponseMap) mcp.Request {
		return &mcp.GetPromptRequest{Extra: &mcp.RequestExtra{}, Params: &mcp.GetPromptParams{Name: "x", Meta: mcp.Meta{"m": 1}, Arguments: map[string]string{"a": "1"}, RequestState: state, InputResponses: answers}}
	},
	"resource": func(state string, answers mcp.InputResponseMap) mcp.Request {
		return &mcp.ReadResourceRequest{Extra: &mcp.RequestExtra{}, Params: &mcp.ReadResourceParams{URI: "x://y", Meta: mcp.Meta{"m": 1}, RequestState: state, InputResponses: answers}}
	},
}

// Neither the request that came in nor the result that the handler returned is
// changed, even by a handler that changes what it got.
func TestNothingIsMutated(t *testing.T) {
	for name, mk := range requests {
		t.Run(name, func(t *testing.T) {
			mw := newWorld(t, nil).protect(fixed())
			state := sealed(t, mw, mk("", nil), ask("confirm", confirm("?")))
			answers := func() mcp.InputResponseMap {
				a := accept()
				a["unasked"] = &mcp.ElicitResult{Action: "accept"}
				return a
			}
			for _, c := range []struct {
				name          string
				before, after mcp.Request
			}{
				{"retry", mk(state, answers()), mk(state, answers())},
				{"bare", mk("", answers()), mk("", answers())},
				{"plain", mk("", nil), mk("", nil)},
			} {
				var returned, snapshot mcp.Result
				_, err := step(mw, c.before, func(_ context.Context, got mcp.Request) (mcp.Result, error) {
					if got.GetExtra() != c.before.GetExtra() {
						t.Errorf("%s: extra did not carry over", c.name)
					}
					if reflect.TypeOf(got) != reflect.TypeOf(c.before) {
						t.Errorf("%s: handler got a %T", c.name, got)
					}
					returned, snapshot = asking(got), asking(got)
					if c.name != "plain" { // there the handler gets the request itself
						spoil(got)
					}
					return returned, nil
				})
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if !reflect.DeepEqual(c.before, c.after) {
					t.Errorf("%s: the request was changed to %+v", c.name, c.before.GetParams())
				}
				if !reflect.DeepEqual(returned, snapshot) {
					t.Errorf("%s: the result was changed to %+v", c.name, returned)
				}
			}
		})
	}
}

func asking(req mcp.Request) mcp.Result {
	q := ask("confirm", confirm("?"))
	switch req.(type) {
	case *mcp.GetPromptRequest:
		return &mcp.GetPromptResult{InputRequests: q, RequestState: secret, Meta: mcp.Meta{"r": 1}}
	case *mcp.ReadResourceRequest:
		return &mcp.ReadResourceResult{InputRequests: q, RequestState: secret, Cacheable: mcp.Cacheable{TTLMs: 5, CacheScope: "public"}}
	}
	return &mcp.CallToolResult{InputRequests: q, RequestState: secret, Meta: mcp.Meta{"r": 1}}
}

// spoil does to a request what a careless handler might.
func spoil(req mcp.Request) {
	switch r := req.(type) {
	case *mcp.CallToolRequest:
		clear(r.Params.InputResponses)
		r.Params.Name, r.Params.RequestState = "spoilt", "spoilt"
	case *mcp.GetPromptRequest:
		clear(r.Params.InputResponses)
		r.Params.Name, r.Params.RequestState = "spoilt", "spoilt"
	case *mcp.ReadResourceRequest:
		clear(r.Params.InputResponses)
		r.Params.URI, r.Params.RequestState = "spoilt", "spoilt"
	}
}

// A state on a result that asks nothing never leaves.
func TestStrayStateIsDropped(t *testing.T) {
	w := newWorld(t, nil)
	for name, res := range map[string]mcp.Result{
		"tool":     &mcp.CallToolResult{RequestState: secret},
		"error":    &mcp.CallToolResult{RequestState: secret, IsError: true},
		"prompt":   &mcp.GetPromptResult{RequestState: secret},
		"resource": &mcp.ReadResourceResult{RequestState: secret},
	} {
		w.logs.buf.Reset()
		got, err := step(w.protect(fixed()), requests[map[bool]string{true: "tool", false: name}[name == "error"]]("", nil),
			func(context.Context, mcp.Request) (mcp.Result, error) { return res, nil })
		if err != nil {
			t.Fatal(err)
		}
		if b, err := json.Marshal(got); err != nil || strings.Contains(string(b), "requestState") {
			t.Errorf("%s left as %s, %v", name, b, err)
		}
		w.logs.want(t, "dropped")
		if strings.Contains(w.logs.String(), secret) {
			t.Error("the log holds the state")
		}
	}
}

// What neither asks nor carries a state is the handler's own, to the pointer.
func TestOtherResultsPassUntouched(t *testing.T) {
	failed := &mcp.CallToolResult{}
	failed.SetError(errors.New("no such object"))
	for _, want := range []*mcp.CallToolResult{text("ok"), failed, {IsError: true}} {
		got, err := step(newWorld(t, nil).protect(fixed()), tool("x", `{}`, "", nil), func(context.Context, mcp.Request) (mcp.Result, error) { return want, nil })
		if err != nil || got != mcp.Result(want) {
			t.Errorf("got %+v %v", got, err)
		}
	}
	// On a retry it is a copy, which keeps the error for outer middleware.
	mw := newWorld(t, nil).protect(fixed())
	state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	failed.RequestState = secret
	got, err := step(mw, tool("x", `{}`, state, nil), func(context.Context, mcp.Request) (mcp.Result, error) { return failed, nil })
	if r, ok := got.(*mcp.CallToolResult); err != nil || !ok || r.GetError() == nil || r.RequestState != "" {
		t.Errorf("got %+v %v", got, err)
	}
}

func TestErrorsPassAndTakeTheResultWithThem(t *testing.T) {
	boom := errors.New("boom")
	got, err := step(newWorld(t, nil).protect(fixed()), tool("x", `{}`, "", nil), func(context.Context, mcp.Request) (mcp.Result, error) {
		return &mcp.CallToolResult{RequestState: secret}, boom
	})
	if got != nil || err != boom {
		t.Errorf("got %v %v", got, err)
	}
}

func TestNoResult(t *testing.T) {
	for _, res := range []mcp.Result{nil, (*mcp.CallToolResult)(nil), (*mcp.GetPromptResult)(nil), (*mcp.ReadResourceResult)(nil)} {
		got, err := step(newWorld(t, nil).protect(fixed()), tool("x", `{}`, "", nil), func(context.Context, mcp.Request) (mcp.Result, error) { return res, nil })
		if want := `{"code":-32603,"message":"the tool returned no result"}`; got != nil || wireOf(t, err) != want {
			t.Errorf("%T: %v %v", res, got, err)
		}
	}
	for _, version := range []string{modern, legacy} {
		s := newShop(newWorld(t, nil).protect(fixed()))
		_, err := inMemory(t, s.Server, newClient(false), version).CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"})
		if got := remote(t, err); got != `{"code":-32603,"message":"the tool returned no result"}` {
			t.Errorf("%s: %s", version, got)
		}
	}
}

// A result that embeds the SDK's would carry a state past the checks.
func TestForeignResultTypeIsRefused(t *testing.T) {
	type mine struct{ *mcp.CallToolResult }
	w := newWorld(t, nil)
	got, err := step(w.protect(fixed()), tool("x", `{}`, "", nil), func(context.Context, mcp.Request) (mcp.Result, error) {
		return mine{&mcp.CallToolResult{RequestState: secret}}, nil
	})
	if got != nil || !strings.Contains(wireOf(t, err), "-32603") {
		t.Errorf("got %v %v", got, err)
	}
	w.logs.want(t, "mcpsdk_test.mine")
}

// Nothing plain leaves when sealing fails.
func TestSealFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*foil.Options)
		res    *mcp.CallToolResult
	}{
		"too large":   {func(o *foil.Options) { o.MaxToken = 300 }, &mcp.CallToolResult{InputRequests: ask("q", confirm("?")), RequestState: strings.Repeat(secret, 20)}},
		"not UTF-8":   {nil, &mcp.CallToolResult{InputRequests: ask("q", confirm("?")), RequestState: "\xff"}},
		"no question": {nil, &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": nil}, RequestState: secret}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.change)
			got, err := step(w.protect(fixed()), tool("x", `{}`, "", nil), func(context.Context, mcp.Request) (mcp.Result, error) { return c.res, nil })
			if got != nil || wireOf(t, err) != unavailable {
				t.Errorf("got %v %v", got, err)
			}
			if log := w.logs.String(); log == "" || strings.Contains(log, secret) {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// The end of a flow is the client's doing.
func TestTooManyRounds(t *testing.T) {
	mw := newWorld(t, func(o *foil.Options) { o.MaxRounds = 1 }).protect(fixed())
	state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	got, err := step(mw, tool("x", `{}`, state, nil), func(_ context.Context, req mcp.Request) (mcp.Result, error) { return asking(req), nil })
	if got != nil || wireOf(t, err) != refusal {
		t.Errorf("got %v %v", got, err)
	}
}

// The specification forbids to cache what belongs to one exchange of questions.
func TestRoundTripsAreUncacheable(t *testing.T) {
	public := mcp.Cacheable{TTLMs: 60000, CacheScope: "public"}
	private := mcp.Cacheable{TTLMs: 0, CacheScope: "private"}
	mw := newWorld(t, nil).protect(fixed())
	mk := requests["resource"]
	state := sealed(t, mw, mk("", nil), ask("confirm", confirm("?")))
	for _, c := range []struct {
		name string
		req  mcp.Request
		asks bool
		want mcp.Cacheable
	}{
		{"plain", mk("", nil), false, public},
		{"asks", mk("", nil), true, private},
		{"bare answers", mk("", accept()), false, private},
		{"retry", mk(state, accept()), false, private},
	} {
		got, err := step(mw, c.req, func(context.Context, mcp.Request) (mcp.Result, error) {
			r := &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}, Cacheable: public}
			if c.asks {
				r.InputRequests = ask("confirm", confirm("?"))
			}
			return r, nil
		})
		if err != nil || got.(*mcp.ReadResourceResult).Cacheable != c.want {
			t.Errorf("%s: %+v %v", c.name, got, err)
		}
	}

	s := newShop(mw)
	url := serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	r := post(t, url, "alice", "resources/read", "shop://raw", `{"uri":"shop://raw"`)
	if !strings.Contains(r.body, `"ttlMs":0,"cacheScope":"private"`) {
		t.Errorf("asking: %s", r.body)
	}
	r = post(t, url, "alice", "resources/read", "shop://raw", `{"uri":"shop://raw","requestState":"`+r.result(t).State+`","inputResponses":{"confirm":{"action":"accept"}}`)
	if !strings.Contains(r.body, `"ttlMs":0,"cacheScope":"private"`) || !strings.Contains(r.body, "done ") {
		t.Errorf("retry: %s", r.body)
	}
}

// A panic goes on to the SDK, as it would without Protect.
func TestHandlerPanics(t *testing.T) {
	defer func() {
		if recover() != "boom" {
			t.Error("the panic did not get through")
		}
	}()
	_, _ = step(newWorld(t, nil).protect(fixed()), tool("x", `{}`, "", nil), func(context.Context, mcp.Request) (mcp.Result, error) { panic("boom") })
}

// Printing what a handler has in hand tells no state and no answer.
func TestRoundIsRedacted(t *testing.T) {
	mw := newWorld(t, nil).protect(fixed())
	state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	_, err := step(mw, tool("x", `{}`, state, accept()), func(ctx context.Context, _ mcp.Request) (mcp.Result, error) {
		r := mcpsdk.Opened(ctx)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			if s := fmt.Sprintf(verb, r); strings.Contains(s, secret) || !strings.Contains(s, r.Flow()) {
				t.Errorf("%s prints %s", verb, s)
			}
		}
		if s := r.LogValue().String(); strings.Contains(s, secret) || !strings.Contains(s, r.Flow()) {
			t.Errorf("logs %s", s)
		}
		return text("ok"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
