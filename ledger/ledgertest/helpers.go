package ledgertest

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// long is a lease, and a time to keep, that does not end within a test that
// does not move the clock.
const long = time.Hour

func (h *Harness) hasClock() bool { return h.Advance != nil && h.Now != nil }

func (h *Harness) now() time.Time {
	if h.hasClock() {
		return h.Now()
	}
	return time.Now()
}

// pass lets d pass by the clock of the store, and a little more.
func (h *Harness) pass(d time.Duration) {
	if h.hasClock() {
		h.Advance(d + 2*time.Millisecond)
	} else {
		time.Sleep(d + 50*time.Millisecond)
	}
}

// short is a lease that the suite can wait for.
func (h *Harness) short() time.Duration {
	if h.hasClock() {
		return 30 * time.Second
	}
	return 20 * time.Millisecond
}

func (h *Harness) needClock(t *testing.T) {
	t.Helper()
	if !h.hasClock() {
		t.Skip("needs a store with a clock of its own: set Harness.Now and Advance")
	}
}

func (h *Harness) needSweep(t *testing.T) {
	t.Helper()
	if h.Sweep == nil {
		t.Skip("needs a store that sweeps when told: set Harness.Sweep")
	}
}

func (h *Harness) sweep(t *testing.T) {
	t.Helper()
	if h.Sweep == nil {
		return // it forgets by itself, at any time
	}
	if err := h.Sweep(t.Context()); err != nil {
		t.Fatalf("Sweep: %v", err)
	}
}

func (h *Harness) peer(t *testing.T) ledger.Store {
	t.Helper()
	if h.Peer == nil {
		t.Skip("needs a store that replicas share: set Harness.Peer")
	}
	return h.Peer(t)
}

// within fails if got is not within what the clock of the store showed.
func (h *Harness) within(t *testing.T, what string, got, from, to time.Time) {
	t.Helper()
	slack := time.Millisecond
	if !h.hasClock() {
		slack = 2 * time.Second // between two clocks
	}
	if got.Before(from.Add(-slack)) || got.After(to.Add(slack)) {
		t.Errorf("%s is %v, want between %v and %v", what, got.UTC(), from.UTC(), to.UTC())
	}
}

// freshID is an ID that is minted now.
func (h *Harness) freshID() (id [ledger.IDLen]byte) {
	rand.Read(id[:])
	ms := h.now().UnixMilli()
	for i := 5; i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	return id
}

// start is the start of a fresh operation, with all times far away. Its times
// are whole milliseconds.
func (h *Harness) start() *ledger.Start {
	now := h.now().Truncate(time.Millisecond)
	s := &ledger.Start{
		ID: h.freshID(), Round: 1, Method: "tools/call", Target: "delete_bucket",
		Expires: now.Add(10 * time.Minute), Lease: long, Keep: now.Add(long), Retention: long,
	}
	rand.Read(s.Flow[:])
	rand.Read(s.Answers[:])
	return s
}

// brief is a start of an operation that may be forgotten soon after it ended.
func (h *Harness) brief() *ledger.Start {
	s := h.start()
	now := h.now().Truncate(time.Millisecond)
	s.Expires, s.Keep, s.Retention = now.Add(h.short()), now.Add(h.short()), 0
	return s
}

func begin(t *testing.T, s ledger.Store, st *ledger.Start) *ledger.Operation {
	t.Helper()
	op, started, err := s.Begin(t.Context(), st)
	if err != nil || !started || op == nil {
		t.Fatalf("Begin of what was never begun: started %v, error %v", started, err)
	}
	return op
}

// running begins a fresh operation with a long lease.
func (h *Harness) running(t *testing.T) *ledger.Operation {
	t.Helper()
	return begin(t, h.Store, h.start())
}

// lapsed begins a fresh operation and lets its lease run out.
func (h *Harness) lapsed(t *testing.T) *ledger.Operation {
	t.Helper()
	s := h.start()
	s.Lease = h.short()
	op := begin(t, h.Store, s)
	h.pass(h.short())
	return op
}

// undecided begins a fresh operation and finishes it as unknown.
func (h *Harness) undecided(t *testing.T) *ledger.Operation {
	t.Helper()
	op := h.running(t)
	good(t, "Finish", h.Store.Finish(t.Context(), op.ID, op.Fence, ledger.Finish{State: ledger.Unknown}))
	return op
}

func done(outcome string) ledger.Finish {
	return ledger.Finish{State: ledger.Succeeded, Outcome: []byte(outcome)}
}

func found(outcome string) ledger.Resolution {
	return ledger.Resolution{State: ledger.Failed, Outcome: []byte(outcome), By: "operator", Note: "looked it up"}
}

func get(t *testing.T, s ledger.Store, id [ledger.IDLen]byte) *ledger.Operation {
	t.Helper()
	op, err := s.Get(t.Context(), id)
	if err != nil || op == nil {
		t.Fatalf("Get: %v", err)
	}
	return op
}

// is fails unless the operation is in the state and has the fence and outcome.
func is(t *testing.T, s ledger.Store, id [ledger.IDLen]byte, state ledger.State, fence uint64, outcome string) {
	t.Helper()
	op := get(t, s, id)
	if op.State != state || op.Fence != fence || string(op.Outcome) != outcome {
		t.Fatalf("operation is %v with fence %d and an outcome of %d bytes; want %v, %d and %d bytes",
			op.State, op.Fence, len(op.Outcome), state, fence, len(outcome))
	}
}

func good(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func fenced(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, ledger.ErrFenced) {
		t.Fatalf("%s: error %v, want ErrFenced", what, err)
	}
}

// runs calls whatever only the process with the lease may call.
func runs(ctx context.Context, s ledger.Store, id [ledger.IDLen]byte, fence uint64) map[string]error {
	_, begun := s.BeginStep(ctx, id, fence, "a step of nobody", long)
	return map[string]error{
		"Renew":     s.Renew(ctx, id, fence, long),
		"BeginStep": begun,
		"EndStep":   s.EndStep(ctx, id, fence, "another step of nobody", []byte("result"), long),
	}
}

// takes calls whatever takes an operation away from its process.
func takes(ctx context.Context, s ledger.Store, id [ledger.IDLen]byte, fence uint64) map[string]error {
	_, resumed := s.Resume(ctx, id, fence, long)
	return map[string]error{
		"Resume":  resumed,
		"Resolve": s.Resolve(ctx, id, fence, found("nobody's finding")),
	}
}

func allFenced(t *testing.T, which string, calls map[string]error) {
	t.Helper()
	for name, err := range calls {
		if !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("%s %s: error %v, want ErrFenced", name, which, err)
		}
	}
}

// crowd lets 64 callers at once do something and returns how many had won. A
// caller that neither wins nor gets the error lost has failed.
func crowd(t *testing.T, lost error, do func(caller int) error) int {
	t.Helper()
	const callers = 64
	var mu sync.Mutex
	won := 0
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			<-start
			err := do(i)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, lost) {
				t.Errorf("concurrent call: %v", err)
			}
		})
	}
	close(start)
	wg.Wait()
	return won
}

// either are the stores over which a crowd is spread.
func (h *Harness) either(t *testing.T) []ledger.Store {
	t.Helper()
	if h.Peer == nil {
		return []ledger.Store{h.Store}
	}
	return []ledger.Store{h.Store, h.Peer(t)}
}

const rounds = 10 // of each race
