package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/foilmcp/foil/ledger"
)

func beginStep(t *testing.T, s ledger.Store, id [ledger.IDLen]byte, fence uint64, name string) ledger.Step {
	t.Helper()
	step, err := s.BeginStep(t.Context(), id, fence, name, long)
	good(t, "BeginStep", err)
	if step.Name != name {
		t.Fatalf("BeginStep returned the step %q, want %q", step.Name, name)
	}
	return step
}

func endStep(t *testing.T, s ledger.Store, id [ledger.IDLen]byte, fence uint64, name, result string) {
	t.Helper()
	good(t, "EndStep", s.EndStep(t.Context(), id, fence, name, []byte(result), long))
}

func testStepOrder(t *testing.T, h *Harness) {
	op := h.running(t)
	names := []string{"z", "a", "10", "9", "B", "m"}
	for _, name := range names {
		beginStep(t, h.Store, op.ID, 1, name)
	}
	endStep(t, h.Store, op.ID, 1, "m", "of m") // ended first, began last
	beginStep(t, h.Store, op.ID, 1, "9")
	endStep(t, h.Store, op.ID, 1, "without a beginning", "")
	beginStep(t, h.Store, op.ID, 1, "last")
	endStep(t, h.Store, op.ID, 1, "z", "of z")
	names = append(names, "without a beginning", "last")
	for range 2 {
		var got []string
		for _, s := range get(t, h.Store, op.ID).Steps {
			got = append(got, s.Name)
		}
		if fmt.Sprint(got) != fmt.Sprint(names) {
			t.Fatalf("steps are %q, want them in the order in which they began, %q", got, names)
		}
		h.pass(0)
		beginStep(t, h.Store, op.ID, 1, "a")
	}
}

// testStepAgain begins a step whose end was never told, as after a crash.
func testStepAgain(t *testing.T, h *Harness) {
	op := h.lapsed(t)
	from := h.now()
	first := beginStep(t, h.Store, op.ID, 1, "step")
	h.within(t, "Began", first.Began, from, h.now())
	if first.Done() || first.Fence != 1 || first.Result != nil {
		t.Fatalf("step that began is done %v, fence %d, with a result of %d bytes", first.Done(), first.Fence, len(first.Result))
	}
	good(t, "Renew", h.Store.Renew(t.Context(), op.ID, 1, h.short()))
	h.pass(h.short())
	_, err := h.Store.Resume(t.Context(), op.ID, 1, long)
	good(t, "Resume", err)
	if s := get(t, h.Store, op.ID).Steps; len(s) != 1 || s[0].Fence != 1 || s[0].Done() {
		t.Fatalf("after Resume, steps are %+v", s)
	}
	again := beginStep(t, h.Store, op.ID, 2, "step")
	if again.Done() || again.Fence != 2 || !again.Began.Equal(first.Began) {
		t.Fatalf("step that began again began at %v with fence %d; want %v, fence 2", again.Began, again.Fence, first.Began)
	}
	if s := get(t, h.Store, op.ID).Steps; len(s) != 1 || s[0].Fence != 2 || !s[0].Began.Equal(first.Began) || s[0].Done() || s[0].Result != nil {
		t.Fatalf("steps are %+v", s)
	}
	h.pass(0)
	from = h.now()
	endStep(t, h.Store, op.ID, 2, "step", "result")
	s := get(t, h.Store, op.ID).Steps[0]
	h.within(t, "Ended", s.Ended, from, h.now())
	if !s.Began.Equal(first.Began) || s.Fence != 2 || string(s.Result) != "result" {
		t.Fatalf("the step ended as %+v", s)
	}
}

func testStepDone(t *testing.T, h *Harness) {
	op := h.running(t)
	for _, result := range []string{"", "\x00", odd} {
		name := fmt.Sprintf("step %q", result)
		beginStep(t, h.Store, op.ID, 1, name)
		endStep(t, h.Store, op.ID, 1, name, result)
	}
	good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, ledger.Finish{State: ledger.Unknown}))
	_, err := h.Store.Resume(t.Context(), op.ID, 1, long)
	good(t, "Resume", err)
	before := get(t, h.Store, op.ID)
	h.pass(0)
	for i, result := range []string{"", "\x00", odd} {
		got := beginStep(t, h.Store, op.ID, 2, fmt.Sprintf("step %q", result))
		want := before.Steps[i]
		if !got.Done() || string(got.Result) != result || got.Fence != 1 || !got.Began.Equal(want.Began) || !got.Ended.Equal(want.Ended) {
			t.Fatalf("BeginStep of a done step returned %+v", got)
		}
	}
	after := get(t, h.Store, op.ID)
	after.LeaseUntil = before.LeaseUntil // nothing but the lease
	same(t, "after BeginStep of what is done", after, before)
}

func testStepEndsOnce(t *testing.T, h *Harness) {
	op := h.running(t)
	beginStep(t, h.Store, op.ID, 1, "step")
	endStep(t, h.Store, op.ID, 1, "step", "result")
	before := get(t, h.Store, op.ID)
	for _, result := range []string{"another", "result", ""} {
		fenced(t, "EndStep of what is done", h.Store.EndStep(t.Context(), op.ID, 1, "step", []byte(result), long))
	}
	after := get(t, h.Store, op.ID)
	after.LeaseUntil = before.LeaseUntil
	same(t, "after EndStep of what is done", after, before)
	beginStep(t, h.Store, op.ID, 1, "step")
	fenced(t, "EndStep of what is done", h.Store.EndStep(t.Context(), op.ID, 1, "step", []byte("another"), long))
}

func testStepWithoutBegin(t *testing.T, h *Harness) {
	op := h.running(t)
	from := h.now()
	endStep(t, h.Store, op.ID, 1, "step", "result")
	s := get(t, h.Store, op.ID).Steps
	if len(s) != 1 || s[0].Name != "step" || !s[0].Done() || string(s[0].Result) != "result" || s[0].Fence != 1 {
		t.Fatalf("steps are %+v", s)
	}
	h.within(t, "Began", s[0].Began, from, h.now())
	h.within(t, "Ended", s[0].Ended, from, h.now())
	if got := beginStep(t, h.Store, op.ID, 1, "step"); !got.Done() || string(got.Result) != "result" {
		t.Fatalf("BeginStep of it returned %+v", got)
	}
}

func testStepLease(t *testing.T, h *Harness) {
	calls := map[string]func(id [ledger.IDLen]byte) error{
		"BeginStep": func(id [ledger.IDLen]byte) error {
			_, err := h.Store.BeginStep(t.Context(), id, 1, "step", long)
			return err
		},
		"BeginStep of what is done": func(id [ledger.IDLen]byte) error {
			_, err := h.Store.BeginStep(t.Context(), id, 1, "done", long)
			return err
		},
		"EndStep": func(id [ledger.IDLen]byte) error {
			return h.Store.EndStep(t.Context(), id, 1, "step", nil, long)
		},
	}
	for name, call := range calls {
		s := h.start()
		s.Lease = h.short()
		begin(t, h.Store, s)
		good(t, "EndStep", h.Store.EndStep(t.Context(), s.ID, 1, "done", nil, h.short()))
		h.pass(h.short()) // it works after the lease ran out, as Renew does
		from := h.now()
		good(t, name, call(s.ID))
		h.within(t, "LeaseUntil after "+name, get(t, h.Store, s.ID).LeaseUntil, from.Add(long), h.now().Add(long))
		is(t, h.Store, s.ID, ledger.Executing, 1, "")
	}
}

func testStepNames(t *testing.T, h *Harness) {
	op := h.running(t)
	max := strings.Repeat("n", ledger.MaxName)
	names := []string{"step", "Step", "step ", " step", "step\x00", "step\x00a", "s", odd, "é", "e\u0301", max, max[1:], max[1:] + "m"}
	for i, name := range names {
		if got := beginStep(t, h.Store, op.ID, 1, name); got.Done() {
			t.Fatalf("step %q is done before it began", name)
		}
		endStep(t, h.Store, op.ID, 1, name, fmt.Sprint(i))
	}
	for i, name := range names {
		if got := beginStep(t, h.Store, op.ID, 1, name); string(got.Result) != fmt.Sprint(i) {
			t.Errorf("step %q has the result of another", name)
		}
	}
	other := h.running(t) // steps are of one operation
	if got := beginStep(t, h.Store, other.ID, 1, "step"); got.Done() {
		t.Error("another operation's step is done here")
	}
	for _, name := range []string{"", max + "n"} {
		if _, err := h.Store.BeginStep(t.Context(), op.ID, 1, name, long); err == nil {
			t.Errorf("BeginStep with a name of %d bytes: no error", len(name))
		}
		if err := h.Store.EndStep(t.Context(), op.ID, 1, name, nil, long); err == nil {
			t.Errorf("EndStep with a name of %d bytes: no error", len(name))
		}
	}
	if n := len(get(t, h.Store, op.ID).Steps); n != len(names) {
		t.Errorf("operation has %d steps, want %d", n, len(names))
	}
}

func testStepBound(t *testing.T, h *Harness) {
	if h.MaxSteps == 0 {
		t.Skip("needs a store whose bound of steps can be reached: set Harness.MaxSteps")
	}
	op := h.running(t)
	for i := range h.MaxSteps {
		name := fmt.Sprint("step ", i)
		if i%2 == 0 {
			beginStep(t, h.Store, op.ID, 1, name)
		} else {
			endStep(t, h.Store, op.ID, 1, name, "")
		}
	}
	for range 2 {
		if _, err := h.Store.BeginStep(t.Context(), op.ID, 1, "one too many", long); !errors.Is(err, ledger.ErrTooManySteps) || errors.Is(err, ledger.ErrFull) {
			t.Fatalf("BeginStep of one step too many: error %v, want ErrTooManySteps", err)
		}
		if err := h.Store.EndStep(t.Context(), op.ID, 1, "one too many", nil, long); !errors.Is(err, ledger.ErrTooManySteps) || errors.Is(err, ledger.ErrFull) {
			t.Fatalf("EndStep of one step too many: error %v, want ErrTooManySteps", err)
		}
	}
	beginStep(t, h.Store, op.ID, 1, "step 0")
	endStep(t, h.Store, op.ID, 1, "step 0", "")
	if n := len(get(t, h.Store, op.ID).Steps); n != h.MaxSteps {
		t.Fatalf("operation has %d steps, want %d", n, h.MaxSteps)
	}
	good(t, "Finish", h.Store.Finish(t.Context(), op.ID, 1, done("outcome")))
}

func testConcurrentEndStep(t *testing.T, h *Harness) {
	stores := h.either(t)
	for round := range rounds {
		op := h.running(t)
		if round%2 == 0 {
			beginStep(t, h.Store, op.ID, 1, "step")
		}
		n := crowd(t, ledger.ErrFenced, func(i int) error {
			return stores[i%len(stores)].EndStep(t.Context(), op.ID, 1, "step", []byte(fmt.Sprint(i)), long)
		})
		if n != 1 {
			t.Fatalf("round %d: %d of 64 concurrent ends of a step won, want 1", round, n)
		}
		if s := get(t, h.Store, op.ID).Steps; len(s) != 1 || !s[0].Done() {
			t.Fatalf("steps are %+v", s)
		}
	}
}
