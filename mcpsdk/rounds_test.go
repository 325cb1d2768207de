package mcpsdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lineage are the claims that a later round of a flow inherits, or must not.
type lineage struct {
	Flow     string            `json:"fid"`
	Round    int               `json:"rnd"`
	Deadline json.Number       `json:"dl"`
	ID       string            `json:"jti"`
	Holder   string            `json:"p"`
	Method   string            `json:"m"`
	Target   string            `json:"t"`
	Digest   string            `json:"ax"`
	Asked    map[string]string `json:"k"`
	State    string            `json:"s"`
}

// readable is a world whose tokens a test can read.
func readable(t *testing.T, change func(*foil.Options)) (w *world, read func(token string) lineage) {
	t.Helper()
	codec := aesgcm.Ephemeral()
	var guard *foil.Guard
	w = newWorld(t, func(o *foil.Options) {
		if change != nil {
			change(o)
		}
		var err error
		if guard, err = foil.New(codec, o); err != nil {
			t.Fatal(err)
		}
	})
	w.guard = guard
	return w, func(token string) (l lineage) {
		t.Helper()
		payload, err := codec.Open(t.Context(), token)
		if err == nil {
			err = json.Unmarshal(payload, &l)
		}
		if err != nil {
			t.Fatalf("a token of this server: %v", err)
		}
		return l
	}
}

// follows checks that after is of the round after before's, and as bound as it.
func follows(t *testing.T, what string, before, after lineage) {
	t.Helper()
	if after.Flow == "" || after.Flow != before.Flow || after.Round != before.Round+1 || after.Deadline == "" || after.Deadline != before.Deadline {
		t.Errorf("%s: flow %s, round %d, deadline %s after %s, %d, %s", what, after.Flow, after.Round, after.Deadline, before.Flow, before.Round, before.Deadline)
	}
	if after.ID == before.ID || after.ID == "" || after.Holder == before.Holder || after.Holder == "" {
		t.Errorf("%s: identity %s and holder %s after %s and %s", what, after.ID, after.Holder, before.ID, before.Holder)
	}
	if after.Method != before.Method || after.Target != before.Target || after.Digest != before.Digest {
		t.Errorf("%s: bound to %s %s %s after %s %s %s", what, after.Method, after.Target, after.Digest, before.Method, before.Target, before.Digest)
	}
	if len(after.Asked) != 1 {
		t.Errorf("%s: %d questions are bound, not the one that was asked", what, len(after.Asked))
	}
}

// Every round of a flow that asks again goes on with the flow, counts, and never
// renews the flow's deadline, however much later it asks.
func TestLaterRoundsKeepTheirFlow(t *testing.T) {
	for name, change := range map[string]func(*foil.Options){"redeem": nil, "settle": settling} {
		for kind, request := range map[string]func(state string, a mcp.InputResponseMap) mcp.Request{
			"tool": func(state string, a mcp.InputResponseMap) mcp.Request { return tool("x", `{"n":1}`, state, a) },
			"prompt": func(state string, a mcp.InputResponseMap) mcp.Request {
				return &mcp.GetPromptRequest{Params: &mcp.GetPromptParams{Name: "x", Arguments: map[string]string{"n": "1"}, RequestState: state, InputResponses: a}}
			},
			"resource": func(state string, a mcp.InputResponseMap) mcp.Request {
				return &mcp.ReadResourceRequest{Params: &mcp.ReadResourceParams{URI: "x://y", RequestState: state, InputResponses: a}}
			},
		} {
			w, read := readable(t, change)
			mw := w.protect(fixed())
			state, before := "", lineage{}
			for round := 1; round <= 4; round++ {
				var answers mcp.InputResponseMap
				if round > 1 {
					answers = accept()
				}
				res, err := step(mw, request(state, answers), func(context.Context, mcp.Request) (mcp.Result, error) {
					questions, plain := ask("confirm", confirm(fmt.Sprintf("round %d?", round))), fmt.Sprintf("plain %d", round)
					switch kind {
					case "prompt":
						return &mcp.GetPromptResult{InputRequests: questions, RequestState: plain}, nil
					case "resource":
						return &mcp.ReadResourceResult{InputRequests: questions, RequestState: plain, Contents: []*mcp.ResourceContents{}}, nil
					}
					return &mcp.CallToolResult{InputRequests: questions, RequestState: plain}, nil
				})
				if err != nil {
					t.Fatalf("%s, %s, round %d: %v", name, kind, round, err)
				}
				if state = stateOf(t, res); read(state).State != fmt.Sprintf("plain %d", round) {
					t.Errorf("%s, %s, round %d: state %q", name, kind, round, read(state).State)
				}
				if round > 1 {
					follows(t, fmt.Sprintf("%s, %s, round %d", name, kind, round), before, read(state))
				}
				before = read(state)
				w.ahead.Add(int64(5 * time.Minute))
			}
		}
	}
}

// stateOf is the state of a result, as it would be sent.
func stateOf(t *testing.T, res mcp.Result) string {
	t.Helper()
	text, err := json.Marshal(res)
	var m struct {
		State string `json:"requestState"`
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.State
}

// What a second round got over HTTP is held to everything, as the first is.
func TestSecondRoundOverHTTP(t *testing.T) {
	w, read := readable(t, nil)
	s := newShop(w.protect(nil))
	url := serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	const args = `{"item":"tea"}`
	call := func(token, args, state, key string) reply {
		more := ""
		if state != "" {
			more = `,"requestState":"` + state + `","inputResponses":{"` + key + `":{"action":"accept","content":{"ok":true}}}`
		}
		return post(t, url, token, "tools/call", "twice", `{"name":"twice","arguments":`+args+more)
	}
	one := call("alice", args, "", "").result(t).State
	two := call("alice", args, one, "first").result(t).State
	follows(t, "the second round", read(one), read(two))
	for what, r := range map[string]reply{
		"another user":     call("bob", args, two, "second"),
		"other letters":    call("Alice", args, two, "second"),
		"another argument": call("alice", `{"item":"coffee"}`, two, "second"),
		"no argument":      call("alice", `{}`, two, "second"),
		"the first again":  call("alice", args, one, "first"),
	} {
		if !strings.Contains(r.body, refusal) {
			t.Errorf("%s: %s", what, r.body)
		}
	}
	if s.acts.Load() != 0 {
		t.Errorf("acted %d times", s.acts.Load())
	}
	if got := call("alice", args, two, "second").result(t); len(got.Content) != 1 || s.acts.Load() != 1 {
		t.Errorf("the honest retry: %+v, acted %d times", got, s.acts.Load())
	}
	if r := call("alice", args, two, "second"); !strings.Contains(r.body, refusal) || s.acts.Load() != 1 {
		t.Errorf("the second round again: %s, acted %d times", r.body, s.acts.Load())
	}
}

// Subjects, issuers and clients are compared to the letter (OpenID Connect Core
// 1.0, section 2: iss and sub are case-sensitive strings).
func TestLoginsAreComparedToTheLetter(t *testing.T) {
	const iss = "https://as.test"
	w := newWorld(t, nil)
	mw := w.protect(nil)
	as := func(user, issuer, client, state string, a mcp.InputResponseMap) mcp.Request {
		req := tool("x", `{}`, state, a)
		req.Extra = login(user, map[string]any{"iss": issuer, "client_id": client})
		return req
	}
	state := sealed(t, mw, as("alice", iss, "app", "", nil), ask("confirm", confirm("?")))
	for _, other := range [][3]string{
		{"Alice", iss, "app"}, {"ALICE", iss, "app"}, {"alic", iss, "app"}, {"alice2", iss, "app"}, {"alice ", iss, "app"}, {" alice", iss, "app"}, {"al\u0131ce", iss, "app"},
		{"alice", "https://AS.test", "app"}, {"alice", iss + "/", "app"}, {"alice", iss + " ", "app"}, {"alice", "https://as.tes", "app"},
		{"alice", iss, "App"}, {"alice", iss, "app2"}, {"alice", iss, "ap"}, {"alice", iss, ""}, {"alice", iss, "app "},
	} {
		_, err := step(mw, as(other[0], other[1], other[2], state, accept()), never(t))
		if err == nil || wireOf(t, err) != refusal {
			t.Errorf("%q: %v", other, err)
		}
	}
	ran := false
	_, err := step(mw, as("alice", iss, "app", state, accept()), func(ctx context.Context, _ mcp.Request) (mcp.Result, error) {
		ran = mcpsdk.Opened(ctx).Round() == 1
		return text("ok"), nil
	})
	if err != nil || !ran {
		t.Errorf("herself: %v, ran %v", err, ran)
	}
}
