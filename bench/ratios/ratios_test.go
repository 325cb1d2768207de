package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func text(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// rounds repeats lines, each with its figures scaled in every round by another
// factor, as a busy machine does.
func rounds(factors []float64, figures map[string]float64) string {
	var b strings.Builder
	for _, f := range factors {
		for name, ns := range figures {
			fmt.Fprintf(&b, "Benchmark%s-2 \t 1000\t %.1f ns/op\t 64 B/op\t 1 allocs/op\n", name, ns*f)
		}
	}
	return b.String()
}

func TestParse(t *testing.T) {
	r, err := parse(strings.NewReader(text(
		"goos: linux",
		"cpu: A CPU",
		"BenchmarkSeal/foil-2   \t  1000\t  4000 ns/op\t  704 B/op\t   1 allocs/op",
		"BenchmarkUse/callers=64-2 \t 10\t 5 ns/op\t 900.5 uses/s",
		"BenchmarkUse/callers=1 \t 10\t 5 ns/op\t 90 uses/s",
		"BenchmarkNoResult",
		"PASS",
	)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name, unit string
		value      float64
	}{
		{"Seal/foil", "ns/op", 4000}, {"Seal/foil", "B/op", 704}, {"Seal/foil", "allocs/op", 1},
		{"Use/callers=64", "uses/s", 900.5}, {"Use/callers=1", "uses/s", 90},
	} {
		if got := r.samples[want.name][want.unit]; len(got) != 1 || got[0] != want.value {
			t.Errorf("%s in %s = %v, want %v", want.name, want.unit, got, want.value)
		}
	}
	if r.cpu != "A CPU" || r.procs != "2" {
		t.Errorf("cpu %q, procs %q", r.cpu, r.procs)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{"", "PASS\n", "BenchmarkX-2 10 fast ns/op\n"} {
		if _, err := parse(strings.NewReader(in)); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want spread
		ok   bool
	}{
		{[]float64{5, 1, 2, 4, 3}, spread{1, 3, 5}, true},
		{[]float64{6, 1, 2, 5, 3, 4}, spread{1, 3.5, 6}, true},
		{[]float64{1, 2, 3, 4}, spread{}, false},
	} {
		if got, ok := spreadOf(tt.in); got != tt.want || ok != tt.ok {
			t.Errorf("spreadOf(%v) = %v, %v; want %v, %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}

// A disturbance of a whole round does not reach the ratio.
func TestRatioIsTakenRoundByRound(t *testing.T) {
	r, err := parse(strings.NewReader(rounds([]float64{1, 9, 1, 4, 2}, map[string]float64{"Seal/foil": 4800, "Seal/floor": 2000})))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := r.ratio("Seal/foil", "Seal/floor", "ns/op")
	if !ok || got != (spread{2.4, 2.4, 2.4}) {
		t.Errorf("ratio = %v, %v; want 2.4 throughout", got, ok)
	}
}

func complete(foilSeal float64) string {
	even := []float64{1, 1, 1, 1, 1}
	in := rounds(even, map[string]float64{
		"Seal/floor": 1000, "Seal/foil": foilSeal, "Seal/securecookie": 9000, "Seal/jwe": 9000, "Seal/paseto": 9000, "Seal/tink": 5000,
		"Open/floor": 1000, "Open/foil": 2900, "Open/securecookie": 9000, "Open/jwe": 9000, "Open/paseto": 9000, "Open/tink": 5000,
	})
	for range even {
		in += text(
			"BenchmarkDigest/objects64K-2 10 5 ns/op 150.0 MB/s",
			"BenchmarkMemoryMillionIDs-2 1 5 ns/op 60.0 B/ID",
			"BenchmarkUse/callers=1-2 10 5 ns/op 1000 uses/s",
			"BenchmarkUse/callers=64-2 10 5 ns/op 20000 uses/s",
		)
	}
	return in
}

func TestPromises(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		kept     bool
		contains string
	}{
		{"kept", complete(2400), true, "| seal: foil / floor | at most 2.5 | 2.40 (2.40–2.40) | kept |"},
		{"missed", complete(2600), false, "| seal: foil / floor | at most 2.5 | 2.60 (2.60–2.60) | **missed** |"},
		{"not measured", rounds([]float64{1, 1, 1, 1, 1}, map[string]float64{"Seal/foil": 1}), false, "| open: foil / floor | at most 3 | 0.00 (0.00–0.00) | not measured |"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := parse(strings.NewReader(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			out, kept := r.tables()
			if kept != tt.kept {
				t.Errorf("kept = %v, want %v", kept, tt.kept)
			}
			if !strings.Contains(out, tt.contains) {
				t.Errorf("no line %q in\n%s", tt.contains, out)
			}
		})
	}
}

func TestTooFewRounds(t *testing.T) {
	if _, err := measure(minSamples-1, 1); err == nil {
		t.Error("a median of four runs was promised")
	}
}

func TestInsert(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + begin + "old\n" + end + "after\n")
	if err := insert(file, "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := "before\n" + begin + "new\n" + end + "after\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"", begin, end + begin} {
		write(bad)
		if err := insert(file, "new\n"); err == nil {
			t.Errorf("inserted into %q", bad)
		}
	}
}
