package storagejanitor_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/examples/storagejanitor"
)

func listTool(t testing.TB, cs *mcp.ClientSession, prefix string) (*mcp.CallToolResult, storagejanitor.ListOutput) {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: storagejanitor.ListTool, Arguments: args{"prefix": prefix}})
	if err != nil {
		t.Fatal(err)
	}
	var out storagejanitor.ListOutput
	if !res.IsError {
		raw, err := json.Marshal(res.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
	}
	return res, out
}

func TestListTool(t *testing.T) {
	f := newFixture(t, nil)
	f.write(t, "logs/b.log", "logs/a.log", "logs-old/a.log", "odd/\u202ename")
	cs := f.manual(t)
	for prefix, want := range map[string][]string{
		"logs/":  {"logs/a.log", "logs/b.log"},
		"logs":   {"logs-old/a.log", "logs/a.log", "logs/b.log"},
		"odd/":   {`odd/\u202ename`},
		"nobody": {},
	} {
		res, out := listTool(t, cs, prefix)
		got := []string{}
		for _, o := range out.Objects {
			got = append(got, o.Name)
		}
		if res.IsError || out.Truncated || !slices.Equal(got, want) {
			t.Errorf("%q: isError %v, %+v", prefix, res.IsError, out)
		}
	}
	if _, out := listTool(t, cs, "logs/a"); out.Objects[0].Size != 10 || out.Objects[0].Modified.IsZero() {
		t.Errorf("%+v", out)
	}
	for _, prefix := range []string{"/", "../", "a/../b"} {
		if res, _ := listTool(t, cs, prefix); !res.IsError {
			t.Errorf("%q: listed", prefix)
		}
	}
}

// Listing needs no elicitation.
func TestListToolIsCut(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 1001 {
		f.write(t, fmt.Sprintf("n/%04d", i))
	}
	cs := connect(t, f.server(t), newClient(nil, false), legacy)
	if _, out := listTool(t, cs, ""); !out.Truncated || len(out.Objects) != 1000 || out.Objects[999].Name != "n/0999" {
		t.Errorf("truncated %v, %d objects", out.Truncated, len(out.Objects))
	}
	if _, out := listTool(t, cs, "n/0"); out.Truncated || len(out.Objects) != 1000 {
		t.Errorf("truncated %v, %d objects", out.Truncated, len(out.Objects))
	}
}
