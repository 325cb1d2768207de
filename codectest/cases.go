package codectest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/foilmcp/foil"
)

func testRoundTrip(t *testing.T, h *Harness) {
	most := h.MaxPayload
	if most == 0 {
		most = 60_000
	}
	sizes := []int{255, 256, 257, 1000, 4095, 4096, most}
	for n := range 70 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		if n > most {
			continue
		}
		all := make([]byte, n)
		for i := range all {
			all[i] = byte(i * 7) // every value there is
		}
		for _, p := range [][]byte{payload(n), all, bytes.Repeat([]byte{0}, n), bytes.Repeat([]byte{0xff}, n)} {
			token := h.seal(t, h.Codec, p)
			h.opens(t, h.Codec, token, string(p))
			h.opens(t, h.Codec, token, string(p)) // single use is not the codec's
		}
	}
	h.opens(t, h.Codec, h.seal(t, h.Codec, nil), "")
}

// testText demands text that JSON carries as it is, so that it has one spelling
// there too.
func testText(t *testing.T, h *Harness) {
	for n := range 40 {
		token := h.seal(t, h.Codec, bytes.Repeat([]byte{0, 0xff, '\n', '"'}, n))
		if token == "" {
			t.Fatal("an empty token, which is none")
		}
		for i := range len(token) {
			if c := token[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
				t.Fatalf("byte %#x in a token", c)
			}
		}
	}
}

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

func testForeign(t *testing.T, h *Harness) {
	if h.Foreign == nil {
		t.Skip("needs another format: set Harness.Foreign")
	}
	own := h.seal(t, h.Codec, payload(40))
	prefix, body := split(own)
	for i, c := range h.Foreign(t) {
		token := h.seal(t, c, payload(40))
		otherPrefix, otherBody := split(token)
		h.refuses(t, h.Codec, fmt.Sprintf("a token of format %d", i+1), token)
		h.refuses(t, h.Codec, fmt.Sprintf("a token under the prefix of format %d", i+1), otherPrefix+body)
		h.refuses(t, h.Codec, fmt.Sprintf("a token of format %d under the own prefix", i+1), prefix+otherBody)
		h.refuses(t, h.Codec, fmt.Sprintf("a token after the prefix of format %d", i+1), otherPrefix+own)
		h.refuses(t, c, fmt.Sprintf("a token, to the codec of format %d", i+1), own)
	}
}

func testOtherKeys(t *testing.T, h *Harness) {
	other := h.Other(t)
	mine, theirs := h.seal(t, h.Codec, payload(40)), h.seal(t, other, payload(40))
	h.refuses(t, h.Codec, "a token under other keys", theirs, foil.ReasonUnknownKey, foil.ReasonTampered)
	h.refuses(t, other, "a token, to a codec with other keys", mine, foil.ReasonUnknownKey, foil.ReasonTampered)
	h.opens(t, other, theirs, string(payload(40)))
}

func testPeer(t *testing.T, h *Harness) {
	if h.Peer == nil {
		t.Skip("needs keys that replicas share: set Harness.Peer")
	}
	peer := h.Peer(t)
	for n := range 20 {
		p := payload(n)
		h.opens(t, peer, h.seal(t, h.Codec, p), string(p))
		h.opens(t, h.Codec, h.seal(t, peer, p), string(p))
	}
}

func testPayloadReuse(t *testing.T, h *Harness) {
	buf := payload(200)
	want := string(buf[:100])
	token := h.seal(t, h.Codec, buf[:100]) // with capacity to write into
	if !bytes.Equal(buf, payload(200)) {
		t.Fatal("Seal changed the caller's buffer")
	}
	for i := range buf {
		buf[i] = 'x'
	}
	h.opens(t, h.Codec, token, want)
	other := h.seal(t, h.Codec, buf[:100])
	h.opens(t, h.Codec, other, string(buf[:100]))
	h.opens(t, h.Codec, token, want)
}

func testPayloadOwned(t *testing.T, h *Harness) {
	want := string(payload(100))
	token := h.seal(t, h.Codec, []byte(want))
	first, err := h.Codec.Open(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Codec.Open(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range first {
		first[i] = 'x'
	}
	_ = append(first, "yyyyyyyyyyyyyyyyyyyyyyyy"...)
	if string(second) != want {
		t.Error("two calls of Open gave the same bytes of memory")
	}
	h.opens(t, h.Codec, token, want)
	// The next calls must not write into what was given away either.
	h.opens(t, h.Codec, h.seal(t, h.Codec, bytes.Repeat([]byte{'z'}, 100)), strings.Repeat("z", 100))
	if string(second) != want {
		t.Error("a later call changed what Open had given")
	}
}

func testConcurrent(t *testing.T, h *Harness) {
	const callers, rounds = 16, 100
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range rounds {
				want := fmt.Sprintf("caller %d, call %d: %s", i, j, strings.Repeat("x", i*j%50))
				token, err := h.Codec.Seal(t.Context(), []byte(want), expires())
				if err != nil {
					t.Errorf("Seal: %v", err)
					return
				}
				got, err := h.Codec.Open(t.Context(), token)
				if err != nil || string(got) != want {
					t.Errorf("Open of %q = %q, %v", want, got, err)
					return
				}
				bad := token[:len(token)-1] + "!"
				if got, err := h.Codec.Open(t.Context(), bad); got != nil || !errors.Is(err, foil.ErrInvalid) {
					t.Errorf("Open of a bad token = %q, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// testEncrypts looks for a payload in its token, and for a keystream that is
// used twice.
func testEncrypts(t *testing.T, h *Harness) {
	e, ok := h.Codec.(foil.Encrypter)
	if !ok || !e.Encrypts() {
		t.Skip("needs a codec that encrypts; a Guard refuses claim checks with this one")
	}
	secret := strings.Repeat("foil-claim.never to be seen ", 6)
	a, b := h.seal(t, h.Codec, []byte(secret)), h.seal(t, h.Codec, []byte(secret))
	if a == b {
		t.Error("two seals of one payload gave one token: a client can tell equal states")
	}
	_, body := split(a)
	seen := []string{a}
	for _, part := range append(strings.Split(body, "."), body) {
		for _, enc := range []*base64.Encoding{base64.RawURLEncoding, base64.RawStdEncoding} {
			raw, _ := enc.DecodeString(strings.TrimRight(part, "="))
			seen = append(seen, string(raw))
		}
		raw, _ := hex.DecodeString(part)
		seen = append(seen, string(raw))
	}
	for _, s := range seen {
		if strings.Contains(s, secret[:8]) {
			t.Fatal("a codec that says it encrypts shows the payload")
		}
	}
	// Equal payloads under one keystream are equal bytes in one place.
	rawA, rawB := []byte(a), []byte(b)
	run, longest := 0, 0
	for i := range min(len(rawA), len(rawB)) {
		if run++; rawA[i] != rawB[i] {
			run = 0
		}
		longest = max(longest, run)
	}
	if longest > len(secret)/2 {
		t.Error("two seals of one payload have most of it in common: a keystream is used twice")
	}
}

func testKeyID(t *testing.T, h *Harness) {
	k, ok := h.Codec.(foil.KeyIdentifier)
	if !ok {
		t.Skip("needs a codec that implements foil.KeyIdentifier")
	}
	a, b := h.seal(t, h.Codec, payload(40)), h.seal(t, h.Codec, payload(90))
	id := k.KeyID(a)
	if id == "" || len(id) > 64 {
		t.Fatalf("KeyID has %d bytes, want 1 to 64", len(id))
	}
	if other := k.KeyID(b); other != id {
		t.Errorf("KeyIDs %q and %q of tokens under one key", id, other)
	}
	if theirs := k.KeyID(h.seal(t, h.Other(t), payload(40))); theirs == id {
		t.Errorf("KeyID %q for another key too", id)
	}
	prefix, _ := split(a)
	for _, text := range []string{"", " ", prefix, prefix + "A", prefix + ".", "nothing of this form", a + "\n", " " + a, strings.Repeat("A", 1<<20), prefix + strings.Repeat("\n", 1<<20)} {
		if got := k.KeyID(text); got != "" {
			t.Errorf("KeyID = %q for %d bytes that are no token", got, len(text))
		}
	}
	for i := range len(a) { // whatever comes, it must not panic
		_ = k.KeyID(a[:i])
		_ = k.KeyID(a[i:])
	}
}

func testRevoke(t *testing.T, h *Harness) {
	if h.Revoke == nil {
		t.Skip("needs keys that can be withdrawn: set Harness.Revoke")
	}
	before := h.seal(t, h.Codec, payload(40))
	h.opens(t, h.Codec, before, string(payload(40)))
	h.Revoke(t)
	h.refuses(t, h.Codec, "a token under a revoked key", before, foil.ReasonUnknownKey)
	after := h.seal(t, h.Codec, payload(50))
	h.opens(t, h.Codec, after, string(payload(50)))
	h.refuses(t, h.Codec, "a token under a revoked key, after a seal", before, foil.ReasonUnknownKey)
}

func testBroken(t *testing.T, h *Harness) {
	if h.Break == nil {
		t.Skip("needs a key source or a backend that can be taken away: set Harness.Break")
	}
	token := h.seal(t, h.Codec, payload(40))
	restore := h.Break(t)
	if got, err := h.Codec.Seal(t.Context(), payload(40), expires()); got != "" || err == nil || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("Seal without keys = %d bytes, %v; want a system failure", len(got), err)
	}
	if got, err := h.Codec.Open(t.Context(), token); got != nil || err == nil || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("Open without keys = %d bytes, %v; want a system failure", len(got), err)
	}
	restore()
	h.opens(t, h.Codec, token, string(payload(40)))
	h.opens(t, h.Codec, h.seal(t, h.Codec, payload(40)), string(payload(40)))
}
