package attack

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/keyring"
)

// required are all the attacks that need no ledger, no approvals and no OpenBao,
// in their order.
var required = []string{
	"honest", "replica-killed", "key-order", "white-space", "escape-spelling", "meta-changes", "token-refresh",
	"tamper-each-part", "truncate", "extend", "tampered-suffix", "alias-spelling", "version-swap", "kid-swap", "forge-unkeyed", "cross-format",
	"other-user", "same-client-other-user", "other-issuer", "dropped-login", "added-login",
	"late", "from-the-future",
	"other-method", "other-target", "changed-argument", "added-argument", "removed-argument", "null-for-absent", "number-games", "lone-surrogate",
	"duplicate-key", "case-twin", "two-states", "ambiguous-answers",
	"other-service", "retired-key", "unknown-key", "revoked-key",
	"replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "replay-alias", "decline-then-accept", "fork",
	"answers-changed", "lost-answer",
	"too-many-rounds", "past-deadline", "second-round", "pre-answered", "reworded-question", "other-kind", "no-state",
	"wrong-type", "oversize", "deep", "long-number",
	"claim-theft", "oracle", "replay-swept", "store-down", "leak",
}

func TestBatteryIsComplete(t *testing.T) {
	var names []string
	for _, a := range Battery() {
		if slices.Contains(names, a.Name) {
			t.Errorf("%s is there twice", a.Name)
		}
		names = append(names, a.Name)
		if a.Does == "" || len(a.must) == 0 || a.run == nil {
			t.Errorf("%s lacks a part", a.Name)
		}
		if a.StoppedBy == "" != (a.must[0] == Accepted) {
			t.Errorf("%s is expected to be %v and stopped by %q", a.Name, a.must, a.StoppedBy)
		}
	}
	if diff := cmp.Diff(required, names); diff != "" {
		t.Errorf("the battery (-want +got):\n%s", diff)
	}
	if got := Named("fork", "honest"); len(got) != 2 || got[0].Name != "honest" || got[1].Name != "fork" {
		t.Errorf("Named keeps neither the names nor the order: %d", len(got))
	}
}

func TestExpect(t *testing.T) {
	for _, test := range []struct {
		name string
		mode Mode
		want string
	}{
		{"other-user", Mode{}, "refused"},
		{"other-user", Mode{Once: foil.Off}, "refused"},
		{"other-user", Mode{Without: foil.BindPrincipal}, "accepted"},
		{"other-user", Mode{Without: foil.BindExpiry}, "refused"},
		{"other-user", Mode{Once: foil.Off, Without: foil.BindPrincipal | foil.BindExpiry}, "accepted"},
		{"replay-5", Mode{Once: foil.Redeem}, "1 of 5"},
		{"replay-5", Mode{Once: foil.Off}, "5 of 5"},
		{"replay-race", Mode{Once: foil.Off}, "64 of 64"},
		{"fork", Mode{Once: foil.Off}, "accepted"},
		{"replay-alias", Mode{Once: foil.Off}, "refused"},
		{"two-states", Mode{}, "refused or not-visible"},
		{"ambiguous-answers", Mode{}, "refused or not-visible"},
		{"second-round", Mode{Without: foil.BindPrincipal}, "refused"},
		{"other-kind", Mode{}, "asked-again"},
		{"other-kind", Mode{Without: foil.BindQuestions}, "accepted or asked-again"},
		{"pre-answered", Mode{}, "asked-again"},
		{"case-twin", Mode{}, "refused"},
		{"case-twin", Mode{Kind: foil.MethodResourcesRead}, "refused or not-visible"},
		{"replay-swept", Mode{}, "refused or unavailable"},
		{"store-down", Mode{Once: foil.Off}, "accepted"},
		{"late", Mode{}, "refused"},
		{"late", Mode{Once: foil.Settle}, "recorded"},
		{"late", Mode{Once: foil.Settle, Without: foil.BindExpiry}, "accepted or unavailable"},
		{"replay-5", Mode{Once: foil.Settle}, "recorded x4"},
		{"replay-race", Mode{Once: foil.Settle}, "recorded x63"},
		{"replay-5", Mode{Once: foil.Deferred}, "1 of 5"},
		{"replay-after-restart", Mode{Once: foil.Settle}, "recorded"},
		{"replay-alias", Mode{Once: foil.Settle}, "refused"},
		{"fork", Mode{Once: foil.Settle}, "recorded"},
		{"decline-then-accept", Mode{Once: foil.Settle}, "refused"},
		{"answers-changed", Mode{Once: foil.Settle}, "refused"},
		{"answers-changed", Mode{Once: foil.Off}, "accepted"},
		{"lost-answer", Mode{Once: foil.Redeem}, "refused"},
		{"lost-answer", Mode{Once: foil.Settle}, "recorded"},
		{"lost-answer", Mode{Once: foil.Off}, "accepted"},
	} {
		if got := strings.Join(Named(test.name)[0].Expect(test.mode), " or "); got != test.want {
			t.Errorf("%s in %+v: %q, want %q", test.name, test.mode, got, test.want)
		}
	}
}

func TestRead(t *testing.T) {
	const refusal = `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`
	for _, test := range []struct{ body, want string }{
		{`{"jsonrpc":"2.0","id":1,"error":` + refusal + `}`, Refused},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32602, "message":"Invalid or expired requestState", "data":{ "reason":"invalid_request_state"}}}`, Refused},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params","data":{"reason":"ambiguous_arguments"}}}`, ambiguous},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":{"reason":"request_state_unavailable"}}}`, Unavailable},
		// Near misses of the frozen error tell something.
		{`{"error":{"code":-32602,"message":"Invalid or expired requestState"}}`, serverError},
		{`{"error":{"code":-32600,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}}`, serverError},
		{`{"error":{"code":-32602,"message":"Invalid requestState","data":{"reason":"invalid_request_state"}}}`, serverError},
		{`{"error":{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"expired"}}}`, serverError},
		{`{"error":{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state","why":"expired"}}}`, serverError},
		{`{"error":{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"},"more":1}}`, serverError},
		{`{"result":{"resultType":"complete","content":[]}}`, Accepted},
		{`{"result":{"content":[]}}`, Accepted},
		{`{"result":{"resultType":"input_required","requestState":"x","inputRequests":{}}}`, AskedAgain},
		{`{"error":{"code":-32000,"message":"Operation in progress","data":{"reason":"operation_in_progress","retry_after_ms":200}}}`, inProgress},
		{`{"error":{"code":-32000,"message":"Operation in progress","data":{"reason":"operation_in_progress"}}}`, serverError},
		{`{"error":{"code":-32001,"message":"Operation in progress","data":{"reason":"operation_in_progress","retry_after_ms":200}}}`, serverError},
		{`{"error":{"code":-32000,"message":"Operation outcome unknown","data":{"reason":"operation_unknown","flow":"x"}}}`, unknown},
		{`{"error":{"code":-32000,"message":"Operation outcome unknown","data":{"reason":"operation_unknown"}}}`, serverError},
		{`{"result":{"resultType":"task"}}`, unreadable},
		{`{"jsonrpc":"2.0","id":1}`, unreadable},
		{`nonsense`, unreadable},
		{``, unreadable},
	} {
		if got := read(&Reply{Body: []byte(test.body)}).kind; got != test.want {
			t.Errorf("%s\nis %q, want %q", test.body, got, test.want)
		}
	}
	if got := read(&Reply{Status: 400, Body: []byte("bad request")}).kind; got != serverError {
		t.Errorf("a plain 400 is %q", got)
	}
	if got := read(&Reply{HungUp: true}).kind; got != serverError {
		t.Errorf("an ended connection is %q", got)
	}
	if got := read(&Reply{Status: 502, Body: []byte("bad gateway")}).kind; got != unreadable {
		t.Errorf("a plain 502 is %q", got)
	}
}

// TestRecorded tells a result told again from another one.
func TestRecorded(t *testing.T) {
	const done = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`
	asked := func(token, more string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"requestState":"` + token + `","resultType":"input_required","inputRequests":{}` + more + `}}`
	}
	for _, test := range []struct{ first, second, want string }{
		{done, done, Recorded},
		{done, `{"id":"other","jsonrpc":"2.0","result":{"resultType":"complete","content":[]}}`, Recorded},
		{done, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[] }}`, retold},
		{done, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`, retold},
		{asked("v1.A", ""), asked("v1.B", ""), Recorded},
		{asked("v1.A", ""), asked("v1.B", `,"content":null`), retold},
		{asked("v1.A", ""), done, retold},
	} {
		b := &bout{Config: &Config{Mode: Mode{Once: foil.Settle}}, attack: &Attack{}, seen: &evidence{}}
		req := &Request{Params: Members{M("requestState", `"v1.x"`)}}
		if got := b.verdict(b.hear(req, &Reply{Body: []byte(test.first)})); got == Recorded || got == retold {
			t.Errorf("the first time: %q", got)
		}
		if got := b.verdict(b.hear(req, &Reply{Body: []byte(test.second)})); got != test.want {
			t.Errorf("%s\nafter %s\nis %q, want %q", test.second, test.first, got, test.want)
		}
		// For another token it is the first time.
		req.Params = req.Params.Set("requestState", `"v1.y"`)
		if got := b.verdict(b.hear(req, &Reply{Body: []byte(test.second)})); got == Recorded || got == retold {
			t.Errorf("with another token: %q", got)
		}
	}
}

func TestRedact(t *testing.T) {
	got := redact([]byte(` {"requestState" : "v1.a\"b","text":"the-token foil-claim.AbC-1 state-of-it tiny"} `), []string{"the-token", "state-of-it", "tiny"})
	want := `{"requestState" : "[redacted]","text":"[redacted] [redacted] [redacted] tiny"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := redact([]byte(strings.Repeat("ü", mostWire)), nil); len(got) > mostWire+len("…") {
		t.Errorf("a long reply keeps %d bytes", len(got))
	}
}

func TestMembers(t *testing.T) {
	m := Members{M("a", "1"), M("b", `"x"`)}
	for got, want := range map[string]string{
		m.JSON():                          `{"a":1,"b":"x"}`,
		m.Set("a", "2").JSON():            `{"a":2,"b":"x"}`,
		m.Set("c", "{}").JSON():           `{"a":1,"b":"x","c":{}}`,
		m.Without("a").JSON():             `{"b":"x"}`,
		m.Before(M("a", "0")).JSON():      `{"a":0,"a":1,"b":"x"}`,
		m.After(M("<&>\"", "1")).JSON():   `{"a":1,"b":"x","<&>\"":1}`,
		Members(nil).JSON():               `{}`,
		escaped("é"):                      `"\u00E9"`,
		Members{{`"\u0061"`, "1"}}.JSON(): `{"\u0061":1}`,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if m.JSON() != `{"a":1,"b":"x"}` {
		t.Error("a copy shares its members")
	}
}

// TestForms shows that the forms reach every part of a token and differ from it.
func TestForms(t *testing.T) {
	t.Run("v1", func(t *testing.T) { testForms(t, AESGCM, "key id", "nonce", "body", "tag") })
	t.Run("h1", func(t *testing.T) { testForms(t, Signed, "key id", "body", "tag") })
}

func testForms(t *testing.T, format Format, want ...string) {
	_, minter, err := NewRingFor(time.Now(), format)
	if err != nil {
		t.Fatal(err)
	}
	minter.Audience = "x"
	token, err := minter.Mint(t.Context(), Minting{Call: Call{Method: foil.MethodToolsCall, Target: "t"}, Login: Alice})
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]bool{}
	n := 0
	for what, form := range flips(token) {
		if form == token {
			t.Errorf("%s changes nothing", what)
		}
		if _, part, ok := strings.Cut(what, "("); ok {
			parts[strings.TrimSuffix(part, ")")] = true
		}
		n++
	}
	a := dissect(token)
	if want := len(token) + len(a.raw) + len(a.mac); n != want {
		t.Errorf("%d flips, want one for each of %d characters and bytes", n, want)
	}
	if again := a.with(a.raw); again != token || len(a.raw) == 0 || (len(a.mac) == 32) != (format == Signed) {
		t.Errorf("a token of %d and %d bytes, put together again as another", len(a.raw), len(a.mac))
	}
	wantParts := map[string]bool{}
	for _, p := range want {
		wantParts[p] = true
	}
	if diff := cmp.Diff(wantParts, parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	n = 0
	for _, form := range cuts(token) {
		if len(form) >= len(token) {
			t.Error("a cut that is no cut")
		}
		n++
	}
	if n < len(token)-1 {
		t.Errorf("%d cuts of %d characters", n, len(token))
	}
	for what, form := range extensions(token) {
		if len(form) <= len(token) {
			t.Errorf("%s is no extension", what)
		}
	}
	if format == Signed && spare(token, len(token)-1) != 2 {
		t.Error("a mac of 32 bytes leaves two bits over")
	}
	strayBits := 0
	for _, form := range strays(token) {
		if strayBits++; form == token || dissect(form).with(dissect(form).raw) != token {
			t.Error("stray bits that change a byte, or nothing")
		}
	}
	for _, end := range ends(token) {
		strayBits -= 1<<spare(token, end) - 1
	}
	if strayBits != 0 {
		t.Errorf("%d spellings with stray bits are missing", -strayBits)
	}
}

// What the battery writes by itself is what the codecs write.
func TestRawFormats(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, keyring.MinSecretLen)
	ring, err := keyring.FromSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}
	for own, raw := range map[Format]*rawFormat{AESGCM: Signed.other(), Signed: AESGCM.other()} {
		codec, err := own.codec(keyring.Fixed(ring))
		if err != nil {
			t.Fatal(err)
		}
		token, err := raw.under(secret, []byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := codec.Open(t.Context(), token); err != nil || string(got) != "payload" {
			t.Errorf("format %d: %q, %v", own, got, err)
		}
		other, err := own.other().under(secret, []byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := codec.Open(t.Context(), other); foil.ReasonOf(err) != foil.ReasonMalformed {
			t.Errorf("format %d opens the other: %v", own, err)
		}
	}
}

func TestNewRing(t *testing.T) {
	now := time.Now()
	doc, minter, err := NewRing(now)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := ring.Sealing(now); err != nil || k.ID() != "active" {
		t.Errorf("the key that seals is %v, %v", k, err)
	}
	if ring.MaxTTL() != minter.TTL || ring.Skew() != minter.Skew {
		t.Errorf("the ring has %v and %v, the minter %v and %v", ring.MaxTTL(), ring.Skew(), minter.TTL, minter.Skew)
	}
	for id, opens := range map[string]bool{"active": true, "retired": false, "revoked": false} {
		if k := ring.Key(id); k == nil || k.Opens(now) != opens {
			t.Errorf("key %s opens: want %t", id, opens)
		}
	}
}

func TestRunNeedsAll(t *testing.T) {
	if _, err := Run(t.Context(), &Config{}, Battery()); err == nil {
		t.Error("a battery without a door")
	}
}
