package lab_test

import (
	"context"
	"encoding/hex"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/chrometest"
	"github.com/foilmcp/foil/keyring"
)

// A shownTo is one presentation of a token.
type shownTo struct {
	What      string
	Token     string
	Method    string
	Target    string
	Args      string
	Answers   string
	Principal *string
	Audience  *string
	Now       float64
	want      string
}

// edits are changes of a good payload: what no Guard would mint, sealed all the same.
var edits = [][2]string{
	{`"v":1`, `"v":2`}, {`"v":1`, `"v":1.0`}, {`"v":1`, `"v":true`}, {`"v":1,`, ``}, {`"v":1`, `"v":1,"v":1`}, {`"v":1`, `"w":2,"w":3,"v":1`}, {`"v":1`, `"\u0076":1`},
	{`"rnd":1`, `"rnd":10`}, {`"rnd":1`, `"rnd":11`}, {`"rnd":1`, `"rnd":0`}, {`"rnd":1`, `"rnd":-1`}, {`"rnd":1`, `"rnd":1.0`}, {`"rnd":1`, `"rnd":"1"`}, {`"rnd":1,`, ``},
	{`"iat":`, `"iat":1e400,"x":`}, {`"iat":`, `"iat":"now","x":`}, {`"exp":`, `"exp":null,"x":`}, {`"exp":`, `"exp":1e12,"x":`}, {`"exp":`, `"exp":1,"x":`}, {`"dl":`, `"dl":1,"x":`}, {`"dl":`, `"dl":1e300,"x":`},
	{`"m":"tools/call"`, `"m":"tools/cal\u006c"`}, {`"m":"tools/call"`, `"m":"tools/Call"`}, {`"m":"tools/call"`, `"m":1`}, {`"t":"purge"`, `"t":""`}, {`"t":"purge"`, `"t":"\ud800"`},
	{`"a":"`, `"a":"A`}, {`"a":"`, `"a":"AAAAAAAAAAAAAAAAAAAAAA","x":"`}, {`"a":"`, `"a":"AAAAAAAAAAAAAAAAAAAAAB","x":"`}, {`"ax":"`, `"ax":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","x":"`}, {`"ax":"`, `"xa":"`},
	{`"aud":"storage"`, `"aud":"storage-2"`}, {`,"aud":"storage"`, ``}, {`"aud":"storage"`, `"aud":null`}, {`"aud":"storage"`, `"aud":"stor\u0061ge"`},
	{`"p":"`, `"p":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","x":"`}, {`"p":"`, `"q":"`}, {`"p":"`, `"p":"","x":"`}, {`"jti":"`, `"jti":"A","x":"`}, {`"fid":"`, `"fid":7,"x":"`},
	{`"k":{`, `"k":{"a":"eAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",`}, {`"k":{`, `"k":{"a":"x","b":"`}, {`"k":{"c":`, `"k":[],"x":{"c":`}, {`"k":{"c"`, `"k":{"c":"eAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","c"`},
	{`"s":"`, `"s":"x","s":"`}, {`"s":"state"`, `"s":null`}, {`{"v"`, ` { "v"`}, {`{"v"`, `[{"v"`}, {`{"v"`, "\ufeff{\"v\""}, {`"v":1`, "\"v\":1,\"x\":\"\x80\""}, {`"v":1`, "\"v\":1,\"x\":\"\x01\""}, {`"v":1`, `"v":1,"x":{"y":[1,2,{}]}`},
}

// testReasons presents tokens in many ways to a Guard and to the page's, which must
// give the same reason.
func testReasons(t *testing.T, browser *chrometest.Browser) {
	ctx := context.Background()
	secret := []byte("a secret of thirty-two bytes....")
	ring, err := keyring.FromSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}
	minted := time.Unix(1790000000, 250e6)
	at := func(after float64) float64 { return 1790000000.25 + after }
	text := func(s string) *string { return &s }
	alice, bob := text(`["app","https://login.example","alice"]`), text(`["app","https://login.example","bob"]`)
	tab := browser.Open(t, serve(t)+bare)
	for format, codecOf := range formats {
		codec, err := codecOf(keyring.Fixed(ring))
		if err != nil {
			t.Fatal(err)
		}
		guard := func(now time.Time, audience *string) *foil.Guard {
			o := &foil.Options{Once: foil.Off, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }, NoAudience: audience == nil}
			if audience != nil {
				o.Audience = *audience
			}
			g, err := foil.New(codec, o)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		request := func(s *shownTo) foil.Request {
			r := foil.Request{Method: s.Method, Target: s.Target, Arguments: []byte(s.Args), Answers: []byte(s.Answers), Principal: foil.Anonymous()}
			if s.Principal != nil {
				r.Principal = foil.PrincipalString(*s.Principal)
			}
			return r
		}
		honest := shownTo{Method: "tools/call", Target: "purge", Args: `{"prefix":"logs/","n":1.0}`, Answers: `{"c":{"action":"accept"}}`, Principal: alice, Audience: text("storage"), Now: at(1)}
		honest.Token, err = guard(minted, honest.Audience).Seal(ctx, request(&honest), foil.Outgoing{State: "state", Questions: []byte(`{"c":{"method":"elicitation/create"}}`)})
		if err != nil {
			t.Fatal(err)
		}
		payload, err := codec.Open(ctx, honest.Token)
		if err != nil {
			t.Fatal(err)
		}
		var all []shownTo
		add := func(what string, change func(*shownTo)) {
			s := honest
			s.What = what
			change(&s)
			all = append(all, s)
		}
		add("honest", func(*shownTo) {})
		for _, after := range []float64{-61, -60.001, -60, -59, 0, 599.999, 600, 601, 3600, 1e9, -1e9} {
			add("at another time", func(s *shownTo) { s.Now = at(after) })
		}
		for _, m := range []string{"prompts/get", "resources/read", "", "tools/call "} {
			add("method "+m, func(s *shownTo) { s.Method = m })
		}
		for _, target := range []string{"", "Purge", "purge ", "purge\x00"} {
			add("target "+target, func(s *shownTo) { s.Target = target })
		}
		for _, args := range []string{
			``, `null`, `{}`, ` {"n":1.0 ,"prefix":"logs/"}`, `{"prefix":"logs/","n":1}`, `{"prefix":"logs/","n":1e0}`, `{"prefix":"logs/","n":1.0,"n":1.0}`, `{"prefix":"logs/","N":1.0,"n":1.0}`,
			`[]`, `"x"`, `{`, `{"prefix":"\u006cogs/","n":1.00}`, strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 70),
		} {
			add("arguments "+args, func(s *shownTo) { s.Args = args })
		}
		for _, answers := range []string{``, `null`, `{}`, `[]`, `{"c":{"action":"accept"},"c":{"action":"decline"}}`, `{"c":{"action":"accept","Action":"decline"}}`, `{"c":`, `{"C":{},"c":{}}`} {
			add("answers "+answers, func(s *shownTo) { s.Answers = answers })
		}
		for _, who := range []*string{nil, bob, text(""), text(*alice + " "), text(strings.ToUpper(*alice))} {
			add("somebody else", func(s *shownTo) { s.Principal = who })
		}
		for _, audience := range []*string{nil, text("storage-2"), text("Storage")} {
			add("another audience", func(s *shownTo) { s.Audience = audience })
		}
		for _, e := range edits {
			changed := strings.Replace(string(payload), e[0], e[1], 1)
			if changed == string(payload) {
				t.Fatalf("%s is not in %s", e[0], payload)
			}
			token, err := codec.Seal(ctx, []byte(changed), minted.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			add(e[1]+" for "+e[0], func(s *shownTo) { s.Token = token })
		}
		token := honest.Token
		for _, x := range []string{"", "x", token + "A", token + "=", token + "\n", " " + token, token[:len(token)-1], token[3:], "v2." + token[3:], strings.Repeat("A", 65537), "v1." + strings.Repeat("A", 65533), strings.Replace(token, ".", "..", 1)} {
			add("another token", func(s *shownTo) { s.Token = x })
		}
		for i := 0; i < len(token); i += 7 {
			add("a flipped bit", func(s *shownTo) { s.Token = token[:i] + string(rune(token[i]^1)) + token[i+1:] })
		}
		for i := range all {
			s := &all[i]
			nanos := int64(s.Now*1000) * int64(time.Millisecond)
			o, err := guard(time.Unix(0, nanos), s.Audience).Open(ctx, request(s), s.Token)
			if s.want = string(foil.ReasonOf(err)); err == nil {
				s.want = "opens: " + o.State()
				if o.Has("c") {
					s.want += ", answered"
				}
			}
		}
		got := chrometest.Eval[[]string](tab, `
			const [hex, format, list] = args;
			const load = (name) => import(location.origin + "/core/" + name + ".js");
			const { unhex } = await load("bytes");
			const { fromSecret } = await load("keys");
			const { codecOf } = await load("codecs");
			const { Guard, Opened } = await load("guard");
			const { UsedSet } = await load("used");
			const on = { principal: true, expiry: true, request: true, audience: true, questions: true, once: false };
			const codec = codecOf(format, [await fromSecret(unhex(hex))]);
			return Promise.all(list.map(async (s) => {
				const guard = new Guard(codec, on, { audience: s.Audience, now: () => s.Now, used: new UsedSet() });
				const o = await guard.open({ method: s.Method, target: s.Target, args: s.Args, principal: s.Principal, answers: s.Answers }, s.Token);
				return o instanceof Opened ? "opens: " + o.claims.s + (o.answers.has("c") ? ", answered" : "") : o.reason;
			}));
		`, hex.EncodeToString(secret), format, all)
		kinds := map[string]int{}
		for i, s := range all {
			kinds[s.want]++
			if got[i] != s.want {
				t.Errorf("%s, %q: %q in the page, %q in Go", format, s.What, got[i], s.want)
			}
		}
		if len(kinds) < 13 {
			t.Errorf("only %v were seen", kinds)
		}
	}
}
