package replaytest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/replay"
)

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

// testAtTheMark moves the clock to exactly expires plus skew, where an ID may be
// forgotten and its expires is not below the mark but at it. On a whole second no
// store has to round.
func testAtTheMark(t *testing.T, h *Harness) {
	h.needSweep(t)
	for _, tc := range []struct {
		name      string
		fraction  time.Duration // of expires, beyond a whole second
		neverUsed bool
	}{
		{"a spent id", 0, false},
		{"an id that was never used", 0, true},
		{"a spent id, between seconds", 123_456_789 * time.Nanosecond, false},
		{"a spent id, between milliseconds", time.Nanosecond, false},
	} {
		id, expires := freshID(), h.now().Truncate(time.Second).Add(time.Minute+tc.fraction)
		if !tc.neverUsed {
			use(t, h.Store, id, expires, true)
		}
		h.Clock.Advance(expires.Add(h.Skew).Sub(h.now()))
		h.sweep(t)
		first, err := h.Store.Use(t.Context(), id, expires)
		if first {
			t.Errorf("%s: Use at the sweep mark = true, %v", tc.name, err)
		}
		if tc.fraction == 0 && !errors.Is(err, replay.ErrSwept) {
			t.Errorf("%s: Use at the sweep mark: error %v, want ErrSwept", tc.name, err)
		}
		// Another tick, and for good.
		h.Clock.Advance(time.Nanosecond)
		h.sweep(t)
		never(t, h.Store, id, expires)
	}
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
