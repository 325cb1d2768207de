package lab_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/chrometest"
)

// A taken is the code of one policy.
type taken struct{ Go, Python string }

// testTakenAway compiles the Go code of every policy, in both formats, and runs the
// Python code of some with the SDK.
func testTakenAway(t *testing.T, browser *chrometest.Browser) {
	tab := browser.Open(t, serve(t)+bare)
	all := chrometest.Eval[[]taken](tab, `
		const { goCode, pythonCode } = await import(location.origin + "/ui/code.js");
		return args[0].flatMap((policy) => ["v1", "h1"].map((format) => ({ Go: goCode({ policy, format }), Python: pythonCode({ policy, format }) })));
	`, policies())
	if len(all) != 256 {
		t.Fatalf("%d policies", len(all))
	}
	t.Run("go", func(t *testing.T) { compile(t, all) })
	t.Run("python", func(t *testing.T) { runPython(t, all) })
}

// compile builds all the Go code as one package of this module.
func compile(t *testing.T, all []taken) {
	var program strings.Builder
	program.WriteString(`package taken

import (
	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/signed"
	"github.com/foilmcp/foil/store/sqlite"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	keys   *keyring.Refresher
	store  *sqlite.Store
	server *mcp.Server
)
`)
	for i, x := range all {
		fmt.Fprintf(&program, "\nfunc protect%d() error {\n%s\treturn nil\n}\n", i, x.Go)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "taken.go")
	if err := os.WriteFile(source, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	// The file exists only for the compiler.
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "internal", "taken", "taken.go"): source}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-overlay", file, "./internal/taken")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%.4000s", err, out)
	}
}

// runPython runs what differs of the Python code in one process.
func runPython(t *testing.T, all []taken) {
	python, err := filepath.Abs("../interop/python/.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		const help = "the Python SDK is not there; get it with: interop/python/setup.sh"
		if os.Getenv("CI") == "true" {
			t.Fatal(help)
		}
		t.Skip(help)
	}
	program := "import json, sys\nfor code in json.load(sys.stdin):\n    exec(compile(code, 'taken', 'exec'), {})\n"
	seen := map[string]bool{}
	var codes []string
	for _, x := range all {
		if !seen[x.Python] {
			seen[x.Python] = true
			codes = append(codes, x.Python)
		}
	}
	input, err := json.Marshal(codes)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", program)
	cmd.Env = append(os.Environ(), "REQUEST_STATE_KEY="+strings.Repeat("5a", 32))
	cmd.Stdin = strings.NewReader(string(input))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%.4000s", err, out)
	}
}
