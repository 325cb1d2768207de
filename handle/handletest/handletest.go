// Package handletest checks that a [handle.Store] keeps its promises. Every
// implementation runs it:
//
//	func TestConformance(t *testing.T) {
//		handletest.Run(t, func(t *testing.T) *handletest.Harness { … })
//	}
//
// What a store cannot do is said in the negative, so that the harness of a new
// store fails until each point is either there or named.
package handletest

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/handle"
)

// A Harness is one empty store and the handles by which the suite moves the
// world around it.
type Harness struct {
	// Store is empty and ready. It takes payloads of MaxPayload bytes; 1 MiB if
	// zero.
	Store      handle.Store
	MaxPayload int

	// Skew is the clock skew that Store allows: how long before or after its
	// expires a payload may go.
	Skew time.Duration

	// Clock is the clock of Store. Leave it nil with NoClock if the store goes
	// by the clock of a server; the suite then waits a few seconds instead.
	Clock   *Clock
	NoClock bool

	// Sweep makes Store forget what it may. Leave it nil with NoSweep if the
	// backend forgets by itself.
	Sweep   func(ctx context.Context) error
	NoSweep bool

	// Reopen ends Store, as abruptly as the test can, and returns a store on
	// the same data, as after a restart. NotDurable: the data dies with Store.
	Reopen     func(t *testing.T) handle.Store
	NotDurable bool

	// Peer returns another store on the same data, as a second replica has.
	// NotShared: there can be none.
	Peer      func(t *testing.T) handle.Store
	NotShared bool

	// Full makes Store so small that it is full after at most a thousand
	// payloads more, of 100 bytes each. Unbounded: the backend's limit cannot be
	// reached in a test.
	Full      func(t *testing.T)
	Unbounded bool

	// Break takes the backend away until restore is called. CannotBreak: there
	// is nothing that could go away.
	Break       func(t *testing.T) (restore func())
	CannotBreak bool

	// Raw returns all that the backend keeps, as a thief would have it: every
	// file, or every value. Swap exchanges what is kept for two keys, as
	// somebody with access to the backend could. NotSealed: payloads are not
	// sealed at rest.
	Raw       func(t *testing.T) []byte
	Swap      func(t *testing.T, a, b [32]byte)
	NotSealed bool

	// Secret is what Store authenticates to its backend with, such as the
	// password in a DSN; it must stay out of errors. NoSecret: there is none.
	Secret   string
	NoSecret bool
}

// Run runs the suite. It calls newHarness once for each sub-test.
func Run(t *testing.T, newHarness func(t *testing.T) *Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h *Harness)
	}{
		{"harness is complete", testHarness},
		{"payloads of every size come back", testRoundTrip},
		{"keys are told apart", testDistinct},
		{"what is there is never overwritten", testOverwrite},
		{"one of 64 concurrent puts of a key succeeds", testConcurrent},
		{"caller may reuse the payload", testPayloadReuse},
		{"payloads are the caller's own", testPayloadOwned},
		{"ended context stores nothing", testContext},
		{"ping changes nothing", testPing},
		{"kept until expiry", testKept},
		{"not found after expiry", testExpired},
		{"sweep keeps what is live", testSweepKeepsLive},
		{"payloads survive a restart", testRestart},
		{"payloads are seen by a peer", testPeer},
		{"one of 64 concurrent puts over two peers succeeds", testPeerConcurrent},
		{"full store refuses and forgets nothing", testFull},
		{"expired payloads make room", testRoom},
		{"broken backend is an error and never not found", testBroken},
		{"payloads cannot be seen at rest", testSealed},
		{"swapped payloads are errors", testSwap},
		{"payloads and secrets stay out of errors", testErrors},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newHarness(t)) })
	}
}

func testHarness(t *testing.T, h *Harness) {
	for _, c := range []struct {
		name         string
		have, excuse bool
	}{
		{"Clock or NoClock", h.Clock != nil, h.NoClock},
		{"Sweep or NoSweep", h.Sweep != nil, h.NoSweep},
		{"Reopen or NotDurable", h.Reopen != nil, h.NotDurable},
		{"Peer or NotShared", h.Peer != nil, h.NotShared},
		{"Full or Unbounded", h.Full != nil, h.Unbounded},
		{"Break or CannotBreak", h.Break != nil, h.CannotBreak},
		{"Raw or NotSealed", h.Raw != nil, h.NotSealed},
		{"Swap or NotSealed", h.Swap != nil, h.NotSealed},
		{"Secret or NoSecret", h.Secret != "", h.NoSecret},
	} {
		if c.have == c.excuse {
			t.Errorf("harness wants exactly one of %s", c.name)
		}
	}
	if h.Store == nil {
		t.Error("harness has no Store")
	}
	e, ok := h.Store.(interface{ Ephemeral() bool })
	if says := ok && e.Ephemeral(); says != h.NotDurable {
		t.Errorf("store says Ephemeral %t, harness NotDurable %t", says, h.NotDurable)
	}
}

// A Clock is a clock that moves when told. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows now.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d, back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (h *Harness) now() time.Time {
	if h.Clock != nil {
		return h.Clock.Now()
	}
	return time.Now()
}

// live is an expires far enough away for a test that does not move the clock.
func (h *Harness) live() time.Time { return h.now().Add(h.Skew + 10*time.Minute) }

func (h *Harness) sweep(t *testing.T) {
	t.Helper()
	if h.Sweep == nil {
		return // it forgets by itself, at any time
	}
	if err := h.Sweep(t.Context()); err != nil {
		t.Fatalf("Sweep: %v", err)
	}
}

func freshKey() (key [32]byte) {
	rand.Read(key[:])
	return key
}

func put(t *testing.T, s handle.Store, key [32]byte, payload string, expires time.Time) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(payload), expires); err != nil {
		t.Fatalf("Put of %d bytes: %v", len(payload), err)
	}
}

func found(t *testing.T, s handle.Store, key [32]byte, payload string) {
	t.Helper()
	got, ok, err := s.Get(t.Context(), key)
	if err != nil || !ok {
		t.Fatalf("Get of a payload of %d bytes = found %t, %v; want it found", len(payload), ok, err)
	}
	if string(got) != payload {
		t.Fatalf("Get gave %d bytes that are not the %d that were put", len(got), len(payload))
	}
}

func missing(t *testing.T, s handle.Store, key [32]byte) {
	t.Helper()
	if got, ok, err := s.Get(t.Context(), key); got != nil || ok || err != nil {
		t.Fatalf("Get = %d bytes, found %t, %v; want not found", len(got), ok, err)
	}
}
