package main

import (
	"fmt"
	"strings"
)

// contestants are the sub-benchmarks of Seal and Open.
var contestants = []string{"floor", "foil", "tink", "securecookie", "jwe", "paseto"}

// A promise is a bound on one figure.
type promise struct {
	what  string
	value func(*results) (spread, bool)
	most  bool // limit is the most, else the least
	limit float64
	unit  string
}

func over(name, by, unit string) func(*results) (spread, bool) {
	return func(r *results) (spread, bool) { return r.ratio(name, by, unit) }
}

func figure(name, unit string, scale float64) func(*results) (spread, bool) {
	return func(r *results) (spread, bool) {
		s, ok := r.of(name, unit)
		return spread{s.low * scale, s.median * scale, s.high * scale}, ok
	}
}

var promises = []promise{
	{"seal: foil / floor", over("Seal/foil", "Seal/floor", "ns/op"), true, 2.5, ""},
	{"open: foil / floor", over("Open/foil", "Open/floor", "ns/op"), true, 3, ""},
	{"seal: securecookie / foil", over("Seal/securecookie", "Seal/foil", "ns/op"), false, 2.5, ""},
	{"open: securecookie / foil", over("Open/securecookie", "Open/foil", "ns/op"), false, 2.5, ""},
	{"seal: jwe / foil", over("Seal/jwe", "Seal/foil", "ns/op"), false, 2.5, ""},
	{"open: jwe / foil", over("Open/jwe", "Open/foil", "ns/op"), false, 2.5, ""},
	{"digest of 64 KiB in 900 objects", figure("Digest/objects64K", "MB/s", 1), false, 100, "MB/s"},
	{"memory store, 1 million live IDs", figure("MemoryMillionIDs", "B/ID", 1), true, 100, "MB"},
	{"SQLite: 64 callers / 1 caller", over("Use/callers=64", "Use/callers=1", "uses/s"), false, 10, ""},
}

// tables returns the tables in Markdown and whether every promise was measured
// and kept.
func (r *results) tables() (text string, kept bool) {
	var b strings.Builder
	for _, job := range []string{"Seal", "Open"} {
		r.job(&b, job)
	}
	r.others(&b)
	kept = r.promises(&b)
	fmt.Fprintf(&b, "Medians of at least %d rounds, the least and the greatest in brackets; ratios are taken round by round.\n", minSamples)
	if r.cpu != "" {
		fmt.Fprintf(&b, "CPU: %s, GOMAXPROCS %s.\n", r.cpu, r.procs)
	}
	return b.String(), kept
}

func (r *results) job(b *strings.Builder, job string) {
	fmt.Fprintf(b, "| %s | µs | / floor | / foil | bytes | allocations |\n|---|---|---|---|---|---|\n", strings.ToLower(job))
	for _, c := range contestants {
		name := job + "/" + c
		t, ok := r.of(name, "ns/op")
		if !ok {
			fmt.Fprintf(b, "| %s | not measured | | | | |\n", c)
			continue
		}
		toFloor, _ := r.ratio(name, job+"/floor", "ns/op")
		toFoil, _ := r.ratio(name, job+"/foil", "ns/op")
		bytes, _ := r.of(name, "B/op")
		allocs, _ := r.of(name, "allocs/op")
		fmt.Fprintf(b, "| %s | %.2f (%.2f–%.2f) | %.2f | %.2f | %.0f | %.0f |\n", c,
			t.median/1e3, t.low/1e3, t.high/1e3, toFloor.median, toFoil.median, bytes.median, allocs.median)
	}
	b.WriteByte('\n')
}

// others prints what is not measured against a peer.
func (r *results) others(b *strings.Builder) {
	b.WriteString("| | median | from–to |\n|---|---|---|\n")
	for _, o := range []struct{ what, name, unit string }{
		{"digest, 64 KiB in 900 objects", "Digest/objects64K", "MB/s"},
		{"digest, 2,000 floats", "Digest/floats", "MB/s"},
		{"digest, one object of 100,000 keys", "Digest/wide", "MB/s"},
		{"memory store, per live ID", "MemoryMillionIDs", "B/ID"},
		{"SQLite, 1 caller", "Use/callers=1", "uses/s"},
		{"SQLite, 64 callers", "Use/callers=64", "uses/s"},
	} {
		s, ok := r.of(o.name, o.unit)
		if !ok {
			fmt.Fprintf(b, "| %s | not measured | |\n", o.what)
			continue
		}
		fmt.Fprintf(b, "| %s | %.0f %s | %.0f–%.0f |\n", o.what, s.median, o.unit, s.low, s.high)
	}
	b.WriteByte('\n')
}

func (r *results) promises(b *strings.Builder) (kept bool) {
	kept = true
	b.WriteString("| promise | bound | measured | |\n|---|---|---|---|\n")
	for _, p := range promises {
		bound, verdict := "at least", "kept"
		if p.most {
			bound = "at most"
		}
		s, ok := p.value(r)
		switch {
		case !ok:
			verdict = "not measured"
		case p.most && s.median > p.limit, !p.most && s.median < p.limit:
			verdict = "**missed**"
		}
		kept = kept && verdict == "kept"
		unit := ""
		if p.unit != "" {
			unit = " " + p.unit
		}
		fmt.Fprintf(b, "| %s | %s %g%s | %.2f (%.2f–%.2f) | %s |\n", p.what, bound, p.limit, unit, s.median, s.low, s.high, verdict)
	}
	b.WriteByte('\n')
	return kept
}
