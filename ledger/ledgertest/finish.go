package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

func testFinish(t *testing.T, h *Harness) {
	for _, state := range []ledger.State{ledger.Succeeded, ledger.Failed} {
		s := h.start()
		first := begin(t, h.Store, s)
		beginStep(t, h.Store, s.ID, 1, "step")
		from := h.now()
		good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, ledger.Finish{State: state, Outcome: []byte("outcome")}))
		to := h.now()
		is(t, h.Store, s.ID, state, 1, "outcome")
		op := get(t, h.Store, s.ID)
		h.within(t, "Finished", op.Finished, from, to)
		h.within(t, "KeptUntil", op.KeptUntil, from.Add(s.Retention), to.Add(s.Retention)) // s.Keep is before that
		if !op.Started.Equal(first.Started) || len(op.Steps) != 1 || op.ResolvedBy != "" || op.Note != "" {
			t.Fatalf("Finish changed more than the end: %+v", op)
		}
		h.pass(2 * h.short())
		is(t, h.Store, s.ID, state, 1, "outcome")
	}
	s := h.start()
	s.Keep = h.now().Truncate(time.Millisecond).Add(3 * long)
	begin(t, h.Store, s)
	good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, done("outcome")))
	if op := get(t, h.Store, s.ID); !op.KeptUntil.Equal(s.Keep) {
		t.Fatalf("KeptUntil is %v, want Start.Keep, which is later than the retention: %v", op.KeptUntil, s.Keep)
	}
}

func testFinishAgain(t *testing.T, h *Harness) {
	for _, f := range []ledger.Finish{
		done("outcome"), {State: ledger.Failed, Outcome: []byte("outcome")}, {State: ledger.Succeeded},
		{State: ledger.Succeeded, Outcome: []byte{}}, {State: ledger.Unknown},
	} {
		op := h.running(t)
		good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, f))
		before := get(t, h.Store, op.ID)
		for range 3 {
			h.pass(0)
			good(t, fmt.Sprintf("Finish again with %v", f.State), h.Store.Finish(t.Context(), op.ID, 1, f))
		}
		same(t, "after Finish again", get(t, h.Store, op.ID), before)
	}
}

func testFinishOtherwise(t *testing.T, h *Harness) {
	for _, state := range []ledger.State{ledger.Succeeded, ledger.Failed} {
		op := h.running(t)
		good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: state, Outcome: []byte("outcome")}))
		before := get(t, h.Store, op.ID)
		for _, f := range []ledger.Finish{
			{State: ledger.Succeeded + ledger.Failed - state, Outcome: []byte("outcome")}, // the other state
			{State: state, Outcome: []byte("outcomE")}, {State: state, Outcome: []byte("outcome\x00")}, {State: state},
			{State: ledger.Unknown},
		} {
			fenced(t, "Finish otherwise", h.Store.Finish(t.Context(), op.ID, 1, f))
		}
		same(t, "after Finish otherwise", get(t, h.Store, op.ID), before)
	}
}

func testLateFinish(t *testing.T, h *Harness) {
	for _, state := range []ledger.State{ledger.Succeeded, ledger.Failed} {
		for name, op := range map[string]*ledger.Operation{"what lapsed": h.lapsed(t), "what is declared unknown": h.undecided(t)} {
			good(t, "Finish of "+name, h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: state, Outcome: []byte("late")}))
			is(t, h.Store, op.ID, state, 1, "late")
			if op := get(t, h.Store, op.ID); op.Finished.IsZero() || op.KeptUntil.IsZero() {
				t.Fatalf("late Finish gave %s no end", name)
			}
		}
	}
	op := h.lapsed(t)
	_, err := h.Store.Resume(t.Context(), op.ID, 1, h.short())
	good(t, "Resume", err)
	h.pass(h.short())
	fenced(t, "late Finish of what was taken over", h.Store.Finish(t.Context(), op.ID, 1, done("late")))
	is(t, h.Store, op.ID, ledger.Unknown, 2, "")
	good(t, "late Finish by who took it over", h.Store.Finish(t.Context(), op.ID, 2, done("later")))
	is(t, h.Store, op.ID, ledger.Succeeded, 2, "later")
}

func testFinishUnknown(t *testing.T, h *Harness) {
	for name, op := range map[string]*ledger.Operation{"what is executing": h.running(t), "what lapsed": h.lapsed(t)} {
		good(t, "Finish as unknown of "+name, h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: ledger.Unknown}))
		is(t, h.Store, op.ID, ledger.Unknown, 1, "")
		got := get(t, h.Store, op.ID)
		if got.Outcome != nil || !got.Finished.IsZero() || !got.KeptUntil.IsZero() {
			t.Fatalf("%s has ended by being declared unknown: %+v", name, got)
		}
		fenced(t, "Renew of what is declared unknown", h.Store.Renew(t.Context(), op.ID, 1, long))
		good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, done("found out")))
		is(t, h.Store, op.ID, ledger.Succeeded, 1, "found out")
	}
}

func testBadFinishes(t *testing.T, h *Harness) {
	op := h.running(t)
	before := get(t, h.Store, op.ID)
	for _, f := range []ledger.Finish{
		{}, {State: ledger.Executing}, {State: ledger.Unknown + 1}, {State: 255}, {State: ledger.Unknown, Outcome: []byte("outcome")}, {State: ledger.Unknown, Outcome: []byte{}},
	} {
		if err := h.Store.Finish(t.Context(), op.ID, 1, f); err == nil {
			t.Errorf("Finish as %v with %d bytes: no error", f.State, len(f.Outcome))
		}
	}
	same(t, "after bad finishes", get(t, h.Store, op.ID), before)
}

func (h *Harness) outcomes() [][]byte {
	var all []byte
	for i := range 512 {
		all = append(all, byte(i))
	}
	out := [][]byte{nil, {}, {0}, []byte(odd), all, bytes.Repeat([]byte(" "), 100), []byte("{\"a\": 1.0,\n\"a\":2}\n")}
	long := 1 << 20
	if h.MaxOutcome > 0 {
		long = min(long, h.MaxOutcome)
	}
	return append(out, bytes.Repeat(all, long/len(all)+1)[:long])
}

func testOutcomes(t *testing.T, h *Harness) {
	exact := func(id [ledger.IDLen]byte, want []byte) {
		t.Helper()
		if got := get(t, h.Store, id).Outcome; !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("outcome of %d bytes (nil: %v) came back as one of %d (nil: %v)", len(want), want == nil, len(got), got == nil)
		}
	}
	for i, outcome := range h.outcomes() {
		op := h.running(t)
		state := []ledger.State{ledger.Succeeded, ledger.Failed}[i%2]
		good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: state, Outcome: outcome}))
		exact(op.ID, outcome)
		op = h.undecided(t)
		good(t, "Resolve", h.Store.Resolve(t.Context(), op.ID, 1, ledger.Resolution{State: state, Outcome: outcome, By: "operator"}))
		exact(op.ID, outcome)
		op = h.running(t)
		good(t, "EndStep", h.Store.EndStep(t.Context(), op.ID, 1, "step", outcome, long))
		if got := get(t, h.Store, op.ID).Steps[0].Result; !bytes.Equal(got, outcome) {
			t.Errorf("result of %d bytes came back as another", len(outcome))
		}
	}
}

func testTooLarge(t *testing.T, h *Harness) {
	if h.MaxOutcome == 0 {
		t.Skip("needs a store whose limit can be reached: set Harness.MaxOutcome")
	}
	outcome := bytes.Repeat([]byte("x"), h.MaxOutcome+1)
	op, unknown := h.running(t), h.undecided(t)
	beginStep(t, h.Store, op.ID, 1, "step")
	before, unknownBefore := get(t, h.Store, op.ID), get(t, h.Store, unknown.ID)
	for name, err := range map[string]error{
		"Finish":  h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: ledger.Succeeded, Outcome: outcome}),
		"EndStep": h.Store.EndStep(t.Context(), op.ID, 1, "step", outcome, 2*long),
		"Resolve": h.Store.Resolve(t.Context(), unknown.ID, 1, ledger.Resolution{State: ledger.Failed, Outcome: outcome, By: "operator"}),
	} {
		if !errors.Is(err, ledger.ErrTooLarge) {
			t.Errorf("%s with one byte too many: error %v, want ErrTooLarge", name, err)
		}
	}
	same(t, "after that", get(t, h.Store, op.ID), before)
	same(t, "after that", get(t, h.Store, unknown.ID), unknownBefore)
	good(t, "EndStep", h.Store.EndStep(t.Context(), op.ID, 1, "step", outcome[1:], long))
	good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: ledger.Failed, Outcome: outcome[1:]}))
}

func testConcurrentFinish(t *testing.T, h *Harness) {
	stores := h.either(t)
	for round := range rounds {
		op := h.running(t)
		var winner atomic.Int32
		n := crowd(t, ledger.ErrFenced, func(i int) error {
			err := stores[i%len(stores)].Finish(t.Context(), op.ID, 1, done(fmt.Sprint(i)))
			if err == nil {
				winner.Store(int32(i))
			}
			return err
		})
		if n != 1 {
			t.Fatalf("round %d: %d of 64 concurrent finishes won, want 1", round, n)
		}
		is(t, h.Store, op.ID, ledger.Succeeded, 1, fmt.Sprint(winner.Load()))
	}
}

func testFinishOrResume(t *testing.T, h *Harness) {
	stores := h.either(t)
	for round := range rounds {
		op := h.lapsed(t)
		n := crowd(t, ledger.ErrFenced, func(i int) error {
			s := stores[i/2%len(stores)]
			if i%2 == 0 {
				return s.Finish(t.Context(), op.ID, 1, done(fmt.Sprint(i)))
			}
			_, err := s.Resume(t.Context(), op.ID, 1, long)
			return err
		})
		if n != 1 {
			t.Fatalf("round %d: %d of 64 who finish or resume won, want 1", round, n)
		}
		if got := get(t, h.Store, op.ID); (got.State == ledger.Succeeded) != (got.Fence == 1) || got.State == ledger.Unknown {
			t.Fatalf("operation is %v with fence %d", got.State, got.Fence)
		}
	}
}
