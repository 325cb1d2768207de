package replaytest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/replay"
)

func testOnce(t *testing.T, h *Harness) {
	id, expires := freshID(), h.live()
	use(t, h.Store, id, expires, true)
	for range 3 {
		use(t, h.Store, id, expires, false)
	}
}

func testDistinct(t *testing.T, h *Harness) {
	long := bytes.Repeat([]byte{0xab}, replay.MaxIDLen)
	twin := bytes.Clone(long)
	twin[len(twin)-1]++
	ids := [][]byte{
		{0}, {0, 0}, {0xff}, []byte("a"), []byte("A"), []byte("a\x00"), []byte("a "), []byte("0"), []byte("00"),
		long, twin, long[:len(long)-1], long[:16], long[:32],
		[]byte("'; DROP TABLE spent; --"), {0xc3, 0x28}, []byte("%"), []byte("a\r\n"),
	}
	for _, id := range ids {
		first, err := h.Store.Use(t.Context(), id, h.live())
		if err != nil || !first {
			t.Errorf("Use(%q) = %v, %v; want true: no other id is equal to it", id, first, err)
		}
	}
	for _, id := range ids {
		first, err := h.Store.Use(t.Context(), id, h.live())
		if err != nil || first {
			t.Errorf("second Use(%q) = %v, %v; want false", id, first, err)
		}
	}
}

func testBadIDs(t *testing.T, h *Harness) {
	for _, id := range [][]byte{nil, {}, make([]byte, replay.MaxIDLen+1), make([]byte, 1<<16)} {
		if first, err := h.Store.Use(t.Context(), id, h.live()); first || err == nil {
			t.Errorf("Use with an id of %d bytes = %v, %v; want an error", len(id), first, err)
		}
	}
	for _, expires := range []time.Time{{}, time.Unix(0, 0), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<60, 0), time.Unix(1<<63-1, 999_999_999)} {
		if first, err := h.Store.Use(t.Context(), freshID(), expires); first || err == nil {
			t.Errorf("Use with expires at Unix %d = %v, %v; want an error", expires.Unix(), first, err)
		}
	}
	id, last := freshID(), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	use(t, h.Store, id, last, true)
	use(t, h.Store, id, last, false)
}

func testSliceReuse(t *testing.T, h *Harness) {
	id, expires := freshID(), h.live()
	spent := bytes.Clone(id)
	use(t, h.Store, id, expires, true)
	for i := range id {
		id[i] ^= 0xff
	}
	use(t, h.Store, spent, expires, false)
	use(t, h.Store, id, expires, true)
}

func testOtherExpires(t *testing.T, h *Harness) {
	id, expires := freshID(), h.live()
	use(t, h.Store, id, expires, true)
	use(t, h.Store, id, expires.Add(time.Hour), false)
	use(t, h.Store, id, expires.Add(-time.Minute), false)
}

// race lets 64 callers at once use each of some IDs, over the given stores.
func race(t *testing.T, h *Harness, stores ...replay.Store) {
	t.Helper()
	const callers, rounds = 64, 20
	for round := range rounds {
		id, expires := freshID(), h.live()
		var firsts atomic.Int32
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				<-start
				first, err := stores[i%len(stores)].Use(t.Context(), id, expires)
				if err != nil {
					t.Errorf("Use: %v", err)
				}
				if first {
					firsts.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		if n := firsts.Load(); n != 1 {
			t.Fatalf("round %d: %d of %d concurrent uses were first, want 1", round, n, callers)
		}
		use(t, stores[0], id, expires, false)
	}
}

func testConcurrent(t *testing.T, h *Harness) { race(t, h, h.Store) }

func testContext(t *testing.T, h *Harness) {
	id, expires := freshID(), h.live()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if first, err := h.Store.Use(ctx, id, expires); first || !errors.Is(err, context.Canceled) {
		t.Fatalf("Use with a cancelled context = %v, %v; want context.Canceled", first, err)
	}
	use(t, h.Store, id, expires, true)
	if first, err := h.Store.Use(ctx, id, expires); first || !errors.Is(err, context.Canceled) {
		t.Fatalf("Use with a cancelled context = %v, %v; want context.Canceled", first, err)
	}
	use(t, h.Store, id, expires, false)
}

func testPing(t *testing.T, h *Harness) {
	p, ok := h.Store.(replay.Pinger)
	if !ok {
		t.Skip("needs a store that implements replay.Pinger")
	}
	id, expires := freshID(), h.live()
	for range 2 {
		if err := p.Ping(t.Context()); err != nil {
			t.Fatalf("Ping: %v", err)
		}
	}
	use(t, h.Store, id, expires, true)
	if err := p.Ping(t.Context()); err != nil {
		t.Fatalf("Ping: %v", err)
	}
	use(t, h.Store, id, expires, false)
}
