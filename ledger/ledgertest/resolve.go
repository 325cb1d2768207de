package ledgertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/foilmcp/foil/ledger"
)

func testResolve(t *testing.T, h *Harness) {
	for i, state := range []ledger.State{ledger.Succeeded, ledger.Failed} {
		for name, op := range map[string]*ledger.Operation{"what lapsed": h.lapsed(t), "what is declared unknown": h.undecided(t)} {
			r := ledger.Resolution{State: state, Outcome: []byte("found"), By: "op " + odd, Note: strings.Repeat("n", ledger.MaxNote-len(odd)) + odd}
			if i == 0 {
				r.Note = ""
			}
			from := h.now()
			good(t, "Resolve of "+name, h.Store.Resolve(t.Context(), op.ID, 1, r))
			to := h.now()
			is(t, h.Store, op.ID, state, 2, "found")
			got := get(t, h.Store, op.ID)
			if got.ResolvedBy != r.By || got.Note != r.Note {
				t.Fatal("Resolve recorded another author or note")
			}
			h.within(t, "Finished", got.Finished, from, to)
			h.within(t, "KeptUntil", got.KeptUntil, from.Add(long), to.Add(long)) // the retention, which ends after Keep
		}
	}
	// Whoever took it over may leave it unknown too.
	op := h.lapsed(t)
	_, err := h.Store.Resume(t.Context(), op.ID, 1, h.short())
	good(t, "Resume", err)
	h.pass(h.short())
	fenced(t, "Resolve with an old fence", h.Store.Resolve(t.Context(), op.ID, 1, found("found")))
	good(t, "Resolve", h.Store.Resolve(t.Context(), op.ID, 2, found("found")))
	is(t, h.Store, op.ID, ledger.Failed, 3, "found")
}

func testResolveOthers(t *testing.T, h *Harness) {
	resolve := func(what string, id [ledger.IDLen]byte, fence uint64) {
		t.Helper()
		before := get(t, h.Store, id)
		fenced(t, "Resolve of "+what, h.Store.Resolve(t.Context(), id, fence, found("found")))
		same(t, "after Resolve of "+what, get(t, h.Store, id), before)
	}
	op := h.running(t)
	resolve("what is executing", op.ID, 1)
	good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, done("outcome")))
	resolve("what succeeded", op.ID, 1)
	op = h.running(t)
	good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: ledger.Failed}))
	resolve("what failed", op.ID, 1)
	for _, op := range []*ledger.Operation{h.lapsed(t), h.undecided(t)} {
		resolve("what is unknown, with fence 0", op.ID, 0)
		resolve("what is unknown, with a fence to come", op.ID, 2)
		good(t, "Resolve", h.Store.Resolve(t.Context(), op.ID, 1, found("found")))
		resolve("what is resolved, again", op.ID, 1)
		resolve("what is resolved, with its fence", op.ID, 2)
	}
}

func testFinishAfterResolve(t *testing.T, h *Harness) {
	for _, op := range []*ledger.Operation{h.lapsed(t), h.undecided(t)} {
		good(t, "Resolve", h.Store.Resolve(t.Context(), op.ID, 1, found("found")))
		before := get(t, h.Store, op.ID)
		for _, f := range []ledger.Finish{
			done("late"), {State: ledger.Unknown},
			{State: ledger.Failed, Outcome: []byte("found")}, // the same, but not by the same
		} {
			fenced(t, "late Finish after Resolve", h.Store.Finish(t.Context(), op.ID, 1, f))
		}
		same(t, "after late finishes", get(t, h.Store, op.ID), before)
	}
}

func testBadResolutions(t *testing.T, h *Harness) {
	op := h.undecided(t)
	before := get(t, h.Store, op.ID)
	long := strings.Repeat("n", ledger.MaxNote+1)
	for name, r := range map[string]ledger.Resolution{
		"nothing":       {},
		"no author":     {State: ledger.Failed},
		"no state":      {By: "operator"},
		"unknown":       {State: ledger.Unknown, By: "operator"},
		"executing":     {State: ledger.Executing, By: "operator"},
		"state 5":       {State: 5, By: "operator"},
		"a long author": {State: ledger.Failed, By: long},
		"a long note":   {State: ledger.Failed, By: "operator", Note: long},
	} {
		if err := h.Store.Resolve(t.Context(), op.ID, 1, r); err == nil {
			t.Errorf("Resolve with %s: no error", name)
		}
	}
	same(t, "after bad resolutions", get(t, h.Store, op.ID), before)
}

// testConcurrentResolve lets operators, one who resumes and the late process
// meet: one of them has it.
func testConcurrentResolve(t *testing.T, h *Harness) {
	stores := h.either(t)
	for round := range rounds {
		op := h.undecided(t)
		n := crowd(t, ledger.ErrFenced, func(i int) error {
			s := stores[i/4%len(stores)]
			switch i % 4 {
			case 0:
				return s.Finish(t.Context(), op.ID, 1, done(fmt.Sprint(i)))
			case 1:
				_, err := s.Resume(t.Context(), op.ID, 1, long)
				return err
			}
			return s.Resolve(t.Context(), op.ID, 1, found(fmt.Sprint(i)))
		})
		if n != 1 {
			t.Fatalf("round %d: %d of 64 who resolve, resume or finish won, want 1", round, n)
		}
	}
}
