package handle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/codectest"
	"github.com/foilmcp/foil/handle"
	"github.com/foilmcp/foil/handle/handletest"
	"github.com/foilmcp/foil/signed"
)

// shared is a store that replicas share and that can go away; it counts calls.
type shared struct {
	memory *handle.Memory // not embedded: shared is not ephemeral
	err    error
	calls  atomic.Int64
}

func newShared(now func() time.Time) *shared {
	return &shared{memory: handle.NewMemory(&handle.MemoryOptions{Now: now})}
}

func (s *shared) Put(ctx context.Context, key [32]byte, payload []byte, expires time.Time) error {
	s.calls.Add(1)
	if s.err != nil {
		return s.err
	}
	return s.memory.Put(ctx, key, payload, expires)
}

func (s *shared) Get(ctx context.Context, key [32]byte) ([]byte, bool, error) {
	s.calls.Add(1)
	if s.err != nil {
		return []byte("what a broken store gives"), true, s.err
	}
	return s.memory.Get(ctx, key)
}

func newCodec(t *testing.T, store handle.Store, opts *handle.Options) *handle.Codec {
	t.Helper()
	c, err := handle.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	codectest.Run(t, func(t *testing.T) *codectest.Harness {
		store := newShared(nil)
		return &codectest.Harness{
			Codec:   newCodec(t, store, nil),
			Peer:    func(t *testing.T) foil.Codec { return newCodec(t, store, nil) },
			Other:   func(t *testing.T) foil.Codec { return newCodec(t, newShared(nil), nil) },
			Foreign: func(*testing.T) []foil.Codec { return []foil.Codec{aesgcm.Ephemeral(), signed.Ephemeral()} },
			Break: func(*testing.T) func() {
				store.err = errors.New("no backend")
				return func() { store.err = nil }
			},
			CannotRevoke: true,
			MaxPayload:   handle.DefaultMaxPayload,
		}
	})
}

func TestMemoryCodecConformance(t *testing.T) {
	codectest.Run(t, func(t *testing.T) *codectest.Harness {
		return &codectest.Harness{
			Codec: newCodec(t, handle.NewMemory(nil), nil), Ephemeral: true, SoleFormat: true, CannotRevoke: true, CannotBreak: true,
			Other: func(t *testing.T) foil.Codec { return newCodec(t, handle.NewMemory(nil), nil) },
		}
	})
}

func seal(t *testing.T, c foil.Codec, payload string, expires time.Time) string {
	t.Helper()
	token, err := c.Seal(t.Context(), []byte(payload), expires)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// The store has SHA-256 of the whole token, and not the token.
func TestKey(t *testing.T) {
	store := newShared(nil)
	token := seal(t, newCodec(t, store, nil), "payload", time.Now().Add(time.Minute))
	raw, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimPrefix(token, "r1."))
	if err != nil || len(raw) != 32 || !strings.HasPrefix(token, "r1.") {
		t.Fatalf("token has %d random bytes, %v", len(raw), err)
	}
	payload, found, err := store.memory.Get(t.Context(), sha256.Sum256([]byte(token)))
	if string(payload) != "payload" || !found || err != nil {
		t.Errorf("under SHA-256 of the token: %q, %t, %v", payload, found, err)
	}
}

// A client that sends what cannot be a handle costs the store nothing.
func TestSpellingIsCheckedFirst(t *testing.T) {
	store := newShared(nil)
	c := newCodec(t, store, nil)
	token := seal(t, c, "payload", time.Now().Add(time.Minute))
	store.err = errors.New("must not be called")
	before := store.calls.Load()
	for _, bad := range []string{
		"", "r1.", token[:45], token + "A", token + "=", token + "\n", "R1" + token[2:], "v1" + token[2:], token[:45] + "\n",
		token[:45] + "B", // bits that no byte has
		token[:20] + "+" + token[21:], strings.Repeat("A", 1<<20),
	} {
		if payload, err := c.Open(t.Context(), bad); payload != nil || foil.ReasonOf(err) != foil.ReasonMalformed {
			t.Errorf("%.60q: %q, %v; want malformed", bad, payload, err)
		}
	}
	if n := store.calls.Load() - before; n != 0 {
		t.Errorf("the store was called %d times", n)
	}
}

// Payloads are kept beyond expires for the skew, and no longer.
func TestKeptForTheSkew(t *testing.T) {
	for _, o := range []*handle.Options{nil, {Skew: 7 * time.Second}} {
		skew := handle.DefaultSkew
		if o != nil {
			skew = o.Skew
		}
		clock := handletest.NewClock(time.Unix(1_800_000_000, 0))
		c := newCodec(t, handle.NewMemory(&handle.MemoryOptions{Now: clock.Now}), o)
		if got := c.KeyLimits().Skew; got != skew {
			t.Errorf("KeyLimits.Skew = %v, want %v", got, skew)
		}
		token := seal(t, c, "payload", clock.Now().Add(time.Minute))
		clock.Advance(time.Minute + skew - 1)
		if _, err := c.Open(t.Context(), token); err != nil {
			t.Errorf("just before expires and %v: %v", skew, err)
		}
		clock.Advance(1)
		if _, err := c.Open(t.Context(), token); foil.ReasonOf(err) != foil.ReasonUnknownKey {
			t.Errorf("at expires and %v: %v, want unknown_key", skew, err)
		}
	}
}

func TestLimits(t *testing.T) {
	c := newCodec(t, newShared(nil), &handle.Options{MaxPayload: 10})
	if token, err := c.Seal(t.Context(), make([]byte, 11), time.Now().Add(time.Minute)); token != "" || err == nil || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("Seal of 11 bytes of 10 = %q, %v", token, err)
	}
	seal(t, c, "0123456789", time.Now().Add(time.Minute))
	if token, err := c.Seal(t.Context(), nil, time.Time{}); token != "" || err == nil {
		t.Errorf("Seal without an end = %q, %v", token, err)
	}
	for _, o := range []handle.Options{{MaxPayload: -1}, {Skew: -1}, {StoreTimeout: -1}} {
		if _, err := handle.New(newShared(nil), &o); err == nil {
			t.Errorf("New with %+v: no error", o)
		}
	}
	if _, err := handle.New(nil, nil); err == nil {
		t.Error("New without a store: no error")
	}
}

// Whatever a store says, it is a failure and no refusal, and what it gives beside
// an error is not used.
func TestStoreFailures(t *testing.T) {
	store := newShared(nil)
	c := newCodec(t, store, nil)
	token := seal(t, c, "payload", time.Now().Add(time.Minute))
	cause := errors.New("disk on fire")
	for _, err := range []error{cause, foil.Reject(foil.ReasonTampered), fmt.Errorf("x: %w", foil.ErrInvalid)} {
		store.err = err
		for _, tok := range []string{token, "r1." + strings.Repeat("A", 43)} {
			payload, got := c.Open(t.Context(), tok)
			if payload != nil || got == nil || errors.Is(got, foil.ErrInvalid) || foil.ReasonOf(got) != "" {
				t.Errorf("Open = %q, %v; want a failure", payload, got)
			}
			if err == cause && !errors.Is(got, cause) {
				t.Errorf("Open: %v does not tell the cause", got)
			}
		}
		if tok, got := c.Seal(t.Context(), nil, time.Now().Add(time.Minute)); tok != "" || got == nil || errors.Is(got, foil.ErrInvalid) {
			t.Errorf("Seal = %q, %v; want a failure", tok, got)
		}
		if got := c.Ping(t.Context()); got == nil || errors.Is(got, foil.ErrInvalid) {
			t.Errorf("Ping = %v; want a failure", got)
		}
	}
}

// stuck is a store that answers only when its caller gives up.
type stuck struct{}

func (stuck) Put(ctx context.Context, _ [32]byte, _ []byte, _ time.Time) error {
	<-ctx.Done()
	return ctx.Err()
}

func (stuck) Get(ctx context.Context, _ [32]byte) ([]byte, bool, error) {
	<-ctx.Done()
	return nil, false, ctx.Err()
}

type stuckPinger struct{ stuck }

func (stuckPinger) Ping(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestStoreTimeout(t *testing.T) {
	for _, store := range []handle.Store{stuck{}, stuckPinger{}} {
		c := newCodec(t, store, &handle.Options{StoreTimeout: time.Millisecond})
		if _, err := c.Seal(t.Context(), nil, time.Now().Add(time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Seal: %v", err)
		}
		if _, err := c.Open(t.Context(), "r1."+strings.Repeat("A", 43)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, foil.ErrInvalid) {
			t.Errorf("Open: %v", err)
		}
		if err := c.Ping(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Ping: %v", err)
		}
	}
}

type pinged struct {
	*shared
	err   error
	pings int
}

func (p *pinged) Ping(context.Context) error { p.pings++; return p.err }

func TestPing(t *testing.T) {
	store := newShared(nil)
	c := newCodec(t, store, nil)
	if err := c.Ping(t.Context()); err != nil || store.calls.Load() != 1 {
		t.Errorf("Ping of a store that only gets: %v after %d calls", err, store.calls.Load())
	}
	p := &pinged{shared: newShared(nil)}
	c = newCodec(t, p, nil)
	if err := c.Ping(t.Context()); err != nil || p.pings != 1 {
		t.Errorf("Ping: %v after %d pings", err, p.pings)
	}
	p.err = errors.New("away")
	if err := c.Ping(t.Context()); !errors.Is(err, p.err) {
		t.Errorf("Ping: %v, want the store's error", err)
	}
}

// A codec over a store prints nothing of it.
func TestPrints(t *testing.T) {
	c := newCodec(t, handle.NewMemory(nil), nil)
	seal(t, c, "a secret payload", time.Now().Add(time.Minute))
	var all bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		fmt.Fprintf(&all, verb+verb, c, c)
	}
	if got := strings.ReplaceAll(all.String(), "handle.Codec", ""); got != "" {
		t.Errorf("printed %.200s", got)
	}
}
