package openbao_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/ledger"
)

// TestGuardOnOpenBao lets a Guard live on the server alone: Transit, spent IDs, claims.
func TestGuardOnOpenBao(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		f := newFleet(t, srv, soon)
		g, err := foil.New(f.codec, &foil.Options{
			Audience: "janitor", Replay: f.spent, Claims: f.claims, StoreTimeout: patient, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		req := foil.Request{Method: "tools/call", Target: "purge", Arguments: []byte(`{"prefix":"logs/"}`), Principal: foil.Anonymous()}
		claim := must(f.claims.Issue(ctx, []byte("plan"), time.Minute))(t)
		state, _ := json.Marshal(map[string]string{"claim": claim})
		seal := func() string { return must(g.Seal(ctx, req, foil.Outgoing{State: string(state)}))(t) }
		token, other := seal(), seal()
		if !strings.HasPrefix(token, "vault:v1:") || strings.Contains(token, claim) {
			t.Errorf("a token is %.20s…", token)
		}
		o := must(g.Open(ctx, req, token))(t)
		if got, err := o.Claims().Redeem(ctx, claim); err != nil || string(got) != "plan" {
			t.Errorf("Redeem = %q, %v", got, err)
		}
		if _, err := g.Open(ctx, req, token); foil.ReasonOf(err) != foil.ReasonReplayed {
			t.Errorf("Open again: %v, want replayed", err)
		}
		// While it is away all states get one answer, whatever they are worth.
		f.proxy.Set(baotest.Fault{Cut: true})
		for _, token := range []string{other, token, "vault:v1:forged", other} {
			if _, err := g.Open(ctx, req, token); foil.ReasonOf(err) != "" && token != "vault:v1:forged" || err == nil {
				t.Errorf("Open while the server is away: %v", err)
			}
		}
		f.proxy.Mend()
		eventually(t, "recovery", func() bool {
			o, err := g.Open(ctx, req, other)
			if errors.Is(err, foil.ErrInvalid) {
				t.Fatalf("Open afterwards: %v", err)
			}
			return err == nil && o != nil
		})
	})
}

// aLedger is any that does not die with the process.
type aLedger struct{ ledger.Store }

func TestSettleRefusesWrapping(t *testing.T) {
	f := newFleet(t, baotest.StandIn(t), patient)
	_, err := foil.New(f.codec, &foil.Options{Audience: "a", Once: foil.Settle, Ledger: aLedger{ledger.NewMemory(nil)}, Claims: f.claims})
	if err == nil || !strings.Contains(err.Error(), "IdempotentRedeem") {
		t.Errorf("Settle with claims by wrapping: %v", err)
	}
}
