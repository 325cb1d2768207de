package mcpsdk_test

import (
	"context"
	"fmt"
	"log"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/replay"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server on stdio with a tool that asks before it acts. Behind
// auth.RequireBearerToken the options of Protect may be nil, if the verifier sets
// TokenInfo.UserID and TokenInfo.Extra["iss"].
func ExampleProtect() {
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{Audience: "storage", Replay: replay.NewMemory(nil)})
	if err != nil {
		log.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "storage", Version: "1"}, nil)
	server.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Principal: mcpsdk.Fixed("local")}))

	type input struct {
		Prefix string `json:"prefix"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "purge"}, func(ctx context.Context, req *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		question := &mcp.ElicitParams{Message: "Purge " + in.Prefix + "?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
		answer, status := mcpsdk.Answer(ctx, req, "confirm", question)
		if status != foil.Answered {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": question}, RequestState: "plan 7"}, nil, nil
		}
		if answer.(*mcp.ElicitResult).Action != "accept" {
			return text("nothing purged"), nil, nil
		}
		return text("purged by " + req.Params.RequestState), nil, nil
	})

	fmt.Println(call(server, "purge", map[string]any{"prefix": "logs/"}))
	// Output:
	// asked: Purge logs/?
	// purged by plan 7
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// call connects a client that accepts whatever it is asked.
func call(server *mcp.Server, tool string, args map[string]any) string {
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			fmt.Println("asked:", r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
	})
	near, far := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, far, nil); err != nil {
		log.Fatal(err)
	}
	session, err := client.Connect(ctx, near, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err.Error()
	}
	return res.Content[0].(*mcp.TextContent).Text
}
