package canonjson

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// slowly gives the sums without the short way: it takes no white space.
func slowly(text []byte, lim *Limits) (Sums, error) {
	return Sum(append(bytes.Clone(text), ' '), lim)
}

func TestFlatTakes(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{`{"a":1}`, true},
		{`{"b":"x","a":-120,"":0,"c":true,"d":false,"e":null}`, true},
		{`{"same prefix 2":1,"same prefix 1":2}`, true},
		{`{"a":100000000000000000}`, true},
		{`{"a":1000000000000000000}`, false},
		{`{"a":"` + long + `"}`, true},
		{`{"a":"` + long + long + `"}`, false},
		{`{"a":1,"a":2}`, false},
		{`{"A":1}`, false},
		{`{"é":1}`, false},
		{`{"a":"é"}`, false},
		{`{"a":"\n"}`, false},
		{`{"a":1.0}`, false},
		{`{"a":1e1}`, false},
		{`{"a":-0}`, false},
		{`{"a":01}`, false},
		{`{"a":-}`, false},
		{`{"a":{}}`, false},
		{`{"a":[]}`, false},
		{`{"a":1,}`, false},
		{`{"a":1}}`, false},
		{`{"a":1`, false},
		{`{"a":tru}`, false},
		{`{"a": 1}`, false},
		{`{}`, false},
		{`{`, false},
		{``, false},
	} {
		l := (*Limits)(nil).orDefault()
		if _, ok := sumFlat([]byte(tt.text), &l); ok != tt.ok {
			t.Errorf("%s: %v", tt.text, ok)
		}
	}
}

// The short way gives what the parser gives.
func TestFlatAgreesWithTheParser(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	values := []string{`""`, `"x"`, `"a longer text, plain"`, "0", "7", "-7", "10", "1000200000", "-999999999999999999", "true", "false", "null", "1.5", "1e2", `"\u0041"`, "[]", "00"}
	taken := 0
	for range 40_000 {
		var b bytes.Buffer
		usual := 12 + r.IntN(len(values)-11)
		b.WriteByte('{')
		for i := range r.IntN(flatMembers + 3) {
			if i > 0 {
				b.WriteByte(',')
			}
			key := strings.Repeat("k", r.IntN(12)) + string(rune('a'+r.IntN(26))) + strings.Repeat("z", r.IntN(3))
			if r.IntN(20) == 0 {
				key = key[:r.IntN(len(key))]
			}
			fmt.Fprintf(&b, "%q:%s", key, values[r.IntN(usual)])
		}
		b.WriteByte('}')
		text := b.Bytes()
		if r.IntN(3) == 0 {
			text[r.IntN(len(text))] = `{}",:-0A\ 1`[r.IntN(11)]
		}
		var lim *Limits
		if r.IntN(4) == 0 {
			lim = &Limits{MaxBytes: 1 + r.IntN(200), MaxIntDigits: 1 + r.IntN(20)}
		}
		l := lim.orDefault()
		short, ok := sumFlat(text, &l)
		if !ok {
			if short != (Sums{}) {
				t.Fatalf("%s: sums of a text that was not taken", text)
			}
			continue
		}
		taken++
		l.MaxBytes++ // the space
		want, err := slowly(text, &l)
		if err != nil || short != want {
			t.Fatalf("%s, %+v: %v, %+v, want %+v", text, lim, err, short, want)
		}
	}
	if taken < 5_000 {
		t.Errorf("only %d texts went the short way", taken)
	}
}

func TestFlatDoesNotAllocate(t *testing.T) {
	text := []byte(`{"prefix":"logs/2026/","max_bytes":1048576,"older_than":"720h","dry_run":false}`)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Sum(text, nil); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
