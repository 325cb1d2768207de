package jsongen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
)

// The large documents of the benchmarks. Each is the same at every call.

// Objects64K is a document of 64 KiB: about 900 small objects with keys in the
// order a person would write them.
func Objects64K() []byte {
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

// Floats is nothing but numbers with fractions, short and long.
func Floats() []byte {
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

// Wide is one object of n members in random order.
func Wide(n int) []byte {
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
