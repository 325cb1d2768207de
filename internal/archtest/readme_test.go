package archtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The integration in the README compiles as it stands there.
func TestReadmeCompiles(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```go\n")
	if len(blocks) != 3 {
		t.Fatalf("README.md has %d Go blocks, want 2: the integration and a handler", len(blocks)-1)
	}
	code, _, _ := strings.Cut(blocks[1], "```")
	handler, _, _ := strings.Cut(blocks[2], "```")
	program := `package readme

import (
	"context"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/store/sqlite"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func integrate(ctx context.Context, server *mcp.Server) error {
` + code + `
	return err
}

func handle(ctx context.Context, req *mcp.CallToolRequest, in struct{ Prefix string }) (*mcp.CallToolResult, any, error) {
	var schema, plan = any(nil), ""
	var declined *mcp.CallToolResult
	purge := func(string) {}
` + handler + `
	return nil, nil, nil
}

var _, _ = integrate, handle
`
	dir := t.TempDir()
	source := filepath.Join(dir, "readme.go")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// The file exists only for the compiler, as a package of this module.
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, "internal", "readme", "readme.go"): source,
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-overlay", file, "./internal/readme")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
