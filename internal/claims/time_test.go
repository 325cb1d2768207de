package claims

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
)

// The short ways of writing and reading a time agree with the long ones.
func TestTimes(t *testing.T) {
	times := []float64{0, math.Copysign(0, -1), 0.001, 0.01, 0.1, 0.5, 1, 1.25, 999.999, 1700000000, 1700000000.25, 1790495435.087092, 1e11 - 0.001, 1e12, 1e15, 1e16, 1e300, -1, -0.5, 0.0005, 5e-324}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		ms := float64(r.Int64N(2e12))
		times = append(times, ms/1000, ms/1000+r.Float64(), float64(r.Int64N(1e16))/1000)
	}
	for _, f := range times {
		want := string(canonjson.AppendFloat(nil, f))
		if got := string(appendTime(nil, f)); got != want {
			t.Fatalf("%v is written %s, want %s", f, got, want)
		}
		p := parser{text: []byte(want)}
		var got float64
		if !p.number(&got) || !p.end() || math.Float64bits(got) != math.Float64bits(f) {
			t.Fatalf("%s is read as %v, want %v", want, got, f)
		}
	}
	for _, s := range []string{"123456789012345", "1234567890123456", "123456789012.345", "1234567890123.456", "12.3456", "1.2345678901234", "0.123", "00.1", "1..2", "1.", ".5", "-1", "1e3", ""} {
		want, err := strconv.ParseFloat(s, 64)
		if got, ok := short([]byte(s)); ok && (err != nil || got != want) {
			t.Errorf("short(%q) = %v, want %v, %v", s, got, want, err)
		}
	}
}
