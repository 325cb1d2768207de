package foil_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/ledger"
)

// A client that hangs up while its operation begins, or is resumed, gets it
// carried out all the same: else it would be unknown, and an operator's affair.
func TestSettleHungUpDuringBegin(t *testing.T) {
	l := &hangUp{}
	s := newSettled(t, func(o *foil.Options) {
		l.Store = o.Ledger
		o.Ledger, o.Resumable = l, true
	})
	token := s.seal(t, purge(), confirm())
	for _, again := range []bool{false, true} {
		var its context.Context
		its, l.cancel = context.WithCancel(ctx)
		o, err := s.Open(its, answering(accepted), token)
		if err != nil {
			t.Fatalf("resumed %v: %v", again, err)
		}
		if o.Execution() == nil || o.Execution().Resumed() != again {
			t.Fatalf("resumed %v, want %v", o.Execution().Resumed(), again)
		}
		s.now = s.now.Add(foil.DefaultLease + time.Second) // it dies
	}
}

// hangUp is a ledger whose caller's client is gone before the ledger answers.
type hangUp struct {
	ledger.Store
	cancel func()
}

func (h *hangUp) Begin(ctx context.Context, s *ledger.Start) (*ledger.Operation, bool, error) {
	op, started, err := h.Store.Begin(context.WithoutCancel(ctx), s)
	if !started {
		return op, started, err
	}
	h.cancel()
	return op, started, errors.Join(err, ctx.Err())
}

func (h *hangUp) Resume(ctx context.Context, id [16]byte, fence uint64, lease time.Duration) (*ledger.Operation, error) {
	op, err := h.Store.Resume(context.WithoutCancel(ctx), id, fence, lease)
	h.cancel()
	return op, errors.Join(err, ctx.Err())
}

// What one tool does wrong with its steps says nothing of the ledger's health.
func TestStepErrorsAreTheToolsOwn(t *testing.T) {
	for _, c := range []struct {
		name, step string
		told       error
	}{
		{"no name", "", nil},
		{"long name", strings.Repeat("x", ledger.MaxName+1), nil},
		{"too many", "a", ledger.ErrTooManySteps},
		{"too large", "a", ledger.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, f := newFaulty(t, nil)
			f.step = func() error { return c.told }
			o := s.start(t, answering(accepted), s.seal(t, purge(), confirm()))
			_, err := o.Execution().Step(ctx, c.step, func(context.Context) ([]byte, error) { return nil, nil })
			if err == nil || errors.Is(err, foil.ErrUnavailable) || c.told != nil && !errors.Is(err, c.told) {
				t.Errorf("got %v", err)
			}
			s.now = s.now.Add(time.Millisecond)
			s.start(t, answering(accepted), s.seal(t, purge(), confirm())) // is the ledger taken for down?
		})
	}
}

// Of two steps of one name at once one is done, and both get its result.
func TestStepIsDoneOnce(t *testing.T) {
	s, _ := newFaulty(t, nil)
	claim, err := s.checks.Issue(ctx, []byte("plan"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	o := s.start(t, answering(accepted), s.seal(t, purge(), confirm()))
	its, err := o.Dispatch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var ran sync.Mutex
	times := 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			got, err := o.Execution().Step(its, "a", func(context.Context) ([]byte, error) {
				ran.Lock()
				defer ran.Unlock()
				times++
				time.Sleep(20 * time.Millisecond) // others come in the meantime
				return []byte("x"), nil
			})
			if err != nil || string(got) != "x" {
				t.Errorf("step: %q, %v", got, err)
			}
			if plan, err := o.Claims().Redeem(its, claim); err != nil || string(plan) != "plan" {
				t.Errorf("plan: %q, %v", plan, err)
			}
		})
	}
	wg.Wait()
	if times != 1 || its.Err() != nil {
		t.Errorf("done %d times, context %v", times, context.Cause(its))
	}
}

// While a step of this name is at work another waits no longer than its context.
func TestStepWaitsForItsContext(t *testing.T) {
	s, _ := newFaulty(t, nil)
	e := s.start(t, answering(accepted), s.seal(t, purge(), confirm())).Execution()
	_, err := e.Step(ctx, "a", func(context.Context) ([]byte, error) {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_, err := e.Step(gone, "a", func(context.Context) ([]byte, error) { return nil, nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("inner: %v", err)
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What a step has done is written down, though the ledger is away for a while or
// its answer is lost.
func TestStepOutlastsAnOutage(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, f := newFaulty(t, nil)
			o := s.start(t, answering(accepted), s.seal(t, purge(), confirm()))
			back := time.Now().Add(foil.DefaultLease / 2)
			l := &lossy{faulty: f, lost: lost}
			f.Store = &lossyStore{f.Store, l}
			l.away = func() bool { return time.Now().Before(back) }
			times := 0
			for range 2 {
				got, err := o.Execution().Step(ctx, "a", func(context.Context) ([]byte, error) { times++; return []byte("x"), nil })
				if err != nil || string(got) != "x" {
					t.Fatalf("answers lost %v: %q, %v", lost, got, err)
				}
			}
			if times != 1 {
				t.Errorf("done %d times", times)
			}
			s.conclude(t, o, foil.Conclusion{Result: []byte(`1`)})
		})
	}
}

// Somebody else's step of this name is not taken for ours.
func TestStepOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newFaulty(t, nil)
		o := s.start(t, answering(accepted), s.seal(t, purge(), confirm()))
		tries := 0
		f.step = func() error {
			if tries++; tries == 1 {
				return errDisk
			}
			return ledger.ErrFenced
		}
		if _, err := o.Execution().Step(ctx, "a", func(context.Context) ([]byte, error) { return nil, nil }); !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("got %v", err)
		}
	})
}

type lossy struct {
	*faulty
	lost bool // the call is carried out, and its answer is lost
	away func() bool
}

type lossyStore struct {
	ledger.Store
	l *lossy
}

func (s *lossyStore) EndStep(ctx context.Context, id [16]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	if !s.l.away() {
		return s.Store.EndStep(ctx, id, fence, name, result, lease)
	}
	if s.l.lost {
		_ = s.Store.EndStep(ctx, id, fence, name, result, lease)
	}
	return errDisk
}

// A handler that hangs is not executing for ever.
func TestMaxExecution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newFaulty(t, func(o *foil.Options) { o.MaxExecution = 10 * time.Minute })
		token := s.seal(t, purge(), confirm())
		o := s.start(t, answering(accepted), token)
		its, err := o.Dispatch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Minute - time.Millisecond)
		if its.Err() != nil {
			t.Error("ended early")
		}
		time.Sleep(time.Second)
		if !errors.Is(context.Cause(its), context.DeadlineExceeded) || !strings.Contains(s.log.String(), "MaxExecution") {
			t.Errorf("cause %v, log %s", context.Cause(its), &s.log)
		}
		time.Sleep(foil.DefaultLease)
		wantOperation(t, openErr(s, answering(accepted), token), ledger.Unknown)
		_ = o.Conclude(ctx, foil.Conclusion{Err: errDisk})
	})
}

// A question that the ledger finds too large is not told as something done.
func TestQuestionTooLargeForTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newFaulty(t, nil)
		token := s.seal(t, purge(), confirm())
		o := s.start(t, answering(accepted), token)
		out := confirm()
		out.Prev = o
		s.seal(t, purge(), out)
		first := true
		f.finish = func() error {
			if first {
				first = false
				return ledger.ErrTooLarge
			}
			return nil
		}
		wantOperation(t, o.Conclude(ctx, foil.Conclusion{Asks: true, Result: []byte(`1`)}), ledger.Unknown)
	})
}
