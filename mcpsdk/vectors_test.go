package mcpsdk_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Every vector of the Python SDK through the middleware: the handler gets the
// state, and duplicate keys are refused before it.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../testdata/vectors/python-sdk.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name      string   `json:"name"`
		Keys      []string `json:"keys_hex"`
		Now       float64  `json:"now_unix"`
		Method    string   `json:"method"`
		Params    string   `json:"params_json"`
		Principal *string  `json:"principal"`
		Audience  *string  `json:"audience"`
		State     string   `json:"state"`
		Token     string   `json:"token"`
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			var secrets [][]byte
			for _, k := range v.Keys {
				b, err := hex.DecodeString(k)
				if err != nil {
					t.Fatal(err)
				}
				secrets = append(secrets, b)
			}
			ring, err := keyring.FromSecrets(secrets...)
			if err != nil {
				t.Fatal(err)
			}
			whole, frac := math.Modf(v.Now)
			now := func() time.Time { return time.Unix(int64(whole), int64(math.Round(frac*1e9))) }
			codec, err := aesgcm.New(keyring.Fixed(ring), &aesgcm.Options{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			o := &foil.Options{NoAudience: v.Audience == nil, Once: foil.Off, Now: now, Logger: slog.New(slog.DiscardHandler)}
			if v.Audience != nil {
				o.Audience = *v.Audience
			}
			guard, err := foil.New(codec, o)
			if err != nil {
				t.Fatal(err)
			}
			who := foil.Anonymous()
			if v.Principal != nil {
				who = foil.PrincipalString(*v.Principal)
			}
			mw := mcpsdk.Protect(guard, &mcpsdk.Options{Logger: o.Logger, Principal: func(context.Context, mcp.Request) (foil.Principal, error) { return who, nil }})

			req, state := vectorRequest(t, v.Method, v.Params, v.Token)
			ran := false
			_, err = mw(func(_ context.Context, _ string, r mcp.Request) (mcp.Result, error) {
				ran = true
				// encoding/json reads a lone surrogate of the vector as U+FFFD.
				if got := strings.ToValidUTF8(state(r), "\ufffd"); got != v.State && !strings.Contains(v.State, "\ufffd") {
					t.Errorf("state %q, want %q", got, v.State)
				}
				switch v.Method {
				case foil.MethodPromptsGet:
					return &mcp.GetPromptResult{}, nil
				case foil.MethodResourcesRead:
					return &mcp.ReadResourceResult{}, nil
				}
				return &mcp.CallToolResult{}, nil
			})(t.Context(), v.Method, req)
			if strings.Contains(v.Name, "duplicate") {
				var wire *jsonrpc.Error
				if ran || !errors.As(err, &wire) || string(wire.Data) != `{"reason":"ambiguous_arguments"}` {
					t.Errorf("duplicate keys: ran %v, %v", ran, err)
				}
				return
			}
			if err != nil || !ran {
				t.Errorf("ran %v, %v", ran, err)
			}
		})
	}
}

// vectorRequest is the request of a vector, and how to read its state.
func vectorRequest(t *testing.T, method, params, token string) (mcp.Request, func(mcp.Request) string) {
	t.Helper()
	into := func(p any) {
		if err := json.Unmarshal([]byte(params), p); err != nil {
			t.Fatal(err)
		}
	}
	switch method {
	case foil.MethodPromptsGet:
		p := new(mcp.GetPromptParams)
		into(p)
		p.RequestState = token
		return &mcp.GetPromptRequest{Params: p}, func(r mcp.Request) string { return r.(*mcp.GetPromptRequest).Params.RequestState }
	case foil.MethodResourcesRead:
		p := new(mcp.ReadResourceParams)
		into(p)
		p.RequestState = token
		return &mcp.ReadResourceRequest{Params: p}, func(r mcp.Request) string { return r.(*mcp.ReadResourceRequest).Params.RequestState }
	}
	p := new(mcp.CallToolParamsRaw)
	into(p)
	p.RequestState = token
	return &mcp.CallToolRequest{Params: p}, func(r mcp.Request) string { return r.(*mcp.CallToolRequest).Params.RequestState }
}
