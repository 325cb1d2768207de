package lab_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/canonjson/jsongen"
	"github.com/foilmcp/foil/internal/chrometest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/signed"
)

// odd are documents that canonical forms must treat alike, refuse alike, or find
// ambiguous alike.
var odd = []string{
	`{}`, ` { } `, `{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"k":1,"\u212a":2}`, `{"s":1,"\u017f":2}`, `{"i":1,"\u0131":2}`, `{"\u0130":1,"i":2}`,
	`{"\u00b5":1,"\u03bc":2}`, `{"\u03c3":1,"\u03c2":2}`, `{"\u00df":1,"\u1e9e":2}`, `{"\u13a0":1,"\uab70":2}`, `{"x":[{"b":1,"B":2}]}`, `{"\ud800":1,"\ud801":2}`,
	`{"\ue000":1,"\ud83d\ude00":2,"\ud800":3,"z":4}`, `{"\ud800x":1,"\ud800\udc00":2,"\uffff":3}`,
	`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":-}`, `{"a":+1}`, `{"a":1e1234567}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":1}x`, `{"a":1,}`, `{,}`, `{"a"}`, `{a:1}`,
	`{"a":tru}`, `{"a":"` + "\x01" + `"}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\ud800"}`, `{"a":"` + "\u2028" + `"}`, "\ufeff{}", `[1,2]`, `"x"`, `null`, `12`, ``, ` `,
	`{"a":-0,"b":-0.0,"c":0e5,"d":-0E-0,"e":1E400,"f":-1e999,"g":1e-400,"h":0.000}`,
	`{"a":123456789012345678901234567890,"b":100,"c":1.50,"d":15e-1,"e":0.00001,"f":0.0001,"g":1e15,"h":1e16,"i":9007199254740993.0}`,
	`{"a":5e-324,"b":2.4703282292062327e-324,"c":2.4703282292062328e-324,"d":1.7976931348623157e308,"e":1.7976931348623159e308}`,
	`{"a":"` + "\u007f\u00e9\U0001f600" + `\/\b\f\n\r\t\"\\"}`,
	strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64), strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65),
	`{"n":` + strings.Repeat("9", 4300) + `}`, `{"n":` + strings.Repeat("9", 4301) + `}`,
}

// A canonical is what either side makes of a document.
type canonical struct {
	Python, Exact string
	Ambiguous     bool
	Refused       bool
}

func testCanonical(t *testing.T, browser *chrometest.Browser) {
	docs := append([]string(nil), odd...)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 600 {
		docs = append(docs, string(jsongen.Document(r)))
	}
	tab := browser.Open(t, serve(t)+bare)
	got := chrometest.Eval[[]canonical](tab, `
		const { forms, members } = await import(location.origin + "/core/json.js");
		return args[0].map((doc) => {
			try {
				const f = forms(doc);
				let listed = true;
				try { members(doc); } catch { listed = false; }
				if (listed !== (doc.trim()[0] === "{")) return { Refused: true, Python: "but listed " + listed };
				return { Python: f.python, Exact: f.exact, Ambiguous: f.ambiguous, Refused: false };
			} catch { return { Python: "", Exact: "", Ambiguous: false, Refused: true }; }
		});
	`, docs)
	for i, doc := range docs {
		var want canonical
		sums, err := canonjson.Sum([]byte(doc), nil)
		if err != nil {
			want.Refused = true
		} else {
			python, _ := canonjson.Append(nil, []byte(doc), nil)
			exact, _ := canonjson.AppendExact(nil, []byte(doc), nil)
			want = canonical{string(python), string(exact), sums.Ambiguous, false}
		}
		if got[i] != want {
			t.Errorf("seed %d: %.300s\nthe page: %+v\nGo:       %+v", seed, doc, got[i], want)
		}
	}
}

func readVectors(t *testing.T, name string) json.RawMessage {
	t.Helper()
	text, err := os.ReadFile("../testdata/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// testVectors runs all vectors in the page, where they are read by JSON.parse, which
// keeps lone surrogates.
func testVectors(t *testing.T, browser *chrometest.Browser) {
	tab := browser.Open(t, serve(t)+bare)
	got := chrometest.Eval[struct {
		Ran    map[string]int
		Failed []string
	}](tab, `
		const [digests, python, sdks] = args;
		const load = (name) => import(location.origin + "/core/" + name + ".js");
		const { forms, members } = await load("json");
		const { encode, hex, sha256, unhex, utf8 } = await load("bytes");
		const { fromSecret } = await load("keys");
		const { codecOf, Refusal } = await load("codecs");
		const { Guard, Opened } = await load("guard");
		const { UsedSet } = await load("used");
		const { parse, write } = await load("claims");
		const out = { Ran: { digests: 0, python: 0, sdks: 0 }, Failed: [] };
		const same = (what, got, want) => { if (got !== want) out.Failed.push(what + ": " + got + ", want " + want); };
		const digest = async (text) => encode((await sha256(utf8(text))).subarray(0, 16));
		const all = { principal: true, expiry: true, request: true, audience: true, questions: true, once: true };
		for (const d of digests) {
			out.Ran.digests++;
			const { python } = forms(d.arguments_json);
			same(d.arguments_json, python, d.python_canonical);
			same(d.arguments_json + " digest", await digest(python), d.python_digest);
		}
		for (const v of python) {
			out.Ran.python++;
			const codec = codecOf("v1", await Promise.all(v.keys_hex.map((k) => fromSecret(unhex(k)))));
			const guard = (more) => new Guard(codec, all, { audience: v.audience, now: () => v.now_unix, used: new UsedSet(), interop: true, ambiguous: true, ttl: v.ttl_s, ...more });
			const params = new Map(members(v.params_json).map((m) => [m.key, m.raw]));
			const req = { method: v.method, target: v.target, args: v.method === "resources/read" ? null : params.get("arguments") ?? null, principal: v.principal, answers: null };
			same(v.name + " canonical", forms(req.args === null || req.args === "null" ? "{}" : req.args).python, v.args_canonical);
			same(v.name + " digest", await digest(v.args_canonical), v.args_digest);
			same(v.name + " claims", write(parse(v.claims_json)), v.claims_json);
			const opened = await guard().open(req, v.token);
			same(v.name, opened instanceof Opened ? opened.claims.s : opened.reason, v.state);
			same(v.name + " to a server that is not told of such replicas", (await guard({ interop: false }).open(req, v.token)).reason, "malformed");
			same(v.name + " with duplicate keys refused", (await guard({ ambiguous: false }).open(req, v.token)).reason, v.name.includes("duplicate") ? "ambiguous_arguments" : undefined);
			const again = await guard().open(req, await guard().seal(req, { state: v.state }));
			same(v.name + " sealed again", again instanceof Opened ? again.claims.s : again.reason, v.state);
		}
		const key = await fromSecret(utf8("0123456789abcdef0123456789abcdef"));
		for (const [sdk, fields] of Object.entries(sdks)) {
			for (const name of ["token", "rs1", "rs2"]) {
				if (typeof fields[name] !== "string") continue;
				out.Ran.sdks++;
				const payload = await codecOf("v1", [key]).open(fields[name]);
				if (sdk !== "python") { same(sdk + " " + name, ["malformed", "unknown_key"].includes(payload.reason), true); continue; }
				same("python", new TextDecoder().decode(payload), fields.payload);
				same("python key id", hex(key.v1.kid), fields.kid_hex);
				same("python arguments", forms(fields.arguments_json).python, fields.args_canon);
			}
		}
		return out;
	`, readVectors(t, "digests.json"), readVectors(t, "python-sdk.json"), readVectors(t, "sdk-tokens.json"))
	for _, f := range got.Failed {
		t.Error(f)
	}
	if got.Ran["digests"] != 40 || got.Ran["python"] != 24 || got.Ran["sdks"] < 4 {
		t.Errorf("ran %v", got.Ran)
	}
}

// A sealed is a token and what it was sealed for.
type sealed struct {
	Token     string
	Method    string
	Target    string
	Sealed    string  // the arguments then
	Presented string  // the same ones in another spelling
	Principal *string // the string of a login
	State     string
}

const (
	audience = "lab-test"
	// perFormat is how many tokens go each way in each of the two formats.
	perFormat = 500
)

var formats = map[string]func(keyring.Current) (foil.Codec, error){
	"v1": func(k keyring.Current) (foil.Codec, error) { return aesgcm.New(k, nil) },
	"h1": func(k keyring.Current) (foil.Codec, error) { return signed.New(k, nil) },
}

// requests are those of many kinds. The seed is for the log.
func requests(seed uint64) []sealed {
	r := rand.New(rand.NewPCG(seed, 2))
	methods := []string{foil.MethodToolsCall, foil.MethodPromptsGet, foil.MethodResourcesRead}
	states := []string{"", "s", `{"step":1}`, "é\u2028\U0001f600\x7f\t\"\\/<>&", strings.Repeat("long ", 400)}
	all := make([]sealed, perFormat)
	for i := range all {
		spelt := jsongen.Spellings(r, 2)
		s := &all[i]
		*s = sealed{
			Method: methods[r.IntN(3)], Target: "target-" + states[r.IntN(4)], Sealed: string(spelt[0]), Presented: string(spelt[1]), State: states[r.IntN(len(states))],
		}
		if r.IntN(4) > 0 {
			who := fmt.Sprintf(`["app","https://login.example","user-%d"]`, r.IntN(1000))
			s.Principal = &who
		}
	}
	return all
}

func (s *sealed) request(arguments string) foil.Request {
	req := foil.Request{Method: s.Method, Target: s.Target, Arguments: []byte(arguments), Principal: foil.Anonymous()}
	if s.Principal != nil {
		req.Principal = foil.PrincipalString(*s.Principal)
	}
	return req
}

// inPage is the other side, for both directions.
const inPage = `
	const [hex, format, list] = args;
	const load = (name) => import(location.origin + "/core/" + name + ".js");
	const { unhex } = await load("bytes");
	const { fromSecret } = await load("keys");
	const { codecOf } = await load("codecs");
	const { Guard, Opened } = await load("guard");
	const { UsedSet } = await load("used");
	const on = { principal: true, expiry: true, request: true, audience: true, questions: true, once: true };
	const guard = new Guard(codecOf(format, [await fromSecret(unhex(hex))]), on, { audience: "` + audience + `", now: () => Date.now() / 1000, used: new UsedSet(5000) });
	const request = (s, text) => ({ method: s.Method, target: s.Target, args: text, principal: s.Principal, answers: null });
`

// testTokens takes tokens from the page to Go and back. Each is presented with its
// arguments in another spelling, and once more, which single use refuses.
func testTokens(t *testing.T, browser *chrometest.Browser) {
	secret := make([]byte, 32)
	for i := range secret {
		secret[i] = byte(rand.IntN(256))
	}
	ring, err := keyring.FromSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}
	tab := browser.Open(t, serve(t)+bare)
	for format, codecOf := range formats {
		codec, err := codecOf(keyring.Fixed(ring))
		if err != nil {
			t.Fatal(err)
		}
		g, err := foil.New(codec, &foil.Options{Audience: audience, Once: foil.Off, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		seed := rand.Uint64()
		all := requests(seed)

		tokens := chrometest.Eval[[]string](tab, inPage+`
			return Promise.all(list.map((s) => guard.seal(request(s, s.Sealed), { state: s.State })));
		`, hex.EncodeToString(secret), format, all)
		for i := range all {
			o, err := g.Open(context.Background(), all[i].request(all[i].Presented), tokens[i])
			if err != nil || o.State() != all[i].State {
				t.Fatalf("%s, seed %d: token %d of the page: %v\n%+v", format, seed, i, err, all[i])
			}
		}

		for i := range all {
			if all[i].Token, err = g.Seal(context.Background(), all[i].request(all[i].Sealed), foil.Outgoing{State: all[i].State}); err != nil {
				t.Fatal(err)
			}
		}
		failed := chrometest.Eval[[]string](tab, inPage+`
			const failed = [];
			await Promise.all(list.map(async (s, i) => {
				const first = await guard.open(request(s, s.Presented), s.Token);
				if (!(first instanceof Opened) || first.claims.s !== s.State) failed.push(i + ": " + (first.reason ?? first.what ?? "another state"));
				const second = await guard.open(request(s, s.Presented), s.Token);
				if (second.reason !== "replayed") failed.push(i + " again: " + (second.reason ?? "accepted"));
			}));
			return failed;
		`, hex.EncodeToString(secret), format, all)
		if len(failed) > 0 {
			t.Errorf("%s, seed %d: %d of Go's tokens: %.1000q", format, seed, len(failed), failed)
		}
	}
}
