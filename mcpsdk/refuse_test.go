package mcpsdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Whatever is wrong with a state, the client gets the same bytes, status and
// headers, and no handler runs.
func TestRefusalsAreOneReply(t *testing.T) {
	for _, mode := range []struct {
		name string
		json bool
	}{{"json", true}, {"sse", false}} {
		t.Run(mode.name, func(t *testing.T) {
			w := newWorld(t, nil)
			s := newShop(w.protect(nil))
			url := serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: mode.json})
			call := func(token, name, args, state string) reply {
				return post(t, url, token, "tools/call", name,
					`{"name":"`+name+`","arguments":`+args+`,"requestState":"`+state+`","inputResponses":{"confirm":{"action":"accept","content":{"ok":true}}}`)
			}
			runs := int64(2) // the honest retries below
			fresh := func() string {
				runs++
				return post(t, url, "alice", "tools/call", "raw", `{"name":"raw","arguments":{"n":9007199254740993}`).result(t).State
			}
			const args = `{"n":9007199254740993}`
			spent := fresh()
			if got := call("alice", "raw", args, spent).result(t).Content[0].Text; got != "done "+secret {
				t.Fatalf("the honest retry got %q", got)
			}
			if got := call("alice#renewed", "raw", ` { "n" : 9007199254740993 } `, fresh()).result(t).Content[0].Text; got != "done "+secret {
				t.Fatalf("the same person with a renewed token got %q", got)
			}
			flip := func(s string) string { return s[:20] + string(s[20]^1) + s[21:] }
			replies := map[string]reply{
				"replayed":        call("alice", "raw", args, spent),
				"tampered":        call("alice", "raw", args, flip(fresh())),
				"suffix":          call("alice", "raw", args, fresh()+"-TAMPERED"),
				"forged":          call("alice", "raw", args, "v1.AAAA"),
				"plain":           call("alice", "raw", args, secret),
				"other user":      call("mallory", "raw", args, fresh()),
				"no subject":      call("nobody", "raw", args, fresh()),
				"blank subject":   call("blank", "raw", args, fresh()),
				"no issuer":       call("noissuer", "raw", args, fresh()),
				"odd issuer":      call("oddissuer", "raw", args, fresh()),
				"other arguments": call("alice", "raw", `{"n":9007199254740992}`, fresh()),
				"added argument":  call("alice", "raw", `{"n":9007199254740993,"m":1}`, fresh()),
				"other tool":      call("alice", "typed", args, fresh()),
				"unknown tool":    call("alice", "nosuch", args, fresh()),
				"other method": post(t, url, "alice", "prompts/get", "raw",
					`{"name":"raw","requestState":"`+fresh()+`"`),
				"too large": call("alice", "raw", args, strings.Repeat("A", 1<<20)),
			}
			late := fresh()
			w.ahead.Store(int64(10 * time.Minute))
			replies["late"] = call("alice", "raw", args, late)
			var first *reply
			for name, r := range replies {
				if first == nil {
					first = &r
				}
				if r != *first {
					t.Errorf("%s gives %+v\nothers %+v", name, r, *first)
				}
				if r.body != `{"jsonrpc":"2.0","id":7,"error":`+refusal+`}` {
					t.Errorf("%s: %s", name, r.body)
				}
			}
			if s.runs.Load() != runs {
				t.Errorf("handlers ran %d times, want %d", s.runs.Load(), runs)
			}
			for _, hint := range []string{"TokenInfo.UserID", "Options.Issuer", "Options.Principal"} {
				w.logs.want(t, hint)
			}
			for _, leak := range []string{secret, spent, "alice", "mallory", "9007199254740993"} {
				if strings.Contains(w.logs.String(), leak) {
					t.Errorf("the log holds %.20q", leak)
				}
			}
		})
	}
}

func login(user string, extra map[string]any) *mcp.RequestExtra {
	return &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: user, Extra: extra}}
}

// The login that the SDK found becomes the principal, or nothing is sealed and
// the log tells what to set.
func TestLogin(t *testing.T) {
	const iss, other = "https://as.test", "https://other.test"
	alice := login("alice", map[string]any{"iss": iss, "client_id": "app"})
	for _, c := range []struct {
		name   string
		issuer string
		first  *mcp.RequestExtra
		second *mcp.RequestExtra
		hint   string // where even the first round is refused
		ok     bool
	}{
		{name: "same", first: alice, second: login("alice", map[string]any{"iss": iss, "client_id": "app", "jti": "2"}), ok: true},
		{name: "same client, other subject", first: alice, second: login("bob", map[string]any{"iss": iss, "client_id": "app"})},
		{name: "other issuer", first: alice, second: login("alice", map[string]any{"iss": other, "client_id": "app"})},
		{name: "other client", first: alice, second: login("alice", map[string]any{"iss": iss, "client_id": "app2"})},
		{name: "dropped login", first: alice, second: nil},
		{name: "dropped subject", first: alice, second: login("", map[string]any{"iss": iss, "client_id": "app"})},
		{name: "one issuer", issuer: iss, first: login("alice", nil), second: login("alice", map[string]any{"iss": iss}), ok: true},
		{name: "the login's issuer wins", issuer: iss, first: login("alice", map[string]any{"iss": other}), second: login("alice", nil)},
		{name: "blank issuer counts as none", issuer: iss, first: login("alice", map[string]any{"iss": " "}), second: login("alice", nil), ok: true},
		{name: "no extra", first: nil, hint: "mcpsdk.Fixed on stdio or mcpsdk.Anonymous"},
		{name: "no token info", first: &mcp.RequestExtra{}, hint: "mcpsdk.Fixed on stdio or mcpsdk.Anonymous"},
		{name: "no subject", first: login("", map[string]any{"iss": iss, "client_id": "app"}), hint: "TokenInfo.UserID"},
		{name: "blank subject", first: login(" \n\u2003", map[string]any{"iss": iss}), hint: "TokenInfo.UserID"},
		{name: "no issuer", first: login("alice", nil), hint: "Options.Issuer"},
		{name: "odd issuer", issuer: iss, first: login("alice", map[string]any{"iss": 3}), hint: "no string"},
		{name: "odd client", issuer: iss, first: login("alice", map[string]any{"client_id": []string{"app"}}), hint: "no string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			mw := w.protect(&mcpsdk.Options{Issuer: c.issuer})
			req := tool("x", `{}`, "", nil)
			req.Extra = c.first
			res, err := step(mw, req, func(context.Context, mcp.Request) (mcp.Result, error) {
				return &mcp.CallToolResult{InputRequests: ask("confirm", confirm("?")), RequestState: secret}, nil
			})
			if c.hint != "" {
				if res != nil || wireOf(t, err) != unavailable {
					t.Errorf("got %v, %v", res, err)
				}
				w.logs.want(t, c.hint)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			req = tool("x", `{}`, res.(*mcp.CallToolResult).RequestState, accept())
			req.Extra = c.second
			_, err = step(mw, req, func(context.Context, mcp.Request) (mcp.Result, error) { return text("ok"), nil })
			if c.ok && err != nil {
				t.Error(err)
			}
			if !c.ok && (err == nil || wireOf(t, err) != refusal) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A handler that asks nothing needs no login.
func TestNoLoginNeededWithoutState(t *testing.T) {
	w := newWorld(t, nil)
	res, err := step(w.protect(nil), tool("x", `{}`, "", nil), func(context.Context, mcp.Request) (mcp.Result, error) { return text("ok"), nil })
	if err != nil || toolText(res.(*mcp.CallToolResult)) != "ok" || w.logs.String() != "" {
		t.Errorf("got %v %v, log %s", res, err, w.logs)
	}
}

// Whoever holds an anonymous state can present it, but not with a login: the two
// must agree on whether there is one.
func TestAnonymousByName(t *testing.T) {
	w := newWorld(t, nil)
	state := sealed(t, w.protect(&mcpsdk.Options{Principal: mcpsdk.Anonymous}), tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	_, err := step(w.protect(fixed()), tool("x", `{}`, state, nil), never(t))
	if wireOf(t, err) != refusal {
		t.Error(err)
	}
	if _, err = step(w.protect(&mcpsdk.Options{Principal: mcpsdk.Anonymous}), tool("x", `{}`, state, nil), func(context.Context, mcp.Request) (mcp.Result, error) { return text("ok"), nil }); err != nil {
		t.Error(err)
	}
}

func never(t *testing.T) func(context.Context, mcp.Request) (mcp.Result, error) {
	return func(context.Context, mcp.Request) (mcp.Result, error) {
		t.Error("the handler ran")
		return text(""), nil
	}
}

// A PrincipalFunc that fails is the server's failure: no handler runs, and the
// client learns nothing.
func TestPrincipalFuncFails(t *testing.T) {
	w := newWorld(t, nil)
	state := sealed(t, w.protect(fixed()), tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	for _, c := range []struct {
		name string
		f    mcpsdk.PrincipalFunc
		want string // with a state
		log  string
		gone string
	}{
		{"error", func(context.Context, mcp.Request) (foil.Principal, error) {
			return foil.Fixed("local"), errors.New("directory is down")
		}, unavailable, "directory is down", ""},
		{"refusal", func(context.Context, mcp.Request) (foil.Principal, error) { return foil.Principal{}, foil.ErrInvalid }, unavailable, "principal could not", ""},
		{"canceled", func(context.Context, mcp.Request) (foil.Principal, error) {
			return foil.Principal{}, fmt.Errorf("x: %w", context.Canceled)
		}, unavailable, "principal could not", ""},
		{"panic", func(context.Context, mcp.Request) (foil.Principal, error) { panic("token-abc") }, unavailable, "panic of type string", "token-abc"},
		{"nil map", func(context.Context, mcp.Request) (foil.Principal, error) {
			var m map[string]int
			//lint:ignore SA5000 the panic is the point
			m["x"]++
			return foil.Fixed("local"), nil
		}, unavailable, "nil map", ""},
		{"nobody", func(context.Context, mcp.Request) (foil.Principal, error) { return foil.Principal{}, nil }, refusal, "Options.Principal returned no principal", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.logs.buf.Reset()
			mw := w.protect(&mcpsdk.Options{Principal: c.f})
			_, err := step(mw, tool("x", `{}`, state, nil), never(t))
			if got := wireOf(t, err); got != c.want {
				t.Errorf("with a state: %s", got)
			}
			w.logs.want(t, c.log)
			if c.gone != "" && strings.Contains(w.logs.String(), c.gone) {
				t.Errorf("the log holds the panic's value:\n%s", w.logs)
			}
			if c.want == unavailable {
				if _, err := step(mw, tool("x", `{}`, "", nil), never(t)); wireOf(t, err) != unavailable {
					t.Errorf("without a state: %v", err)
				}
			}
		})
	}
	// None of that spent the state.
	if _, err := step(w.protect(fixed()), tool("x", `{}`, state, nil), func(context.Context, mcp.Request) (mcp.Result, error) { return text("ok"), nil }); err != nil {
		t.Error(err)
	}
}

type brokenStore struct{}

func (brokenStore) Use(context.Context, []byte, time.Time) (bool, error) {
	return false, errors.New("store is away")
}

func TestStoreDown(t *testing.T) {
	w := newWorld(t, func(o *foil.Options) { o.Replay = brokenStore{} })
	mw := w.protect(fixed())
	state := sealed(t, mw, tool("x", `{}`, "", nil), ask("confirm", confirm("?")))
	_, err := step(mw, tool("x", `{}`, state, nil), never(t))
	if got := wireOf(t, err); got != unavailable {
		t.Error(got)
	}
}

// Arguments that two parsers may read differently never reach a handler.
func TestAmbiguousArguments(t *testing.T) {
	w := newWorld(t, nil)
	mw := w.protect(fixed())
	state := sealed(t, mw, tool("x", `{"a":1}`, "", nil), ask("confirm", confirm("?")))
	for _, args := range []string{`{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"x":{"a":1,"a":1}}`, `[]`, `"a"`, strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100)} {
		for _, st := range []string{"", state} {
			if _, err := step(mw, tool("x", args, st, nil), never(t)); wireOf(t, err) != ambiguous {
				t.Errorf("%.30s, state %v: %v", args, st != "", err)
			}
		}
	}
	s := newShop(mw)
	url := serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true})
	r := post(t, url, "alice", "tools/call", "typed", `{"name":"typed","arguments":{"item":"tea","item":"gold"}`)
	if r.body != `{"jsonrpc":"2.0","id":7,"error":`+ambiguous+`}` || s.runs.Load() != 0 {
		t.Errorf("over HTTP: %s, ran %d times", r.body, s.runs.Load())
	}
}

// The empty state counts as absent; another type is the SDK's own refusal.
func TestStateOfAnotherType(t *testing.T) {
	s := newShop(newWorld(t, nil).protect(nil))
	url := serve(t, s.Server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	for _, state := range []string{`""`, `null`} {
		r := post(t, url, "alice", "tools/call", "raw", `{"name":"raw","arguments":{},"requestState":`+state)
		if r.result(t).Type != "input_required" {
			t.Errorf("%s: %s", state, r.body)
		}
	}
	runs := s.runs.Load()
	for _, state := range []string{`42`, `{}`, `[]`, `true`} {
		r := post(t, url, "alice", "tools/call", "raw", `{"name":"raw","arguments":{},"requestState":`+state)
		if !strings.Contains(r.body, `"error":{"code":-32`) || s.runs.Load() != runs {
			t.Errorf("%s: %s", state, r.body)
		}
	}
}

func TestNotAServersReceivingMiddleware(t *testing.T) {
	mw := newWorld(t, nil).protect(fixed())
	for _, req := range []mcp.Request{
		&mcp.ClientRequest[*mcp.CallToolParams]{Params: &mcp.CallToolParams{Name: "x"}},
		&mcp.GetPromptRequest{Params: &mcp.GetPromptParams{Name: "x"}},
		&mcp.CallToolRequest{},
		(*mcp.CallToolRequest)(nil),
	} {
		_, err := mw(func(context.Context, string, mcp.Request) (mcp.Result, error) {
			t.Error("passed on")
			return text(""), nil
		})(context.Background(), "tools/call", req)
		if got := wireOf(t, err); !strings.Contains(got, "-32603") {
			t.Errorf("%T: %s", req, got)
		}
	}
}
