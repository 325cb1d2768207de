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

// RunDeferred checks that a [replay.Deferrer] keeps the promises that Run does
// not know of; run both. Harness.Store, and what Peer and Reopen return, must be
// a Deferrer. It calls newHarness once for each sub-test.
func RunDeferred(t *testing.T, newHarness func(t *testing.T) *Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h *Harness, d replay.Deferrer)
	}{
		{"first attempt is first again", testAttemptAgain},
		{"no other attempt is first", testOtherAttempt},
		{"an id that was used is not first for an attempt", testAttemptAfterUse},
		{"attempt tells who was first", testAttempt},
		{"attempt of what is not spent", testAttemptUnspent},
		{"bad attempts are errors", testBadAttempts},
		{"caller may reuse the attempt slices", testAttemptSlices},
		{"one of 64 concurrent attempts is first", testConcurrentAttempts},
		{"one of 64 concurrent attempts over two peers is first", testConcurrentAttemptsPeers},
		{"an attempt may ask twice at once", testConcurrentSame},
		{"ended context marks no attempt", testAttemptContext},
		{"swept id is an error for an attempt", testAttemptSwept},
		{"attempt is kept until expiry plus skew", testAttemptKept},
		{"older than the restored store is refused to an attempt", testAttemptRestored},
		{"attempt survives a restart", testAttemptRestart},
		{"attempt is seen by a peer", testAttemptPeer},
		{"broken backend knows no attempt", testAttemptBroken},
		{"attempts stay out of errors", testAttemptErrors},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t)
			c.test(t, h, deferrer(t, h.Store))
		})
	}
}

func deferrer(t *testing.T, s replay.Store) replay.Deferrer {
	t.Helper()
	d, ok := s.(replay.Deferrer)
	if !ok {
		t.Fatal("store is no replay.Deferrer")
	}
	return d
}

// freshAttempt is a random attempt mark.
func freshAttempt() []byte { return freshID()[:replay.AttemptLen] }

func useAs(t *testing.T, d replay.Deferrer, id []byte, expires time.Time, attempt []byte, want bool) {
	t.Helper()
	first, err := d.UseAs(t.Context(), id, expires, attempt)
	if err != nil || first != want {
		t.Fatalf("UseAs = %v, %v; want %v", first, err, want)
	}
}

func attempted(t *testing.T, d replay.Deferrer, id, want []byte) {
	t.Helper()
	got, spent, err := d.Attempt(t.Context(), id)
	if err != nil || !spent || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
		t.Fatalf("Attempt of a spent id: %d bytes (nil: %v), spent %v, error %v; want the %d bytes (nil: %v) under which it was spent",
			len(got), got == nil, spent, err, len(want), want == nil)
	}
}

func unspent(t *testing.T, d replay.Deferrer, id []byte) {
	t.Helper()
	if got, spent, err := d.Attempt(t.Context(), id); err != nil || spent || got != nil {
		t.Fatalf("Attempt of an id that is not spent: %d bytes, spent %v, error %v", len(got), spent, err)
	}
}

func testAttemptAgain(t *testing.T, h *Harness, d replay.Deferrer) {
	id, expires, attempt := freshID(), h.live(), freshAttempt()
	for range 3 {
		useAs(t, d, id, expires, attempt, true)
	}
	useAs(t, d, id, expires, freshAttempt(), false)
	useAs(t, d, id, expires, attempt, true)
	useAs(t, d, id, expires.Add(time.Second), attempt, true)
	use(t, d, id, expires, false)
	useAs(t, d, id, expires, attempt, true)
}

func testOtherAttempt(t *testing.T, h *Harness, d replay.Deferrer) {
	expires := h.live()
	ff := bytes.Repeat([]byte{0xff}, replay.AttemptLen)
	zero := make([]byte, replay.AttemptLen)
	for _, first := range [][]byte{zero, ff, freshAttempt(), []byte("attempt\x00attempt\x00"), []byte("an attempt in az")} {
		id := freshID()
		useAs(t, d, id, expires, first, true)
		for i := range first {
			other := bytes.Clone(first)
			other[i] ^= 0x20 // another byte, or another case
			useAs(t, d, id, expires, other, false)
		}
		useAs(t, d, id, expires, freshAttempt(), false)
		attempted(t, d, id, first)
	}
	// One attempt spends as many IDs as it likes, each for itself.
	attempt, a, b := freshAttempt(), freshID(), freshID()
	useAs(t, d, a, expires, attempt, true)
	unspent(t, d, b)
	useAs(t, d, b, expires, attempt, true)
}

func testAttemptAfterUse(t *testing.T, h *Harness, d replay.Deferrer) {
	id, expires := freshID(), h.live()
	use(t, d, id, expires, true)
	for _, attempt := range [][]byte{freshAttempt(), make([]byte, replay.AttemptLen)} {
		for range 2 {
			useAs(t, d, id, expires, attempt, false)
		}
	}
	attempted(t, d, id, nil)
}

func testAttempt(t *testing.T, h *Harness, d replay.Deferrer) {
	expires := h.live()
	for _, id := range [][]byte{freshID(), {0}, {0xff, 0}, bytes.Repeat([]byte{7}, replay.MaxIDLen)} {
		attempt := freshAttempt()
		unspent(t, d, id)
		useAs(t, d, id, expires, attempt, true)
		attempted(t, d, id, attempt)
		use(t, d, id, expires, false)
		useAs(t, d, id, expires, freshAttempt(), false)
		attempted(t, d, id, attempt)
	}
	id, zero := freshID(), make([]byte, replay.AttemptLen)
	useAs(t, d, id, expires, zero, true)
	attempted(t, d, id, zero)
	id = freshID()
	use(t, d, id, expires, true)
	attempted(t, d, id, nil)
}

func testAttemptUnspent(t *testing.T, h *Harness, d replay.Deferrer) {
	id := freshID()
	for range 2 {
		unspent(t, d, id) // and asking does not spend
	}
	use(t, d, id, h.live(), true)
	for _, bad := range [][]byte{nil, {}, make([]byte, replay.MaxIDLen+1)} {
		if _, spent, err := d.Attempt(t.Context(), bad); spent || err == nil {
			t.Errorf("Attempt of an id of %d bytes: spent %v, error %v; want an error", len(bad), spent, err)
		}
	}
}

func testBadAttempts(t *testing.T, h *Harness, d replay.Deferrer) {
	id, expires := freshID(), h.live()
	for _, n := range []int{0, 1, replay.AttemptLen - 1, replay.AttemptLen + 1, 1 << 10} {
		if first, err := d.UseAs(t.Context(), id, expires, make([]byte, n)); first || err == nil {
			t.Errorf("UseAs with an attempt of %d bytes = %v, %v; want an error", n, first, err)
		}
	}
	if first, err := d.UseAs(t.Context(), id, expires, nil); first || err == nil {
		t.Errorf("UseAs without an attempt = %v, %v; want an error", first, err)
	}
	unspent(t, d, id)
	for _, bad := range [][]byte{nil, make([]byte, replay.MaxIDLen+1)} {
		if first, err := d.UseAs(t.Context(), bad, expires, freshAttempt()); first || err == nil {
			t.Errorf("UseAs with an id of %d bytes = %v, %v; want an error", len(bad), first, err)
		}
	}
	if first, err := d.UseAs(t.Context(), id, time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), freshAttempt()); first || err == nil {
		t.Errorf("UseAs with expires in the year 10000 = %v, %v; want an error", first, err)
	}
	use(t, d, id, expires, true)
}

func testAttemptSlices(t *testing.T, h *Harness, d replay.Deferrer) {
	id, expires, attempt := freshID(), h.live(), freshAttempt()
	spent, want := bytes.Clone(id), bytes.Clone(attempt)
	useAs(t, d, id, expires, attempt, true)
	for i := range id {
		id[i] ^= 0xff
	}
	for i := range attempt {
		attempt[i] ^= 0xff
	}
	attempted(t, d, spent, want)
	got, _, err := d.Attempt(t.Context(), spent)
	if err != nil {
		t.Fatalf("Attempt: %v", err)
	}
	got[0] ^= 0xff
	attempted(t, d, spent, want)
	useAs(t, d, spent, expires, attempt, false)
	useAs(t, d, spent, expires, want, true)
}

// raceAttempts lets 64 callers at once, each with an attempt of its own or none,
// use each of some IDs.
func raceAttempts(t *testing.T, h *Harness, stores ...replay.Deferrer) {
	t.Helper()
	const callers, rounds = 64, 20
	for round := range rounds {
		id, expires := freshID(), h.live()
		var firsts, winner atomic.Int32
		var attempts [callers][]byte
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range callers {
			if i%8 != 0 {
				attempts[i] = freshAttempt()
			}
			wg.Go(func() {
				<-start
				s := stores[i%len(stores)]
				var first bool
				var err error
				if attempts[i] == nil {
					first, err = s.Use(t.Context(), id, expires)
				} else {
					first, err = s.UseAs(t.Context(), id, expires, attempts[i])
				}
				if err != nil {
					t.Errorf("UseAs: %v", err)
				}
				if first {
					firsts.Add(1)
					winner.Store(int32(i))
				}
			})
		}
		close(start)
		wg.Wait()
		if n := firsts.Load(); n != 1 {
			t.Fatalf("round %d: %d of %d concurrent attempts were first, want 1", round, n, callers)
		}
		attempted(t, stores[0], id, attempts[winner.Load()])
	}
}

func testConcurrentAttempts(t *testing.T, h *Harness, d replay.Deferrer) { raceAttempts(t, h, d) }
func testConcurrentAttemptsPeers(t *testing.T, h *Harness, d replay.Deferrer) {
	raceAttempts(t, h, d, deferrer(t, h.peer(t)))
}

func testConcurrentSame(t *testing.T, h *Harness, d replay.Deferrer) {
	for range 20 {
		id, expires, attempt := freshID(), h.live(), freshAttempt()
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if first, err := d.UseAs(t.Context(), id, expires, attempt); !first || err != nil {
					t.Errorf("UseAs = %v, %v; want true for every call of the one attempt", first, err)
				}
			})
		}
		wg.Wait()
	}
}

func testAttemptContext(t *testing.T, h *Harness, d replay.Deferrer) {
	id, expires, attempt := freshID(), h.live(), freshAttempt()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if first, err := d.UseAs(ctx, id, expires, attempt); first || !errors.Is(err, context.Canceled) {
		t.Fatalf("UseAs with a cancelled context = %v, %v; want context.Canceled", first, err)
	}
	unspent(t, d, id)
	useAs(t, d, id, expires, attempt, true)
	if first, err := d.UseAs(ctx, id, expires, attempt); first || !errors.Is(err, context.Canceled) {
		t.Fatalf("UseAs with a cancelled context = %v, %v; want context.Canceled", first, err)
	}
	if _, spent, err := d.Attempt(ctx, id); spent || !errors.Is(err, context.Canceled) {
		t.Fatalf("Attempt with a cancelled context: spent %v, error %v; want context.Canceled", spent, err)
	}
}

func testAttemptSwept(t *testing.T, h *Harness, d replay.Deferrer) {
	h.needSweep(t)
	id, unused, expires, attempt := freshID(), freshID(), h.now().Add(time.Minute), freshAttempt()
	useAs(t, d, id, expires, attempt, true)
	h.Clock.Advance(time.Minute + h.Skew + 2*time.Second)
	h.sweep(t)
	for _, id := range [][]byte{id, unused} {
		for _, attempt := range [][]byte{attempt, freshAttempt()} {
			if first, err := d.UseAs(t.Context(), id, expires, attempt); first || !errors.Is(err, replay.ErrSwept) {
				t.Fatalf("UseAs after the sweep = %v, %v; want ErrSwept", first, err)
			}
		}
		unspent(t, d, id)
	}
	// The attempt went with the ID: it does not speak for a later use of it.
	use(t, d, id, h.live(), true)
	attempted(t, d, id, nil)
}

func testAttemptKept(t *testing.T, h *Harness, d replay.Deferrer) {
	h.needClock(t)
	id, expires, attempt := freshID(), h.now().Truncate(time.Second).Add(time.Minute), freshAttempt()
	useAs(t, d, id, expires, attempt, true)
	h.Clock.Advance(expires.Add(h.Skew - time.Millisecond).Sub(h.now()))
	h.sweep(t)
	attempted(t, d, id, attempt)
	useAs(t, d, id, expires, freshAttempt(), false)
	useAs(t, d, id, expires, attempt, true)
}

func testAttemptRestored(t *testing.T, h *Harness, d replay.Deferrer) {
	h.needRestored(t)
	spent, attempt, expires := mintedAt(h.now()), freshAttempt(), h.live()
	useAs(t, d, spent, expires, attempt, true)
	old := mintedAt(h.now())
	h.later()
	h.Restored(t)
	if first, err := d.UseAs(t.Context(), old, expires, freshAttempt()); first || !errors.Is(err, replay.ErrRestored) {
		t.Fatalf("UseAs of an id from before the store was restored = %v, %v; want ErrRestored", first, err)
	}
	if first, _ := d.UseAs(t.Context(), spent, expires, freshAttempt()); first {
		t.Fatal("UseAs by another attempt = true after the store was restored")
	}
	attempted(t, d, spent, attempt)
	useAs(t, d, mintedAt(h.now().Add(time.Hour)), expires, freshAttempt(), true)
}
