package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/foilmcp/foil"

// allowed lists, for each package, the packages of this module and the outside
// modules that it may import; "*" is anything of this module. Tests may import
// more. A package that is not here fails: decide where it belongs.
var allowed = map[string][]string{
	"internal/archtest":          {},
	"internal/canonjson":         {},
	"internal/canonjson/jsongen": {},
	"internal/secret":            {},
	"internal/logtext":           {},
	"internal/b64u":              {},
	"internal/faulttest":         {},
	"internal/claims":            {"internal/canonjson", "internal/b64u"},
	"internal/chrometest":        {"github.com/chromedp/cdproto", "github.com/chromedp/chromedp"},
	"internal/pgtest":            {"github.com/jackc/pgx/v5"},
	"internal/redistest":         {"github.com/redis/go-redis/v9"},
	"internal/baotest":           {},

	"replay":                    {},
	"replay/replaytest":         {"replay"},
	"claimcheck":                {},
	"claimcheck/claimchecktest": {"claimcheck"},
	"ledger":                    {},
	"ledger/ledgertest":         {"ledger", "pgregory.net/rapid"},
	"store":                     {},
	"atrest":                    {"keyring"},
	"keyring":                   {"internal/secret"},
	"keyring/keyringtest":       {"keyring"},
	"keyring/readyz":            {"keyring"},

	"":       {"replay", "claimcheck", "ledger", "internal/canonjson", "internal/claims", "internal/logtext"},
	"aesgcm": {"", "keyring", "internal/b64u", "internal/ringtable"},
	"signed": {"", "keyring", "internal/ringtable"},

	"internal/ringtable": {"", "keyring"},
	"codectest":          {""},

	"handle":            {"", "internal/b64u"},
	"handle/handletest": {"handle"},

	"store/sqlite":   {"replay", "claimcheck", "ledger", "atrest", "store", "modernc.org/sqlite"},
	"store/postgres": {"replay", "claimcheck", "ledger", "atrest", "store", "github.com/jackc/pgx/v5"},
	"store/redis":    {"replay", "claimcheck", "ledger", "atrest", "store", "github.com/redis/go-redis/v9"},
	"store/dsn":      {"replay", "claimcheck", "ledger", "atrest", "store", "store/sqlite", "store/postgres", "store/redis"},
	"openbao":        {"", "replay", "claimcheck", "keyring", "internal/secret", "github.com/openbao/openbao/api/v2"},
	"mcpsdk":         {"", "replay", "ledger", "internal/logtext", "github.com/modelcontextprotocol/go-sdk"},

	"observe/internal/labels":  {""},
	"observe/internal/figures": {"ledger", "store"},
	"observe/prom":             {"", "keyring", "ledger", "store", "observe/internal/labels", "observe/internal/figures", "github.com/prometheus/client_golang/prometheus"},
	"observe/otel":             {"", "keyring", "ledger", "store", "observe/internal/labels", "observe/internal/figures", "go.opentelemetry.io/otel"},

	"attack":             {"", "aesgcm", "signed", "keyring", "claimcheck"},
	"attack/plain":       {""},
	"attack/guarddoor":   {"", "attack", "ledger", "internal/canonjson"},
	"attack/httpdoor":    {"attack"},
	"attack/sdkdoor":     {"", "attack", "attack/httpdoor", "mcpsdk", "github.com/modelcontextprotocol/go-sdk"},
	"attack/storemem":    {"attack", "ledger"},
	"attack/storeserver": {"attack", "github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9"},
	"attack/storefile":   {"attack", "store/sqlite"},

	"examples/storagejanitor":                    {"", "claimcheck", "ledger", "mcpsdk", "github.com/modelcontextprotocol/go-sdk"},
	"examples/storagejanitor/cmd/storagejanitor": {"*", "github.com/modelcontextprotocol/go-sdk"},
	"cmd/foil":       {"*", "github.com/modelcontextprotocol/go-sdk", "github.com/spf13/cobra", "github.com/prometheus/client_golang/prometheus"},
	"lab":            {},
	"interop/python": {},

	"interop/conformance": {},
	"crash":               {},
	"linear":              {},
	"soak":                {},
}

// core is what a server takes in with the Guard and the default codec: the
// standard library and nothing else, all the way down.
var core = []string{"", "aesgcm", "signed", "keyring", "replay", "claimcheck", "ledger", "internal/claims", "internal/canonjson", "internal/secret", "internal/b64u", "internal/logtext", "internal/ringtable"}

type pkg struct {
	ImportPath string
	Doc        string
	Imports    []string
	Deps       []string
	Standard   bool
}

func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Doc,Imports,Deps,Standard"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// short is a package's path within the module; ok is false outside.
func short(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func TestArrows(t *testing.T) {
	for _, p := range list(t, "./...") {
		name, ok := short(p.ImportPath)
		if !ok {
			continue
		}
		may, ok := allowed[name]
		if !ok {
			t.Errorf("package %q is not in the table of arrows: decide what it may import", name)
			continue
		}
		used := make(map[string]bool)
		for _, imp := range p.Imports {
			if standard(imp) {
				continue
			}
			inside, own := short(imp)
			good := false
			for _, m := range may {
				if own && (m == inside || m == "*") || !own && m != "" && (imp == m || strings.HasPrefix(imp, m+"/")) {
					good, used[m] = true, true
				}
			}
			if !good || inside == "attack/plain" {
				t.Errorf("package %q must not import %s", name, imp)
			}
		}
		for _, m := range may {
			if !used[m] {
				t.Errorf("package %q may import %q and does not: take the arrow out", name, m)
			}
		}
	}
}

func TestCoreIsStandardLibraryAlone(t *testing.T) {
	var paths []string
	for _, c := range core {
		paths = append(paths, "./"+c)
	}
	for _, p := range list(t, paths...) {
		for _, dep := range p.Deps {
			if _, own := short(dep); !own && !standard(dep) {
				t.Errorf("%s depends on %s", p.ImportPath, dep)
			}
			if dep == "testing" || dep == "os/exec" {
				t.Errorf("%s depends on %s, which has no place in a server", p.ImportPath, dep)
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range list(t, "./...") {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}
