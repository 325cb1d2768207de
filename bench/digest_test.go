package bench

import (
	"testing"

	"github.com/foilmcp/foil/internal/canonjson/jsongen"
)

// BenchmarkDigest is one pass that checks a document, writes both canonical
// forms, looks for ambiguous keys and hashes both.
func BenchmarkDigest(b *testing.B) {
	for _, bm := range []struct {
		name string
		text []byte
	}{
		{"objects64K", jsongen.Objects64K()},
		{"floats", jsongen.Floats()},
		{"wide", jsongen.Wide(100_000)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := digest(bm.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
