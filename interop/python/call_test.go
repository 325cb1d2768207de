package python_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/keyring"
)

var ctx = context.Background()

// start of the tests' clock, with a fraction that a float64 cannot hold.
var epoch = time.Date(2026, 11, 30, 12, 0, 0, 87_092_000, time.UTC)

const ttl = 10 * time.Minute

// A call is a request as both sides see it, with all that a state is bound to.
type call struct {
	name      string
	secrets   []string // the first seals
	now       time.Time
	method    string
	target    string
	arguments string  // raw JSON; empty: absent
	principal *string // exactly this string, or
	login     *login  // the login's form, or neither: anonymous
	audience  *string
	state     string
	questions string // foil's alone
}

func is(s string) *string { return &s }

func oauth(client, issuer, subject string) *login {
	l := &login{Client: client}
	if issuer != "" {
		l.Issuer = &issuer
	}
	if subject != "" {
		l.Subject = &subject
	}
	return l
}

var (
	secretA = strings.Repeat("a", 32)
	secretB = strings.Repeat("\x00\xffb", 16) // longer, and no text
)

func (c *call) params() []byte {
	b := []byte(`{"name":`)
	if c.method == foil.MethodResourcesRead {
		b = []byte(`{"uri":`)
	}
	b = canonjson.AppendString(b, c.target)
	if c.arguments != "" {
		b = append(append(b, `,"arguments":`...), c.arguments...)
	}
	return append(b, `,"_meta":{"progressToken":1}}`...)
}

// python is the call as a request to peer.py.
func (c *call) python(op, token string) request {
	r := request{
		Op: op, TTL: ttl.Seconds(), Now: seconds(c.now), Method: c.method, Params: c.params(),
		State: []byte(c.state), Login: c.login, Token: []byte(token),
	}
	for _, s := range c.secrets {
		r.Keys = append(r.Keys, hex.EncodeToString([]byte(s)))
	}
	if c.principal != nil {
		r.Principal = append([]byte{}, *c.principal...)
	}
	if c.audience != nil {
		r.Audience = append([]byte{}, *c.audience...)
	}
	return r
}

// request is the call as foil gets it.
func (c *call) request() foil.Request {
	r := foil.Request{Method: c.method, Target: c.target, Principal: foil.Anonymous()}
	if c.arguments != "" {
		r.Arguments = []byte(c.arguments)
	}
	switch {
	case c.principal != nil:
		r.Principal = foil.PrincipalString(*c.principal)
	case c.login != nil:
		r.Principal = foil.OAuth(c.login.Client, orEmpty(c.login.Issuer), orEmpty(c.login.Subject))
	}
	return r
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (c *call) ring(t *testing.T) *keyring.Ring {
	t.Helper()
	var secrets [][]byte
	for _, s := range c.secrets {
		secrets = append(secrets, []byte(s))
	}
	ring, err := keyring.FromSecrets(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// guardOf is a foil replica with this ring and the call's clock and audience.
func (c *call) guardOf(t *testing.T, ring *keyring.Ring, change func(*foil.Options)) (*foil.Guard, *aesgcm.Codec) {
	t.Helper()
	now := func() time.Time { return c.now }
	codec, err := aesgcm.New(keyring.Fixed(ring), &aesgcm.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	o := foil.Options{
		Audience: orEmpty(c.audience), NoAudience: c.audience == nil, Once: foil.Off, TTL: ttl,
		AmbiguousArguments: foil.Allow, Now: now, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	guard, err := foil.New(codec, &o)
	if err != nil {
		t.Fatal(err)
	}
	return guard, codec
}

// seal is what a foil replica mints, with the payload inside.
func (c *call) seal(t *testing.T) (token string, payload []byte) {
	t.Helper()
	guard, codec := c.guardOf(t, c.ring(t), nil)
	token, err := guard.Seal(ctx, c.request(), foil.Outgoing{State: c.state, Questions: []byte(c.questions)})
	if err != nil {
		t.Fatalf("%s: foil seals: %v", c.name, err)
	}
	if payload, err = codec.Open(ctx, token); err != nil {
		t.Fatal(err)
	}
	return token, payload
}

func (c *call) open(t *testing.T, token string) (*foil.Opened, error) {
	t.Helper()
	guard, _ := c.guardOf(t, c.ring(t), nil)
	return guard.Open(ctx, c.request(), token)
}

// seconds is a time as both sides write it.
func seconds(t time.Time) float64 { return float64(t.Unix()) + float64(t.Nanosecond())/1e9 }

func unix(s float64) time.Time {
	whole, frac := math.Modf(s)
	return time.Unix(int64(whole), int64(math.Round(frac*1e9)))
}

const (
	questions = `{"confirm":{"method":"elicitation/create","params":{"message":"Purge 3 object(s) under 'logs/'? ✓"}},"` +
		`why":{"method":"sampling/createMessage","params":{"messages":[]}},"r":{"method":"roots/list"}}`
	wtf = "☃ 🔒 \xed\xa0\x80 \x00\x7f \"\\/<>& \u2028" // with a lone surrogate
)

// calls is every kind of request that a state may be bound to.
func calls() []call {
	alice := oauth("client-a", "https://issuer.example", "alice")
	list := []call{
		{name: "anonymous", method: foil.MethodToolsCall, target: "purge_objects", arguments: `{"prefix":"logs/"}`, state: "s"},
		{name: "login and audience", method: foil.MethodToolsCall, target: "purge_objects", arguments: `{"prefix":"logs/"}`,
			login: alice, audience: is("storage-janitor"), state: `{"step":"confirm"}`, questions: questions},
		{name: "prompt", method: foil.MethodPromptsGet, target: "brief", arguments: `{"topic":"cats"}`, login: alice, audience: is("srv"), state: "st", questions: questions},
		{name: "resource", method: foil.MethodResourcesRead, target: "file:///a%20b?x=é#f", login: alice, audience: is("srv"), state: "st", questions: questions},
		{name: "resource with arguments", method: foil.MethodResourcesRead, target: "file:///a", arguments: `{"x":1}`, audience: is("srv"), state: "st"},
		{name: "no arguments", method: foil.MethodToolsCall, target: "t", state: "s"},
		{name: "null arguments", method: foil.MethodToolsCall, target: "t", arguments: "null", state: "s"},
		{name: "empty arguments", method: foil.MethodToolsCall, target: "t", arguments: " { } ", state: "s"},
		{name: "empty state", method: foil.MethodToolsCall, target: "t", login: alice},
		{name: "empty target", method: foil.MethodToolsCall, state: "s"},
		{name: "large state", method: foil.MethodToolsCall, target: "t", state: strings.Repeat("x\"é", 5000)},
		{name: "odd text everywhere", method: foil.MethodToolsCall, target: wtf, arguments: `{"é\ud800":"\udc00","😀":[1e22,-0.0,-0,1E400]}`,
			principal: is(wtf), audience: is(wtf), state: wtf, questions: questions},
		{name: "odd resource", method: foil.MethodResourcesRead, target: wtf, principal: is(wtf), audience: is(wtf), state: wtf},
		{name: "empty principal", method: foil.MethodToolsCall, target: "t", principal: is(""), state: "s"},
		{name: "client alone", method: foil.MethodToolsCall, target: "t", login: oauth("client-a", "", ""), state: "s"},
		{name: "no issuer", method: foil.MethodToolsCall, target: "t", login: oauth("client-a", "", "alice"), state: "s"},
		{name: "odd login", method: foil.MethodToolsCall, target: "t", login: oauth(`a"\`, "https://ü.example/<&>", "アリス\x7f"), state: "s"},
	}
	for i := range list {
		list[i].secrets = []string{secretA, secretB}[i%2:]
		// foil mints in milliseconds, so only there both sides write one text.
		list[i].now = epoch.Truncate(time.Millisecond).Add(time.Duration(i) * 1_234_567 * time.Millisecond)
	}
	return list
}

// wantState compares what Python's handler saw.
func wantState(t *testing.T, r reply, want string) {
	t.Helper()
	if r.Refused != "" || !bytes.Equal(r.State, []byte(want)) {
		t.Errorf("Python opens: state %q, refused %q; want %q", r.State, r.Refused, want)
	}
}

// frozen is the one error that a client gets for any refusal.
func frozen(t *testing.T) string {
	t.Helper()
	b, err := json.Marshal(foil.Wire(foil.Reject(foil.ReasonExpired)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantRefused(t *testing.T, what string, r reply, reason string) {
	t.Helper()
	if r.Refused != reason || r.State != nil {
		t.Errorf("%s: Python opens: refused %q, handler ran: %v; want %q", what, r.Refused, r.State != nil, reason)
	}
	if want := frozen(t); r.Wire != want {
		t.Errorf("%s: Python's error is %s, foil's %s", what, r.Wire, want)
	}
}

func wantReason(t *testing.T, what string, err error, reason foil.Reason) {
	t.Helper()
	if foil.ReasonOf(err) != reason {
		t.Errorf("%s: foil opens: %v, want %s", what, err, reason)
	}
}

func member(t *testing.T, object []byte, name string) (raw []byte) {
	t.Helper()
	err := canonjson.Object(object, nil, func(key string, value []byte) bool {
		if key == name {
			raw = value
		}
		return true
	})
	if err != nil {
		t.Fatal(fmt.Errorf("%q: %w", object, err))
	}
	return raw
}
