package b64u_test

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"testing"

	"github.com/foilmcp/foil/internal/b64u"
)

var std = base64.RawURLEncoding.Strict()

func TestAgreesWithTheStandardLibrary(t *testing.T) {
	r := rand.NewChaCha8([32]byte{1})
	for n := range 300 {
		src := make([]byte, n)
		_, _ = r.Read(src)
		want := std.EncodeToString(src)
		got := b64u.Append([]byte("x"), src)
		if string(got) != "x"+want || b64u.EncodedLen(n) != len(want) {
			t.Fatalf("%d bytes: %s, want %s", n, got, want)
		}
		back, err := b64u.Decode([]byte("y"), want)
		if err != nil || string(back) != "y"+string(src) {
			t.Fatalf("%d bytes: %x, %v", n, back, err)
		}
	}
}

// Every change of one character, and every insertion, is refused or is the one
// spelling of other bytes.
func TestOneSpelling(t *testing.T) {
	for n := range 8 {
		text := []byte(std.EncodeToString([]byte("foilfoil")[:n]))
		for i := range text {
			for c := range 256 {
				changed := bytes.Clone(text)
				changed[i] = byte(c)
				check(t, changed)
				check(t, append(append(bytes.Clone(text[:i]), byte(c)), text[i:]...))
			}
			check(t, text[:i])
		}
		for _, tail := range []string{"=", "==", "\n", "\r\n", " ", "A", "AA", "AAA"} {
			check(t, append(bytes.Clone(text), tail...))
		}
	}
}

func check(t *testing.T, text []byte) {
	t.Helper()
	got, err := b64u.Decode(nil, string(text))
	checkFixed(t, text, got, err == nil)
	if err != nil {
		if got != nil {
			t.Fatalf("%q: bytes with an error", text)
		}
		if want, werr := std.DecodeString(string(text)); werr == nil && !bytes.ContainsAny(text, "\r\n") {
			t.Fatalf("%q is refused, and spells %x", text, want)
		}
		return
	}
	if again := std.EncodeToString(got); again != string(text) {
		t.Fatalf("%q was taken, whose one spelling is %q", text, again)
	}
}

// checkFixed holds DecodeFixed to what Decode found.
func checkFixed(t *testing.T, text, want []byte, good bool) {
	t.Helper()
	for n := range len(text) + 2 {
		dst := make([]byte, n)
		if ok := b64u.DecodeFixed(dst, text); ok != (good && n == len(want)) {
			t.Fatalf("%q as %d bytes: %v", text, n, ok)
		} else if ok && !bytes.Equal(dst, want) {
			t.Fatalf("%q spells %x, not %x", text, want, dst)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("Zm9pbA"))
	f.Fuzz(func(t *testing.T, text []byte) { check(t, text) })
}

func Benchmark(b *testing.B) {
	src := make([]byte, 512)
	dst := make([]byte, b64u.EncodedLen(len(src)))
	text := std.EncodeToString(src)
	back := make([]byte, 0, 520)
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			b64u.Encode(dst, src)
		}
	})
	b.Run("encode-std", func(b *testing.B) {
		for b.Loop() {
			std.Encode(dst, src)
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			_, _ = b64u.Decode(back, text)
		}
	})
	b.Run("decode-std", func(b *testing.B) {
		for b.Loop() {
			_, _ = std.Decode(back[:512], []byte(text))
		}
	})
}
