package canonjson_test

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/canonjson/jsongen"
)

// oracle is the profile's own definition. Both sides of it are lines.
const oracle = `
import base64, json, sys

def refuse(name):
    raise ValueError(name)

for line in sys.stdin:
    try:
        text = base64.b64decode(line).decode("utf-8")
        value = json.loads(text, parse_constant=refuse)
        print(json.dumps(value, sort_keys=True, separators=(",", ":")))
    except (ValueError, RecursionError):
        print("refused")
`

// python returns what Python makes of each document, "refused" for those that
// it does not read.
func python(t *testing.T, docs [][]byte) []string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3 on the PATH (any version from 3.11, standard library only); on Debian: apt-get install python3")
	}
	cmd := exec.CommandContext(t.Context(), path, "-I", "-c", oracle)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(stdin)
		for _, d := range docs {
			fmt.Fprintln(w, base64.StdEncoding.EncodeToString(d))
		}
		written <- errors.Join(w.Flush(), stdin.Close())
	}()
	all, err := io.ReadAll(stdout)
	if err := errors.Join(err, <-written, cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
	if len(lines) != len(docs) {
		t.Fatalf("%d answers to %d documents", len(lines), len(docs))
	}
	return lines
}

func comparePython(t *testing.T, docs [][]byte) (accepted int) {
	t.Helper()
	for i, want := range python(t, docs) {
		got, err := canonjson.Append(nil, docs[i], nil)
		switch {
		case errors.Is(err, canonjson.ErrLimit):
			continue // Python has no such limits but the one on integers
		case err != nil:
			got = []byte("refused")
		default:
			accepted++
		}
		if string(got) != want {
			t.Errorf("document %q\n got %.500s\nwant %.500s", docs[i], got, want)
		}
	}
	return accepted
}

func TestPythonGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	docs := make([][]byte, 3_000)
	for i := range docs {
		docs[i] = jsongen.Document(r)
	}
	if n := comparePython(t, docs); n != len(docs) {
		t.Errorf("%d of %d documents accepted", n, len(docs))
	}
}

// TestPythonMutated compares what the two refuse, and how they read documents
// that nobody meant.
func TestPythonMutated(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	const alphabet = "{}[]\",:\\/ \t\n\rtrufalsn0123456789+-.eEbu\x00\x1f\x7f\x80\xc3\xa9\xed\xa0\xff"
	var docs [][]byte
	for len(docs) < 4_000 {
		doc := jsongen.Document(r)
		if len(doc) > 400 {
			continue
		}
		for range 1 + r.IntN(2) {
			at, c := r.IntN(len(doc)), alphabet[r.IntN(len(alphabet))]
			switch r.IntN(3) {
			case 0:
				doc[at] = c
			case 1:
				doc = append(doc[:at], doc[at+1:]...)
			default:
				doc = append(doc[:at], append([]byte{c}, doc[at:]...)...)
			}
		}
		docs = append(docs, doc)
	}
	n := comparePython(t, docs)
	if n < 500 || n > 3_500 {
		t.Errorf("%d of %d documents accepted: the comparison is one-sided", n, len(docs))
	}
}

func TestPythonFloats(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	var all []float64
	for e := -1074; e <= 1023; e++ { // at powers of two the spacing changes
		f := math.Ldexp(1, e)
		all = append(all, f, -math.Nextafter(f, 0), math.Nextafter(f, math.Inf(1)))
	}
	for e := -323; e <= 308; e++ { // at powers of ten the notation
		f, _ := strconv.ParseFloat("1e"+strconv.Itoa(e), 64)
		all = append(all, f, math.Nextafter(f, 0), math.Nextafter(f, math.Inf(1)))
	}
	for range 3_000 {
		all = append(all, math.Float64frombits(r.Uint64()))
	}
	var docs [][]byte
	var want [][]byte
	for _, f := range all {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		docs = append(docs, strconv.AppendFloat(nil, f, 'e', 20, 64))
		want = append(want, canonjson.AppendFloat(nil, f))
	}
	for i, line := range python(t, docs) {
		if string(want[i]) != line {
			t.Errorf("AppendFloat %s, Python %s", want[i], line)
		}
	}
	comparePython(t, docs)
}
