package foil_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/ledger"
)

// A faulty ledger fails where it is told to.
type faulty struct {
	ledger.Store
	renew, finish, step func() error
	renews              atomic.Int32
	hangs               bool // until the caller gives up
}

func (f *faulty) Renew(ctx context.Context, id [16]byte, fence uint64, lease time.Duration) error {
	f.renews.Add(1)
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.renew != nil {
		if err := f.renew(); err != nil {
			return err
		}
	}
	return f.Store.Renew(ctx, id, fence, lease)
}

func (f *faulty) Finish(ctx context.Context, id [16]byte, fence uint64, end ledger.Finish) error {
	if f.finish != nil {
		if err := f.finish(); err != nil {
			return err
		}
	}
	return f.Store.Finish(ctx, id, fence, end)
}

func (f *faulty) EndStep(ctx context.Context, id [16]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	if f.step != nil {
		if err := f.step(); err != nil {
			return err
		}
	}
	return f.Store.EndStep(ctx, id, fence, name, result, lease)
}

// newFaulty has a ledger on the clock of a synctest bubble; the Guard's stands still.
func newFaulty(t *testing.T, change func(*foil.Options)) (*settled, *faulty) {
	f := &faulty{}
	s := newSettled(t, func(o *foil.Options) {
		f.Store = ledger.NewMemory(nil)
		o.Ledger = f
		if change != nil {
			change(o)
		}
	})
	return s, f
}

// A handler may take longer than its lease as long as its process lives.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newFaulty(t, nil)
		token := s.seal(t, purge(), confirm())
		o := s.start(t, answering(accepted), token)
		its, err := o.Dispatch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(foil.DefaultLease / 2)
			wantOperation(t, openErr(s, answering(accepted), token), ledger.Executing)
		}
		if its.Err() != nil {
			t.Error("the handler's context has ended")
		}
		s.conclude(t, o, foil.Conclusion{Result: []byte(`1`)})
		if its.Err() == nil {
			t.Error("the handler's context lives on")
		}
		n := f.renews.Load()
		time.Sleep(10 * foil.DefaultLease)
		if f.renews.Load() != n {
			t.Error("the lease is renewed after the end")
		}
		s.wantRecorded(t, answering(accepted), token, `1`)
	})
}

// A handler learns that its operation was taken from it, or may have been.
func TestHandlerIsTold(t *testing.T) {
	for name, renew := range map[string]func() error{
		"fenced": func() error { return ledger.ErrFenced },
		"away":   func() error { return errDisk },
		"hangs":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f := newFaulty(t, func(o *foil.Options) { o.StoreTimeout = time.Hour })
				f.hangs = renew == nil
				o := s.start(t, answering(accepted), s.seal(t, purge(), confirm()))
				gone, hangUp := context.WithCancel(ctx)
				f.renew = renew // before there is a heartbeat, which runs beside this
				its, err := o.Dispatch(gone)
				if err != nil {
					t.Fatal(err)
				}
				hangUp()
				if its.Err() != nil {
					t.Error("a client that hung up ends what it had approved")
				}
				time.Sleep(foil.DefaultLease - time.Millisecond)
				if ended := its.Err() != nil; ended != (name == "fenced") {
					t.Errorf("before the lease is over: ended %v", ended)
				}
				time.Sleep(2 * time.Millisecond)
				if !errors.Is(context.Cause(its), ledger.ErrFenced) {
					t.Errorf("cause %v", context.Cause(its))
				}
				f.renew, f.hangs = nil, false
				_ = o.Conclude(ctx, foil.Conclusion{Err: errDisk})
			})
		})
	}
}

// A process that stood still between Open and its handler asks before it starts.
func TestDispatchAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newFaulty(t, func(o *foil.Options) { o.Resumable = true })
		token := s.seal(t, purge(), confirm())
		slow := s.start(t, answering(accepted), token)
		time.Sleep(foil.DefaultLease)
		fast := s.start(t, answering(accepted), token)
		if _, err := fast.Dispatch(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := slow.Dispatch(ctx); !errors.Is(err, foil.ErrOperation) {
			t.Errorf("two live dispatches: %v", err)
		}
		if f.renews.Load() == 0 {
			t.Error("nobody asked")
		}
		s.conclude(t, fast, foil.Conclusion{Result: []byte(`1`)})
	})
}

// An outcome that cannot be recorded is not told either: the retry would be told
// something else.
func TestOutcomeNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newFaulty(t, nil)
		token := s.seal(t, purge(), confirm())
		o := s.start(t, answering(accepted), token)
		tries := 0
		f.finish = func() error { tries++; return errDisk }
		wantOperation(t, o.Conclude(ctx, foil.Conclusion{Result: []byte(`1`)}), ledger.Unknown)
		if tries < 3 || !strings.Contains(s.log.String(), "result withheld") {
			t.Errorf("%d tries; log %s", tries, &s.log)
		}

		// An outage that is shorter than a lease is bridged.
		f.finish = nil
		s.now = s.now.Add(2 * time.Second)
		token = s.seal(t, purge(), confirm())
		o = s.start(t, answering(accepted), token)
		back := time.Now().Add(foil.DefaultLease / 2)
		f.finish = func() error {
			if time.Now().Before(back) {
				return errDisk
			}
			return nil
		}
		s.conclude(t, o, foil.Conclusion{Result: []byte(`1`)})
		s.now = s.now.Add(2 * time.Second)
		s.wantRecorded(t, answering(accepted), token, `1`)
	})
}

// A part that was done and is not recorded is an error: the handler must not go on
// as if a resumed one would know.
func TestStepNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newFaulty(t, nil)
		o := s.start(t, answering(accepted), s.seal(t, purge(), confirm()))
		f.step = func() error { return errDisk }
		ran := false
		_, err := o.Execution().Step(ctx, "a", func(context.Context) ([]byte, error) { ran = true; return nil, nil })
		if !ran || !errors.Is(err, foil.ErrUnavailable) {
			t.Errorf("ran %v, error %v", ran, err)
		}
		if _, ok := o.Execution().Done("a"); ok {
			t.Error("done")
		}
	})
}

// In every other mode a step is its function.
func TestNoExecution(t *testing.T) {
	b := newBench(t, nil)
	o := open(t, b, b.seal(t, purge(), confirm()))
	e := o.Execution()
	got, err := e.Step(ctx, "a", func(context.Context) ([]byte, error) { return []byte("x"), nil })
	if _, done := e.Done("a"); e != nil || string(got) != "x" || err != nil || done || e.Resumed() || e.Interrupted("a") {
		t.Errorf("got %q, %v", got, err)
	}
	its, err := o.Dispatch(ctx)
	if its != ctx || err != nil {
		t.Errorf("dispatch %v", err)
	}
	if err := o.Conclude(ctx, foil.Conclusion{Err: errDisk}); err != nil {
		t.Error(err)
	}
	if _, ok := o.Recorded(); ok {
		t.Error("recorded")
	}
}
