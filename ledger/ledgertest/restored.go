package ledgertest

import (
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// unfinished are an operation that is executing, one whose lease ran out, one that
// is declared unknown, and one that was taken over and is declared unknown.
func (h *Harness) unfinished(t *testing.T) []*ledger.Operation {
	t.Helper()
	lapsed, undecided, taken, running := h.lapsed(t), h.undecided(t), h.undecided(t), h.running(t)
	_, err := h.Store.Resume(t.Context(), taken.ID, 1, long)
	good(t, "Resume", err)
	endStep(t, h.Store, taken.ID, 2, "step", "result")
	good(t, "Finish", h.Store.Finish(t.Context(), taken.ID, 2, ledger.Finish{State: ledger.Unknown}))
	return []*ledger.Operation{running, lapsed, undecided, taken}
}

// testRestoredNotResumed: the steps that were done since the backup are not in it,
// and whoever resumed would do them again.
func testRestoredNotResumed(t *testing.T, h *Harness) {
	before := h.unfinished(t)
	h.pass(0)
	h.restored(t)
	for _, was := range before {
		op := get(t, h.Store, was.ID)
		if op.State != ledger.Unknown {
			t.Fatalf("after the store was restored, what was %v is %v, want unknown", was.State, op.State)
		}
		for _, fence := range []uint64{1, 2, 3, op.Fence, op.Fence + 1} {
			_, err := h.Store.Resume(t.Context(), was.ID, fence, long)
			fenced(t, "Resume of what is older than the restored store", err)
		}
		same(t, "after Resume", get(t, h.Store, was.ID), op)
		good(t, "Resolve of what is older than the restored store", h.Store.Resolve(t.Context(), was.ID, op.Fence, found("found")))
		is(t, h.Store, was.ID, ledger.Failed, op.Fence+1, "found")
	}
	// What begins after it is like any other.
	s := idAt(h.start(), h.now().Add(time.Hour))
	begin(t, h.Store, s)
	good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, ledger.Finish{State: ledger.Unknown}))
	_, err := h.Store.Resume(t.Context(), s.ID, 1, long)
	good(t, "Resume of what began after the store was restored", err)
}

// testRestoredFence: some process may have taken the operation over since the
// backup, under a fence that the backup does not know, and must be shut out as much
// as the one that it knows.
func testRestoredFence(t *testing.T, h *Harness) {
	ops := h.unfinished(t)
	h.pass(0)
	h.restored(t)
	for _, was := range ops {
		before := get(t, h.Store, was.ID)
		for fence := range uint64(6) {
			allFenced(t, "of before the restore", runs(t.Context(), h.Store, was.ID, fence))
			allFenced(t, "of before the restore", takes(t.Context(), h.Store, was.ID, fence))
			fenced(t, "Finish of before the restore", h.Store.Finish(t.Context(), was.ID, fence, done("outcome")))
			fenced(t, "Finish as unknown, of before the restore", h.Store.Finish(t.Context(), was.ID, fence, ledger.Finish{State: ledger.Unknown}))
		}
		same(t, "after all that", get(t, h.Store, was.ID), before)
	}
}
