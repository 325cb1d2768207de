// Command ratios runs the benchmarks in rounds, so that whatever else the
// machine does meets all contestants alike, and prints medians, ratios and
// whether they keep what foil promises. With names of files it reads the output
// of "go test -bench" from them instead ("-" is standard input).
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const module = "github.com/foilmcp/foil"

// suites are the benchmarks of one round, by package.
var suites = []struct{ pkg, bench string }{
	{module + "/bench", "^Benchmark(Seal|Open|Digest)$"},
	{module + "/replay", "^BenchmarkMemoryMillionIDs$"},
	{module + "/store/sqlite", "^BenchmarkUse$"},
}

func main() {
	rounds := flag.Int("rounds", 9, "how many `times` to run everything; at least 5")
	each := flag.Duration("time", 200*time.Millisecond, "how `long` to run one benchmark of a round")
	save := flag.String("save", "", "write the raw output to this `file`")
	readme := flag.String("readme", "", "put the tables into this `file`, between the lines that mark their place")
	check := flag.Bool("check", false, "fail if a promise is not kept")
	flag.Parse()
	kept, err := run(*rounds, *each, *save, *readme, flag.Args())
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(2)
	case *check && !kept:
		os.Exit(1)
	}
}

func run(rounds int, each time.Duration, save, readme string, files []string) (kept bool, err error) {
	var raw []byte
	if len(files) > 0 {
		raw, err = read(files)
	} else {
		raw, err = measure(rounds, each)
	}
	if err != nil {
		return false, err
	}
	if save != "" {
		if err := os.WriteFile(save, raw, 0o644); err != nil {
			return false, err
		}
	}
	r, err := parse(bytes.NewReader(raw))
	if err != nil {
		return false, err
	}
	tables, kept := r.tables()
	if readme != "" {
		if err := insert(readme, tables); err != nil {
			return false, err
		}
	}
	_, err = io.WriteString(os.Stdout, tables)
	return kept, err
}

const begin, end = "<!-- ratios -->\n", "<!-- end of ratios -->\n"

// insert replaces what stands between begin and end in a file.
func insert(file, tables string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %q and %q", file, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(before+begin+tables+end+after), 0o644)
}

func read(files []string) ([]byte, error) {
	var all []byte
	for _, name := range files {
		var text []byte
		var err error
		if name == "-" {
			text, err = io.ReadAll(os.Stdin)
		} else {
			text, err = os.ReadFile(name)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, text...)
	}
	return all, nil
}

// measure builds each suite once, then runs all of them in turn.
func measure(rounds int, each time.Duration) ([]byte, error) {
	if rounds < minSamples {
		return nil, fmt.Errorf("%d rounds are too few for a median: give at least %d", rounds, minSamples)
	}
	dir, err := os.MkdirTemp("", "foil-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	programs := make([]string, len(suites))
	for i, s := range suites {
		// Benchmarks of foil's own packages are built in its module: their
		// tests need what this one does not.
		of := module
		if strings.HasPrefix(s.pkg, module+"/bench") {
			of = module + "/bench"
		}
		root, err := output("", "go", "list", "-m", "-f", "{{.Dir}}", of)
		if err != nil {
			return nil, err
		}
		programs[i] = filepath.Join(dir, filepath.Base(s.pkg)+".test")
		if _, err := output(strings.TrimSpace(string(root)), "go", "test", "-c", "-o", programs[i], s.pkg); err != nil {
			return nil, err
		}
	}
	var all []byte
	for n := range rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", n+1, rounds)
		for i, s := range suites {
			out, err := output(dir, programs[i], "-test.run=^$", "-test.bench="+s.bench, "-test.benchtime="+each.String())
			if err != nil {
				return nil, err
			}
			all = append(all, out...)
		}
	}
	return all, nil
}

func output(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			out = append(out, exit.Stderr...)
		}
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return out, nil
}
