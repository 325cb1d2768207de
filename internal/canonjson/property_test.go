package canonjson_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/canonjson/jsongen"
	"pgregory.net/rapid"
)

func random(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
}

func TestSpellingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := jsongen.Spellings(random(t), 3)
		want, err := canonjson.Sum(docs[0], nil)
		if err != nil {
			t.Fatalf("%v in %s", err, docs[0])
		}
		for _, doc := range docs[1:] {
			if got, err := canonjson.Sum(doc, nil); err != nil || got != want {
				t.Fatalf("%v\n%s\n%s", err, docs[0], doc)
			}
		}
	})
}

// TestValueMatters changes one byte of a document. If encoding/json, reading
// numbers as text, then sees another value, the exact sum must differ.
func TestValueMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := random(t)
		doc := jsongen.Document(r)
		other := bytes.Clone(doc)
		at := r.IntN(len(doc))
		other[at] = "0123456789abcdef\"-"[r.IntN(18)]
		a, err := canonjson.Sum(doc, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := canonjson.Sum(other, nil)
		if err != nil || b.Ambiguous {
			return
		}
		// Compare through an independent reader. Surrogates are lost in it and
		// so are the spellings of one number; so equal here proves nothing.
		ta, err := canonjson.AppendExact(nil, doc, nil)
		if err != nil {
			t.Fatal(err)
		}
		tb, err := canonjson.AppendExact(nil, other, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (a.Exact == b.Exact) != bytes.Equal(ta, tb) {
			t.Fatalf("sums and texts disagree on\n%s\n%s", doc, other)
		}
		if bytes.Equal(ta, tb) && !bytes.Equal(reencode(t, doc), reencode(t, other)) {
			t.Fatalf("one exact text for\n%s\n%s", doc, other)
		}
	})
}

// reencode reads doc with encoding/json and writes it again with the numbers
// brought to exact form.
func reencode(t *rapid.T, doc []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json: %v in %s", err, doc)
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				v[k] = walk(e)
			}
		case []any:
			for i, e := range v {
				v[i] = walk(e)
			}
		case json.Number:
			text, err := canonjson.AppendExact(nil, []byte(v), nil)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCanonicalTextIsItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := jsongen.Document(random(t))
		checkIdempotent(t, doc)
		sums, err := canonjson.Sum(doc, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := canonjson.Skip(doc, nil)
		if err != nil || len(bytes.TrimRight(doc, " \t\r\n")) != n {
			t.Fatalf("Skip %d, %v", n, err)
		}
		text, err := canonjson.Append(nil, doc, nil)
		if err != nil || sha256.Sum256(text) != sums.Python {
			t.Fatalf("sums and text disagree: %v", err)
		}
	})
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkIdempotent asserts that canonical text is canonical. Infinity in it is
// no JSON, and a growing text may pass a limit: then there is nothing to say.
func checkIdempotent(t fataler, doc []byte) {
	t.Helper()
	lim := &canonjson.Limits{MaxBytes: 64 << 20, MaxExponentDigits: 9}
	for name, f := range map[string]func(dst, text []byte, lim *canonjson.Limits) ([]byte, error){
		"python-v1": canonjson.Append,
		"exact":     canonjson.AppendExact,
	} {
		once, err := f(nil, doc, nil)
		if err != nil {
			t.Fatalf("%s: %v in %.1000s", name, err, doc)
		}
		for _, c := range once {
			if c < ' ' || c > '~' {
				t.Fatalf("%s: byte %#x in %.1000s", name, c, once)
			}
		}
		twice, err := f(nil, once, lim)
		if name == "python-v1" && err != nil && bytes.Contains(once, []byte("Infinity")) {
			continue
		}
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s: %v\nonce  %.1000s\ntwice %.1000s", name, err, once, twice)
		}
	}
}

// TestObjectSeesEveryMember takes a document apart and puts it together again.
func TestObjectSeesEveryMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := jsongen.Document(random(t))
		rebuilt := []byte{'{'}
		err := canonjson.Object(doc, nil, func(key string, value []byte) bool {
			if len(rebuilt) > 1 {
				rebuilt = append(rebuilt, ',')
			}
			rebuilt = append(canonjson.AppendString(rebuilt, key), ':')
			rebuilt = append(rebuilt, value...)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		rebuilt = append(rebuilt, '}')
		a, errA := canonjson.Sum(doc, nil)
		b, errB := canonjson.Sum(rebuilt, nil)
		if errA != nil || errB != nil || a != b {
			t.Fatalf("%v %v\n%s\n%s", errA, errB, doc, rebuilt)
		}
	})
}
