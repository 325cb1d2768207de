package ledger_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/ledger/ledgertest"
)

// clock moves when told.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 123_456_789, time.UTC)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func memoryHarness(opts ledger.MemoryOptions) *ledgertest.Harness {
	c := newClock()
	opts.Now = c.Now
	m := ledger.NewMemory(&opts)
	return &ledgertest.Harness{
		Store:         m,
		Skew:          ledger.DefaultSkew,
		Now:           c.Now,
		Advance:       c.Advance,
		Sweep:         func(ctx context.Context) error { _, err := m.Sweep(ctx); return err },
		MaxOutcome:    ledger.DefaultOutcome,
		MaxSteps:      ledger.MaxSteps,
		NotDurable:    true,
		NotShared:     true,
		CannotRestore: true,
		Full:          func(*testing.T) {},
		CannotBreak:   true,
		NoSecret:      true,
	}
}

func TestMemoryConformance(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) *ledgertest.Harness {
		return memoryHarness(ledger.MemoryOptions{MaxOperations: 900})
	})
}

// serverHarness is a store whose clock the suite cannot move, as with a server.
func serverHarness(*testing.T) *ledgertest.Harness {
	h := memoryHarness(ledger.MemoryOptions{})
	m := ledger.NewMemory(&ledger.MemoryOptions{MaxOperations: 900, Skew: 10 * time.Millisecond})
	h.Store, h.Skew, h.Now, h.Advance, h.NoClock = m, 10*time.Millisecond, nil, nil, true
	h.Sweep = func(ctx context.Context) error { _, err := m.Sweep(ctx); return err }
	h.MaxSteps, h.ManySteps = 0, true
	return h
}

func TestMemoryByServerClock(t *testing.T) { ledgertest.Run(t, serverHarness) }

func TestMemoryModel(t *testing.T) {
	ledgertest.Model(t, func(*testing.T) *ledgertest.Harness { return memoryHarness(ledger.MemoryOptions{}) })
}
