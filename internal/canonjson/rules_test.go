package canonjson_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/google/go-cmp/cmp"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct{ name, text, python, exact string }{
		{"literals", `[true,false,null]`, `[true,false,null]`, `[true,false,null]`},
		{"white space", " \t\r\n{ \"a\" : [ 1 , { } , [ ] ] , \"b\" : \"x y\" }\n", `{"a":[1,{},[]],"b":"x y"}`, `{"a":[1e0,{},[]],"b":"x y"}`},
		{"order at every depth", `{"b":[{"d":1,"c":{"f":2,"e":3}}],"a":0}`, `{"a":0,"b":[{"c":{"e":3,"f":2},"d":1}]}`, `{"a":0e0,"b":[{"c":{"e":3e0,"f":2e0},"d":1e0}]}`},
		{"order below order", `{"a":{"c":1,"b":2},"d":{"f":{"h":3,"g":4}}}`, `{"a":{"b":2,"c":1},"d":{"f":{"g":4,"h":3}}}`, `{"a":{"b":2e0,"c":1e0},"d":{"f":{"g":4e0,"h":3e0}}}`},
		{"neighbours move together", `{"c":{"z":1,"y":2},"d":{"z":3,"y":4},"a":0,"b":[{"z":5,"y":6},{"z":7,"y":8}]}`,
			`{"a":0,"b":[{"y":6,"z":5},{"y":8,"z":7}],"c":{"y":2,"z":1},"d":{"y":4,"z":3}}`,
			`{"a":0e0,"b":[{"y":6e0,"z":5e0},{"y":8e0,"z":7e0}],"c":{"y":2e0,"z":1e0},"d":{"y":4e0,"z":3e0}}`},
		{"last of duplicates", `{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`, `{"a":3e0,"b":2e0}`},
		{"last of three, spelled differently", `{"a":1,"\u0061":2,"z":0,"a":{"c":1,"b":2}}`, `{"a":{"b":2,"c":1},"z":0}`, `{"a":{"b":2e0,"c":1e0},"z":0e0}`},
		{"only duplicates", `{"a":1,"a":2}`, `{"a":2}`, `{"a":2e0}`},
		{"duplicates that are objects", `{"a":{"z":1,"y":2},"a":{"x":1,"w":2},"a":{"v":1}}`, `{"a":{"v":1}}`, `{"a":{"v":1e0}}`},
		{"duplicate and neighbour", `{"a":0,"b":1,"b":2,"c":3}`, `{"a":0,"b":2,"c":3}`, `{"a":0e0,"b":2e0,"c":3e0}`},
		{"case is kept", `{"a":1,"A":2}`, `{"A":2,"a":1}`, `{"A":2e0,"a":1e0}`},
		{"mixed", `{ "n" : -1.50 , "m" : [ "\u00e9" , 1e2 ] }`, `{"m":["\u00e9",100.0],"n":-1.5}`, `{"m":["\u00e9",1e2],"n":-15e-1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			python, err := canonjson.Append(nil, []byte(tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			exact, err := canonjson.AppendExact(nil, []byte(tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.python, string(python)); diff != "" {
				t.Errorf("python-v1 (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.exact, string(exact)); diff != "" {
				t.Errorf("exact (-want +got)\n%s", diff)
			}
			sums, err := canonjson.Sum([]byte(tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if sums.Python != sha256.Sum256(python) || sums.Exact != sha256.Sum256(exact) {
				t.Error("Sum is not the sum of the texts")
			}
		})
	}
}

func TestAppendKeepsDst(t *testing.T) {
	dst := append(make([]byte, 0, 100), "dst:"...)
	got, err := canonjson.Append(dst, []byte(`{"b":1,"a":2}`), nil)
	if err != nil || string(got) != `dst:{"a":2,"b":1}` || &got[0] != &dst[0] {
		t.Errorf("%s, %v", got, err)
	}
}

func TestSyntax(t *testing.T) {
	for _, text := range []string{
		"", " ", "\n\t", "{", "}", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1}", "{]", "{1:2}", "{a:1}", "{'a':1}",
		`{"a"`, `{"a" 1}`, `{"a":`, `{"a":}`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,"a":1}`, `{"a":1 "b":2}`, `{"a":1]`, `{"a"::1}`, `{"a":1,,"b":2}`,
		"t", "tru", "True", "truex", "nul", "nulL", "falsE", "undefined",
		"NaN", "Infinity", "-Infinity", "-NaN", "inf", "nan",
		"-", "+1", "01", "-01", "00", ".5", "1.", "-.5", "1.e5", "1e", "1e+", "1e-", "1E+-1", "0x10", "1_000", "1a", "1 .5", "--1", "1.2.3", "1e5.0", "1e5e5", "- 1",
		"1 2", "{} {}", "[] x", `"a""b"`, "1,", "{}\x00", "{}}", "\ufeff{}", "{\u00a0}", "[\v1]", "[\f1]", "// c\n1", "/* c */ 1", "[1/**/]",
		"\x00", "\x1f", "\xff", "\xef\xbb\xbf",
	} {
		t.Run(text, func(t *testing.T) {
			checkEveryDoor(t, text, nil, canonjson.ErrSyntax)
			checkEveryDoor(t, `{"x":[`+text, nil, canonjson.ErrSyntax)
		})
	}
	for _, text := range []string{"1", `"a"`, "null", "true", "[]", "{}", " [ ] ", "\r\n{\t} ", "-0.0e-0", `[[],{},"",0]`} {
		t.Run(text, func(t *testing.T) { checkEveryDoor(t, text, nil, nil) })
	}
}

func TestErrorsHoldAPlaceAndNoText(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string
	}{
		{`{"secret":sesame}`, "canonjson: invalid JSON: unexpected byte at byte 10"},
		{`["secret" "sesame"]`, "canonjson: invalid JSON: unexpected byte at byte 10"},
		{`["secret`, "canonjson: invalid JSON: unexpected end at byte 8"},
		{`["secret","\x"]`, "canonjson: invalid JSON: bad escape at byte 11"},
		{`"secret" sesame`, "canonjson: invalid JSON: trailing data at byte 9"},
		{`[tsecret]`, "canonjson: invalid JSON: unknown literal at byte 1"},
		{`[12secret]`, "canonjson: invalid JSON: unexpected byte at byte 3"},
		{`["secret",1e1234567]`, "canonjson: limit exceeded: exponent at byte 10"},
	} {
		if _, err := canonjson.Sum([]byte(tt.text), nil); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
}

func nested(open, close string, depth int) string {
	return strings.Repeat(open, depth) + "0" + strings.Repeat(close, depth)
}

func TestLimits(t *testing.T) {
	const mb4 = 4 << 20
	for _, tt := range []struct {
		name, text string
		lim        *canonjson.Limits
		want       error
	}{
		{"64 arrays", nested("[", "]", 64), nil, nil},
		{"65 arrays", nested("[", "]", 65), nil, canonjson.ErrLimit},
		{"64 objects", nested(`{"a":`, "}", 64), nil, nil},
		{"65 objects", nested(`{"a":`, "}", 65), nil, canonjson.ErrLimit},
		{"64 mixed", nested(`[{"a":`, "}]", 32), nil, nil},
		{"66 mixed", nested(`[{"a":`, "}]", 33), nil, canonjson.ErrLimit},
		{"empty at 65", strings.Repeat("[", 65) + strings.Repeat("]", 65), nil, canonjson.ErrLimit},
		{"64 deep twice", "[" + nested("[", "]", 63) + "," + nested("[", "]", 63) + "]", nil, nil},
		{"only opened", strings.Repeat("[", 1<<20), nil, canonjson.ErrLimit},
		{"own depth", "[[0]]", &canonjson.Limits{MaxDepth: 2}, nil},
		{"own depth + 1", "[[[0]]]", &canonjson.Limits{MaxDepth: 2}, canonjson.ErrLimit},
		{"4 MiB", `"` + strings.Repeat("a", mb4-2) + `"`, nil, nil},
		{"4 MiB + 1", `"` + strings.Repeat("a", mb4-1) + `"`, nil, canonjson.ErrLimit},
		{"4 MiB + 1 of white space", "0" + strings.Repeat(" ", mb4), nil, canonjson.ErrLimit},
		{"4 MiB + 1 of nonsense: size first", strings.Repeat("x", mb4+1), nil, canonjson.ErrLimit},
		{"own size", "[10]", &canonjson.Limits{MaxBytes: 4}, nil},
		{"own size + 1", "[100]", &canonjson.Limits{MaxBytes: 4}, canonjson.ErrLimit},
		{"zero means default", "[[[1e5]]]", &canonjson.Limits{}, nil},
		{"negative means default", "[[[1e5]]]", &canonjson.Limits{MaxBytes: -1, MaxDepth: -1, MaxIntDigits: -1, MaxExponentDigits: -1}, nil},
		{"larger than default", nested("[", "]", 100), &canonjson.Limits{MaxDepth: 100}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) { checkEveryDoor(t, tt.text, tt.lim, tt.want) })
	}
}

func TestAmbiguous(t *testing.T) {
	for _, tt := range []struct {
		text string
		want bool
	}{
		{`{}`, false},
		{`{"a":1,"b":2}`, false},
		{`{"a":1,"a":2}`, true},
		{`{"a":1,"a":1}`, true},
		{`{"a":1,"\u0061":2}`, true},
		{`{"":1,"":2}`, true},
		{`{"b":1,"a":2,"c":3,"b":4}`, true},
		{`{"a":{"b":1,"b":2}}`, true},
		{`[[{"x":[{"b":1,"c":0,"b":2}]}]]`, true},
		{`{"a":{"b":1},"c":{"b":1}}`, false}, // not one object
		{`{"a":1,"b":{"a":1}}`, false},
		{`{"a":"b","b":"a"}`, false},
		{`["a","a"]`, false},
		{`{"a":{"x":1,"x":2},"a":{}}`, true}, // in one that loses, too

		{`{"a":1,"A":2}`, true},
		{`{"A":1,"a":2}`, true},
		{`{"prefix":1,"Prefix":2}`, true},
		{`{"max_bytes":1,"maxBytes":2}`, false},
		{`{"o":{"a":1,"A":2}}`, true},
		{`{"A":1,"B":2,"c":3}`, false},
		{`{"[":1,"{":2}`, false}, // differ by the case bit, are no letters
		{`{"@":1,"` + "`" + `":2}`, false},
		{`{"é":1,"É":2}`, true},
		{`{"\u00e9":1,"É":2}`, true},
		{`{"e\u0301":1,"é":2}`, false}, // not normalised
		{`{"k":1,"\u212a":2}`, true},   // KELVIN SIGN
		{`{"K":1,"\u212a":2}`, true},
		{`{"s":1,"\u017f":2}`, true}, // LATIN SMALL LETTER LONG S
		{`{"σ":1,"ς":2}`, true},      // final sigma
		{`{"ß":1,"ẞ":2}`, true},      //
		{`{"ß":1,"ss":2}`, false},    // full folding
		{`{"i":1,"İ":2}`, false},     // has no simple folding
		{`{"i":1,"ı":2}`, false},     //
		{`{"𐐀":1,"𐐨":2}`, true},      // DESERET, beyond the basic plane
		{`{"\ud801\udc00":1,"𐐨":2}`, true},
		{`{"\ud800":1,"\ud801":2}`, true},
		{`{"\ud800":1,"\ufffd":2}`, true},
		{`{"\udc00":1,"\udc01":2}`, true},
		{`{"\ud800":1,"\ud800":2}`, true},
		{`{"a\ud800":1,"A\ud800":2}`, true},
		{`{"a\u0000":1,"A":2}`, false},
		{`{"longer than eight A":1,"longer than eight a":2}`, true},
		{`{"longer than eight A":1,"longer than eight b":2}`, false},
	} {
		sums, err := canonjson.Sum([]byte(tt.text), nil)
		if err != nil || sums.Ambiguous != tt.want {
			t.Errorf("%s: ambiguous %t, %v, want %t", tt.text, sums.Ambiguous, err, tt.want)
		}
	}
}

// TestAmbiguousInWideObjects hides a pair in an object too large for the
// simple sort.
func TestAmbiguousInWideObjects(t *testing.T) {
	build := func(extra ...string) []byte {
		var b bytes.Buffer
		b.WriteString("{")
		for i := range 500 {
			fmt.Fprintf(&b, `"Key number %d":%d,`, i*7919%500, i)
		}
		for _, e := range extra {
			fmt.Fprintf(&b, `%q:0,`, e)
		}
		b.WriteString(`"z":0}`)
		return b.Bytes()
	}
	for _, tt := range []struct {
		extra []string
		want  bool
	}{
		{nil, false},
		{[]string{"Key number 500"}, false},
		{[]string{"Key number 499"}, true},
		{[]string{"key Number 250"}, true},
		{[]string{"Z"}, true},
		{[]string{"ſ", "S"}, true},
	} {
		sums, err := canonjson.Sum(build(tt.extra...), nil)
		if err != nil || sums.Ambiguous != tt.want {
			t.Errorf("with %q: ambiguous %t, %v, want %t", tt.extra, sums.Ambiguous, err, tt.want)
		}
	}
	// Of many duplicates the last wins, whatever the sort does.
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, `,"k%d":%d`, i%20, i)
	}
	got, err := canonjson.Append(nil, []byte("{"+b.String()[1:]+"}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if want := fmt.Sprintf(`"k%d":%d`, i, 380+i); !bytes.Contains(got, []byte(want)) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

func TestSkip(t *testing.T) {
	for _, tt := range []struct{ text, value string }{
		{`{"a":1} rest`, `{"a":1}`},
		{` [1,2],`, ` [1,2]`},
		{`"a\"b"c`, `"a\"b"`},
		{`12,`, `12`},
		{`1.5e3}`, `1.5e3`},
		{`true]`, `true`},
		{"null", "null"},
		{"1x", "1"},
		{"1 2", "1"},
	} {
		if n, err := canonjson.Skip([]byte(tt.text), nil); err != nil || tt.text[:n] != tt.value {
			t.Errorf("%s: %d, %v, want %d", tt.text, n, err, len(tt.value))
		}
	}
}

type pair struct{ Key, Value string }

func members(text string, lim *canonjson.Limits) (got []pair, err error) {
	err = canonjson.Object([]byte(text), lim, func(key string, value []byte) bool {
		got = append(got, pair{key, string(value)})
		return true
	})
	return got, err
}

func TestObject(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []pair
	}{
		{`{}`, nil},
		{" { } ", nil},
		{`{"b":1,"a":{"d":[1, 2]}}`, []pair{{"b", "1"}, {"a", `{"d":[1, 2]}`}}},
		{"\n{ \"a\" : \"x\" , \"a\" : null }\t", []pair{{"a", `"x"`}, {"a", "null"}}},
		{`{"\u00e9\ud800":-0,"😀":"\ud83d"}`, []pair{{"é" + high, "-0"}, {"😀", `"\ud83d"`}}},
		{`{"\n":{"\t":{"\r":0}},"\\":1}`, []pair{{"\n", `{"\t":{"\r":0}}`}, {"\\", "1"}}},
	} {
		got, err := members(tt.text, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.text, diff)
		}
	}
}

func TestObjectRefusesBeforeTheFirstMember(t *testing.T) {
	for _, tt := range []struct {
		text string
		lim  *canonjson.Limits
		want error
	}{
		{"", nil, canonjson.ErrSyntax},
		{" ", nil, canonjson.ErrSyntax},
		{"null", nil, canonjson.ErrSyntax},
		{"[]", nil, canonjson.ErrSyntax},
		{`"a"`, nil, canonjson.ErrSyntax},
		{"1", nil, canonjson.ErrSyntax},
		{`{"a":1`, nil, canonjson.ErrSyntax},
		{`{"a":1}x`, nil, canonjson.ErrSyntax},
		{`{"a":1,"b":NaN}`, nil, canonjson.ErrSyntax},
		{`{"a":1,"b":["` + "\xff" + `"]}`, nil, canonjson.ErrSyntax},
		{`{"a":1,"b":[[]]}`, &canonjson.Limits{MaxDepth: 2}, canonjson.ErrLimit},
		{`{"a":1,"b":1e1234567}`, nil, canonjson.ErrLimit},
		{`{"a":1,"b":2}`, &canonjson.Limits{MaxBytes: 12}, canonjson.ErrLimit},
	} {
		if got, err := members(tt.text, tt.lim); !errors.Is(err, tt.want) || got != nil {
			t.Errorf("%s: %v, %v, want %v", tt.text, got, err, tt.want)
		}
	}
}

func TestObjectStopsAndNests(t *testing.T) {
	calls := 0
	err := canonjson.Object([]byte(`{"a":{"b":{"c":1}},"z":2}`), nil, func(key string, value []byte) bool {
		calls++
		inner, err := members(string(value), nil)
		if err != nil || len(inner) != 1 || inner[0].Key != "b" {
			t.Errorf("inside %s: %v, %v", key, inner, err)
		}
		return false
	})
	if err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestObjectValuesAreParts(t *testing.T) {
	text := []byte(`{"a":"xx","b":1}`)
	err := canonjson.Object(text, nil, func(key string, value []byte) bool {
		if key == "a" {
			if &value[0] != &text[5] {
				t.Error("the value is a copy")
			}
			_ = append(value, "!!!!"...) // must not run over what follows
		}
		return true
	})
	if err != nil || string(text) != `{"a":"xx","b":1}` {
		t.Errorf("%s, %v", text, err)
	}
}
