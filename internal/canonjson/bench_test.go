package canonjson_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/canonjson/jsongen"
)

var small = []byte(`{"prefix":"logs/2026/","max_bytes":1048576,"older_than":"720h","dry_run":false}`)

func BenchmarkDigest(b *testing.B) {
	for _, bm := range []struct {
		name string
		text []byte
	}{
		{"objects64K", jsongen.Objects64K()},
		{"floats", jsongen.Floats()},
		{"wide", jsongen.Wide(100_000)},
		{"small", small},
		{"text", []byte(`{"t":"` + string(bytes.Repeat([]byte("plain English text, "), 3000)) + `"}`)},
		{"kanji", []byte(`{"t":"` + string(bytes.Repeat([]byte("日本語の文章。"), 3000)) + `"}`)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := canonjson.Sum(bm.text, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSkip(b *testing.B) {
	text := jsongen.Objects64K()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canonjson.Skip(text, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkString is for a state that is JSON itself, as most are, and for text.
func BenchmarkString(b *testing.B) {
	for name, s := range map[string]string{
		"json": `{"plan":"5d2e0a1b2c3d4e5f60718293a4b5c6d7e8f9","step":"confirm","objects":412,"bytes":73400320,"bucket":"archived-logs"}`,
		"text": strings.Repeat("plain English text, ", 6),
	} {
		text := canonjson.AppendString(nil, s)
		b.Run("append/"+name, func(b *testing.B) {
			dst := make([]byte, 0, 1024)
			for b.Loop() {
				canonjson.AppendString(dst, s)
			}
		})
		b.Run("decode/"+name, func(b *testing.B) {
			for b.Loop() {
				_, _, _ = canonjson.DecodeString(text)
			}
		})
	}
}
