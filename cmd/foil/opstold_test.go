package main

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/dsn"
)

// A client that comes back after its operation was resolved is told so by the
// server, in a result of its tool, and nothing is executed.
func TestResolvedIsTold(t *testing.T) {
	t.Setenv(storeVariable, "")
	file, storage := storageRing(t)
	name := "sqlite:" + filepath.Join(t.TempDir(), "foil.db")
	sealer, err := atrest.New(keyring.Fixed(storage))
	if err != nil {
		t.Fatal(err)
	}
	s, err := dsn.Open(t.Context(), name, &dsn.Options{AtRest: sealer, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ring, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := foil.New(codec, &foil.Options{
		Audience: "svc", Once: foil.Settle, Ledger: s.Ledger(), Logger: slog.New(slog.DiscardHandler), StoreTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{"succeeded", "failed"} {
		req := foil.Request{Method: foil.MethodToolsCall, Target: "purge-" + as, Principal: foil.OAuth("app", "https://login.example", "alice")}
		token, err := guard.Seal(t.Context(), req, foil.Outgoing{State: "s"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Open(t.Context(), req, token); err != nil {
			t.Fatal(err)
		}
		page, _, err := s.Ledger().List(t.Context(), ledger.Query{State: ledger.Executing})
		if err != nil || len(page) != 1 {
			t.Fatalf("executing are %d, %v", len(page), err)
		}
		if err := s.Ledger().Finish(t.Context(), page[0].ID, page[0].Fence, ledger.Finish{State: ledger.Unknown}); err != nil {
			t.Fatal(err)
		}
		args := []string{"ops", "resolve", idText(page[0].ID), "--as", as, "--by", "ann", "--note", "for-colleagues-only", "--storage-ring", file, "--store", name}
		if as == "succeeded" { // no row is sealed yet: the ring must be vouched for
			if code, _, stderr := foilRun(args...); code != exitRefused || !strings.Contains(stderr, "--unproven-ring") {
				t.Fatalf("an unproven ring: exit code %d\n%s", code, stderr)
			}
			args = append(args, "--unproven-ring")
		}
		if code, stdout, stderr := foilRun(args...); code != exitOK {
			t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
		}
		o, err := guard.Open(t.Context(), req, token)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := o.Recorded()
		if !ok || r.ResolvedBy != "ann" || r.Failed != (as == "failed") {
			t.Fatalf("as %s, recorded is %+v", as, r)
		}
		var result mcp.CallToolResult
		if err := json.Unmarshal(r.Result, &result); err != nil {
			t.Fatal(err)
		}
		if result.IsError != r.Failed || len(result.Content) != 1 || strings.Contains(string(r.Result), "for-colleagues-only") {
			t.Errorf("as %s, the client is told %s", as, r.Result)
		}
	}
}
