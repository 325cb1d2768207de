package ledgertest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

func (h *Harness) finished(t *testing.T, s *ledger.Start) *ledger.Operation {
	t.Helper()
	begin(t, h.Store, s)
	good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, done("outcome")))
	return get(t, h.Store, s.ID)
}

// forget lets the store forget a finished operation that starts with s.
func (h *Harness) forget(t *testing.T, s *ledger.Start) {
	t.Helper()
	h.finished(t, s)
	h.pass(h.short() + h.Skew)
	h.sweep(t)
}

// swept fails unless a start is refused as one that may have been forgotten.
func (h *Harness) swept(t *testing.T, store ledger.Store, s *ledger.Start) {
	t.Helper()
	_, started, err := store.Begin(t.Context(), s)
	if started {
		t.Fatal("an operation that was forgotten started again")
	}
	if h.Sweep != nil && !errors.Is(err, ledger.ErrSwept) {
		t.Fatalf("Begin of what was forgotten: error %v, want ErrSwept", err)
	}
}

// stir gives the store occasion to sweep in passing.
func (h *Harness) stir(t *testing.T) {
	t.Helper()
	h.sweep(t)
	for range 5 {
		h.running(t)
	}
}

func testKept(t *testing.T, h *Harness) {
	keep, retain := h.brief(), h.brief()
	keep.Keep = keep.Keep.Add(long)
	retain.Retention = long
	for _, s := range []*ledger.Start{keep, retain} {
		op := h.finished(t, s)
		h.pass(h.short() + h.Skew) // past all but the one
		h.stir(t)
		same(t, "before its time", get(t, h.Store, s.ID), op)
		if !h.hasClock() {
			continue
		}
		h.Advance(op.KeptUntil.Add(-time.Millisecond).Sub(h.now()))
		h.stir(t)
		same(t, "a millisecond before its time", get(t, h.Store, s.ID), op)
		h.Advance(h.Skew)
		h.stir(t)
		same(t, "within the skew", get(t, h.Store, s.ID), op)
	}
}

func testKeptBoth(t *testing.T, h *Harness) {
	h.needClock(t)
	for _, d := range []time.Duration{-time.Hour, -time.Millisecond, 0, time.Millisecond, time.Hour} {
		s := h.start()
		s.Keep = h.now().Truncate(time.Millisecond).Add(24 * time.Hour)
		s.Retention = 23*time.Hour + d // after an hour: as long as Keep, and d
		s.Lease = 48 * time.Hour
		begin(t, h.Store, s)
		h.Advance(time.Hour)
		from := h.now()
		good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, done("outcome")))
		want := from.Add(s.Retention)
		if want.Before(s.Keep) {
			want = s.Keep
		}
		h.within(t, "KeptUntil", get(t, h.Store, s.ID).KeptUntil, want, want)
	}
}

func testForgotten(t *testing.T, h *Harness) {
	h.needSweep(t)
	s, resolved := h.brief(), h.brief()
	resolved.Lease = h.short()
	begin(t, h.Store, resolved)
	stays := h.finished(t, h.start())
	h.finished(t, s)
	h.pass(h.short())
	good(t, "Resolve", h.Store.Resolve(t.Context(), resolved.ID, 1, found("found")))
	h.pass(h.short() + h.Skew)
	h.sweep(t)
	for what, s := range map[string]*ledger.Start{"finished": s, "resolved": resolved} {
		if _, err := h.Store.Get(t.Context(), s.ID); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("Get of what was %s, after its time and the sweep: %v, want ErrNotFound", what, err)
		}
		fenced(t, "Finish of what is forgotten", h.Store.Finish(t.Context(), s.ID, 1, done("outcome")))
	}
	page, _, err := h.Store.List(t.Context(), ledger.Query{})
	good(t, "List", err)
	if len(page) != 1 || page[0].ID != stays.ID {
		t.Errorf("List has %d operations, want the one that is to be kept", len(page))
	}
}

func testNeverForgotten(t *testing.T, h *Harness) {
	executing, lapsed, undecided, again := h.brief(), h.brief(), h.brief(), h.brief()
	wait := h.short() + h.Skew
	if h.hasClock() {
		wait = 500 * 24 * time.Hour
	}
	executing.Lease = 2*wait + long
	lapsed.Lease, again.Lease = h.short(), h.short()
	for _, s := range []*ledger.Start{executing, lapsed, undecided, again} {
		begin(t, h.Store, s)
	}
	good(t, "Finish", h.Store.Finish(t.Context(), undecided.ID, 1, ledger.Finish{State: ledger.Unknown}))
	h.pass(h.short())
	_, err := h.Store.Resume(t.Context(), again.ID, 1, h.short())
	good(t, "Resume", err)
	h.pass(wait)
	h.stir(t)
	is(t, h.Store, executing.ID, ledger.Executing, 1, "")
	is(t, h.Store, lapsed.ID, ledger.Unknown, 1, "")
	is(t, h.Store, undecided.ID, ledger.Unknown, 1, "")
	is(t, h.Store, again.ID, ledger.Unknown, 2, "")
	good(t, "Finish", h.Store.Finish(t.Context(), lapsed.ID, 1, done("late")))
	good(t, "Resolve", h.Store.Resolve(t.Context(), undecided.ID, 1, found("found")))
}

func testSwept(t *testing.T, h *Harness) {
	early, late := h.brief(), h.brief()
	late.Expires = late.Expires.Add(5 * time.Millisecond)
	h.finished(t, late) // the mark is the greater of both, whichever goes first
	h.forget(t, early)
	h.swept(t, h.Store, early)
	h.swept(t, h.Store, late)
	if h.Sweep != nil {
		other := h.start() // an operation that never was, but may have been
		other.Expires = late.Expires
		h.swept(t, h.Store, other)
		other.Expires = late.Expires.Add(-time.Hour)
		h.swept(t, h.Store, other)
		if _, err := h.Store.Get(t.Context(), other.ID); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("Get of what was refused: %v, want ErrNotFound", err)
		}
	}
	h.running(t) // all else starts
	h.swept(t, h.Store, early)

	// A store that is told to forget before the token expires may do so, or
	// wait, but it must not let the token start again.
	s := h.brief()
	s.Expires = s.Expires.Add(long)
	h.forget(t, s)
	if _, started, _ := h.Store.Begin(t.Context(), s); started {
		t.Error("an operation that was forgotten before it expired started again")
	}
}

func testSweptFraction(t *testing.T, h *Harness) {
	for _, fraction := range []time.Duration{1, 499_999, 500_000, 999_999} {
		s := h.brief()
		s.Expires = s.Expires.Add(fraction)
		h.forget(t, s)
		h.swept(t, h.Store, s)
		s.ID = h.freshID()
		h.swept(t, h.Store, s)
	}
}

func testOldReturned(t *testing.T, h *Harness) {
	old := h.brief()
	begin(t, h.Store, old)
	h.forget(t, h.brief())
	h.forget(t, h.brief()) // the mark is above old.Expires now
	for range 2 {
		op, started, err := h.Store.Begin(t.Context(), old)
		if err != nil || started || op.ID != old.ID {
			t.Fatalf("Begin of what is there, and older than the mark: started %v, error %v", started, err)
		}
	}
}

func testClockBack(t *testing.T, h *Harness) {
	h.needClock(t)
	s := h.brief()
	from := h.now()
	h.forget(t, s)
	h.Advance(from.Sub(h.now()))
	for range 3 {
		h.swept(t, h.Store, s)
		h.sweep(t) // must not lower the mark
	}
}

// testSweepRace lets Begins run into the moment in which operations are
// forgotten. A store that checks its mark in another step than it writes the
// operation, or raises it after forgetting, sooner or later starts one again.
func testSweepRace(t *testing.T, h *Harness) {
	h.needClock(t)
	h.needSweep(t)
	for range 20 {
		var wg sync.WaitGroup
		for range 4 {
			s := h.brief()
			h.finished(t, s)
			for range 2 {
				wg.Go(func() {
					for range 10_000 { // until the sweep has come by
						_, started, err := h.Store.Begin(t.Context(), s)
						if errors.Is(err, ledger.ErrSwept) || t.Failed() {
							return
						}
						if started || err != nil {
							t.Errorf("Begin of what is finished or forgotten: started %v, error %v", started, err)
							return
						}
					}
				})
			}
		}
		wg.Go(func() {
			h.Advance(h.short() + h.Skew + 2*time.Millisecond)
			for range 2 {
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

// idAt gives s an ID that is minted at the time.
func idAt(s *ledger.Start, at time.Time) *ledger.Start {
	ms := at.UnixMilli()
	for i := 5; i >= 0; i-- {
		s.ID[i] = byte(ms)
		ms >>= 8
	}
	return s
}

func (h *Harness) restored(t *testing.T) {
	t.Helper()
	if h.Restored == nil {
		t.Skip("needs a store that can be restored: set Harness.Restored")
	}
	h.Restored(t)
}

func refusedAsRestored(t *testing.T, store ledger.Store, s *ledger.Start) {
	t.Helper()
	if _, started, err := store.Begin(t.Context(), s); started || !errors.Is(err, ledger.ErrRestored) {
		t.Fatalf("Begin of what was minted before the store was restored: started %v, error %v; want ErrRestored", started, err)
	}
}

func testRestored(t *testing.T, h *Harness) {
	used, ended := h.start(), h.start()
	begin(t, h.Store, used)
	h.finished(t, ended)
	unused, old, zero := h.start(), idAt(h.start(), h.now().Add(-100*24*time.Hour)), idAt(h.start(), time.UnixMilli(0))
	h.pass(0)
	h.restored(t)
	for _, s := range []*ledger.Start{unused, old, zero} {
		refusedAsRestored(t, h.Store, s)
		if _, err := h.Store.Get(t.Context(), s.ID); !errors.Is(err, ledger.ErrNotFound) {
			t.Fatalf("Get of what was refused: %v, want ErrNotFound", err)
		}
	}
	for _, s := range []*ledger.Start{used, ended} {
		if op, started, err := h.Store.Begin(t.Context(), s); err != nil || started || op.ID != s.ID {
			t.Fatalf("Begin of what the restored store knows: started %v, error %v", started, err)
		}
	}
	begin(t, h.Store, idAt(h.start(), h.now().Add(time.Hour)))
	refusedAsRestored(t, h.Store, unused)
}
