package claims_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/claims"
	"github.com/google/go-cmp/cmp"
)

func full() *claims.Claims {
	c := &claims.Claims{
		IssuedAt: 1700000000.25, Expires: 1700000600, Method: "tools/call", Target: "\xed\xa0\x80", State: "a\x00b😀",
		Audience: "svc \"é\"", HasAudience: true, Own: true, Round: 3, Deadline: 1700003600.5,
		Questions: []claims.Asked{{Key: "a", Kind: claims.Elicitation}, {Key: "z\"", Kind: claims.Sampling}, {Key: "é", Kind: claims.Roots}},
	}
	c.SetPrincipal([8]byte{1, 2, 3}, "alice")
	for i := range c.ID {
		c.ID[i], c.Flow[i], c.Exact[i], c.Arguments[i] = byte(i), byte(255-i), byte(i*7), byte(i*11)
	}
	c.Questions[2].Digest[31] = 9
	return c
}

func TestRoundTrip(t *testing.T) {
	bare := &claims.Claims{IssuedAt: 1, Expires: 2, Method: "m"}
	nothingAsked := full()
	nothingAsked.Questions = nil
	for _, c := range []*claims.Claims{full(), bare, nothingAsked} {
		text := c.Append(nil)
		got, err := claims.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if d := cmp.Diff(c, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", text, d)
		}
	}
}

// The bytes are fixed: the Python SDK's claims first, in its order.
func TestOrder(t *testing.T) {
	const want = `{"v":1,"iat":1700000000.25,"exp":1700000600.0,"m":"tools/call","t":"\ud800","a":"AAsWISw3Qk1YY255hI-apQ","s":"a\u0000b\ud83d\ude00",` +
		`"aud":"svc \"\u00e9\"","p":"AQIDAAAAAA`
	got := string(full().Append(nil))
	if !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s…", got, want)
	}
	if !strings.HasSuffix(got, `"rnd":3,"dl":1700003600.5,"k":{"a":"eAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","z\"":"sAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","\u00e9":"rAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAk"}}`) {
		t.Errorf("got %s", got)
	}
	bare := &claims.Claims{Own: true, Round: 1}
	if got := string(bare.Append(nil)); !strings.HasSuffix(got, `"k":{}}`) {
		t.Errorf("k is left out: %s", got)
	}
}

func TestPrincipalTag(t *testing.T) {
	c := full()
	if !c.IsPrincipal("alice") {
		t.Error("alice is not alice")
	}
	for _, other := range []string{"", "bob", "alice ", "Alice"} {
		if c.IsPrincipal(other) {
			t.Errorf("%q passes for alice", other)
		}
	}
	for i := range c.Principal {
		c.Principal[i] ^= 1
		if c.IsPrincipal("alice") {
			t.Errorf("byte %d of the tag does not matter", i)
		}
		c.Principal[i] ^= 1
	}
	c.HasPrincipal = false
	if c.IsPrincipal("") || c.IsPrincipal("alice") {
		t.Error("a token of nobody is somebody's")
	}
}

// The one tag that another implementation computed.
func TestPrincipalVector(t *testing.T) {
	text, err := os.ReadFile("../../testdata/vectors/sdk-tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Python struct{ Payload, Principal string } `json:"python"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	c, err := claims.Parse([]byte(v.Python.Payload))
	if err != nil {
		t.Fatal(err)
	}
	if c.Own || !c.IsPrincipal(v.Python.Principal) {
		t.Errorf("own %v, principal not recognised", c.Own)
	}
}

func TestRefused(t *testing.T) {
	good := string(full().Append(nil))
	swap := func(old, new string) string {
		s := strings.Replace(good, old, new, 1)
		if s == good {
			t.Fatalf("%q is not in the payload", old)
		}
		return s
	}
	tests := map[string]string{
		"empty":            ``,
		"not JSON":         good[:len(good)-1],
		"trailing":         good + `{}`,
		"array":            `[` + good + `]`,
		"version 2":        swap(`"v":1`, `"v":2`),
		"version as text":  swap(`"v":1`, `"v":"1"`),
		"version 1.0":      swap(`"v":1`, `"v":1.0`),
		"no version":       swap(`"v":1,`, ``),
		"iat null":         swap(`"iat":1700000000.25`, `"iat":null`),
		"iat NaN":          swap(`"iat":1700000000.25`, `"iat":NaN`),
		"exp overflows":    swap(`"exp":1700000600.0`, `"exp":1e400`),
		"exp as text":      swap(`"exp":1700000600.0`, `"exp":"1"`),
		"no m":             swap(`"m":"tools/call",`, ``),
		"m twice":          swap(`"m":"tools/call"`, `"m":"tools/call","m":"x"`),
		"s a number":       swap(`"s":"a\u0000b\ud83d\ude00"`, `"s":1`),
		"a padded":         swap(`"a":"AAsWISw3Qk1YY255hI-apQ"`, `"a":"AAsWISw3Qk1YY255hI-apQ=="`),
		"a with line end":  swap(`"a":"AAsWISw3Qk1YY255hI-apQ"`, `"a":"AAsWISw3Qk1YY255hI-ap\n"`),
		"a stray bits":     swap(`"a":"AAsWISw3Qk1YY255hI-apQ"`, `"a":"AAsWISw3Qk1YY255hI-apR"`),
		"a other alphabet": swap(`"a":"AAsWISw3Qk1YY255hI-apQ"`, `"a":"AAsWISw3Qk1YY255hI+apQ"`),
		"p short":          swap(`"p":"AQID`, `"p":"`),
		"rnd zero":         swap(`"rnd":3`, `"rnd":0`),
		"rnd negative":     swap(`"rnd":3`, `"rnd":-3`),
		"rnd fraction":     swap(`"rnd":3`, `"rnd":3.0`),
		"rnd huge":         swap(`"rnd":3`, `"rnd":99999999999999999999`),
		"no rnd":           swap(`"rnd":3,`, ``),
		"no k":             good[:strings.Index(good, `,"k":`)] + `}`,
		"k an array":       good[:strings.Index(good, `"k":`)] + `"k":[]}`,
		"k unknown kind":   swap(`"a":"eAA`, `"a":"xAA`),
		"k short":          swap(`"a":"eAA`, `"a":"e`),
		"k a number":       swap(`"a":"eAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"`, `"a":1`),
		"k twice":          swap(`"k":{`, `"k":{"a":"eAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",`),
	}
	for name, text := range tests {
		if c, err := claims.Parse([]byte(text)); err == nil || c != nil {
			t.Errorf("%s was taken: %s", name, text)
		}
	}
	if _, err := claims.Parse([]byte(swap(`"v":1`, ` "v" : 1 , "new" : [{"a":1}] `))); err != nil {
		t.Errorf("white space and a claim of later: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(full().Append(nil))
	f.Add([]byte(`{"v":1,"iat":1,"exp":2,"m":"","t":"","a":"AAAAAAAAAAAAAAAAAAAAAA","s":""}`))
	text, err := os.ReadFile("../../testdata/vectors/python-sdk.json")
	if err != nil {
		f.Fatal(err)
	}
	var vectors []struct {
		Claims string `json:"claims_json"`
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		f.Fatal(err)
	}
	for _, v := range vectors {
		f.Add([]byte(v.Claims))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := claims.Parse(text)
		// White space in front makes every member one that was not foreseen.
		slow, slowErr := claims.Parse(append([]byte{' '}, text...))
		if d := cmp.Diff(c, slow); d != "" || (err == nil) != (slowErr == nil) {
			t.Fatalf("%v, read slowly %v: %s", err, slowErr, d)
		}
		if err != nil {
			if c != nil {
				t.Fatal("an error with claims")
			}
			return
		}
		if n, err := canonjson.Skip(text, nil); err != nil || len(bytes.TrimSpace(text[n:])) != 0 {
			t.Fatalf("what is no JSON was taken: %v", err)
		}
		again, err := claims.Parse(c.Append(nil))
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if d := cmp.Diff(c, again); d != "" {
			t.Fatal(d)
		}
	})
}

// What is read does not depend on what is likely, nor on the order of the claims
// and the white space between them.
func TestLikely(t *testing.T) {
	want := full()
	text := want.Append(nil)
	spaced := strings.NewReplacer(`,"`, " ,\n\t\"", `":`, `" : `).Replace(string(text))
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	mixed, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	for _, likely := range []claims.Likely{
		{},
		{Method: want.Method, Target: want.Target, Audience: want.Audience},
		{Method: want.Method + " ", Target: "\\ud800", Audience: `svc \"\u00e9\"`},
		{Method: "tools/cal", Target: want.Method, Audience: want.Method},
	} {
		for _, text := range []string{string(text), spaced, string(mixed)} {
			got := new(claims.Claims)
			if err := got.ParseLikely([]byte(text), likely); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%+v: %s: (-want +got)\n%s", likely, text, d)
			}
		}
	}
}

// Strings that are likely cost nothing.
func TestLikelyDoesNotAllocate(t *testing.T) {
	want := claims.Claims{Method: "tools/call", Target: "purge", Audience: "svc", HasAudience: true}
	text := want.Append(nil)
	var got claims.Claims
	likely := claims.Likely{Method: "tools/call", Target: "purge", Audience: "svc"}
	if n := testing.AllocsPerRun(100, func() {
		got = claims.Claims{}
		if err := got.ParseLikely(text, likely); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	got = claims.Claims{}
	if err := got.ParseLikely(text, claims.Likely{Method: "tools/cal"}); err != nil || got.Method != want.Method {
		t.Errorf("method %q, %v", got.Method, err)
	}
}
