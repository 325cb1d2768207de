package ledgertest

import (
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

func testLapse(t *testing.T, h *Harness) {
	s := h.start()
	s.Lease = h.short()
	first := begin(t, h.Store, s)
	stays := h.running(t)
	h.pass(h.short())
	is(t, h.Store, s.ID, ledger.Unknown, 1, "")
	is(t, h.Store, stays.ID, ledger.Executing, 1, "")
	op, started, err := h.Store.Begin(t.Context(), s)
	if err != nil || started || op.State != ledger.Unknown {
		t.Fatalf("Begin of what lapsed: started %v, error %v; want it as unknown", started, err)
	}
	if !op.LeaseUntil.Equal(first.LeaseUntil) || !op.Finished.IsZero() || !op.KeptUntil.IsZero() || op.Outcome != nil {
		t.Error("the lease ran out, and the operation changed in more than its state")
	}
	h.pass(h.short())
	is(t, h.Store, s.ID, ledger.Unknown, 1, "")
}

func testLapseMoment(t *testing.T, h *Harness) {
	h.needClock(t)
	s := h.start()
	s.Lease = 90 * time.Second
	begin(t, h.Store, s)
	h.Advance(90*time.Second - 2*time.Millisecond)
	is(t, h.Store, s.ID, ledger.Executing, 1, "")
	h.Advance(4 * time.Millisecond)
	is(t, h.Store, s.ID, ledger.Unknown, 1, "")
}

func testRenew(t *testing.T, h *Harness) {
	s := h.start()
	s.Lease = h.short()
	begin(t, h.Store, s)
	from := h.now()
	good(t, "Renew", h.Store.Renew(t.Context(), s.ID, 1, long))
	to := h.now()
	h.within(t, "LeaseUntil after Renew", get(t, h.Store, s.ID).LeaseUntil, from.Add(long), to.Add(long))
	h.pass(h.short())
	is(t, h.Store, s.ID, ledger.Executing, 1, "")
	// From now, not from where the lease ends: it can be made shorter.
	good(t, "Renew", h.Store.Renew(t.Context(), s.ID, 1, h.short()))
	h.pass(h.short())
	is(t, h.Store, s.ID, ledger.Unknown, 1, "")
}

func testRenewLapsed(t *testing.T, h *Harness) {
	op := h.lapsed(t)
	is(t, h.Store, op.ID, ledger.Unknown, 1, "") // to look changes nothing
	page, _, err := h.Store.List(t.Context(), ledger.Query{State: ledger.Unknown})
	if good(t, "List", err); len(page) != 1 {
		t.Fatalf("List of what is unknown returned %d operations, want 1", len(page))
	}
	from := h.now()
	good(t, "Renew of what lapsed", h.Store.Renew(t.Context(), op.ID, 1, long))
	h.within(t, "LeaseUntil", get(t, h.Store, op.ID).LeaseUntil, from.Add(long), h.now().Add(long))
	is(t, h.Store, op.ID, ledger.Executing, 1, "")

	op = h.lapsed(t)
	_, err = h.Store.Resume(t.Context(), op.ID, 1, long)
	good(t, "Resume", err)
	fenced(t, "Renew of what was taken over", h.Store.Renew(t.Context(), op.ID, 1, long))
	is(t, h.Store, op.ID, ledger.Executing, 2, "")
}

func testResume(t *testing.T, h *Harness) {
	for name, op := range map[string]*ledger.Operation{"what lapsed": h.lapsed(t), "what is declared unknown": h.undecided(t)} {
		id := op.ID
		if name == "what lapsed" {
			good(t, "Renew", h.Store.Renew(t.Context(), id, 1, h.short()))
			good(t, "EndStep", h.Store.EndStep(t.Context(), id, 1, "first", []byte("one"), h.short()))
			_, err := h.Store.BeginStep(t.Context(), id, 1, "second", h.short())
			good(t, "BeginStep", err)
			h.pass(h.short())
		}
		for fence := uint64(1); fence <= 3; fence++ {
			from := h.now()
			got, err := h.Store.Resume(t.Context(), id, fence, h.short())
			good(t, "Resume of "+name, err)
			if got.State != ledger.Executing || got.Fence != fence+1 || got.ID != id || got.Flow != op.Flow {
				t.Fatalf("Resume of %s returned it as %v with fence %d, want executing with %d", name, got.State, got.Fence, fence+1)
			}
			h.within(t, "LeaseUntil", got.LeaseUntil, from.Add(h.short()), h.now().Add(h.short()))
			if !got.Started.Equal(op.Started) || !got.Finished.IsZero() || got.Outcome != nil {
				t.Fatalf("Resume of %s changed its beginning or gave it an end", name)
			}
			if name == "what lapsed" && (len(got.Steps) != 2 || string(got.Steps[0].Result) != "one" || got.Steps[1].Done()) {
				t.Fatalf("Resume of %s returned it without its steps", name)
			}
			h.pass(h.short())
			is(t, h.Store, id, ledger.Unknown, fence+1, "")
		}
	}
}

func testResumeOthers(t *testing.T, h *Harness) {
	resume := func(what string, id [ledger.IDLen]byte, fence uint64) {
		t.Helper()
		before := get(t, h.Store, id)
		_, err := h.Store.Resume(t.Context(), id, fence, long)
		fenced(t, "Resume of "+what, err)
		same(t, "after Resume of "+what, get(t, h.Store, id), before)
	}
	op := h.running(t)
	resume("what is executing", op.ID, 1)
	good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, done("outcome")))
	resume("what succeeded", op.ID, 1)
	op = h.running(t)
	good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: ledger.Failed}))
	resume("what failed", op.ID, 1)
	for _, op := range []*ledger.Operation{h.lapsed(t), h.undecided(t)} {
		resume("what is unknown, with fence 0", op.ID, 0)
		resume("what is unknown, with a fence to come", op.ID, 2)
	}
	op = h.undecided(t)
	good(t, "Resolve", h.Store.Resolve(t.Context(), op.ID, 1, found("found")))
	resume("what is resolved", op.ID, 1)
	resume("what is resolved, with its fence", op.ID, 2)
}

func testConcurrentResume(t *testing.T, h *Harness) {
	stores := h.either(t)
	for round := range rounds {
		op := h.undecided(t)
		n := crowd(t, ledger.ErrFenced, func(i int) error {
			_, err := stores[i%len(stores)].Resume(t.Context(), op.ID, 1, long)
			return err
		})
		if n != 1 {
			t.Fatalf("round %d: %d of 64 concurrent resumes won, want 1", round, n)
		}
		is(t, h.Store, op.ID, ledger.Executing, 2, "")
	}
}

func testOldFence(t *testing.T, h *Harness) {
	op := h.lapsed(t)
	good(t, "EndStep", h.Store.EndStep(t.Context(), op.ID, 1, "done", []byte("result"), h.short()))
	h.pass(h.short())
	_, err := h.Store.Resume(t.Context(), op.ID, 1, long)
	good(t, "Resume", err)
	before := get(t, h.Store, op.ID)
	for _, fence := range []uint64{0, 1, 3, 1 << 40} {
		allFenced(t, "with another fence", runs(t.Context(), h.Store, op.ID, fence))
		fenced(t, "Finish with another fence", h.Store.Finish(t.Context(), op.ID, fence, done("of another")))
		fenced(t, "Finish as unknown with another fence", h.Store.Finish(t.Context(), op.ID, fence, ledger.Finish{State: ledger.Unknown}))
		_, err := h.Store.BeginStep(t.Context(), op.ID, fence, "done", long)
		fenced(t, "BeginStep of a done step with another fence", err)
	}
	same(t, "after all that", get(t, h.Store, op.ID), before)
	// Nor once the one who took over has ended it, even with the same outcome.
	good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 2, done("outcome")))
	fenced(t, "Finish with the old fence", h.Store.Finish(t.Context(), op.ID, 1, done("outcome")))
}

func testEnded(t *testing.T, h *Harness) {
	for _, state := range []ledger.State{ledger.Succeeded, ledger.Failed} {
		op := h.running(t)
		good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: state, Outcome: []byte("outcome")}))
		before := get(t, h.Store, op.ID)
		allFenced(t, "of what "+state.String(), runs(t.Context(), h.Store, op.ID, 1))
		allFenced(t, "of what "+state.String(), takes(t.Context(), h.Store, op.ID, 1))
		same(t, "after all that", get(t, h.Store, op.ID), before)
	}
	op := h.lapsed(t)
	good(t, "Resolve", h.Store.Resolve(t.Context(), op.ID, 1, found("found")))
	before := get(t, h.Store, op.ID)
	for _, fence := range []uint64{1, 2} {
		allFenced(t, "of what is resolved", runs(t.Context(), h.Store, op.ID, fence))
		allFenced(t, "of what is resolved", takes(t.Context(), h.Store, op.ID, fence))
	}
	same(t, "after all that", get(t, h.Store, op.ID), before)
}

// testDeclaredUnknown: a lease that ran out may be renewed, but a process that
// said that it does not know has given the operation up.
func testDeclaredUnknown(t *testing.T, h *Harness) {
	op := h.undecided(t)
	before := get(t, h.Store, op.ID)
	allFenced(t, "of what is declared unknown", runs(t.Context(), h.Store, op.ID, 1))
	same(t, "after all that", get(t, h.Store, op.ID), before)
}

func testBadLeases(t *testing.T, h *Harness) {
	op := h.running(t)
	unknown := h.undecided(t)
	before := get(t, h.Store, op.ID)
	for _, lease := range []time.Duration{0, -time.Hour, time.Microsecond, 1<<63 - 1} {
		_, begun := h.Store.BeginStep(t.Context(), op.ID, 1, "step", lease)
		_, resumed := h.Store.Resume(t.Context(), unknown.ID, 1, lease)
		for name, err := range map[string]error{
			"Renew":     h.Store.Renew(t.Context(), op.ID, 1, lease),
			"BeginStep": begun,
			"EndStep":   h.Store.EndStep(t.Context(), op.ID, 1, "step", nil, lease),
			"Resume":    resumed,
		} {
			if err == nil {
				t.Errorf("%s with a lease of %v: no error", name, lease)
			}
		}
	}
	same(t, "after all that", get(t, h.Store, op.ID), before)
	is(t, h.Store, unknown.ID, ledger.Unknown, 1, "")
}
