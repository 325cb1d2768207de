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
