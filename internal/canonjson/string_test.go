package canonjson_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/foilmcp/foil/internal/canonjson"
)

const (
	high = "\xed\xa0\x80" // U+D800 in WTF-8
	low  = "\xed\xb0\x80" // U+DC00
	last = "\xed\xbf\xbf" // U+DFFF
)

// strs pairs texts of JSON strings with their values and canonical spelling.
var strs = []struct{ text, value, canonical string }{
	{`""`, "", `""`},
	{`"plain"`, "plain", `"plain"`},
	{`"seven.."`, "seven..", `"seven.."`},
	{`"exactly eight or more bytes"`, "exactly eight or more bytes", `"exactly eight or more bytes"`},
	{`"\u0041\u007e"`, "A~", `"A~"`},
	{`"\/ / < > &"`, "/ / < > &", `"/ / < > &"`},
	{`"\"\\\b\f\n\r\t"`, "\"\\\b\f\n\r\t", `"\"\\\b\f\n\r\t"`},
	{`"\u0022\u005c\u0008\u000C\u000a\u000D\u0009"`, "\"\\\b\f\n\r\t", `"\"\\\b\f\n\r\t"`},
	{`"\u0000\u001f\u000b"`, "\x00\x1f\x0b", `"\u0000\u001f\u000b"`},
	{"\"\x7f\"", "\x7f", `"\u007f"`},
	{`"\u007F"`, "\x7f", `"\u007f"`},
	{"\"\u0080\u00e9\"", "\u0080\u00e9", `"\u0080\u00e9"`},
	{`"\u00E9"`, "é", `"\u00e9"`},
	{`"e\u0301"`, "e\u0301", `"e\u0301"`}, // not normalised
	{`"日本"`, "日本", `"\u65e5\u672c"`},
	{"\"\u2028\ufeff\uffff\"", "\u2028\ufeff\uffff", `"\u2028\ufeff\uffff"`},
	{`"😀"`, "😀", `"\ud83d\ude00"`},
	{`"\uD83D\uDE00"`, "😀", `"\ud83d\ude00"`},
	{`"\ud800\udc00\udbff\udfff"`, "\U00010000\U0010ffff", `"\ud800\udc00\udbff\udfff"`},
	{`"\ud800"`, high, `"\ud800"`},
	{`"\uDFFF"`, last, `"\udfff"`},
	{`"\udc00\ud800"`, low + high, `"\udc00\ud800"`},
	{`"\ud800\ud800\udc00"`, high + "\U00010000", `"\ud800\ud800\udc00"`},
	{`"\ud800x\udc00"`, high + "x" + low, `"\ud800x\udc00"`},
	{`"\ud800\n"`, high + "\n", `"\ud800\n"`},
	{`"\ud800é"`, high + "é", `"\ud800\u00e9"`},
	{"\"seven  \u00e9 and more than eight\"", "seven  é and more than eight", `"seven  \u00e9 and more than eight"`},
}

func TestStrings(t *testing.T) {
	for _, tt := range strs {
		s, n, err := canonjson.DecodeString([]byte(tt.text + `,"more"`))
		if err != nil || s != tt.value || n != len(tt.text) {
			t.Errorf("DecodeString(%s) = %q, %d, %v, want %q, %d", tt.text, s, n, err, tt.value, len(tt.text))
		}
		if got := string(canonjson.AppendString([]byte("x"), tt.value)); got != "x"+tt.canonical {
			t.Errorf("AppendString(%q) = %s, want x%s", tt.value, got, tt.canonical)
		}
		if !canonjson.ValidWTF8(tt.value) {
			t.Errorf("ValidWTF8(%q) = false", tt.value)
		}
		for _, text := range []string{tt.text, `[` + tt.text + `]`, `{` + tt.text + `:0}`} {
			want := strings.Replace(text, tt.text, tt.canonical, 1)
			if got, err := canonjson.Append(nil, []byte(text), nil); err != nil || string(got) != want {
				t.Errorf("Append(%s) = %s, %v, want %s", text, got, err, want)
			}
			want = strings.Replace(want, ":0}", ":0e0}", 1)
			if got, err := canonjson.AppendExact(nil, []byte(text), nil); err != nil || string(got) != want {
				t.Errorf("AppendExact(%s) = %s, %v, want %s", text, got, err, want)
			}
		}
	}
}

// TestEveryASCII checks each byte in each place of a word, since plain text is
// scanned eight bytes at a time.
func TestEveryASCII(t *testing.T) {
	for c := range byte(0x80) {
		for at := range 17 {
			value := strings.Repeat("a", at) + string(rune(c)) + strings.Repeat("b", 17-at)
			canonical := string(canonjson.AppendString(nil, value))
			plain := c >= ' ' && c < 0x7f && c != '"' && c != '\\'
			if plain != (canonical == `"`+value+`"`) {
				t.Fatalf("%q at %d: %s", c, at, canonical)
			}
			if got, _, err := canonjson.DecodeString([]byte(canonical)); err != nil || got != value {
				t.Fatalf("%q at %d: decoded to %q, %v", c, at, got, err)
			}
			_, _, err := canonjson.DecodeString([]byte(`"` + value + `"`))
			if refused := c < ' '; refused != (err != nil) && c != '"' && c != '\\' {
				t.Fatalf("raw %q at %d: %v", c, at, err)
			}
		}
	}
}

func TestBadStrings(t *testing.T) {
	for name, text := range map[string]string{
		"open":                     `"abc`,
		"only a quote":             `"`,
		"open, long":               `"abcdefghijklmnop`,
		"open after escape":        `"\n`,
		"newline":                  "\"a\nb\"",
		"NUL":                      "\"a\x00b\"",
		"unit separator":           "\"\x1f\"",
		"control in a long one":    "\"abcdefghijk\x01mnop\"",
		"unknown escape":           `"\x"`,
		"escaped quote mark":       `"\'"`,
		"capital U":                `"\U0041"`,
		"lone backslash":           `"\`,
		"escape cut":               `"\u12"`,
		"escape cut by end":        `"\u12`,
		"escape not hex":           `"\u12g4"`,
		"escape with sign":         `"\u+123"`,
		"second escape not hex":    `"\ud83d\ude0g"`,
		"second escape cut by end": `"\ud83d\ude0`,
		"continuation byte":        "\"\x80\"",
		"cut sequence":             "\"\xe6\x97\"",
		"overlong slash":           "\"\xc0\xaf\"",
		"overlong, three bytes":    "\"\xe0\x80\xaf\"",
		"raw high surrogate":       "\"" + high + "\"",
		"raw low surrogate":        "\"" + low + "\"",
		"raw CESU-8 pair":          "\"" + high + low + "\"",
		"beyond Unicode":           "\"\xf4\x90\x80\x80\"",
		"byte ff":                  "\"\xff\"",
	} {
		t.Run(name, func(t *testing.T) {
			if s, n, err := canonjson.DecodeString([]byte(text)); !errors.Is(err, canonjson.ErrSyntax) || s != "" || n != 0 {
				t.Errorf("DecodeString = %q, %d, %v", s, n, err)
			}
			checkEveryDoor(t, text, nil, canonjson.ErrSyntax)
			checkEveryDoor(t, `[`+text+`]`, nil, canonjson.ErrSyntax)
			checkEveryDoor(t, `{`+text+`:1}`, nil, canonjson.ErrSyntax)
		})
	}
	for _, text := range []string{"", "a", `x"a"`, ` "a"`} {
		if _, _, err := canonjson.DecodeString([]byte(text)); !errors.Is(err, canonjson.ErrSyntax) {
			t.Errorf("DecodeString(%s): %v", text, err)
		}
	}
}

func TestValidWTF8(t *testing.T) {
	for _, tt := range []struct {
		s    string
		want bool
	}{
		{"", true},
		{"é日😀\ufffd", true},
		{high, true},
		{low, true},
		{last, true},
		{low + high, true},
		{high + "a" + low, true},
		{high + "é" + low, true},
		{high + high, true},
		{low + low, true},
		{high + low, false},             // CESU-8
		{high + high + low, false},      // its end
		{"\xed\xaf\xbf" + last, false},  // the last pair
		{"a" + high + low + "b", false}, //
		{high + "\xff", false},
		{high[:2], false},
		{high + high[:2], false},
		{high[1:], false},
		{high + "\x80", false},
		{high + "\xc0\xaf", false},
		{high + "\xe0\x9f\xbf", false},
		{high + "\xf0\x8f\xbf\xbf", false},
		{high + "\xf4\x90\x80\x80", false},
		{high + "\xf5\x80\x80\x80", false},
		{high + "\U0010ffff", true},
		{high + "\U00010000\u0800\u0080", true},
	} {
		if got := canonjson.ValidWTF8(tt.s); got != tt.want {
			t.Errorf("ValidWTF8(%q) = %t", tt.s, got)
		}
	}
}

func TestAppendStringReplacesWhatIsNotWTF8(t *testing.T) {
	for s, want := range map[string]string{
		"\xff":             `"\ufffd"`,
		"a\x80b":           `"a\ufffdb"`,
		"\xe6\x97":         `"\ufffd\ufffd"`,
		"\xc0\xaf":         `"\ufffd\ufffd"`,
		"\xf4\x90\x80\x80": `"\ufffd\ufffd\ufffd\ufffd"`,
	} {
		if got := string(canonjson.AppendString(nil, s)); got != want {
			t.Errorf("AppendString(%q) = %s, want %s", s, got, want)
		}
	}
}

// wtf8 encodes one code point, surrogates too.
func wtf8(c rune) string {
	if 0xd800 <= c && c < 0xe000 {
		return string([]byte{0xe0 | byte(c>>12), 0x80 | byte(c>>6)&0x3f, 0x80 | byte(c)&0x3f})
	}
	return string(c)
}

// TestByteOrderIsCodePointOrder proves what sorting relies on: for WTF-8, the
// order of the bytes is the order of the code points. Two strings first differ
// in one code point, so it is enough to look at single ones, and for those the
// encoding grows with the code point.
func TestByteOrderIsCodePointOrder(t *testing.T) {
	before := ""
	for c := rune(1); c <= utf8.MaxRune; c++ {
		s := wtf8(c)
		if before >= s {
			t.Fatalf("U+%04X does not sort after the one before", c)
		}
		// No encoding starts another, so the first difference decides.
		if strings.HasPrefix(s, before) && before != "" {
			t.Fatalf("U+%04X starts with the one before", c)
		}
		before = s
	}
}

func TestKeyOrder(t *testing.T) {
	// In code point order. In UTF-16 units the emoji would come before U+E000.
	keys := []string{
		`""`, `"\u0000"`, `"\u0000\u0000"`, `"\n"`, `"\""`, `"10"`, `"9"`, `"A"`, `"\\"`, `"a"`, `"a\u0000"`, `"a\u0000b"`, `"aa"`, `"abcdef"`, `"abcdef "`, `"abcdefg"`, `"abcdefg "`, `"abcdefg!"`, `"abcdefgh"`,
		`"abcdefgh\u0000"`, `"abcdefghi"`, `"abcdefgi"`, `"b"`, `"\u007f"`, `"\u0080"`, `"\u07ff"`, `"\u0800"`, `"\ud7ff"`,
		`"\ud800"`, `"\ud800a"`, `"\udbff"`, `"\udc00"`, `"\udfff"`, `"\ue000"`, `"\uffff"`, `"\ud800\udc00"`, `"\ud83d\ude00"`, `"\udbff\udfff"`,
	}
	want := "{" + strings.Join(keys, ":0,") + ":0}"
	r := rand.New(rand.NewPCG(31, 32))
	for range 200 {
		shuffled := slices.Clone(keys)
		r.Shuffle(len(keys), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		doc := "{" + strings.Join(shuffled, ":0,") + ":0}"
		if got, err := canonjson.Append(nil, []byte(doc), nil); err != nil || string(got) != want {
			t.Fatalf("got  %s\nwant %s (%v)", got, want, err)
		}
	}
	// Few enough for insertion sort, written raw.
	got, err := canonjson.Append(nil, []byte("{\"\U0001f600\":1,\"\uffff\":2,\"\\udfff\":3,\"\\ud800\":4}"), nil)
	if want := `{"\ud800":4,"\udfff":3,"\uffff":2,"\ud83d\ude00":1}`; err != nil || string(got) != want {
		t.Errorf("got  %s\nwant %s (%v)", got, want, err)
	}
}

// The steps of eight bytes write what one character after another would, wherever
// an escape falls and however much room there is.
func TestStringSteps(t *testing.T) {
	pieces := []struct{ plain, escaped string }{
		{"a", "a"}, {"bcdefg", "bcdefg"}, {"/", "/"}, {"~", "~"}, {" ", " "},
		{`"`, `\"`}, {`\`, `\\`}, {"\n", `\n`}, {"\x00", `\u0000`}, {"\x7f", `\u007f`}, {"é", `\u00e9`}, {"\xed\xa0\x80", `\ud800`},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var plain, escaped, slashes strings.Builder
		usual := 6 + r.IntN(len(pieces)-5) // many strings have quotes and backslashes only
		for range r.IntN(40) {
			p := pieces[r.IntN(usual)]
			if p.plain == "\xed\xa0\x80" && strings.HasSuffix(plain.String(), p.plain) {
				continue
			}
			plain.WriteString(p.plain)
			escaped.WriteString(p.escaped)
			slashes.WriteString(strings.ReplaceAll(p.escaped, "/", `\/`))
		}
		room := make([]byte, 3, 3+r.IntN(200))
		got := canonjson.AppendString(room, plain.String())
		if want := "\x00\x00\x00\"" + escaped.String() + `"`; string(got) != want {
			t.Fatalf("%q is written %q, want %q", plain.String(), got, want)
		}
		for _, text := range []string{escaped.String(), slashes.String()} {
			text = `"` + text + `"`
			s, n, err := canonjson.DecodeString([]byte(text + strings.Repeat(" ", r.IntN(20))))
			if s != plain.String() || n != len(text) || err != nil {
				t.Fatalf("%q is read as %q, %d, %v", text, s, n, err)
			}
			if _, _, err := canonjson.DecodeString([]byte(text[:len(text)-1])); err == nil {
				t.Fatalf("%q was taken", text[:len(text)-1])
			}
		}
	}
}
