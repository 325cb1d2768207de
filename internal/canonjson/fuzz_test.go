package canonjson_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/canonjson/jsongen"
)

func seed(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Arguments))
	}
	for _, s := range strs {
		f.Add([]byte(`{` + s.text + `:[` + s.text + `]}`))
	}
	r := rand.New(rand.NewPCG(41, 42))
	for range 20 {
		f.Add(jsongen.Document(r))
	}
	for _, s := range []string{`{"a":1,"a":2}`, `[1e400,-0,-0.0]`, `{"b":{"d":1,"c":2},"a":0}`, "\xff", `"\ud83d\u"`, `[[[[`, `{"a":1e1234567}`} {
		f.Add([]byte(s))
	}
}

func FuzzSum(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		sums, err := canonjson.Sum(text, nil)
		python, errPython := canonjson.Append(nil, text, nil)
		exact, errExact := canonjson.AppendExact(nil, text, nil)
		if !bytes.Equal(before, text) {
			t.Fatal("the text was changed")
		}
		if (err == nil) != (errPython == nil) || (err == nil) != (errExact == nil) {
			t.Fatalf("Sum %v, Append %v, AppendExact %v", err, errPython, errExact)
		}
		n, errSkip := canonjson.Skip(text, nil)
		if err != nil {
			if !errors.Is(err, canonjson.ErrSyntax) && !errors.Is(err, canonjson.ErrLimit) {
				t.Fatalf("error of no kind: %v", err)
			}
			if sums != (canonjson.Sums{}) || python != nil || exact != nil {
				t.Fatal("results with an error")
			}
			if errSkip == nil && n >= len(bytes.TrimRight(text, " \t\r\n")) {
				t.Fatalf("Skip accepts what Sum refuses: %v", err)
			}
			return
		}
		if errSkip != nil || n != len(bytes.TrimRight(text, " \t\r\n")) {
			t.Fatalf("Skip %d, %v", n, errSkip)
		}
		if !json.Valid(text) {
			t.Fatal("encoding/json refuses it")
		}
		if sums.Python != sha256.Sum256(python) || sums.Exact != sha256.Sum256(exact) {
			t.Fatal("sums and texts disagree")
		}
		// A short object goes another way than one with white space.
		if spaced, err := canonjson.Sum(append(bytes.Clone(text), '\n'), nil); len(text) < 4<<20 && (err != nil || spaced != sums) {
			t.Fatalf("a line end makes a difference: %v", err)
		}
		checkIdempotent(t, text)
		again, err := canonjson.Sum(text, nil)
		if err != nil || again != sums {
			t.Fatal("not the same the second time")
		}
	})
}

func FuzzString(f *testing.F) {
	for _, s := range strs {
		f.Add(s.text, s.value)
	}
	f.Add("\"\xed\xa0\x80\"", high+low)
	f.Fuzz(func(t *testing.T, text, value string) {
		if s, n, err := canonjson.DecodeString([]byte(text)); err == nil {
			if !canonjson.ValidWTF8(s) {
				t.Fatalf("decoded to %q", s)
			}
			var std string
			if err := json.Unmarshal([]byte(text[:n]), &std); err != nil {
				t.Fatalf("encoding/json: %v", err)
			}
		}
		literal := canonjson.AppendString(nil, value)
		s, n, err := canonjson.DecodeString(literal)
		if err != nil || n != len(literal) {
			t.Fatalf("%s: %d, %v", literal, n, err)
		}
		if valid := canonjson.ValidWTF8(value); valid != (s == value) {
			t.Fatalf("valid %t, but %q came back as %q", valid, value, s)
		}
	})
}
