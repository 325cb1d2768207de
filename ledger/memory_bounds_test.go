package ledger_test

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/ledger/ledgertest"
)

// TestModelByServerClock is the model where the suite cannot move the clock.
func TestModelByServerClock(t *testing.T) {
	if testing.Short() {
		t.Skip("sleeps: run it without -short")
	}
	if err := fewChecks(t); err != nil {
		t.Fatal(err)
	}
	ledgertest.Model(t, serverHarness)
}

func start(c *clock, n int) *ledger.Start {
	now := c.Now()
	return &ledger.Start{
		ID: [16]byte{14: byte(n >> 8), 15: byte(n)}, Round: 1,
		Expires: now.Add(time.Minute), Lease: time.Minute, Keep: now.Add(time.Minute), Retention: time.Minute,
	}
}

func begin(t *testing.T, m *ledger.Memory, s *ledger.Start) {
	t.Helper()
	if _, started, err := m.Begin(t.Context(), s); !started || err != nil {
		t.Fatalf("Begin: started %v, error %v", started, err)
	}
}

func succeed(t *testing.T, m *ledger.Memory, s *ledger.Start, outcome []byte) {
	t.Helper()
	if err := m.Finish(t.Context(), s.ID, 1, ledger.Finish{State: ledger.Succeeded, Outcome: outcome}); err != nil {
		t.Fatalf("Finish: %v", err)
	}
}

// Beyond MaxTotalBytes nothing begins, but what has begun may end; and what is
// forgotten gives its bytes back.
func TestMemoryMaxTotalBytes(t *testing.T) {
	c := newClock()
	m := ledger.NewMemory(&ledger.MemoryOptions{MaxTotalBytes: 10_000, Skew: time.Second, Now: c.Now})
	a, b := start(c, 1), start(c, 2)
	begin(t, m, a)
	begin(t, m, b)
	if _, err := m.BeginStep(t.Context(), b.ID, 1, "step", time.Minute); err != nil {
		t.Fatalf("BeginStep: %v", err)
	}
	succeed(t, m, a, make([]byte, 10_000))
	if _, _, err := m.Begin(t.Context(), start(c, 3)); !errors.Is(err, ledger.ErrFull) {
		t.Fatalf("Begin beyond MaxTotalBytes: %v, want ErrFull", err)
	}
	if err := m.Ping(t.Context()); !errors.Is(err, ledger.ErrFull) {
		t.Fatalf("Ping beyond MaxTotalBytes: %v, want ErrFull", err)
	}
	if _, err := m.BeginStep(t.Context(), b.ID, 1, "another", time.Minute); !errors.Is(err, ledger.ErrFull) {
		t.Fatalf("BeginStep beyond MaxTotalBytes: %v, want ErrFull", err)
	}
	if _, err := m.BeginStep(t.Context(), b.ID, 1, "step", time.Minute); err != nil {
		t.Fatalf("BeginStep of what had begun: %v", err)
	}
	if err := m.EndStep(t.Context(), b.ID, 1, "step", make([]byte, 1000), time.Minute); err != nil {
		t.Fatalf("EndStep beyond MaxTotalBytes: %v", err)
	}
	succeed(t, m, b, make([]byte, 1000))
	c.Advance(time.Minute + 2*time.Second)
	if err := m.Ping(t.Context()); err != nil {
		t.Fatalf("Ping after what is large is forgotten: %v", err)
	}
	begin(t, m, start(c, 3))
}

// Without a sweep by anybody the store stays as large as what is to be kept.
func TestMemorySweepsInPassing(t *testing.T) {
	c := newClock()
	m := ledger.NewMemory(&ledger.MemoryOptions{MaxOperations: 1000, Skew: time.Second, Now: c.Now})
	for i := range 10_000 {
		c.Advance(100 * time.Millisecond)
		s := start(c, i)
		begin(t, m, s)
		succeed(t, m, s, nil)
	}
	c.Advance(time.Hour)
	if n, err := m.Sweep(t.Context()); n == 0 || n > 620 || err != nil {
		t.Errorf("Sweep = %d, %v; want the operations of the last minute and second", n, err)
	}
	if n, err := m.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("second Sweep = %d, %v; want 0", n, err)
	}
}

func TestMemoryPrintsNothing(t *testing.T) {
	c := newClock()
	m := ledger.NewMemory(&ledger.MemoryOptions{Now: c.Now})
	begin(t, m, start(c, 1))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(verb, m); got != "ledger.Memory" {
			t.Errorf("%s printed %s", verb, got)
		}
	}
}

func TestCursor(t *testing.T) {
	at, id := time.UnixMilli(1_796_040_000_123), [16]byte{1, 15: 0xff}
	gotAt, gotID, err := ledger.ParseCursor(ledger.Cursor(at, id))
	if err != nil || !gotAt.Equal(at) || gotID != id {
		t.Errorf("ParseCursor of a Cursor = %v, %x, %v", gotAt, gotID, err)
	}
	for _, at := range []time.Time{time.UnixMilli(-1), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), time.UnixMilli(1<<63 - 1)} {
		if _, _, err := ledger.ParseCursor(ledger.Cursor(at, id)); err == nil {
			t.Errorf("ParseCursor of a cursor at %v: no error", at)
		}
	}
}

func fewChecks(t *testing.T) error {
	f := flag.Lookup("rapid.checks")
	before := f.Value.String()
	t.Cleanup(func() { _ = f.Value.Set(before) })
	return f.Value.Set("5")
}
