package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

func (h *Harness) reopen(t *testing.T) ledger.Store {
	t.Helper()
	if h.Reopen == nil {
		t.Skip("needs a durable store: set Harness.Reopen")
	}
	return h.Reopen(t)
}

// oneOfEach are operations in every state that there is.
func (h *Harness) oneOfEach(t *testing.T) []*ledger.Start {
	t.Helper()
	var out []*ledger.Start
	add := func() *ledger.Start {
		s := h.start()
		s.Principal = []byte("principal-tag-of-24-byte")
		begin(t, h.Store, s)
		endStep(t, h.Store, s.ID, 1, "first", "result")
		beginStep(t, h.Store, s.ID, 1, "second")
		out = append(out, s)
		return s
	}
	add() // executing
	lapses := add()
	good(t, "Renew", h.Store.Renew(t.Context(), lapses.ID, 1, h.short()))
	for _, f := range []ledger.Finish{
		done("outcome"), {State: ledger.Failed}, {State: ledger.Succeeded, Outcome: []byte{}}, {State: ledger.Unknown}, {State: ledger.Unknown}, {State: ledger.Unknown},
	} {
		s := add()
		good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, f))
	}
	_, err := h.Store.Resume(t.Context(), out[len(out)-1].ID, 1, long)
	good(t, "Resume", err)
	good(t, "Resolve", h.Store.Resolve(t.Context(), out[len(out)-2].ID, 1, found("found")))
	h.pass(h.short())
	return out
}

// sees fails unless another store knows all that Store knew, and goes on with it.
func sees(t *testing.T, other ledger.Store, starts []*ledger.Start, known []*ledger.Operation) {
	t.Helper()
	for i, s := range starts {
		same(t, "Get by another", get(t, other, s.ID), known[i])
		op, started, err := other.Begin(t.Context(), s)
		if err != nil || started {
			t.Fatalf("Begin by another of what is there: started %v, error %v", started, err)
		}
		same(t, "Begin by another", op, bare(known[i]))
	}
	good(t, "Renew by another", other.Renew(t.Context(), starts[0].ID, 1, long))
	_, err := other.Resume(t.Context(), starts[1].ID, 1, long)
	good(t, "Resume by another", err)
	good(t, "Finish by another, again with the same", other.Finish(t.Context(), starts[2].ID, 1, done("outcome")))
	last := starts[len(starts)-1]
	fenced(t, "Finish by another with the old fence", other.Finish(t.Context(), last.ID, 1, done("outcome")))
	good(t, "Finish by another", other.Finish(t.Context(), last.ID, 2, done("outcome")))
}

func (h *Harness) known(t *testing.T, starts []*ledger.Start) (out []*ledger.Operation) {
	t.Helper()
	for _, s := range starts {
		out = append(out, get(t, h.Store, s.ID))
	}
	return out
}

func testRestart(t *testing.T, h *Harness) {
	starts := h.oneOfEach(t)
	known := h.known(t, starts)
	again := h.reopen(t)
	sees(t, again, starts, known)
	begin(t, again, h.start())
}

func testPeer(t *testing.T, h *Harness) {
	peer := h.peer(t)
	starts := h.oneOfEach(t)
	sees(t, peer, starts, h.known(t, starts))
	// And back: what the peer did is seen here.
	is(t, h.Store, starts[1].ID, ledger.Executing, 2, "")
	fenced(t, "Renew of what a peer took over", h.Store.Renew(t.Context(), starts[1].ID, 1, long))
	is(t, h.Store, starts[len(starts)-1].ID, ledger.Succeeded, 2, "outcome")
	s := h.start()
	begin(t, peer, s)
	if _, started, err := h.Store.Begin(t.Context(), s); started || err != nil {
		t.Fatalf("Begin of what a peer began: started %v, error %v", started, err)
	}
}

// marks lets Store forget an operation and be restored, and returns starts that
// are refused for the one and for the other.
func (h *Harness) marks(t *testing.T) (swept, old *ledger.Start) {
	t.Helper()
	swept = h.brief()
	from := h.now()
	h.forget(t, swept)
	if h.hasClock() {
		h.Advance(from.Sub(h.now()))
	}
	old = h.start()
	old.Expires = old.Expires.Add(long) // above the sweep mark
	h.pass(0)
	if h.Restored != nil {
		swept.ID = idAt(h.start(), h.now().Add(time.Hour)).ID // refused for one reason alone
		h.Restored(t)
	}
	return swept, old
}

func (h *Harness) marked(t *testing.T, s ledger.Store, swept, old *ledger.Start) {
	t.Helper()
	h.swept(t, s, swept)
	if h.Restored != nil {
		refusedAsRestored(t, s, old)
	}
}

func testMarkRestart(t *testing.T, h *Harness) {
	if h.Reopen == nil {
		t.Skip("needs a durable store: set Harness.Reopen")
	}
	h.needSweep(t)
	swept, old := h.marks(t)
	h.marked(t, h.reopen(t), swept, old)
}

func testMarkPeer(t *testing.T, h *Harness) {
	h.needSweep(t)
	peer := h.peer(t)
	begin(t, peer, h.start()) // it has read what marks there are
	swept, old := h.marks(t)
	h.marked(t, peer, swept, old)
}

func testFull(t *testing.T, h *Harness) {
	if h.Full == nil {
		t.Skip("needs a store that can be filled: set Harness.Full")
	}
	ended, executing, unknown := h.finished(t, h.start()), h.running(t), h.undecided(t)
	there := []*ledger.Operation{ended, executing, unknown}
	h.Full(t)
	var refused *ledger.Start
	for range 1000 {
		s := h.start()
		op, started, err := h.Store.Begin(t.Context(), s)
		if err != nil {
			if started || !errors.Is(err, ledger.ErrFull) {
				t.Fatalf("Begin in a full store: started %v, error %v; want ErrFull", started, err)
			}
			refused = s
			break
		}
		if !started {
			t.Fatal("Begin of what was never begun did not start it")
		}
		there = append(there, op)
	}
	if refused == nil {
		t.Fatal("store took a thousand operations; it does not refuse, or the harness does not fill it")
	}
	for range 3 {
		if _, started, err := h.Store.Begin(t.Context(), refused); started || err == nil {
			t.Fatalf("Begin in a full store: started %v, error %v; want an error", started, err)
		}
	}
	if h.hasClock() {
		h.Advance(long - 2*time.Millisecond) // full or not, nothing goes before its time
		_, started, err := h.Store.Begin(t.Context(), idAt(refused, h.now()))
		if started || err == nil {
			t.Fatalf("Begin in a full store: started %v, error %v; want an error", started, err)
		}
	}
	for _, op := range there {
		get(t, h.Store, op.ID)
	}
}

func testBroken(t *testing.T, h *Harness) {
	if h.Break == nil {
		t.Skip("needs a backend that can be taken away: set Harness.Break")
	}
	op, unknown, fresh := h.running(t), h.undecided(t), h.start()
	restore := h.Break(t)
	for name, err := range every(t.Context(), h.Store, op.ID, 1, fresh, unknown.ID) {
		if err == nil {
			t.Errorf("%s without a backend: no error", name)
		}
		for _, known := range []error{ledger.ErrFenced, ledger.ErrNotFound, ledger.ErrSwept, ledger.ErrRestored, ledger.ErrTooLarge} {
			if errors.Is(err, known) {
				t.Errorf("%s without a backend claims to know: %v", name, err)
			}
		}
	}
	restore()
	// Each write may have happened or not, but nothing else.
	if got := get(t, h.Store, op.ID); got.Fence != 1 || got.State != ledger.Executing && string(got.Outcome) != "of every" {
		t.Fatalf("after the backend came back, what was executing is %v with fence %d", got.State, got.Fence)
	}
	if got := get(t, h.Store, unknown.ID); got.Fence > 3 {
		t.Fatalf("after the backend came back, what was unknown has fence %d", got.Fence)
	}
	if _, _, err := h.Store.Begin(t.Context(), fresh); err != nil {
		t.Fatalf("Begin after the backend came back: %v", err)
	}
	if _, started, err := h.Store.Begin(t.Context(), fresh); err != nil || started {
		t.Fatalf("Begin again after the backend came back: started %v, error %v", started, err)
	}
	h.running(t)
}
