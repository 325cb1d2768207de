package storagejanitor_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/replay"
)

// A janitor on stdio has one user and one process: a key and stores that end with
// it will do.
func Example() {
	ctx := context.Background()
	bucket, err := os.MkdirTemp("", "bucket")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(bucket)
	for _, name := range []string{"monday.log", "tuesday.log", "report.pdf"} {
		if err := os.WriteFile(filepath.Join(bucket, name), []byte("..."), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	claims := claimcheck.NewMemory(nil)
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{
		Audience: "storage-janitor",
		Replay:   replay.NewMemory(nil),
		Claims:   claims,
	})
	if err != nil {
		log.Fatal(err)
	}
	janitor, err := storagejanitor.New(&storagejanitor.Options{Bucket: bucket, Claims: claims})
	if err != nil {
		log.Fatal(err)
	}
	defer janitor.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "storage-janitor", Version: "1"}, nil)
	janitor.Register(server)
	server.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Principal: mcpsdk.Fixed("local")}))

	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			fmt.Println("?", r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
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
	for _, prefix := range []string{"monday", "monday"} {
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: storagejanitor.PurgeTool, Arguments: map[string]any{"prefix": prefix}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// ? Purge 1 object(s) under 'monday'? monday.log (3 bytes in all)
	// Purged 1 object(s): monday.log.
	// Nothing to purge: no object matches.
}
