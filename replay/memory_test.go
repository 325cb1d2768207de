package replay_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/replay/replaytest"
)

func newHarness(*testing.T) *replaytest.Harness {
	clock := replaytest.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 123_456_789, time.UTC))
	m := replay.NewMemory(&replay.MemoryOptions{MaxIDs: 900, Now: clock.Now})
	return &replaytest.Harness{
		Store:       m,
		Skew:        replay.DefaultSkew,
		Clock:       clock,
		Sweep:       func(ctx context.Context) error { _, err := m.Sweep(ctx); return err },
		NotDurable:  true,
		NotShared:   true,
		Full:        func(t *testing.T) {},
		CannotBreak: true,
		NoSecret:    true,
	}
}

func TestMemoryConformance(t *testing.T) { replaytest.Run(t, newHarness) }

func TestMemoryDeferredConformance(t *testing.T) { replaytest.RunDeferred(t, newHarness) }

func id(n int) []byte { return binary.BigEndian.AppendUint64(make([]byte, 8, 16), uint64(n)) }

func TestMemoryRecoversWhenIDsExpire(t *testing.T) {
	clock := replaytest.NewClock(time.Unix(1_800_000_000, 0))
	m := replay.NewMemory(&replay.MemoryOptions{MaxIDs: 3, Skew: time.Second, Now: clock.Now})
	expires := clock.Now().Add(time.Minute)
	for i := range 3 {
		if first, err := m.Use(t.Context(), id(i), expires); !first || err != nil {
			t.Fatalf("Use = %v, %v", first, err)
		}
	}
	if _, err := m.Use(t.Context(), id(3), expires); !errors.Is(err, replay.ErrFull) {
		t.Fatalf("Use of a full store: %v, want ErrFull", err)
	}
	if err := m.Ping(t.Context()); !errors.Is(err, replay.ErrFull) {
		t.Fatalf("Ping of a full store: %v, want ErrFull", err)
	}
	if first, err := m.Use(t.Context(), id(0), expires); first || err != nil {
		t.Fatalf("Use of a spent id in a full store = %v, %v; want false", first, err)
	}
	clock.Advance(time.Minute + time.Second) // exactly expires plus skew
	if err := m.Ping(t.Context()); err != nil {
		t.Fatalf("Ping when the ids have expired: %v", err)
	}
	if first, err := m.Use(t.Context(), id(3), clock.Now().Add(time.Minute)); !first || err != nil {
		t.Fatalf("Use when the ids have expired = %v, %v", first, err)
	}
}

func TestMemorySweepCounts(t *testing.T) {
	clock := replaytest.NewClock(time.Unix(1_800_000_000, 0))
	m := replay.NewMemory(&replay.MemoryOptions{Now: clock.Now})
	for i := range 1000 {
		expires := clock.Now().Add(time.Duration(1+i/100) * time.Minute)
		if _, err := m.Use(t.Context(), id(i), expires); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(3*time.Minute + replay.DefaultSkew)
	if n, err := m.Sweep(t.Context()); n != 300 || err != nil {
		t.Errorf("Sweep = %d, %v; want 300", n, err)
	}
	if n, err := m.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("second Sweep = %d, %v; want 0", n, err)
	}
}

// Without a sweep by anybody the store stays as large as what is live.
func TestMemorySweepsInPassing(t *testing.T) {
	clock := replaytest.NewClock(time.Unix(1_800_000_000, 0))
	m := replay.NewMemory(&replay.MemoryOptions{MaxIDs: 1000, Skew: time.Second, Now: clock.Now})
	for i := range 20_000 {
		clock.Advance(50 * time.Millisecond)
		if first, err := m.Use(t.Context(), id(i), clock.Now().Add(30*time.Second)); !first || err != nil {
			t.Fatalf("Use %d = %v, %v", i, first, err)
		}
	}
}

func TestMemoryPrintsNothing(t *testing.T) {
	m := replay.NewMemory(nil)
	if _, err := m.Use(t.Context(), []byte("the-id-of-a-token"), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(verb, m); got != "replay.Memory" {
			t.Errorf("%s printed %s", verb, got)
		}
	}
}

// A million live IDs must fit into 100 MB; otherwise the default bound is no
// bound.
func TestMemoryBytesPerID(t *testing.T) {
	perID, _ := fill(t, 100_000)
	t.Logf("%.1f bytes per ID", perID)
	if perID > 100 {
		t.Errorf("%.1f bytes per ID, want at most 100", perID)
	}
}

func fill(t testing.TB, n int) (bytesPerID float64, m *replay.Memory) {
	now := time.Now()
	m = replay.NewMemory(&replay.MemoryOptions{Now: func() time.Time { return now }})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		expires := now.Add(10*time.Minute + time.Duration(i%600)*time.Second)
		if first, err := m.Use(context.Background(), id(i), expires); !first || err != nil {
			t.Fatalf("Use %d = %v, %v", i, first, err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	return (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / float64(n), m
}

func BenchmarkMemoryUse(b *testing.B) {
	m := replay.NewMemory(&replay.MemoryOptions{MaxIDs: 1 << 30})
	expires := time.Now().Add(10 * time.Minute)
	for i := 0; b.Loop(); i++ {
		if first, err := m.Use(context.Background(), id(i), expires); !first || err != nil {
			b.Fatalf("Use = %v, %v", first, err)
		}
	}
}

func BenchmarkMemoryMillionIDs(b *testing.B) {
	for b.Loop() {
		perID, m := fill(b, 1_000_000)
		b.ReportMetric(perID, "B/ID")
		runtime.KeepAlive(m)
	}
}
