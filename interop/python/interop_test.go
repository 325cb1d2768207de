package python_test

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/replay"
)

func TestPythonOpensWhatFoilSeals(t *testing.T) {
	py := thePeer(t)
	for _, c := range calls() {
		t.Run(c.name, func(t *testing.T) {
			token, _ := c.seal(t)
			wantState(t, py.ask1(t, c.python("open", token)), c.state)
		})
	}
}

func TestFoilOpensWhatPythonSeals(t *testing.T) {
	py := thePeer(t)
	for _, c := range calls() {
		t.Run(c.name, func(t *testing.T) {
			token := py.ask1(t, c.python("seal", "")).Token
			o, err := c.open(t, token)
			if err != nil {
				t.Fatal(err)
			}
			if o.State() != c.state || o.Round() != 1 {
				t.Errorf("state %q, round %d; want %q", o.State(), o.Round(), c.state)
			}
			if want := c.now.Add(foil.DefaultFlowLimit); o.Deadline().Sub(want).Abs() > time.Millisecond {
				t.Errorf("deadline %v, want %v", o.Deadline(), want)
			}
		})
	}
}

var principalClaim = regexp.MustCompile(`,"p":"[A-Za-z0-9_-]{32}"`)

// TestOneSpelling compares the payloads themselves: what foil mints begins with
// what Python mints, byte for byte but for the principal's salt.
func TestOneSpelling(t *testing.T) {
	py := thePeer(t)
	for _, c := range calls() {
		_, got := c.seal(t)
		want := py.ask1(t, c.python("seal", "")).Claims
		mask := func(b []byte) string { return principalClaim.ReplaceAllString(string(b), `,"p":"salted"`) }
		g, w := mask(got), mask(want)
		if begin := strings.TrimSuffix(w, "}") + `,"ax":`; !strings.HasPrefix(g, begin) {
			t.Errorf("%s:\nfoil   %.600s\nPython %.600s", c.name, g, w)
		}
		if named := c.principal != nil || c.login != nil; named != strings.Contains(w, `,"p":"salted"`) {
			t.Errorf("%s: Python's claim p does not follow the principal: %s", c.name, w)
		}
	}
}

// A wrong is a presentation that both sides refuse.
type wrong struct {
	name   string
	change func(*call)
	token  func(string) string
	python string
	foil   foil.Reason
	not    string // a method that it does not apply to
}

func flip(at int) func(string) string {
	return func(token string) string {
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "v1."))
		if err != nil {
			panic(err)
		}
		raw[(at+len(raw))%len(raw)] ^= 1
		return "v1." + base64.RawURLEncoding.EncodeToString(raw)
	}
}

var wrongs = []wrong{
	{name: "other subject", change: func(c *call) { c.login = oauth("client-a", "https://issuer.example", "bob") }, python: "principal", foil: foil.ReasonPrincipal},
	{name: "other issuer", change: func(c *call) { c.login = oauth("client-a", "https://other.example", "alice") }, python: "principal", foil: foil.ReasonPrincipal},
	{name: "other client", change: func(c *call) { c.login = oauth("client-b", "https://issuer.example", "alice") }, python: "principal", foil: foil.ReasonPrincipal},
	{name: "no subject", change: func(c *call) { c.login = oauth("client-a", "https://issuer.example", "") }, python: "principal", foil: foil.ReasonPrincipal},
	{name: "dropped login", change: func(c *call) { c.login = nil }, python: "principal drift", foil: foil.ReasonPrincipal},
	{name: "other audience", change: func(c *call) { c.audience = is("billing") }, python: "audience", foil: foil.ReasonAudience},
	{name: "no audience", change: func(c *call) { c.audience = nil }, python: "audience", foil: foil.ReasonAudience},
	{name: "prompt for tool", change: func(c *call) { c.method = foil.MethodPromptsGet }, python: "request binding", foil: foil.ReasonMethod, not: foil.MethodPromptsGet},
	{name: "tool for prompt", change: func(c *call) { c.method = foil.MethodToolsCall }, python: "request binding", foil: foil.ReasonMethod, not: foil.MethodToolsCall},
	{name: "other target", change: func(c *call) { c.target += "x" }, python: "request binding", foil: foil.ReasonTarget},
	{name: "other value", change: func(c *call) { c.arguments = `{"prefix":"","n":1}` }, python: "request binding", foil: foil.ReasonArguments, not: foil.MethodResourcesRead},
	{name: "float for integer", change: func(c *call) { c.arguments = `{"prefix":"logs/","n":1.0}` }, python: "request binding", foil: foil.ReasonArguments, not: foil.MethodResourcesRead},
	{name: "added argument", change: func(c *call) { c.arguments = `{"prefix":"logs/","n":1,"all":null}` }, python: "request binding", foil: foil.ReasonArguments, not: foil.MethodResourcesRead},
	{name: "no arguments", change: func(c *call) { c.arguments = "" }, python: "request binding", foil: foil.ReasonArguments, not: foil.MethodResourcesRead},
	{name: "expired", change: func(c *call) { c.now = c.now.Add(ttl) }, python: "expired", foil: foil.ReasonExpired},
	{name: "from the future", change: func(c *call) { c.now = c.now.Add(-61 * time.Second) }, python: "minted in the future", foil: foil.ReasonNotYetValid},
	{name: "tampered payload", token: flip(16), python: "seal", foil: foil.ReasonTampered},
	{name: "tampered nonce", token: flip(4), python: "seal", foil: foil.ReasonTampered},
	{name: "tampered tag", token: flip(-1), python: "seal", foil: foil.ReasonTampered},
	{name: "tampered key id", token: flip(0), python: "unknown key", foil: foil.ReasonUnknownKey},
	{name: "retired key", change: func(c *call) { c.secrets = []string{secretB} }, python: "unknown key", foil: foil.ReasonUnknownKey},
	{name: "padding", token: func(s string) string { return s + "=" }, python: "malformed", foil: foil.ReasonMalformed},
	{name: "line end", token: func(s string) string { return s + "\n" }, python: "malformed", foil: foil.ReasonMalformed},
	{name: "other version", token: func(s string) string { return "v2" + s[2:] }, python: "malformed", foil: foil.ReasonMalformed},
	{name: "cut", token: func(s string) string { return s[:40] }, python: "malformed", foil: foil.ReasonMalformed},
	{name: "nothing", token: func(string) string { return "" }, python: "malformed", foil: foil.ReasonMalformed},
}

// still is what changes between honest rounds.
var still = []wrong{
	{name: "as minted", change: func(*call) {}},
	{name: "key order and white space", change: func(c *call) { c.arguments = "{ \"n\" : 1,\n\t\"prefix\" : \"lo\\u0067s/\" }" }},
	{name: "last moment", change: func(c *call) { c.now = c.now.Add(ttl - time.Millisecond) }},
	{name: "clock behind", change: func(c *call) { c.now = c.now.Add(-59 * time.Second) }},
	{name: "another key seals now", change: func(c *call) { c.secrets = []string{secretB, secretA} }},
}

func bases() []call {
	base := call{
		secrets: []string{secretA, secretB}, now: epoch, target: "purge_objects", arguments: `{"prefix":"logs/","n":1}`,
		login: oauth("client-a", "https://issuer.example", "alice"), audience: is("storage"), state: "plan 7", questions: questions,
	}
	var list []call
	for _, method := range []string{foil.MethodToolsCall, foil.MethodPromptsGet, foil.MethodResourcesRead} {
		c := base
		c.name, c.method = method, method
		list = append(list, c)
	}
	return list
}

// present is the token as the wrong presentation has it.
func (w *wrong) present(c call, token string) (call, string) {
	if w.change != nil {
		w.change(&c)
	}
	if w.token != nil {
		token = w.token(token)
	}
	return c, token
}

func TestPythonRefusesWrongPresentations(t *testing.T) {
	py := thePeer(t)
	for _, c := range bases() {
		token, _ := c.seal(t)
		for _, w := range still {
			p, token := w.present(c, token)
			t.Run(c.name+"/"+w.name, func(t *testing.T) { wantState(t, py.ask1(t, p.python("open", token)), c.state) })
		}
		for _, w := range wrongs {
			if w.not != c.method {
				p, token := w.present(c, token)
				wantRefused(t, c.name+"/"+w.name, py.ask1(t, p.python("open", token)), w.python)
			}
		}
		// Nobody's token, presented by somebody.
		open := c
		open.login = nil
		token, _ = open.seal(t)
		wantRefused(t, c.name+"/gained login", py.ask1(t, c.python("open", token)), "principal drift")
	}
}

func TestFoilRefusesWrongPresentationsOfPythonTokens(t *testing.T) {
	py := thePeer(t)
	for _, c := range bases() {
		token := py.ask1(t, c.python("seal", "")).Token
		for _, w := range still {
			p, token := w.present(c, token)
			if o, err := p.open(t, token); err != nil || o.State() != c.state {
				t.Errorf("%s/%s: foil opens: %v, want the state", c.name, w.name, err)
			}
		}
		for _, w := range wrongs {
			if w.not != c.method {
				p, token := w.present(c, token)
				_, err := p.open(t, token)
				wantReason(t, c.name+"/"+w.name, err, w.foil)
			}
		}
		open := c
		open.login = nil
		_, err := c.open(t, py.ask1(t, open.python("seal", "")).Token)
		wantReason(t, c.name+"/gained login", err, foil.ReasonPrincipal)
	}
}

// Without an interop ring, a token that claims no identity is no token of ours,
// although the key is the same.
func TestForeignTokensNeedAnInteropRing(t *testing.T) {
	py := thePeer(t)
	c := bases()[0]
	c.secrets = c.secrets[:1]
	doc, err := json.Marshal(map[string]any{
		"version": 1, "serial": 1, "interop": false, "propagation": 300, "skew": 60, "max_ttl": 600, "keep": 0, "revoked": []string{},
		"keys": []any{map[string]any{"id": "a", "secret": base64.RawURLEncoding.EncodeToString([]byte(secretA)), "seal_from": 0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	guard, _ := c.guardOf(t, ring, nil)
	_, err = guard.Open(ctx, c.request(), py.ask1(t, c.python("seal", "")).Token)
	wantReason(t, "ring of our own", err, foil.ReasonMalformed)
	token, _ := c.seal(t)
	if _, err := guard.Open(ctx, c.request(), token); err != nil {
		t.Errorf("the same key, our own token: %v", err)
	}
}

// unshared makes a memory store pass for one that all replicas share.
type unshared struct{ replay.Store }

// On this side a Python replica's token is spent, if the Guard is told to.
func TestPythonTokensAreSpent(t *testing.T) {
	py := thePeer(t)
	c := bases()[0]
	guard, _ := c.guardOf(t, c.ring(t), func(o *foil.Options) {
		o.Once, o.AcceptUnenforcedReplicas = foil.Redeem, true
		o.Replay = unshared{replay.NewMemory(&replay.MemoryOptions{Now: o.Now})}
	})
	replies := py.ask(t, c.python("seal", ""), c.python("seal", ""))
	for _, r := range replies { // minted at one instant, yet two tokens
		if _, err := guard.Open(ctx, c.request(), r.Token); err != nil {
			t.Fatal(err)
		}
		_, err := guard.Open(ctx, c.request(), r.Token)
		wantReason(t, "again", err, foil.ReasonReplayed)
	}
}

// A flow of three rounds that lands on either kind of replica.
func TestFlowAcrossReplicas(t *testing.T) {
	py := thePeer(t)
	c := bases()[0]
	guard, _ := c.guardOf(t, c.ring(t), nil)
	first, err := guard.Open(ctx, c.request(), py.ask1(t, c.python("seal", "")).Token)
	if err != nil {
		t.Fatal(err)
	}
	token, err := guard.Seal(ctx, c.request(), foil.Outgoing{State: "round 2", Questions: []byte(questions), Prev: first})
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, py.ask1(t, c.python("open", token)), "round 2")
	second, err := guard.Open(ctx, c.request(), token)
	if err != nil || second.Flow() != first.Flow() || second.Round() != 2 {
		t.Errorf("foil opens its own second round: %v, %v", second, err)
	}
	c.state = "round 3"
	third, err := c.open(t, py.ask1(t, c.python("seal", "")).Token)
	if err != nil || third.State() != "round 3" {
		t.Errorf("foil opens Python's third round: %v", err)
	}
}
