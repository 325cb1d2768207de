package ledgertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/foilmcp/foil/ledger"
	"pgregory.net/rapid"
)

func (m *model) list(t *rapid.T) {
	q := ledger.Query{
		Flow:  m.flow[:],
		State: rapid.SampledFrom([]ledger.State{0, ledger.Executing, ledger.Succeeded, ledger.Failed, ledger.Unknown}).Draw(t, "state"),
		Limit: rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "limit"),
	}
	var got []ledger.Operation
	for range 10_000 {
		page, next, err := m.h.Store.List(t.Context(), q)
		m.expect(t, "List", err, nil)
		got = append(got, page...)
		if q.After = next; next == "" {
			break
		}
	}
	if !slices.IsSortedFunc(got, func(a, b ledger.Operation) int {
		return cmp.Or(a.Started.Compare(b.Started), bytes.Compare(a.ID[:], b.ID[:]))
	}) {
		t.Fatal("List is not in the order of the start, then of the ID")
	}
	seen := map[[ledger.IDLen]byte]bool{}
	for i := range got {
		o := m.ops[got[i].ID]
		if o == nil || o.gone || seen[got[i].ID] {
			t.Fatal("List returned what is not there, or twice")
		}
		seen[got[i].ID] = true
		m.compare(t, "List", &got[i], o, listed)
	}
	for _, id := range m.ids {
		o := m.ops[id]
		want := !o.gone && (q.State == 0 || o.stateAt(m.h.now()) == q.State)
		if seen[id] != want && !(want && m.forgettable(o)) {
			t.Fatalf("List of state %d has an operation: %v, want %v", q.State, seen[id], want)
		}
	}
}

// checkAll looks at every operation, between any two calls.
func (m *model) checkAll(t *rapid.T) {
	for _, id := range m.ids {
		o := m.ops[id]
		op, err := m.h.Store.Get(t.Context(), id)
		if m.forgettable(o) && errors.Is(err, ledger.ErrNotFound) {
			o.gone = true // in passing
		}
		if o.gone {
			m.expect(t, "Get of what is forgotten", err, ledger.ErrNotFound)
			continue
		}
		m.expect(t, "Get", err, nil)
		m.compare(t, "Get", op, o, whole)
	}
	if _, err := m.h.Store.Get(context.Background(), m.h.freshID()); !errors.Is(err, ledger.ErrNotFound) {
		t.Fatalf("Get of what is not there: %v", err)
	}
}

func (m *model) compareStep(t *rapid.T, got *ledger.Step, want *modelStep) {
	if got.Name != want.name || got.Fence != want.fence || got.Done() != want.done || string(got.Result) != want.result || got.Began.IsZero() {
		t.Fatalf("step is %+v, want %+v", got, want)
	}
}

// How much of an operation a call returns.
type extent int

const (
	listed      extent = iota // neither its outcome nor its steps
	withOutcome               // but not its steps
	whole
)

// compare fails unless op is what the model has, to that extent.
func (m *model) compare(t *rapid.T, what string, op *ledger.Operation, o *modelOp, much extent) {
	s := o.start
	if op.ID != s.ID || op.Flow != s.Flow || op.Round != s.Round || op.Method != s.Method || op.Target != s.Target ||
		!bytes.Equal(op.Principal, s.Principal) || op.Answers != s.Answers {
		t.Fatalf("%s: another operation came back than was begun", what)
	}
	if want := o.stateAt(m.h.now()); op.State != want || op.Fence != o.fence {
		t.Fatalf("%s: operation is %v with fence %d, want %v with %d", what, op.State, op.Fence, want, o.fence)
	}
	for name, times := range map[string][2]time.Time{
		"LeaseUntil": {op.LeaseUntil, o.lease}, "Finished": {op.Finished, o.finished}, "KeptUntil": {op.KeptUntil, o.keptUntil()},
	} {
		got, want := times[0], times[1]
		if name != "LeaseUntil" && !o.over() {
			want = time.Time{}
		}
		if name == "LeaseUntil" && o.state != ledger.Executing {
			continue
		}
		if got.IsZero() != want.IsZero() || got.Sub(want).Abs() > m.margin() {
			t.Fatalf("%s: %s is %v, want %v", what, name, got, want)
		}
	}
	if (op.ResolvedBy == "operator") != o.resolved || (op.Note == "a note") != o.resolved {
		t.Fatalf("%s: resolved by %q", what, op.ResolvedBy)
	}
	if much < withOutcome && op.Outcome != nil || much < whole && len(op.Steps) != 0 {
		t.Fatalf("%s: outcome or steps came with it", what)
	}
	if much == listed {
		return
	}
	if !alike(op.Outcome, o.outcome) {
		t.Fatalf("%s: outcome is %q, want %q", what, op.Outcome, o.outcome)
	}
	if much < whole {
		return
	}
	if len(op.Steps) != len(o.steps) {
		t.Fatalf("%s: operation has %d steps, want %d", what, len(op.Steps), len(o.steps))
	}
	for i := range op.Steps {
		m.compareStep(t, &op.Steps[i], &o.steps[i])
	}
}
