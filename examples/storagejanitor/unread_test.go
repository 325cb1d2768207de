package storagejanitor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/mcpsdk"
)

// Both tools work around a directory that cannot be read, and say so.
func TestUnreadableDirectoryIsTold(t *testing.T) {
	s := newSwapper(t, "a/x", "b, c/x", "d/x")
	discard := slog.New(slog.DiscardHandler)
	j, err := New(&Options{Bucket: s.dir, PlanInState: true, Logger: discard})
	s.must(err)
	t.Cleanup(func() { j.Close() })
	j.bucket.between = func(step, name string) error {
		if step == stepEnter && name == "b, c" {
			return errors.New("input/output error")
		}
		return nil
	}
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{Audience: "storage-janitor", Once: foil.Off, Logger: discard})
	s.must(err)
	server := mcp.NewServer(&mcp.Implementation{Name: "storage-janitor", Version: "test"}, nil)
	j.Register(server)
	server.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Principal: mcpsdk.Fixed("local"), Logger: discard}))
	var asked []string
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "test"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked = append(asked, r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
		},
	})
	near, far := mcp.NewInMemoryTransports()
	ss, err := server.Connect(t.Context(), far, nil)
	s.must(err)
	cs, err := client.Connect(t.Context(), near, nil)
	s.must(err)
	t.Cleanup(func() { cs.Close(); ss.Wait() })
	call := func(tool string) (*mcp.CallToolResult, string) {
		t.Helper()
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"prefix": ""}})
		s.must(err)
		return res, res.Content[0].(*mcp.TextContent).Text
	}

	res, text := call(ListTool)
	raw, err := json.Marshal(res.StructuredContent)
	s.must(err)
	var out ListOutput
	s.must(json.Unmarshal(raw, &out))
	if res.IsError || len(out.Objects) != 2 || out.Unread == nil || *out.Unread != (Unread{1, `"b, c/"`}) || !strings.Contains(text, `b, c/`) {
		t.Errorf("listed %s", text)
	}
	const told = ` 1 part(s) of the bucket could not be read and are left out, the first is "b, c/"`
	_, text = call(PurgeTool)
	if len(asked) != 1 || asked[0] != "Purge 2 object(s) in the whole bucket? a/x, d/x (8 bytes in all)."+told {
		t.Errorf("asked %q", asked)
	}
	if want := "Purged 2 object(s): a/x, d/x." + told + "."; text != want {
		t.Errorf("answered %q, want %q", text, want)
	}
	s.there("b, c/x", true)
	if _, text = call(PurgeTool); text != "Nothing to purge: no object matches."+told+"." {
		t.Errorf("answered %q", text)
	}
}
