package canonjson_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
)

// A vector is an arguments document with what the Python SDK makes of it.
type vector struct {
	Name      string
	Arguments string
	Canonical string
	Digest    string // b64u of 16 bytes
}

func readVectors(tb testing.TB, name string, v any) {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", name))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		tb.Fatal(err)
	}
}

// rawArguments returns what the digest covers of a request's params, found with
// Object as the middleware finds it.
func rawArguments(tb testing.TB, method, params string) string {
	tb.Helper()
	found := "{}"
	err := canonjson.Object([]byte(params), nil, func(key string, value []byte) bool {
		if key == "arguments" && method != "resources/read" && string(value) != "null" {
			found = string(value)
		}
		return true
	})
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

func vectors(tb testing.TB) []vector {
	tb.Helper()
	var all []vector

	var digests []struct {
		Arguments string `json:"arguments_json"`
		Canonical string `json:"python_canonical"`
		Digest    string `json:"python_digest"`
	}
	readVectors(tb, "digests.json", &digests)
	for _, d := range digests {
		all = append(all, vector{"digests " + d.Arguments, d.Arguments, d.Canonical, d.Digest})
	}

	var sdk []struct {
		Name      string `json:"name"`
		Method    string `json:"method"`
		Params    string `json:"params_json"`
		Canonical string `json:"args_canonical"`
		Digest    string `json:"args_digest"`
	}
	readVectors(tb, "python-sdk.json", &sdk)
	for _, s := range sdk {
		all = append(all, vector{"python-sdk " + s.Name, rawArguments(tb, s.Method, s.Params), s.Canonical, s.Digest})
	}

	var tokens struct {
		Python struct {
			Arguments string `json:"arguments_json"`
			Canonical string `json:"args_canon"`
			Digest    string `json:"args_digest"`
			Empty     string `json:"empty_digest"`
		} `json:"python"`
	}
	readVectors(tb, "sdk-tokens.json", &tokens)
	py := tokens.Python
	all = append(all,
		vector{"sdk-tokens python", py.Arguments, py.Canonical, py.Digest},
		vector{"sdk-tokens python empty", "{}", "{}", py.Empty})

	if len(digests) != 40 || len(sdk) != 24 {
		tb.Fatalf("%d and %d vectors, want 40 and 24", len(digests), len(sdk))
	}
	return all
}

func digest16(sum [32]byte) string { return base64.RawURLEncoding.EncodeToString(sum[:16]) }

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			got, err := canonjson.Append(nil, []byte(v.Arguments), nil)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != v.Canonical {
				t.Errorf("canonical text\n got %s\nwant %s", got, v.Canonical)
			}
			sums, err := canonjson.Sum([]byte(v.Arguments), nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := digest16(sums.Python); d != v.Digest {
				t.Errorf("digest %s, want %s", d, v.Digest)
			}
			exact, err := canonjson.AppendExact(nil, []byte(v.Arguments), nil)
			if err != nil {
				t.Fatal(err)
			}
			if sums.Exact != sha256.Sum256(exact) {
				t.Error("Sum and AppendExact disagree")
			}
		})
	}
}
