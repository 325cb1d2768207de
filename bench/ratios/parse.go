package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// minSamples is how many runs of a benchmark a median is taken from.
const minSamples = 5

// results are the samples of each benchmark, by name without "Benchmark" and
// then by unit, in the order they were measured.
type results struct {
	samples map[string]map[string][]float64
	cpu     string
	procs   string
}

func parse(in io.Reader) (*results, error) {
	r := &results{samples: make(map[string]map[string][]float64), procs: "1"}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if cpu, ok := strings.CutPrefix(lines.Text(), "cpu: "); ok {
			r.cpu = cpu
		}
		f := strings.Fields(lines.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		// The end of the name is GOMAXPROCS, unless that is 1.
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.ParseUint(name[i+1:], 10, 16); err == nil {
				name, r.procs = name[:i], name[i+1:]
			}
		}
		units := r.samples[name]
		if units == nil {
			units = make(map[string][]float64)
			r.samples[name] = units
		}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a number", f[0], f[i])
			}
			units[f[i+1]] = append(units[f[i+1]], v)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(r.samples) == 0 {
		return nil, fmt.Errorf("no line of a benchmark in the input")
	}
	return r, nil
}

// A spread is the median of some samples with the least and the greatest.
type spread struct{ low, median, high float64 }

// of returns the spread of a benchmark; ok is false without enough samples.
func (r *results) of(name, unit string) (s spread, ok bool) {
	return spreadOf(r.samples[name][unit])
}

// ratio divides the samples of two benchmarks pair by pair: what disturbed a
// round disturbed both, and cancels out.
func (r *results) ratio(name, by, unit string) (s spread, ok bool) {
	a, b := r.samples[name][unit], r.samples[by][unit]
	var q []float64
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			q = append(q, a[i]/b[i])
		}
	}
	return spreadOf(q)
}

func spreadOf(v []float64) (spread, bool) {
	n := len(v)
	if n < minSamples {
		return spread{}, false
	}
	v = slices.Sorted(slices.Values(v))
	return spread{v[0], (v[(n-1)/2] + v[n/2]) / 2, v[n-1]}, true
}
