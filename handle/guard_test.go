package handle_test

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/handle"
	"github.com/foilmcp/foil/handle/handletest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/replay"
)

func newGuard(t *testing.T, codec foil.Codec, spent replay.Store, now func() time.Time) *foil.Guard {
	t.Helper()
	g, err := foil.New(codec, &foil.Options{Audience: "storage", Replay: spent, Now: now,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// durable hides that a memory of spent tokens dies with the process: so does the
// test.
type durable struct{ replay.Store }

func newReplay(now func() time.Time) replay.Store {
	return durable{replay.NewMemory(&replay.MemoryOptions{Now: now})}
}

func request(who string) foil.Request {
	return foil.Request{Method: foil.MethodToolsCall, Target: "purge", Arguments: []byte(`{"prefix":"logs/"}`),
		Principal: foil.OAuth("app", "https://issuer.example", who)}
}

func wantReason(t *testing.T, err error, want foil.Reason) {
	t.Helper()
	if foil.ReasonOf(err) != want || !errors.Is(err, foil.ErrInvalid) {
		t.Errorf("got %v, want reason %s", err, want)
	}
}

func TestGuard(t *testing.T) {
	clock := handletest.NewClock(time.Unix(1_800_000_000, 0))
	store, spent := newShared(clock.Now), newReplay(clock.Now)
	g := newGuard(t, newCodec(t, store, nil), spent, clock.Now)
	peer := newGuard(t, newCodec(t, store, nil), spent, clock.Now) // a second replica

	// The state is larger than any token may be; a claim check may be in it.
	state := strings.Repeat("x", 2*foil.DefaultMaxToken) + "foil-claim.abc"
	token, err := g.Seal(t.Context(), request("alice"), foil.Outgoing{State: state})
	if err != nil {
		t.Fatal(err)
	}
	if len(token) != 46 {
		t.Errorf("token has %d bytes, want 46", len(token))
	}
	_, err = peer.Open(t.Context(), request("mallory"), token)
	wantReason(t, err, foil.ReasonPrincipal)
	other := request("alice")
	other.Arguments = []byte(`{"prefix":""}`)
	_, err = peer.Open(t.Context(), other, token)
	wantReason(t, err, foil.ReasonArguments)
	tampered := []byte(token)
	tampered[20] ^= 1 // another character of the alphabet or none of it
	_, err = peer.Open(t.Context(), request("alice"), string(tampered))
	if !errors.Is(err, foil.ErrInvalid) {
		t.Errorf("a tampered handle: %v", err)
	}
	opened, err := peer.Open(t.Context(), request("alice"), token)
	if err != nil {
		t.Fatal(err)
	}
	if opened.State() != state {
		t.Errorf("opened %d bytes that are not the %d of the state", len(opened.State()), len(state))
	}
	_, err = g.Open(t.Context(), request("alice"), token)
	wantReason(t, err, foil.ReasonReplayed)

	// The next round of the flow.
	token, err = peer.Seal(t.Context(), request("alice"), foil.Outgoing{State: "2", Prev: opened})
	if err != nil {
		t.Fatal(err)
	}
	if opened, err = g.Open(t.Context(), request("alice"), token); err != nil || opened.State() != "2" {
		t.Errorf("second round: %v", err)
	}
}

// An honest client that is late learns nothing else than before; for the operator
// the reason is expired as long as the payload is there.
func TestGuardExpiry(t *testing.T) {
	clock := handletest.NewClock(time.Unix(1_800_000_000, 0))
	g := newGuard(t, newCodec(t, newShared(clock.Now), nil), newReplay(clock.Now), clock.Now)
	token, err := g.Seal(t.Context(), request("alice"), foil.Outgoing{})
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(foil.DefaultTTL)
	_, err = g.Open(t.Context(), request("alice"), token)
	wantReason(t, err, foil.ReasonExpired)
	clock.Advance(handle.DefaultSkew)
	_, err = g.Open(t.Context(), request("alice"), token)
	wantReason(t, err, foil.ReasonUnknownKey)
}

// While the store is away a good handle and a forged one look the same.
func TestGuardWithoutTheStore(t *testing.T) {
	clock := handletest.NewClock(time.Unix(1_800_000_000, 0))
	store := newShared(clock.Now)
	g := newGuard(t, newCodec(t, store, nil), newReplay(clock.Now), clock.Now)
	token, err := g.Seal(t.Context(), request("alice"), foil.Outgoing{})
	if err != nil {
		t.Fatal(err)
	}
	store.err = errors.New("no backend")
	for _, tok := range []string{token, "r1." + strings.Repeat("A", 43)} {
		_, err := g.Open(t.Context(), request("alice"), tok)
		if !errors.Is(err, foil.ErrUnavailable) || errors.Is(err, foil.ErrInvalid) {
			t.Errorf("Open: %v, want ErrUnavailable", err)
		}
		if w := foil.Wire(err); w.Code != -32603 {
			t.Errorf("the client is told %d", w.Code)
		}
	}
	if _, err := g.Seal(t.Context(), request("alice"), foil.Outgoing{}); !errors.Is(err, foil.ErrUnavailable) {
		t.Errorf("Seal: %v, want ErrUnavailable", err)
	}
	store.err = nil
	clock.Advance(time.Second)
	if _, err := g.Open(t.Context(), request("alice"), token); err != nil {
		t.Errorf("when the store is back: %v", err)
	}
}

// A fleet moves from tokens to handles and back.
func TestMigrate(t *testing.T) {
	clock := handletest.NewClock(time.Unix(1_800_000_000, 0))
	ring, err := keyring.NewRing(clock.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v1, err := aesgcm.New(keyring.Fixed(ring), &aesgcm.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	r1 := newCodec(t, newShared(clock.Now), nil)
	for _, way := range []struct{ to, from foil.Codec }{{r1, v1}, {v1, r1}} {
		until := clock.Now().Add(5 * time.Minute)
		m, err := foil.Migrate(way.to, way.from, until, &foil.MigrateOptions{Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		if !m.Encrypts() || m.KeyLimits().MaxTTL != ring.MaxTTL() || m.KeyLimits().Skew < handle.DefaultSkew || m.KeyLimits().Ephemeral {
			t.Errorf("Encrypts %t, KeyLimits %+v", m.Encrypts(), m.KeyLimits())
		}
		spent := newReplay(clock.Now)
		before, g := newGuard(t, way.from, spent, clock.Now), newGuard(t, m, spent, clock.Now)
		var old []string
		for range 2 {
			token, err := before.Seal(t.Context(), request("alice"), foil.Outgoing{State: "old"})
			if err != nil {
				t.Fatal(err)
			}
			old = append(old, token)
		}
		token, err := g.Seal(t.Context(), request("alice"), foil.Outgoing{State: "new"})
		if err != nil {
			t.Fatal(err)
		}
		if p := way.to.(foil.Prefixer).Prefix(); !strings.HasPrefix(token, p) {
			t.Errorf("sealed %.3q, want %q", token, p)
		}
		for tok, state := range map[string]string{old[0]: "old", token: "new"} {
			opened, err := g.Open(t.Context(), request("alice"), tok)
			if err != nil || opened.State() != state {
				t.Errorf("Open of the %s format: %v", state, err)
			}
			_, err = g.Open(t.Context(), request("alice"), tok)
			wantReason(t, err, foil.ReasonReplayed)
		}
		clock.Advance(5 * time.Minute)
		_, err = g.Open(t.Context(), request("alice"), old[1])
		wantReason(t, err, foil.ReasonMalformed)
	}
}

// A memory of spent tokens may die with the process only if the handles do.
func TestGuardAsksWhetherHandlesDie(t *testing.T) {
	o := &foil.Options{Audience: "storage", Replay: replay.NewMemory(nil)}
	if _, err := foil.New(newCodec(t, handle.NewMemory(nil), nil), o); err != nil {
		t.Errorf("both die: %v", err)
	}
	if _, err := foil.New(newCodec(t, newShared(nil), nil), o); err == nil {
		t.Error("handles outlive the memory of spent ones: no error")
	}
}
