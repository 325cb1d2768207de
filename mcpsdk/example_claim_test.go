package mcpsdk_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/replay"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A large plan stays on the server as a claim check; only the claim travels in
// the sealed state. It is redeemed once, and a decline revokes it.
func ExampleOpened() {
	plans := claimcheck.NewMemory(nil)
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{Audience: "storage", Replay: replay.NewMemory(nil), Claims: plans})
	if err != nil {
		log.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "storage", Version: "1"}, nil)
	server.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Principal: mcpsdk.Fixed("local")}))
	mcp.AddTool(server, &mcp.Tool{Name: "purge"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		question := &mcp.ElicitParams{Message: "Purge 3 objects?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
		answer, status := mcpsdk.Answer(ctx, req, "confirm", question)
		if status != foil.Answered {
			claim, err := plans.Issue(ctx, []byte("a.log b.log c.log"), 10*time.Minute)
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": question}, RequestState: claim}, nil, nil
		}
		claim, claims := req.Params.RequestState, mcpsdk.Opened(ctx).Claims()
		if answer.(*mcp.ElicitResult).Action != "accept" {
			return text("nothing purged"), nil, claims.Revoke(ctx, claim)
		}
		plan, err := claims.Redeem(ctx, claim)
		if err != nil {
			return nil, nil, err
		}
		return text("purged " + string(plan)), nil, nil
	})

	fmt.Println(call(server, "purge", map[string]any{}))
	// Output:
	// asked: Purge 3 objects?
	// purged a.log b.log c.log
}

// Behind a login the defaults find the principal: the verifier sets the subject
// and the issuer.
func ExampleProtect_login() {
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		// A real one checks the token's signature, audience and expiry.
		if token != "good" {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{
			UserID:     "248289761001",
			Expiration: time.Now().Add(time.Hour),
			Extra:      map[string]any{"iss": "https://login.example", "client_id": "desktop"},
		}, nil
	}
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{Audience: "storage", Replay: replay.NewMemory(nil)})
	if err != nil {
		log.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "storage", Version: "1"}, nil)
	server.AddReceivingMiddleware(mcpsdk.Protect(guard, nil))

	// Protocol 2026-07-28 over HTTP needs a stateless handler.
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	site := httptest.NewServer(auth.RequireBearerToken(verify, nil)(handler))
	defer site.Close()

	res, err := http.Post(site.URL, "application/json", nil)
	if err != nil {
		log.Fatal(err)
	}
	res.Body.Close()
	fmt.Println("without a token:", res.Status)
	// Output:
	// without a token: 401 Unauthorized
}
