package foil_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
)

// onceOnly redeems once, whoever asks.
type onceOnly struct{ claimcheck.Store }

func TestSettleOptions(t *testing.T) {
	memory := anyLedger{ledger.NewMemory(nil)}
	good := foil.Options{Audience: "a", Once: foil.Settle, Ledger: memory}
	for name, c := range map[string]struct {
		change func(*foil.Options)
		want   string // "" is no error
	}{
		"good":             {func(*foil.Options) {}, ""},
		"no ledger":        {func(o *foil.Options) { o.Ledger = nil }, "Options.Ledger is nil"},
		"ledger dies":      {func(o *foil.Options) { o.Ledger = ledger.NewMemory(nil) }, "dies with the process"},
		"claims once only": {func(o *foil.Options) { o.Claims = onceOnly{claimcheck.NewMemory(nil)} }, "IdempotentRedeem"},
		"short retention":  {func(o *foil.Options) { o.OutcomeRetention = 59 * time.Minute }, "less than the flow limit"},
		"long retention":   {func(o *foil.Options) { o.OutcomeRetention = 25 * time.Hour }, "longer than the ring's keep"},
		"flow limit":       {func(o *foil.Options) { o.FlowLimit = 25 * time.Hour }, "less than the flow limit"},
		"short lease":      {func(o *foil.Options) { o.Lease = time.Millisecond }, "Lease is less than a second"},
		"negative":         {func(o *foil.Options) { o.MaxOutcome = -1 }, "must not be negative"},
		"resume what": {func(o *foil.Options) {
			o.Resumable, o.Once, o.Replay = true, foil.Redeem, durable{replay.NewMemory(nil)}
		}, "Resumable needs Once: foil.Settle"},
		"deferred":          {func(o *foil.Options) { o.Once, o.Replay = foil.Deferred, durable{replay.NewMemory(nil)} }, "Deferred needs"},
		"deferred good":     {func(o *foil.Options) { o.Once, o.Replay = foil.Deferred, &deferStore{} }, ""},
		"deferred and none": {func(o *foil.Options) { o.Once = foil.Deferred }, "Deferred needs"},
	} {
		t.Run(name, func(t *testing.T) {
			ring, err := keyring.NewRing(epoch, nil)
			if err != nil {
				t.Fatal(err)
			}
			codec, err := aesgcm.New(keyring.Fixed(ring), nil)
			if err != nil {
				t.Fatal(err)
			}
			o := good
			c.change(&o)
			_, err = foil.New(codec, &o)
			if got := c.want == ""; got != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	// A ring that keeps its keys for less than a day bounds the retention.
	ring, err := keyring.NewRing(epoch, &keyring.RingOptions{Keep: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := foil.New(codec, &good); err != nil {
		t.Errorf("two hours: %v", err)
	}
}

func TestOnceNames(t *testing.T) {
	for _, o := range []foil.Once{foil.Redeem, foil.Off, foil.Settle, foil.Deferred} {
		if got, err := foil.ParseOnce(o.String()); err != nil || got != o {
			t.Errorf("%v reads as %v, %v", o, got, err)
		}
	}
	for _, s := range []string{"default", "", "Settle", "Once(9)"} {
		if _, err := foil.ParseOnce(s); err == nil {
			t.Errorf("%q is read", s)
		}
	}
}

// Under Settle an outcome is told again to whoever has the state: that must be
// named twice where nobody logs in.
func TestSettleAnonymous(t *testing.T) {
	req := answering(accepted)
	req.Principal = foil.Anonymous()
	s := newSettled(t, nil)
	if _, err := s.Seal(ctx, req, confirm()); err == nil || !strings.Contains(err.Error(), "SettleAnonymous") {
		t.Errorf("sealed for nobody: %v", err)
	}
	lax := newSettled(t, func(o *foil.Options) { o.SettleAnonymous = true })
	token := lax.seal(t, req, confirm())
	lax.conclude(t, lax.start(t, req, token), foil.Conclusion{Result: []byte(`1`)})
	lax.wantRecorded(t, req, token, `1`)
}

// While the ledger is away, every state gets one answer.
func TestLedgerAway(t *testing.T) {
	away := false
	s := newSettled(t, func(o *foil.Options) {
		o.Ledger = &awayLedger{Store: o.Ledger, away: &away}
	})
	token := s.seal(t, purge(), confirm())
	away = true
	for _, bad := range []string{token, "v1.forged"} {
		if err := openErr(s, answering(accepted), bad); !errors.Is(err, foil.ErrUnavailable) {
			t.Errorf("%.10s: %v", bad, err)
		}
	}
	away = false
	s.now = s.now.Add(time.Second)
	s.conclude(t, s.start(t, answering(accepted), token), foil.Conclusion{Result: []byte(`1`)})
	away = true
	if err := openErr(s, answering(accepted), token); !errors.Is(err, foil.ErrUnavailable) {
		t.Errorf("an outcome that cannot be read: %v", err)
	}
}

type awayLedger struct {
	ledger.Store
	away *bool
}

func (a *awayLedger) Begin(ctx context.Context, s *ledger.Start) (*ledger.Operation, bool, error) {
	if *a.away {
		return nil, true, errDisk
	}
	return a.Store.Begin(ctx, s)
}

func (a *awayLedger) Ping(context.Context) error {
	if *a.away {
		return errDisk
	}
	return nil
}

// What a handler redeems is found again under the operation, by nobody else.
func TestSettleClaim(t *testing.T) {
	s := newSettled(t, nil)
	claim, err := s.checks.Issue(ctx, []byte("plan"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	one := s.start(t, answering(accepted), s.seal(t, purge(), confirm()))
	two := s.start(t, answering(accepted), s.seal(t, purge(), confirm()))
	for range 2 {
		if got, err := one.Claims().Redeem(ctx, claim); err != nil || string(got) != "plan" {
			t.Errorf("redeemed %q, %v", got, err)
		}
	}
	if _, err := two.Claims().Redeem(ctx, claim); !errors.Is(err, claimcheck.ErrRedeemed) {
		t.Errorf("another operation: %v", err)
	}
}
