package lab_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/foilmcp/foil/lab"
)

func get(t *testing.T, method, host, path string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	lab.Handler(8400).ServeHTTP(w, r)
	return w.Result()
}

func TestHandler(t *testing.T) {
	for _, test := range []struct {
		method, host, path string
		status             int
	}{
		{"GET", "127.0.0.1:8400", "/", 200},
		{"GET", "localhost:8400", "/", 200},
		{"GET", "LOCALHOST:8400", "/main.js", 200},
		{"GET", "[::1]:8400", "/core/guard.js", 200},
		{"HEAD", "127.0.0.1:8400", "/style.css", 200},
		// Names that a web site can point here, and others' ports.
		{"GET", "rebound.example:8400", "/", 421},
		{"GET", "127.0.0.1.rebound.example:8400", "/", 421},
		{"GET", "localhost.:8400", "/", 421},
		{"GET", "127.0.0.1:8401", "/", 421},
		{"GET", "127.0.0.1", "/", 421},
		{"GET", "", "/", 421},
		{"POST", "127.0.0.1:8400", "/", 405},
		{"OPTIONS", "127.0.0.1:8400", "/", 405},
		{"GET", "127.0.0.1:8400", "/page/", 404},
		{"GET", "127.0.0.1:8400", "/core/", 404},
		{"GET", "127.0.0.1:8400", "/../doc.go", 404},
	} {
		r := get(t, test.method, test.host, test.path)
		if r.StatusCode != test.status {
			t.Errorf("%s %s%s: %d, want %d", test.method, test.host, test.path, r.StatusCode, test.status)
		}
		if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; ") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s %s%s: policy %q", test.method, test.host, test.path, csp)
		}
		if r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s %s%s: headers %v", test.method, test.host, test.path, r.Header)
		}
	}
	if kind := get(t, "GET", "127.0.0.1:8400", "/main.js").Header.Get("Content-Type"); kind != "text/javascript; charset=utf-8" {
		t.Errorf("a module is %q, which browsers refuse", kind)
	}
}

// The page says of itself what the header says, for whoever serves an export.
func TestPolicyIsInThePage(t *testing.T) {
	r := get(t, "GET", "127.0.0.1:8400", "/")
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the page has no policy")
	}
	if header, _, _ := strings.Cut(r.Header.Get("Content-Security-Policy"), "; frame-ancestors"); header != string(m[1]) {
		t.Errorf("the page says %q, the header %q", m[1], header)
	}
}

// Every module is named in the page, so that a browser need not find one after the
// other.
func TestModulesArePreloaded(t *testing.T) {
	text, err := os.ReadFile("page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{"main.js": true}
	for _, m := range regexp.MustCompile(`<link rel="modulepreload" href="([^"]+)">`).FindAllSubmatch(text, -1) {
		named[string(m[1])] = true
	}
	err = filepath.WalkDir("page", func(path string, d fs.DirEntry, err error) error {
		if name, _ := filepath.Rel("page", path); err == nil && filepath.Ext(path) == ".js" && !named[filepath.ToSlash(name)] {
			t.Errorf("%s is not preloaded", name)
		} else {
			delete(named, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil || len(named) > 0 {
		t.Errorf("not there: %v, %v", named, err)
	}
}

// Nothing in the page is a place elsewhere, but for links that a person follows.
func TestNothingIsElsewhere(t *testing.T) {
	place := regexp.MustCompile(`(?i)(?:https?:|wss?:)?//[a-z0-9][a-z0-9.-]*\.[a-z]{2,}`)
	known := map[string]bool{
		"https://modelcontextprotocol.io": true, // a link
		"http://www.w3.org":               true, // a name, of SVG
		"https://login.example":           true, // an issuer, which nobody asks
	}
	err := filepath.WalkDir("page", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range place.FindAllString(string(text), -1) {
			if !known[found] {
				t.Errorf("%s: %s", path, found)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestExport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "lab")
	for range 2 { // an export may be renewed
		if err := lab.Export(dir); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("page/core/guard.js")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "core", "guard.js")); err != nil || string(got) != string(want) {
		t.Errorf("core/guard.js: %v, %d bytes of %d", err, len(got), len(want))
	}
	n := 0
	err = filepath.WalkDir("page", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel("page", path)
			_, err = os.Stat(filepath.Join(dir, rel))
			n++
		}
		return err
	})
	if err != nil || n < 20 {
		t.Errorf("%d files: %v", n, err)
	}
}

// What is in the way is not written over.
func TestExportLeavesOthersAlone(t *testing.T) {
	for _, name := range []string{"notes.txt", filepath.Join("core", "notes.txt"), "index.html.bak"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := lab.Export(dir); !errors.Is(err, lab.ErrNotEmpty) {
			t.Errorf("beside %s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "index.html")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("beside %s something was written: %v", name, err)
		}
	}
	dir := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "x")
	if err := os.Symlink(elsewhere, filepath.Join(dir, "main.js")); err != nil {
		t.Fatal(err)
	}
	if err := lab.Export(dir); !errors.Is(err, lab.ErrNotEmpty) {
		t.Errorf("through a link: %v", err)
	}
}
