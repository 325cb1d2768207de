package jsongen_test

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/canonjson/jsongen"
)

func TestDocumentsAreAcceptedAndUnambiguous(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 4_000 {
		doc := jsongen.Document(r)
		sums, err := canonjson.Sum(doc, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if sums.Ambiguous {
			t.Fatalf("ambiguous:\n%s", doc)
		}
		if doc := bytes.TrimSpace(doc); doc[0] != '{' {
			t.Fatalf("not an object:\n%s", doc)
		}
	}
}

func TestSameStateGivesSameDocument(t *testing.T) {
	a := jsongen.Document(rand.New(rand.NewPCG(7, 7)))
	if b := jsongen.Document(rand.New(rand.NewPCG(7, 7))); !bytes.Equal(a, b) {
		t.Errorf("%s\n%s", a, b)
	}
}

// TestCoverage looks for a trace of every rule in the canonical or raw text.
func TestCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var raw, canon []byte
	for range 3_000 {
		doc := jsongen.Document(r)
		raw = append(append(raw, doc...), '\n')
		var err error
		if canon, err = canonjson.Append(canon, doc, nil); err != nil {
			t.Fatal(err)
		}
		canon = append(canon, '\n')
	}
	for name, re := range map[string]string{
		"lone high surrogate": `\\ud[89ab][0-9a-f]{2}("|[^\\])`,
		"lone low surrogate":  `[^0-9a-f]\\ud[c-f][0-9a-f]{2}`,
		"pair":                `\\ud[89ab][0-9a-f]{2}\\ud[c-f]`,
		"DEL":                 `\\u007f`,
		"short form":          `\\b`,
		"quote":               `\\"`,
		"infinity":            `:Infinity`,
		"negative infinity":   `-Infinity`,
		"negative zero":       `[:,]-0\.0`,
		"plus exponent":       `e\+`,
		"minus exponent":      `e-`,
		"two exponent digits": `e-0\d`,
		"longest integer":     `\d{1000}`,
		"empty key":           `""`,
		"empty object":        `\{\}`,
		"empty array":         `\[\]`,
		"deep":                `\[{40}`,
		"literals":            `true|false|null`,
	} {
		if !regexp.MustCompile(re).Match(canon) {
			t.Errorf("canonical: no %s", name)
		}
	}
	for name, re := range map[string]string{
		"white space":        "[ \t\r\n]+:",
		"escaped slash":      `\\/`,
		"raw non-ASCII":      `[^\x00-\x7f]`,
		"raw DEL":            "\x7f",
		"upper-case escape":  `\\u[0-9A-F]*[A-F]`,
		"capital E":          `\dE[+-]?\d`,
		"negative zero":      `-0[,}\]]`,
		"trailing zeros":     `\.\d*[1-9]0+[,}\]]`,
		"exponent with zero": `[eE][+-]?0\d`,
	} {
		if !regexp.MustCompile(re).Match(raw) {
			t.Errorf("raw: no %s", name)
		}
	}
}
