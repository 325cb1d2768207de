package codectest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// testFlips changes every bit of every character, and every bit that a
// character of base64 stands for. Three sizes make every length of the last
// group.
func testFlips(t *testing.T, h *Harness) {
	for _, size := range []int{0, 1, 40, 41, 42} {
		token := h.seal(t, h.Codec, payload(size))
		for i := range len(token) {
			with := func(c byte) string { return token[:i] + string([]byte{c}) + token[i+1:] }
			for bit := range 8 {
				h.refuses(t, h.Codec, fmt.Sprintf("bit %d of character %d of %d", bit, i, len(token)), with(token[i]^1<<bit))
			}
			v := strings.IndexByte(alphabet, token[i])
			for bit := 0; v >= 0 && bit < 6; bit++ {
				h.refuses(t, h.Codec, fmt.Sprintf("base64 bit %d of character %d of %d", bit, i, len(token)), with(alphabet[v^1<<bit]))
			}
			if t.Failed() {
				return
			}
		}
	}
}

// split cuts a token after its prefix: at its first dot or its last colon.
func split(token string) (prefix, body string) {
	if i := strings.LastIndexByte(token, ':'); i >= 0 {
		return token[:i+1], token[i+1:]
	}
	i := strings.IndexByte(token, '.') // none: all is body
	return token[:i+1], token[i+1:]
}

// testAliases spells valid tokens in other ways that a lenient decoder takes
// for the same.
func testAliases(t *testing.T, h *Harness) {
	for size := range 7 {
		token := h.seal(t, h.Codec, payload(size))
		prefix, body := split(token)
		half := len(token) / 2
		for what, alias := range map[string]string{
			"padding":                     token + "=",
			"two paddings":                token + "==",
			"no padding":                  strings.TrimRight(token, "="),
			"padding of every part":       strings.ReplaceAll(body, ".", "=.") + "=",
			"the other alphabet":          prefix + strings.NewReplacer("-", "+", "_", "/", "+", "-", "/", "_").Replace(body),
			"line feed behind":            token + "\n",
			"line feed in front":          "\n" + token,
			"line feed after the prefix":  prefix + "\n" + body,
			"line feed inside":            token[:half] + "\n" + token[half:],
			"return inside":               token[:half] + "\r" + token[half:],
			"CR LF behind":                token + "\r\n",
			"CR LF twice inside":          token[:half] + "\r\n\r\n" + token[half:],
			"space behind":                token + " ",
			"space in front":              " " + token,
			"space after the prefix":      prefix + " " + body,
			"space inside":                token[:half] + " " + token[half:],
			"tab behind":                  token + "\t",
			"NUL behind":                  token + "\x00",
			"no-break space behind":       token + "\u00a0",
			"byte order mark":             "\ufeff" + token,
			"quotes":                      `"` + token + `"`,
			"percent-encoding of a dot":   strings.Replace(token, ".", "%2E", 1),
			"percent-encoding of a colon": strings.Replace(token, ":", "%3A", 1),
			"percent-encoding":            token[:half] + fmt.Sprintf("%%%02X", token[half]) + token[half+1:],
			"upper case":                  strings.ToUpper(token),
			"upper-case prefix":           strings.ToUpper(prefix) + body,
			"prefix twice":                prefix + token,
			"no prefix":                   body,
			"a scheme":                    "Bearer " + token,
			"hex of the body":             prefix + hex.EncodeToString([]byte(body)),
		} {
			if alias != token {
				h.refuses(t, h.Codec, what, alias)
			}
		}
		// The last character of a part may hold bits of no byte.
		parts := strings.Split(token, ".")
		for p := range parts {
			if parts[p] == "" {
				continue
			}
			last := len(parts[p]) - 1
			for i := range len(alphabet) {
				if alphabet[i] == parts[p][last] {
					continue
				}
				alias := append([]string(nil), parts...)
				alias[p] = parts[p][:last] + alphabet[i:i+1]
				h.refuses(t, h.Codec, fmt.Sprintf("another last character of part %d", p+1), strings.Join(alias, "."))
			}
		}
	}
}

func testCuts(t *testing.T, h *Harness) {
	for _, size := range []int{0, 1, 2, 50} {
		token := h.seal(t, h.Codec, payload(size))
		for i := range len(token) {
			h.refuses(t, h.Codec, fmt.Sprintf("the first %d of %d characters", i, len(token)), token[:i])
			h.refuses(t, h.Codec, fmt.Sprintf("the last %d of %d characters", i, len(token)), token[len(token)-i:])
			h.refuses(t, h.Codec, fmt.Sprintf("without character %d of %d", i+1, len(token)), token[:i]+token[i+1:])
		}
	}
}

func testExtensions(t *testing.T, h *Harness) {
	for size := range 4 {
		token := h.seal(t, h.Codec, payload(size))
		_, body := split(token)
		for _, more := range []string{
			"A", "AA", "AAA", "AAAA", "AAAAA", ".", ".AAAA", "-", "_", "0", "-TAMPERED", "+", "/", "%", "\x80", "é",
			"," + token, "." + token, token, body, "." + body,
		} {
			h.refuses(t, h.Codec, fmt.Sprintf("%d characters more", len(more)), token+more)
			h.refuses(t, h.Codec, fmt.Sprintf("%d characters in front", len(more)), more+token)
		}
		for i := range len(token) {
			h.refuses(t, h.Codec, fmt.Sprintf("character %d twice", i+1), token[:i+1]+token[i:])
		}
	}
}

// testSplices puts the beginning of a token before the end of another one.
func testSplices(t *testing.T, h *Harness) {
	for _, other := range []string{`{"s":"agreed to B"}`, `{"s":"agreed to everything"}`} {
		a, b := h.seal(t, h.Codec, []byte(`{"s":"agreed to A"}`)), h.seal(t, h.Codec, []byte(other))
		for i := range min(len(a), len(b)) {
			for _, splice := range []string{a[:i] + b[i:], b[:i] + a[i:], a[:len(a)-i] + b[len(b)-i:], b[:len(b)-i] + a[len(a)-i:]} {
				if splice != a && splice != b {
					h.refuses(t, h.Codec, fmt.Sprintf("spliced at %d", i), splice)
				}
			}
		}
	}
}

func testGarbage(t *testing.T, h *Harness) {
	token := h.seal(t, h.Codec, payload(40))
	prefix, _ := split(token)
	for _, text := range []string{
		"", " ", ".", "..", "...", ":", "=", "A", "\x00", "\xff", "\xed\xa0\x80", "null", "{}", `""`,
		"eyJhbGciOiJub25lIn0.eyJ2IjoxfQ.", // JWT without a signature
		base64.RawURLEncoding.EncodeToString(payload(100)),
		string(payload(100)),
		strings.Repeat("A", 1<<20), strings.Repeat("\n", 1<<20), strings.Repeat(".", 1<<20),
	} {
		for _, p := range []string{"", prefix, "v1.", "h1.", "r1.", "v2.", "vault:v1:"} {
			h.refuses(t, h.Codec, fmt.Sprintf("%d bytes of garbage after %q", len(text), p), p+text)
		}
	}
	for n := range 100 {
		for _, fill := range []byte{0, 0xff} {
			raw := bytes.Repeat([]byte{fill}, n)
			for _, enc := range []*base64.Encoding{base64.RawURLEncoding, base64.StdEncoding} {
				h.refuses(t, h.Codec, fmt.Sprintf("%d bytes of %#x", n, fill), prefix+enc.EncodeToString(raw))
			}
			h.refuses(t, h.Codec, fmt.Sprintf("%d bytes of %#x in two parts", n, fill),
				prefix+base64.RawURLEncoding.EncodeToString(raw)+"."+base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32)))
		}
	}
}
