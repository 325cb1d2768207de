// Package replaytest checks that a [replay.Store] keeps its promises. Every
// implementation runs it:
//
//	func TestConformance(t *testing.T) {
//		replaytest.Run(t, func(t *testing.T) *replaytest.Harness { … })
//	}
//
// What a store cannot do is said in the negative, so that the harness of a new
// store fails until each point is either there or named.
package replaytest

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/replay"
)

// A Harness is one empty store and the handles by which the suite moves the
// world around it.
type Harness struct {
	// Store is empty and ready.
	Store replay.Store

	// Skew is the clock skew that Store allows; it keeps IDs that much longer.
	Skew time.Duration

	// Clock is the clock of Store. Leave it nil with NoClock if the store goes
	// by the clock of a server; what needs a clock that moves is then skipped.
	Clock   *Clock
	NoClock bool

	// Sweep makes Store forget what it may: all that expired Skew ago, to the very
	// moment. Leave it nil with NoSweep if the
	// backend forgets by itself.
	Sweep   func(ctx context.Context) error
	NoSweep bool

	// Reopen ends Store, as abruptly as the test can, and returns a store on
	// the same data, as after a restart. NotDurable: the data dies with Store.
	Reopen     func(t *testing.T) replay.Store
	NotDurable bool

	// Peer returns another store on the same data, as a second replica has.
	// NotShared: there can be none.
	Peer      func(t *testing.T) replay.Store
	NotShared bool

	// Full makes Store so small that it is full after at most a thousand IDs
	// more. Unbounded: the backend's limit cannot be reached in a test.
	Full      func(t *testing.T)
	Unbounded bool

	// Break takes the backend away until restore is called. CannotBreak: there
	// is nothing that could go away.
	Break       func(t *testing.T) (restore func())
	CannotBreak bool

	// Restored records that Store was restored from a backup now: it refuses
	// what was minted before. Leave it nil if there are no backups of it.
	Restored func(t *testing.T)

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
		{"first use is true, any other false", testOnce},
		{"ids are told apart", testDistinct},
		{"bad ids are errors", testBadIDs},
		{"caller may reuse the id slice", testSliceReuse},
		{"another expires does not free the id", testOtherExpires},
		{"one of 64 concurrent uses is first", testConcurrent},
		{"ended context marks nothing", testContext},
		{"ping marks nothing", testPing},
		{"kept until expiry plus skew", testKept},
		{"fraction of a second is not rounded down", testFraction},
		{"swept id is an error", testSwept},
		{"clock set back does not revive", testClockBack},
		{"never true at the mark", testAtTheMark},
		{"sweep keeps what is live", testSweepKeepsLive},
		{"sweep races use", testSweepRace},
		{"older than the restored store is refused", testRestored},
		{"spent survives a restart", testRestart},
		{"sweep mark survives a restart", testMarkRestart},
		{"spent is seen by a peer", testPeer},
		{"one of 64 concurrent uses over two peers is first", testPeerConcurrent},
		{"sweep mark is seen by a peer", testPeerMark},
		{"full store refuses and evicts nothing", testFull},
		{"broken backend is an error and never true", testBroken},
		{"ids and secrets stay out of errors", testErrors},
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
		{"Secret or NoSecret", h.Secret != "", h.NoSecret},
	} {
		if c.have == c.excuse {
			t.Errorf("harness wants exactly one of %s", c.name)
		}
	}
	if h.Store == nil {
		t.Error("harness has no Store")
	}
	if e, ok := h.Store.(replay.Ephemeral); h.NotDurable && (!ok || !e.Ephemeral()) {
		t.Error("store whose data dies with it does not say that it is Ephemeral")
	} else if ok && e.Ephemeral() && !h.NotDurable {
		t.Error("store says that it is Ephemeral, harness that it is durable")
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
func (h *Harness) live() time.Time { return h.now().Add(10 * time.Minute) }

func (h *Harness) needClock(t *testing.T) {
	t.Helper()
	if h.Clock == nil {
		t.Skip("needs a store with a clock of its own: set Harness.Clock")
	}
}

func (h *Harness) needSweep(t *testing.T) {
	t.Helper()
	h.needClock(t)
	if h.Sweep == nil {
		t.Skip("needs a store that sweeps when told: set Harness.Sweep")
	}
}

func (h *Harness) sweep(t *testing.T) {
	t.Helper()
	if h.Sweep == nil {
		return // it forgets by itself, at any time
	}
	if err := h.Sweep(t.Context()); err != nil {
		t.Fatalf("Sweep: %v", err)
	}
}

// freshID is 16 random bytes.
func freshID() []byte {
	id := make([]byte, 16)
	rand.Read(id)
	return id
}

func use(t *testing.T, s replay.Store, id []byte, expires time.Time, want bool) {
	t.Helper()
	first, err := s.Use(t.Context(), id, expires)
	if err != nil {
		t.Fatalf("Use: %v; want %v", err, want)
	}
	if first != want {
		t.Fatalf("Use = %v, want %v", first, want)
	}
}

// never fails if an ID that was spent is reported as first.
func never(t *testing.T, s replay.Store, id []byte, expires time.Time) {
	t.Helper()
	if first, err := s.Use(t.Context(), id, expires); first {
		t.Fatalf("Use = true, %v for a spent id", err)
	}
}
