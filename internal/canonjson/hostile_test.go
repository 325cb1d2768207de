package canonjson_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/canonjson/jsongen"
)

// size is that of each hostile document. All that matters here is proportional
// to it, or would show if it were not.
const size = 1 << 20

// full repeats a member or element up to the size limit.
func full(open, item, close string) []byte {
	n := (size - len(open) - len(close) + 1) / (len(item) + 1)
	return []byte(open + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + close)
}

// keyed fills an object with as many different keys as fit.
func keyed(format string) []byte {
	var b bytes.Buffer
	b.WriteString("{")
	for i := 0; b.Len() < size-len(format)-40; i++ {
		// A multiple of an odd number visits every index once, in no order.
		fmt.Fprintf(&b, format+`:0,`, uint32(i)*2654435761)
	}
	b.WriteString(`"":0}`)
	return b.Bytes()
}

// hostile are documents of 1 MiB, each the worst that one part of the work can
// be given, with the bytes that may be allocated for each byte of it.
func hostile() []struct {
	name    string
	text    []byte
	err     error
	perByte float64
} {
	shaft := strings.Repeat(`{"b":`, 63) + `"` + strings.Repeat("\x7f", size-63*12-2) + `"` + strings.Repeat(`,"a":0}`, 63)
	prefixed := strings.Repeat("p", 50)
	return []struct {
		name    string
		text    []byte
		err     error
		perByte float64
	}{
		{"only opened", bytes.Repeat([]byte("["), size), canonjson.ErrLimit, 8},
		{"wide arrays", full("[", "[]", "]"), nil, 8},
		{"many numbers", full("[", "0", "]"), nil, 12},
		{"wide object of one key", full("{", `"":0`, "}"), nil, 45},
		{"wide object of many keys", keyed(`"%x"`), nil, 36},
		{"keys that fold", keyed(`"É%x"`), nil, 36},
		{"keys that share a prefix", keyed(`"` + prefixed + `%x"`), nil, 12},
		{"keys that share a prefix and fold", keyed(`"` + strings.ToUpper(prefixed) + `%x"`), nil, 16},
		{"small objects out of order", full("[", `{"b":0,"a":0}`, "]"), nil, 40},
		{"out of order at every depth", []byte(shaft), nil, 56},
		{"text that grows sixfold", []byte(`"` + strings.Repeat("\x7f", size-2) + `"`), nil, 50},
		{"long integer", bytes.Repeat([]byte("9"), size), canonjson.ErrLimit, 8},
		{"long float", append(bytes.Repeat([]byte("9"), size-2), ".9"...), nil, 12},
		{"long fraction", append([]byte("0."), bytes.Repeat([]byte("0"), size-2)...), nil, 12},
		{"long exponent", append([]byte("1e"), bytes.Repeat([]byte("9"), size-2)...), canonjson.ErrLimit, 8},
		{"floats that overflow", full("[", "9e308", "]"), nil, 14},
		{"floats just in range", full("[", "1797693134862315807e290", "]"), nil, 12},
		{"subnormal floats", full("[", "3e-323", "]"), nil, 12},
		{"floats near half way", full("[", "1.00000000000000011102e-300", "]"), nil, 12},
		{"floats with many digits", full("[", "2."+strings.Repeat("4703282292062327208", 42)+"e-324", "]"), nil, 12},
		{"largest exponents", full("[", "1e-999999", "]"), nil, 12},
		{"open string", bytes.Repeat([]byte(`"a`), size/2)[:size-1], canonjson.ErrSyntax, 8},
		{"white space", bytes.Repeat([]byte(" "), size), canonjson.ErrSyntax, 8},
	}
}

// worstFactor is how much longer than an ordinary document of its size a
// hostile one may take. The worst takes 30 times as long; with anything
// quadratic in it, or the slow path of strconv, it would be a thousand.
const worstFactor = 100

func TestHostile(t *testing.T) {
	ordinary := full("[", string(small), "]")
	runs := make([]time.Duration, 9)
	for i := range runs {
		runs[i] = sumTime(t, ordinary, nil)
	}
	slices.Sort(runs)
	baseline := runs[len(runs)/2]
	for _, tt := range hostile() {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.text) > size || len(tt.text) < size-1000 {
				t.Fatalf("document of %d bytes", len(tt.text))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took := sumTime(t, tt.text, tt.err)
			runtime.ReadMemStats(&after)
			perByte := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(tt.text))
			t.Logf("%v, %.1f bytes allocated for each byte", took.Round(time.Millisecond), perByte)
			if perByte > tt.perByte && !raceEnabled { // it makes sync.Pool forget
				t.Errorf("%.1f bytes allocated for each byte, at most %.0f expected", perByte, tt.perByte)
			}
			if took > worstFactor*baseline { // perhaps the machine stood still
				took = min(took, sumTime(t, tt.text, tt.err))
			}
			if took > worstFactor*baseline {
				t.Errorf("took %v, an ordinary document %v", took, baseline)
			}
		})
	}
}

func sumTime(t *testing.T, text []byte, want error) time.Duration {
	t.Helper()
	start := time.Now()
	_, err := canonjson.Sum(text, nil)
	took := time.Since(start)
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	return took
}

func TestTooLargeCostsNothing(t *testing.T) {
	text := bytes.Repeat([]byte(" "), 4<<20+1)
	if n := testing.AllocsPerRun(10, func() {
		if _, err := canonjson.Sum(text, nil); !errors.Is(err, canonjson.ErrLimit) {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

var raceEnabled bool // set by race_test.go

// TestNoAllocations pins that digesting costs no memory once the pool is warm.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget at random: run without -race")
	}
	for name, text := range map[string][]byte{
		"small":   small,
		"objects": jsongen.Objects64K(),
		"floats":  jsongen.Floats(),
		"escapes": []byte(`{"Größe":"\ud83d\ude00\n","größer":"日本"}`),
	} {
		n := testing.AllocsPerRun(100, func() {
			if _, err := canonjson.Sum(text, nil); err != nil {
				t.Fatal(err)
			}
		})
		if n >= 1 { // a garbage collection may empty the pool now and then
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	docs := [][]byte{small, jsongen.Objects64K(), jsongen.Floats(), []byte(`{"b":{"d":"\ud800","c":[1e400]},"a":5e-324}`)}
	for _, doc := range docs {
		want, err := canonjson.Sum(doc, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range 20 {
					if got, err := canonjson.Sum(doc, nil); err != nil || got != want {
						t.Fatalf("another sum: %v", err)
					}
					if _, err := canonjson.Sum([]byte(`{"b":{"d":"\ud800","a":[}`), nil); err == nil {
						t.Fatal("no error")
					}
				}
			})
		}
	}
}
