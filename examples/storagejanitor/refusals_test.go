package storagejanitor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/examples/storagejanitor"
)

func TestClientThatCannotAsk(t *testing.T) {
	for _, version := range []string{modern, legacy} {
		for name, caps := range map[string]*mcp.ClientCapabilities{
			"nothing":  {},
			"URL mode": {Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		} {
			f := newFixture(t, nil)
			c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "test"}, &mcp.ClientOptions{Capabilities: caps})
			res := purge(t, connect(t, f.server(t), c, version), logs(t, f))
			output(t, res, storagejanitor.OutcomeRefused)
			if !res.IsError || !strings.Contains(textOf(res), "does not declare elicitation") || f.claims.issued != 0 {
				t.Errorf("%s, %s: isError %v, %q, %d plans parked", version, name, res.IsError, textOf(res), f.claims.issued)
			}
			f.wasDeleted(t)
		}
	}
	t.Run("old protocol, stateless HTTP", func(t *testing.T) {
		f := newFixture(t, nil)
		f.protect.Principal = nil
		cs := dial(t, newClient(&asker{answer: yes}, false), serve(t, f.server(t), true), "alice", legacy)
		res := purge(t, cs, logs(t, f))
		output(t, res, storagejanitor.OutcomeRefused)
		// It did declare elicitation: that is not what is wrong.
		if text := textOf(res); strings.Contains(text, "declare") || !strings.Contains(text, "2026-07-28") || !strings.Contains(text, "stdio") {
			t.Errorf("told %q", text)
		}
		f.wasDeleted(t)
	})
	t.Run("old protocol, stateful HTTP", func(t *testing.T) {
		f := newFixture(t, nil)
		f.protect.Principal = nil
		c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "test"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
		res := purge(t, dial(t, c, serve(t, f.server(t), false), "alice", legacy), logs(t, f))
		if !strings.Contains(textOf(res), "does not declare elicitation") {
			t.Errorf("told %q", textOf(res))
		}
	})
}

func TestClaimStoreDown(t *testing.T) {
	told := func(t *testing.T, f *fixture, res *mcp.CallToolResult) {
		t.Helper()
		text := textOf(res)
		if !res.IsError || !strings.Contains(text, "nothing was deleted") || strings.Contains(text, "urged") || strings.Contains(text, "10.1.2.3") {
			t.Errorf("isError %v, %q", res.IsError, text)
		}
		f.wasDeleted(t)
	}
	t.Run("issue", func(t *testing.T) {
		f := newFixture(t, nil)
		f.claims.downIssue = true
		told(t, f, purge(t, f.manual(t), logs(t, f)))
	})
	t.Run("redeem", func(t *testing.T) {
		f := newFixture(t, nil)
		a, cs := logs(t, f), f.manual(t)
		asked := purge(t, cs, a)
		f.claims.downRedeem = true
		told(t, f, mustRetry(t, cs, a, asked, yes("")))
	})
	t.Run("revoke", func(t *testing.T) {
		f := newFixture(t, nil)
		a, cs := logs(t, f), f.manual(t)
		asked := purge(t, cs, a)
		f.claims.downRevoke = true
		told(t, f, mustRetry(t, cs, a, asked, &mcp.ElicitResult{Action: "decline"}))
	})
	t.Run("full", func(t *testing.T) {
		f := newFixture(t, nil)
		f.claims.Store = claimcheck.NewMemory(&claimcheck.MemoryOptions{MaxClaims: 1})
		a, cs := logs(t, f), f.manual(t)
		question(t, purge(t, cs, a))
		told(t, f, purge(t, cs, a))
	})
	t.Run("plan too large", func(t *testing.T) {
		f := newFixture(t, nil)
		f.claims.Store = claimcheck.NewMemory(&claimcheck.MemoryOptions{MaxPayloadBytes: 10})
		output(t, purge(t, f.manual(t), logs(t, f)), storagejanitor.OutcomeRefused)
	})
	t.Run("other plan", func(t *testing.T) {
		f := newFixture(t, nil)
		a, cs := logs(t, f), f.manual(t)
		asked := purge(t, cs, a)
		f.claims.Store = swapped{f.claims.Store}
		told(t, f, mustRetry(t, cs, a, asked, yes("")))
	})
}

// swapped gives out another payload than was parked.
type swapped struct{ claimcheck.Store }

func (s swapped) Redeem(ctx context.Context, claim, by string) ([]byte, error) {
	_, err := s.Store.Redeem(ctx, claim, by)
	return []byte(`{"v":1,"objects":[{"n":"secrets/key","s":11,"t":0}]}`), err
}
