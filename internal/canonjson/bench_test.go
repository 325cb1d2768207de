package canonjson_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
)

// objects64K is a document of 64 KiB: about 900 small objects with keys in the
// order a person would write them.
func objects64K() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := []byte(`{"bucket":"logs","objects":[`)
	for i := 0; len(b) < 64<<10-80; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"name":"logs/%08x.gz","size":%d,"etag":"%08x","keep":%t}`,
			r.Uint32(), r.IntN(1<<24), r.Uint32(), r.IntN(2) == 0)
	}
	return append(b, `]}`...)
}

func floats() []byte {
	r := rand.New(rand.NewPCG(3, 4))
	b := []byte(`{"vector":[`)
	for i := range 2000 {
		if i > 0 {
			b = append(b, ',')
		}
		switch f := r.NormFloat64(); i % 3 {
		case 0:
			b = strconv.AppendFloat(b, f, 'f', 6, 64)
		case 1:
			b = strconv.AppendFloat(b, f, 'g', -1, 64)
		default:
			b = strconv.AppendFloat(b, math.Float64frombits(r.Uint64()&^(1<<62)), 'g', -1, 64)
		}
	}
	return append(b, `]}`...)
}

// wide is one object of n members in random order.
func wide(n int) []byte {
	r := rand.New(rand.NewPCG(5, 6))
	b := []byte{'{'}
	for i, k := range r.Perm(n) {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `"Key%d":%d`, k, i)
	}
	return append(b, '}')
}

var small = []byte(`{"prefix":"logs/2026/","max_bytes":1048576,"older_than":"720h","dry_run":false}`)

func BenchmarkDigest(b *testing.B) {
	for _, bm := range []struct {
		name string
		text []byte
	}{
		{"objects64K", objects64K()},
		{"floats", floats()},
		{"wide", wide(100_000)},
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
	text := objects64K()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canonjson.Skip(text, nil); err != nil {
			b.Fatal(err)
		}
	}
}
