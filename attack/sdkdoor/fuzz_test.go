package sdkdoor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/attack/httpdoor"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/replay"
)

// plainState begins every state that the fuzzed server hands out. It must never
// be seen in a reply.
const plainState = "plain-state-"

// hole is where a fuzzed request has a good, unspent token.
const hole = "@TOKEN@"

var fuzzed = []struct{ method, call string }{
	{foil.MethodToolsCall, `"name":"act","arguments":{"what":"x"}`},
	{foil.MethodPromptsGet, `"name":"act","arguments":{"what":"x"}`},
	{foil.MethodResourcesRead, `"uri":"fuzz://x"`},
}

// A ranger is a server whose handlers hold every state that they are given
// against those that were minted.
type ranger struct {
	server *mcp.Server
	guard  *foil.Guard
	n      atomic.Int64
	mu     sync.Mutex
	minted map[string]string // method, by unspent state
	wrong  []string
}

func newRanger(tb testing.TB) *ranger {
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{
		Audience: "fuzz", Replay: replay.NewMemory(nil), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	r := &ranger{guard: guard, minted: map[string]string{}, server: mcp.NewServer(&mcp.Implementation{Name: "fuzz", Version: "1"}, nil)}
	r.server.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Principal: mcpsdk.Fixed("local"), Logger: slog.New(slog.DiscardHandler)}))
	r.server.AddTool(&mcp.Tool{Name: "act", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args any
		_ = json.Unmarshal(req.Params.Arguments, &args)
		if again := r.look(foil.MethodToolsCall, req.Params.RequestState, reflect.DeepEqual(args, map[string]any{"what": "x"})); !again {
			return &mcp.CallToolResult{InputRequests: r.ask(), RequestState: plainState + "asked"}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
	})
	r.server.AddPrompt(&mcp.Prompt{Name: "act"}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if again := r.look(foil.MethodPromptsGet, req.Params.RequestState, reflect.DeepEqual(req.Params.Arguments, map[string]string{"what": "x"})); !again {
			return &mcp.GetPromptResult{InputRequests: r.ask(), RequestState: plainState + "asked"}, nil
		}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
	})
	r.server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "x", URITemplate: "fuzz://{+x}"}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		if again := r.look(foil.MethodResourcesRead, req.Params.RequestState, req.Params.URI == "fuzz://x"); !again {
			return &mcp.ReadResourceResult{InputRequests: r.ask(), RequestState: plainState + "asked", Contents: []*mcp.ResourceContents{}}, nil
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: "done"}}}, nil
	})
	return r
}

func (r *ranger) ask() mcp.InputRequestMap {
	key, q := question(1)
	return mcp.InputRequestMap{key: q}
}

// look reports whether a handler was given a state, and notes one that it must
// not have: one that was not minted, or not for this request, or is spent.
func (r *ranger) look(method, state string, fits bool) bool {
	if state == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.minted[state] != method || !fits {
		r.wrong = append(r.wrong, fmt.Sprintf("a handler of %s ran with %q (fits: %t)", method, state, fits))
	}
	delete(r.minted, state)
	return true
}

// mint seals a new state for the method's own call.
func (r *ranger) mint(tb testing.TB, method string) string {
	req := foil.Request{Method: method, Target: "act", Arguments: []byte(`{"what":"x"}`), Principal: foil.Fixed("local")}
	if method == foil.MethodResourcesRead {
		req.Target, req.Arguments = "fuzz://x", nil
	}
	key, _ := question(1)
	state := fmt.Sprintf("%s%d", plainState, r.n.Add(1))
	token, err := r.guard.Seal(tb.Context(), req, foil.Outgoing{State: state, Questions: fmt.Appendf(nil, `{%q:{"method":"elicitation/create","params":{"mode":"form","message":"Do it? (1)","requestedSchema":{"type":"object","properties":{}}}}}`, key)})
	if err != nil {
		tb.Fatal(err)
	}
	r.mu.Lock()
	r.minted[state] = method
	r.mu.Unlock()
	return token
}

// FuzzMiddleware sends the members of params as raw text to a server behind the
// real SDK: nothing panics, no handler runs with a state that was not minted for
// its request or is spent, and what comes back is a result, a frozen error, or
// one of the SDK's own.
func FuzzMiddleware(f *testing.F) {
	seed(f)
	r := newRanger(f)
	f.Fuzz(func(t *testing.T, kind byte, members string) {
		x := fuzzed[int(kind)%len(fuzzed)]
		// Invalid JSON never gets to the middleware, and need not be answered.
		if !json.Valid([]byte("{" + members + "}")) {
			return
		}
		if strings.Contains(members, hole) {
			members = strings.ReplaceAll(members, hole, r.mint(t, x.method))
		}
		params := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + httpdoor.Protocol + `","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
		if strings.TrimSpace(members) != "" {
			params += "," + members
		}
		c, err := dial(t.Context(), r.server)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		late := time.AfterFunc(20*time.Second, func() {
			t.Errorf("no reply to %s", params)
			c.close()
		})
		defer late.Stop()
		reply, err := c.call(`{"jsonrpc":"2.0","id":1,"method":"` + x.method + `","params":` + params + `}}`)
		if err == nil {
			if what := odd(reply); what != "" {
				t.Errorf("%s in reply to %s\n%s", what, params, reply)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.wrong) > 0 {
			t.Errorf("%s\nafter %s", strings.Join(r.wrong, "\n"), params)
			r.wrong = nil
		}
		clear(r.minted) // whatever was not presented by now is not any more
	})
}

// The server that is fuzzed carries out the honest seed of each method: what
// refuses everything would pass for sound.
func TestFuzzedServerActs(t *testing.T) {
	r := newRanger(t)
	key, _ := question(1)
	for _, x := range fuzzed {
		c, err := dial(t.Context(), r.server)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := c.call(`{"jsonrpc":"2.0","id":1,"method":"` + x.method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + httpdoor.Protocol +
			`","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}},` + x.call + `,"inputResponses":{"` + key + `":` + yesText + `},"requestState":"` + r.mint(t, x.method) + `"}}`)
		c.close()
		if err != nil || !bytes.Contains(reply, []byte(`"resultType":"complete"`)) || odd(reply) != "" || len(r.wrong) > 0 || len(r.minted) > 0 {
			t.Errorf("%s: %s, %v; %v", x.method, reply, err, r.wrong)
		}
	}
}

// odd says what is wrong with a reply.
func odd(reply []byte) string {
	if bytes.Contains(reply, []byte(plainState)) {
		return "the plain state"
	}
	var m struct {
		Result *struct {
			Type  string `json:"resultType"`
			Token string `json:"requestState"`
		} `json:"result"`
		Error *struct {
			Code    int
			Message string
			Data    json.RawMessage
		} `json:"error"`
	}
	if err := json.Unmarshal(reply, &m); err != nil {
		return "no JSON-RPC reply: " + err.Error()
	}
	switch {
	case (m.Result == nil) == (m.Error == nil):
		return "neither a result nor an error, or both,"
	case m.Result != nil && m.Result.Type == "input_required" && !strings.HasPrefix(m.Result.Token, "v1."):
		return "a question without a sealed state"
	case m.Result != nil && m.Result.Type == "complete" && m.Result.Token != "":
		return "a state that asks nothing"
	case m.Result != nil || m.Error.Data == nil:
		return "" // the SDK's own errors have no data
	}
	for _, err := range []error{foil.ErrInvalid, foil.ErrAmbiguous, foil.ErrUnavailable} {
		w := foil.Wire(err)
		if m.Error.Code == w.Code && m.Error.Message == w.Message && string(m.Error.Data) == string(w.Data) {
			return ""
		}
	}
	if !strings.Contains(string(m.Error.Data), `"reason"`) {
		return "" // the SDK's, such as a resource that is not there
	}
	return "an error that is none of the frozen ones"
}

// seed adds the forms of the battery, and the tokens of the vectors.
func seed(f *testing.F) {
	key, _ := question(1)
	answers := `"inputResponses":{"` + key + `":` + yesText + `}`
	good := `"requestState":"` + hole + `"`
	for i, x := range fuzzed {
		for _, members := range []string{
			x.call,
			x.call + "," + answers,
			x.call + "," + answers + "," + good,
			good + "," + answers + "," + x.call,
			x.call + "," + answers + "," + good + "," + good,
			x.call + "," + answers + "," + good + `,"requestState":"v1.AAAA"`,
			x.call + "," + answers + `,"requestState":"v1.AAAA",` + good,
			x.call + "," + answers + `,"RequestState":"v1.AAAA",` + good,
			x.call + "," + answers + `,"requestState":"` + hole + `A"`,
			x.call + "," + answers + `,"requestState":"` + hole + `\n"`,
			x.call + "," + answers + `,"requestState":" ` + hole + `="`,
			x.call + `,"inputResponses":null,` + good,
			x.call + `,"inputResponses":{},` + good,
			x.call + `,"inputResponses":{"other":` + yesText + `},` + good,
			x.call + `,"inputResponses":{"` + key + `":{"action":"decline"}},` + good,
			x.call + `,"inputResponses":[],` + good,
			strings.Replace(x.call, "x", "y", 1) + "," + answers + "," + good,
			strings.Replace(x.call, `{"what":"x"}`, `{"what":"x","what":"y"}`, 1) + "," + answers + "," + good,
			strings.Replace(x.call, `{"what":"x"}`, `{"what":"y","What":"x"}`, 1) + "," + answers + "," + good,
			strings.Replace(x.call, `"what":"x"`, `"w\u0068at":"\u0078"`, 1) + "," + answers + "," + good,
			strings.Replace(x.call, `{"what":"x"}`, `{"what":"\ud800"}`, 1) + "," + answers + "," + good,
			strings.Replace(x.call, `{"what":"x"}`, `{"what":1e400}`, 1) + "," + answers + "," + good,
			strings.Replace(x.call, `{"what":"x"}`, `null`, 1) + "," + answers + "," + good,
			strings.Replace(x.call, `{"what":"x"}`, `[`+strings.Repeat("[", 90)+strings.Repeat("]", 91), 1) + "," + answers + "," + good,
			`"name":"other",` + x.call + "," + answers + "," + good,
			x.call + `,"uri":"fuzz://x","name":"act",` + answers + "," + good,
			x.call + "," + answers + `,"requestState":42`,
			x.call + "," + answers + `,"requestState":{}`,
			x.call + "," + answers + `,"requestState":[]`,
			x.call + "," + answers + `,"requestState":null`,
			x.call + "," + answers + `,"requestState":""`,
			`"_meta":{},` + x.call + "," + good,
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"},` + x.call + "," + good,
			``,
		} {
			f.Add(byte(i), members)
		}
	}
	for _, token := range vectors(f) {
		text, err := json.Marshal(token)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(0), fuzzed[0].call+","+answers+`,"requestState":`+string(text))
	}
}

// vectors are the tokens of the SDK's vectors.
func vectors(tb testing.TB) (tokens []string) {
	text, err := os.ReadFile("../../testdata/vectors/sdk-tokens.json")
	if err != nil {
		tb.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		tb.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if t, ok := v["token"].(string); ok {
				tokens = append(tokens, t)
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(doc)
	if len(tokens) == 0 {
		tb.Fatal("no token in the vectors")
	}
	return tokens
}
