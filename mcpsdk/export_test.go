package mcpsdk

import (
	"encoding/json"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Splice is a tool's recorded result as it goes out after the SDK has set a
// member of its _meta.
func Splice(t *testing.T, raw []byte, token, key string, value any) string {
	t.Helper()
	res, err := asBytes(foil.MethodToolsCall, raw, token)
	if err != nil {
		t.Fatal(err)
	}
	m := res.GetMeta()
	if m == nil {
		m = map[string]any{}
	}
	if _, ok := m[key]; !ok {
		m[key] = value
		res.(*exactTool).Meta = mcp.Meta(m)
	}
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
