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
	for _, expires := range []time.Time{{}, time.Unix(0, 0), time.Unix(1<<60, 0), time.Unix(1<<63-1, 999_999_999)} {
		if first, err := h.Store.Use(t.Context(), freshID(), expires); first || err == nil {
			t.Errorf("Use with expires at Unix %d = %v, %v; want an error", expires.Unix(), first, err)
		}
	}
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

func testKept(t *testing.T, h *Harness) {
	h.needClock(t)
	id := freshID()
	ttl := 10 * time.Minute
	expires := h.now().Add(ttl)
	use(t, h.Store, id, expires, true)
	// The Guard's clock may be behind ours by the skew, so the token is good
	// until the skew is over too.
	step := (ttl + h.Skew) / 20
	for range 19 {
		h.Clock.Advance(step)
		h.sweep(t)
		use(t, h.Store, id, expires, false)
		use(t, h.Store, freshID(), h.live(), true) // whoever sweeps in passing does it now
	}
	h.Clock.Advance(expires.Add(h.Skew).Sub(h.now()) - time.Millisecond)
	h.sweep(t)
	use(t, h.Store, id, expires, false)
}

func testFraction(t *testing.T, h *Harness) {
	h.needClock(t)
	// exp is a number with a fraction. A store that counts in coarser units and
	// rounds down forgets the ID while the token is good.
	whole := h.now().Truncate(time.Second).Add(time.Minute)
	for _, fraction := range []time.Duration{time.Nanosecond, 400 * time.Microsecond, time.Millisecond, 999_999_999 * time.Nanosecond} {
		id, expires := freshID(), whole.Add(fraction)
		use(t, h.Store, id, expires, true)
		h.Clock.Advance(whole.Add(h.Skew).Sub(h.now())) // the fraction is left
		h.sweep(t)
		use(t, h.Store, id, expires, false)
		h.Clock.Advance(fraction - 1)
		h.sweep(t)
		use(t, h.Store, id, expires, false)
		whole = whole.Add(time.Minute)
	}
}

func testSwept(t *testing.T, h *Harness) {
	h.needSweep(t)
	id, expires := freshID(), h.now().Add(time.Minute)
	unused := freshID()
	use(t, h.Store, id, expires, true)
	h.Clock.Advance(time.Minute + h.Skew + 2*time.Second)
	h.sweep(t)
	// A call that stalled all this time arrives now.
	for _, id := range [][]byte{id, unused} {
		if first, err := h.Store.Use(t.Context(), id, expires); first || !errors.Is(err, replay.ErrSwept) {
			t.Fatalf("Use after the sweep = %v, %v; want ErrSwept", first, err)
		}
	}
	// Not even a later claim about the expiry of other IDs lowers the mark.
	use(t, h.Store, freshID(), h.live(), true)
	never(t, h.Store, id, expires)
}

func testClockBack(t *testing.T, h *Harness) {
	h.needClock(t)
	id, expires := freshID(), h.now().Add(time.Minute)
	use(t, h.Store, id, expires, true)
	ahead := time.Hour + h.Skew
	h.Clock.Advance(ahead)
	h.sweep(t)
	use(t, h.Store, freshID(), h.live(), true) // sweeps in passing
	h.Clock.Advance(-ahead)
	for range 3 {
		never(t, h.Store, id, expires)
		h.sweep(t) // must not lower the mark
	}
}

func testSweepKeepsLive(t *testing.T, h *Harness) {
	h.needClock(t)
	type spent struct {
		id      []byte
		expires time.Time
	}
	var all []spent
	start := h.now()
	for i := range 200 {
		s := spent{freshID(), start.Add(time.Duration(1+i*37%200) * time.Second)}
		use(t, h.Store, s.id, s.expires, true)
		all = append(all, s)
	}
	for range 10 {
		h.Clock.Advance(21 * time.Second)
		h.sweep(t)
		for _, s := range all {
			never(t, h.Store, s.id, s.expires)
			if h.now().Before(s.expires.Add(h.Skew)) {
				use(t, h.Store, s.id, s.expires, false)
			}
		}
	}
}

// testSweepRace lets calls with spent IDs run into the moment in which those
// are forgotten. A store that checks its mark in another step than it writes the
// ID, or raises it after forgetting, sooner or later takes one for fresh.
func testSweepRace(t *testing.T, h *Harness) {
	h.needSweep(t)
	for range 50 {
		expires := h.now().Add(time.Second)
		var wg sync.WaitGroup
		for range 4 {
			id := freshID()
			use(t, h.Store, id, expires, true)
			for range 4 {
				wg.Go(func() {
					for range 10_000 { // until the sweep has come by
						first, err := h.Store.Use(t.Context(), id, expires)
						if errors.Is(err, replay.ErrSwept) {
							return
						}
						if first || err != nil {
							t.Errorf("Use = %v, %v for an id that is spent or swept", first, err)
							return
						}
					}
				})
			}
		}
		wg.Go(func() {
			h.Clock.Advance(h.Skew + 3*time.Second)
			for range 3 {
				if err := h.Sweep(t.Context()); err != nil {
					t.Errorf("Sweep: %v", err)
				}
			}
		})
		wg.Wait()
		if t.Failed() {
			return
		}
	}
}

func testRestart(t *testing.T, h *Harness) {
	if h.Reopen == nil {
		t.Skip("needs a durable store: set Harness.Reopen")
	}
	expires := h.live()
	var ids [][]byte
	for range 20 {
		ids = append(ids, freshID())
		use(t, h.Store, ids[len(ids)-1], expires, true)
	}
	again := h.Reopen(t)
	for _, id := range ids {
		use(t, again, id, expires, false)
	}
	use(t, again, freshID(), expires, true)
}

func testMarkRestart(t *testing.T, h *Harness) {
	h.needSweep(t)
	if h.Reopen == nil {
		t.Skip("needs a durable store: set Harness.Reopen")
	}
	id, expires := freshID(), h.now().Add(time.Minute)
	use(t, h.Store, id, expires, true)
	ahead := time.Hour + h.Skew
	h.Clock.Advance(ahead)
	h.sweep(t)
	h.Clock.Advance(-ahead)
	if first, err := h.Reopen(t).Use(t.Context(), id, expires); first || !errors.Is(err, replay.ErrSwept) {
		t.Fatalf("Use of a swept id after a restart = %v, %v; want ErrSwept", first, err)
	}
}

func (h *Harness) peer(t *testing.T) replay.Store {
	t.Helper()
	if h.Peer == nil {
		t.Skip("needs a store that replicas share: set Harness.Peer")
	}
	return h.Peer(t)
}

func testPeer(t *testing.T, h *Harness) {
	peer := h.peer(t)
	for range 5 {
		id, expires := freshID(), h.live()
		use(t, h.Store, id, expires, true)
		use(t, peer, id, expires, false)
		id = freshID()
		use(t, peer, id, expires, true)
		use(t, h.Store, id, expires, false)
	}
}

func testPeerConcurrent(t *testing.T, h *Harness) { race(t, h, h.Store, h.peer(t)) }

func testPeerMark(t *testing.T, h *Harness) {
	h.needSweep(t)
	peer := h.peer(t)
	id, expires := freshID(), h.now().Add(time.Minute)
	use(t, peer, id, expires, true)
	ahead := time.Hour + h.Skew
	h.Clock.Advance(ahead)
	h.sweep(t)
	h.Clock.Advance(-ahead)
	if first, err := peer.Use(t.Context(), id, expires); first || !errors.Is(err, replay.ErrSwept) {
		t.Fatalf("Use on a peer of an id that was swept = %v, %v; want ErrSwept", first, err)
	}
}

func testFull(t *testing.T, h *Harness) {
	if h.Full == nil {
		t.Skip("needs a store that can be filled: set Harness.Full")
	}
	expires := h.now().Add(time.Minute)
	h.Full(t)
	var spent [][]byte
	full := false
	refused := freshID()
	for range 1000 {
		id := freshID()
		first, err := h.Store.Use(t.Context(), id, expires)
		if err != nil {
			if first || !errors.Is(err, replay.ErrFull) {
				t.Fatalf("Use of a full store = %v, %v; want ErrFull", first, err)
			}
			full, refused = true, id
			break
		}
		if !first {
			t.Fatal("Use of a fresh id = false")
		}
		spent = append(spent, id)
	}
	if !full {
		t.Fatal("store took a thousand ids; it does not refuse, or the harness does not fill it")
	}
	for range 5 {
		if first, err := h.Store.Use(t.Context(), refused, expires); first || err == nil {
			t.Fatalf("Use of a full store = %v, %v; want an error", first, err)
		}
	}
	for _, id := range spent {
		never(t, h.Store, id, expires)
	}
	if h.Clock == nil {
		return
	}
	h.Clock.Advance(time.Minute + h.Skew - 2*time.Second)
	for _, id := range spent { // full or not, nothing goes before its time
		never(t, h.Store, id, expires)
	}
}

func testBroken(t *testing.T, h *Harness) {
	if h.Break == nil {
		t.Skip("needs a backend that can be taken away: set Harness.Break")
	}
	expires := h.live()
	spent, fresh := freshID(), freshID()
	use(t, h.Store, spent, expires, true)
	restore := h.Break(t)
	for _, id := range [][]byte{spent, fresh} {
		if first, err := h.Store.Use(t.Context(), id, expires); first || err == nil {
			t.Errorf("Use without a backend = %v, %v; want an error", first, err)
		}
	}
	if p, ok := h.Store.(replay.Pinger); ok {
		if err := p.Ping(t.Context()); err == nil {
			t.Error("Ping without a backend = nil, want an error")
		}
	}
	restore()
	use(t, h.Store, spent, expires, false)
	// The failed call may have spent the ID, but only if it was left unsure.
	if _, err := h.Store.Use(t.Context(), fresh, expires); err != nil {
		t.Fatalf("Use after the backend came back: %v", err)
	}
	use(t, h.Store, fresh, expires, false)
	use(t, h.Store, freshID(), expires, true)
}
