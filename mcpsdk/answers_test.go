//lint:file-ignore SA1019 sampling and roots are deprecated and still part of the protocol

package mcpsdk_test

import (
	"context"
	"strings"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// questions has one of every kind the protocol knows, with the answer to it.
var questions = []struct {
	name   string
	ask    func() mcp.InputRequest
	other  mcp.InputRequest // reworded
	answer mcp.InputResponse
}{
	{"form", func() mcp.InputRequest { return confirm("<Pay> 3 € & go?") }, confirm("Pay 4?"), &mcp.ElicitResult{Action: "accept"}},
	{"form, mode told", func() mcp.InputRequest { q := confirm("Pay 3?"); q.Mode = "form"; return q }, &mcp.ElicitParams{Message: "Pay 3?"}, &mcp.ElicitResult{Action: "decline"}},
	{"url", func() mcp.InputRequest {
		return &mcp.ElicitParams{Message: "Sign in", URL: "https://pay.test/?a=1&b=2", ElicitationID: "e1"}
	}, &mcp.ElicitParams{Message: "Sign in", URL: "https://evil.test/", ElicitationID: "e1"}, &mcp.ElicitResult{Action: "accept"}},
	{"sampling", func() mcp.InputRequest {
		return &mcp.CreateMessageParams{MaxTokens: 9, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}}
	}, &mcp.CreateMessageParams{MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}},
		&mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", Content: []mcp.Content{&mcp.TextContent{Text: "yo"}}}},
	{"sampling with tools", func() mcp.InputRequest {
		return &mcp.CreateMessageWithToolsParams{MaxTokens: 9, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}}}
	}, &mcp.CreateMessageWithToolsParams{MaxTokens: 8, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}}},
		&mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", Content: []mcp.Content{&mcp.TextContent{Text: "a"}, &mcp.TextContent{Text: "b"}}}},
	{"roots", func() mcp.InputRequest { return &mcp.ListRootsParams{} }, &mcp.ListRootsParams{Meta: mcp.Meta{"x": 1}}, &mcp.ListRootsResult{Roots: []*mcp.Root{{URI: "file:///a"}}}},
}

func TestAnswerToEachKindOfQuestion(t *testing.T) {
	for i, q := range questions {
		t.Run(q.name, func(t *testing.T) {
			mw := newWorld(t, nil).protect(fixed())
			state := sealed(t, mw, tool("x", `{}`, "", nil), ask("q", q.ask()))
			_, err := step(mw, tool("x", `{}`, state, mcp.InputResponseMap{"q": q.answer}), func(ctx context.Context, req mcp.Request) (mcp.Result, error) {
				if a, s := mcpsdk.Answer(ctx, req, "q", q.ask()); s != foil.Answered || a != q.answer {
					t.Errorf("got %v %v", a, s)
				}
				if a, s := mcpsdk.Opened(ctx).Answer("q", q.ask()); s != foil.Answered || a != q.answer {
					t.Errorf("Opened: %v %v", a, s)
				}
				if a, s := mcpsdk.Answer(ctx, req, "q", q.other); s != foil.Reworded || a != nil {
					t.Errorf("another question: %v %v", a, s)
				}
				if a, s := mcpsdk.Answer(ctx, req, "z", q.ask()); s != foil.Missing || a != nil {
					t.Errorf("another key: %v %v", a, s)
				}
				if a, s := mcpsdk.Answer(ctx, req, "q", nil); s != foil.Missing || a != nil {
					t.Errorf("no question: %v %v", a, s)
				}
				return text("ok"), nil
			})
			if err != nil {
				t.Fatal(err)
			}

			// Answers of the kinds that were not asked for are dropped.
			for j, wrong := range questions {
				if kindOf(wrong.answer) == kindOf(q.answer) {
					continue
				}
				state := sealed(t, mw, tool("x", `{}`, "", nil), ask("q", q.ask()))
				_, err := step(mw, tool("x", `{}`, state, mcp.InputResponseMap{"q": wrong.answer}), func(ctx context.Context, req mcp.Request) (mcp.Result, error) {
					if got := req.(*mcp.CallToolRequest).Params.InputResponses; got != nil {
						t.Errorf("question %d, answer %d reached the handler: %v", i, j, got)
					}
					if _, s := mcpsdk.Answer(ctx, req, "q", q.ask()); s != foil.Missing {
						t.Errorf("question %d, answer %d: %v", i, j, s)
					}
					return text("ok"), nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func kindOf(a mcp.InputResponse) string {
	switch a.(type) {
	case *mcp.ElicitResult:
		return "elicitation"
	case *mcp.ListRootsResult:
		return "roots"
	}
	return "sampling"
}

// An answer to a later question cannot be slipped in beforehand.
func TestUnaskedAnswersAreDropped(t *testing.T) {
	w := newWorld(t, nil)
	mw := w.protect(fixed())
	state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	answers := accept()
	answers["count"] = &mcp.ElicitResult{Action: "accept"}
	_, err := step(mw, tool("x", `{}`, state, answers), func(_ context.Context, req mcp.Request) (mcp.Result, error) {
		if diff := cmp.Diff(accept(), req.(*mcp.CallToolRequest).Params.InputResponses); diff != "" {
			t.Error(diff)
		}
		return text("ok"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.logs.want(t, "dropped=1")
	if len(answers) != 2 {
		t.Error("the caller's map was changed")
	}
}

// What counts is the length of an answer as it was sent, not with every "<" in
// six bytes.
func TestLongAnswer(t *testing.T) {
	mw := newWorld(t, nil).protect(fixed())
	state := sealed(t, mw, tool("x", `{}`, "", nil), ask("q", confirm("?")))
	page := strings.Repeat("<&>", 1<<20)
	answers := mcp.InputResponseMap{"q": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"page": page}}}
	_, err := step(mw, tool("x", `{}`, state, answers), func(ctx context.Context, req mcp.Request) (mcp.Result, error) {
		if a, s := mcpsdk.Answer(ctx, req, "q", confirm("?")); s != foil.Answered || a.(*mcp.ElicitResult).Content["page"] != page {
			t.Error("the answer did not arrive", s)
		}
		return text("ok"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A handler whose question changed between the rounds asks again and does
// nothing, in the new world and in the old.
func TestRewordedQuestion(t *testing.T) {
	s := newShop(newWorld(t, nil).protect(fixed()))
	cs := inMemory(t, s.Server, newClient(false), modern)
	args := map[string]any{"item": "tea"}
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "typed", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	s.price.Store(1000)
	r, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "typed", Arguments: args, RequestState: r.RequestState, InputResponses: accept()})
	if err != nil || !r.NeedsInput() || s.acts.Load() != 0 {
		t.Fatalf("got %+v %v, acted %d times", r, err, s.acts.Load())
	}
	r, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "typed", Arguments: args, RequestState: r.RequestState, InputResponses: accept()})
	if err != nil || toolText(r) != "done "+secret || s.acts.Load() != 1 {
		t.Errorf("the new question: %+v %v, acted %d times", r, err, s.acts.Load())
	}
}

func TestBareAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		choice foil.Choice
		log    string
	}{{"stripped", foil.Default, "stripped"}, {"refused", foil.Refuse, "refused"}, {"allowed", foil.Allow, "allowed"}} {
		for _, req := range []func(mcp.InputResponseMap) mcp.Request{
			func(a mcp.InputResponseMap) mcp.Request { return tool("x", `{}`, "", a) },
			func(a mcp.InputResponseMap) mcp.Request {
				return &mcp.GetPromptRequest{Params: &mcp.GetPromptParams{Name: "x", InputResponses: a}}
			},
			func(a mcp.InputResponseMap) mcp.Request {
				return &mcp.ReadResourceRequest{Params: &mcp.ReadResourceParams{URI: "x://y", InputResponses: a}}
			},
		} {
			w := newWorld(t, nil)
			mw := w.protect(&mcpsdk.Options{Principal: mcpsdk.Fixed("local"), BareAnswers: c.choice})
			sent := req(accept())
			ran := false
			_, err := step(mw, sent, func(ctx context.Context, got mcp.Request) (mcp.Result, error) {
				ran = true
				a, status := mcpsdk.Answer(ctx, got, "confirm", confirm("?"))
				if c.choice == foil.Allow {
					if got != sent || status != foil.Answered || a != answersIn(sent)["confirm"] {
						t.Errorf("%s: %v, answer %v %v", c.name, got, a, status)
					}
					if _, status := mcpsdk.Answer(ctx, got, "confirm", &mcp.ListRootsParams{}); status != foil.Missing {
						t.Errorf("%s: an answer of another kind: %v", c.name, status)
					}
				} else if answersIn(got) != nil || a != nil || status != foil.Missing {
					t.Errorf("%s: %v, answer %v %v", c.name, answersIn(got), a, status)
				}
				return resultFor(got), nil
			})
			if c.choice == foil.Refuse {
				if ran || wireOf(t, err) != refusal {
					t.Errorf("%s: ran %v, %v", c.name, ran, err)
				}
			} else if err != nil || !ran {
				t.Errorf("%s: ran %v, %v", c.name, ran, err)
			}
			w.logs.want(t, "answers without a state "+c.log)
			if answersIn(sent) == nil {
				t.Error("the caller's request was changed")
			}

			// No answers in an empty map: nothing to refuse, nothing to see.
			if c.choice != foil.Allow {
				_, err = step(mw, req(mcp.InputResponseMap{}), func(_ context.Context, got mcp.Request) (mcp.Result, error) {
					if answersIn(got) != nil {
						t.Errorf("%s: an empty map reached the handler", c.name)
					}
					return resultFor(got), nil
				})
				if err != nil {
					t.Errorf("%s: empty map: %v", c.name, err)
				}
			}
		}
	}
}

func answersIn(req mcp.Request) mcp.InputResponseMap {
	switch r := req.(type) {
	case *mcp.GetPromptRequest:
		return r.Params.InputResponses
	case *mcp.ReadResourceRequest:
		return r.Params.InputResponses
	}
	return req.(*mcp.CallToolRequest).Params.InputResponses
}

func resultFor(req mcp.Request) mcp.Result {
	switch req.(type) {
	case *mcp.GetPromptRequest:
		return &mcp.GetPromptResult{}
	case *mcp.ReadResourceRequest:
		return &mcp.ReadResourceResult{}
	}
	return text("ok")
}

// A handler of its own accord that trusts any answer asks again, since a bare
// one does not reach it.
func TestBareAnswerAsksAgain(t *testing.T) {
	s := newShop(newWorld(t, nil).protect(nil))
	url := serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true})
	r := post(t, url, "alice", "tools/call", "stateless", `{"name":"stateless","arguments":{},"inputResponses":{"confirm":{"action":"accept"}}`)
	if m := r.result(t); m.Type != "input_required" || !strings.HasPrefix(m.State, "v1.") || s.acts.Load() != 0 {
		t.Errorf("got %s, acted %d times", r.body, s.acts.Load())
	}
}

// A handler that reads under another key than it asks under would ask for ever,
// and nobody would know why.
func TestUnreadAnswerIsLogged(t *testing.T) {
	for key, want := range map[string]bool{"confrim": true, "confirm": false} {
		w := newWorld(t, nil)
		mw := w.protect(fixed())
		q := confirm("?")
		state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", q))
		_, err := step(mw, tool("x", `{}`, state, accept()), func(ctx context.Context, req mcp.Request) (mcp.Result, error) {
			mcpsdk.Answer(ctx, req, key, q)
			return &mcp.CallToolResult{InputRequests: ask("confirm", q)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(w.logs.String(), "is that the key that Answer was called with?"); got != want {
			t.Errorf("read under %q: logged %v, want %v", key, got, want)
		}
	}
}
