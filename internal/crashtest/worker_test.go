package crashtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/ledger"
)

var (
	errLost = errors.New("injected: the store is away")
	errGone = errors.New("injected: the provider is away")
)

// An order is what the driver lets a worker do that waits at a point.
type order int

const (
	goOn      order = iota
	die             // it is gone, and nothing of it runs any more
	lose            // the call that is next does not reach the store
	loseReply       // it does, and the answer is lost
)

// A worker is a process that was given the token once. It runs in a goroutine of
// its own and waits at every point for the driver.
type worker struct {
	w     *world
	n     int
	guard *foil.Guard

	at     string // the point where it waits; "" while it runs
	orders chan order
	thaw   chan struct{} // not nil while it is stopped, as by SIGSTOP
	dead   bool
	ended  bool
	cut    bool // from the store, for its heartbeat
	hurt   bool // a fault was injected into it
	froze  bool // it was stopped at the point where it is

	late    bool // it came when the outcome had been told to somebody
	running bool // its handler was called and has not returned
	ctx     context.Context
	fence   uint64
	began   map[string]uint64 // the steps that it was let begin last, and how far the fence was
	told    string
}

// here waits for the driver.
func (p *worker) here(point string) order {
	p.w.mu.Lock()
	p.at, p.froze = point, false
	p.w.mu.Unlock()
	o := <-p.orders
	if o == die {
		runtime.Goexit()
	}
	return o
}

// A seam is the ledger as one worker reaches it.
type seam struct {
	ledger.Store
	p *worker
}

// call makes one call of the store, if the driver lets it.
func (s *seam) call(name string, do func() error) error {
	switch s.p.here("before " + name) {
	case lose:
		return errLost
	case loseReply:
		_ = do()
		s.p.here("after " + name)
		return errLost
	}
	err := do()
	s.p.here("after " + name)
	return err
}

func (s *seam) Begin(ctx context.Context, st *ledger.Start) (op *ledger.Operation, started bool, err error) {
	err = s.call("begin", func() (err error) {
		op, started, err = s.Store.Begin(ctx, st)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	if started {
		s.p.fence = op.Fence
	}
	return op, started, nil
}

func (s *seam) Get(ctx context.Context, id [ledger.IDLen]byte) (op *ledger.Operation, err error) {
	err = s.call("get", func() (err error) {
		op, err = s.Store.Get(ctx, id)
		return err
	})
	return op, err
}

func (s *seam) Resume(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) (op *ledger.Operation, err error) {
	err = s.call("resume", func() (err error) {
		op, err = s.Store.Resume(ctx, id, fence, lease)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.p.fence = op.Fence
	return op, nil
}

// Renew is called by the heartbeat, so it does not wait for the driver: a process
// that is dead does not call, one that is stopped calls when it goes on.
func (s *seam) Renew(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) error {
	s.p.w.mu.Lock()
	dead, thaw, cut := s.p.dead, s.p.thaw, s.p.cut
	s.p.w.mu.Unlock()
	switch {
	case dead:
		return ledger.ErrFenced
	case thaw != nil:
		<-thaw
	case cut:
		return errLost
	}
	return s.Store.Renew(ctx, id, fence, lease)
}

func (s *seam) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (st ledger.Step, err error) {
	err = s.call("step", func() (err error) {
		st, err = s.Store.BeginStep(ctx, id, fence, name, lease)
		if err == nil {
			s.p.began[name] = s.p.w.fence()
		}
		return err
	})
	return st, err
}

func (s *seam) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	return s.call("done", func() error { return s.Store.EndStep(ctx, id, fence, name, result, lease) })
}

func (s *seam) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	return s.call("record", func() error { return s.Store.Finish(ctx, id, fence, f) })
}

// newWorker starts a worker that is about to present the token.
func (w *world) newWorker() error {
	p := &worker{w: w, n: len(w.workers), orders: make(chan order), began: make(map[string]uint64), late: w.told != ""}
	o := &foil.Options{
		Audience: "crash", Once: foil.Settle, Ledger: &seam{w.ledger, p}, Claims: w.claims, Lease: lease, StoreTimeout: time.Hour,
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		PolicyFor: func(_, _ string) foil.Policy { return foil.Policy{Resumable: w.steps} },
	}
	var err error
	if p.guard, err = foil.New(w.codec, o); err != nil {
		return err
	}
	w.workers = append(w.workers, p)
	w.wg.Go(func() {
		defer func() {
			w.mu.Lock()
			p.at, p.ended = "", true
			w.mu.Unlock()
		}()
		p.here("arrive")
		p.told = p.present()
		w.tell(p)
	})
	return nil
}

const (
	inProgress  = "in progress"
	unknown     = "unknown"
	unavailable = "unavailable"
	refused     = "refused"
)

// saysOf is what a client is told for err.
func saysOf(err error) string {
	e, ok := errors.AsType[*foil.OperationError](err)
	switch {
	case ok && e.State == ledger.Executing:
		return inProgress
	case ok:
		return unknown
	case errors.Is(err, foil.ErrUnavailable):
		return unavailable
	}
	return refused + ": " + string(foil.ReasonOf(err))
}

// present does what a server does with a state, and returns what the client gets.
func (p *worker) present() string {
	ctx := context.Background()
	o, err := p.guard.Open(ctx, request(true), p.w.token)
	if err != nil {
		return saysOf(err)
	}
	if r, ok := o.Recorded(); ok {
		return "result " + string(r.Result)
	}
	p.here("before dispatch")
	its, err := o.Dispatch(ctx)
	if err != nil {
		return saysOf(err)
	}
	p.w.dispatched(p, its)
	p.here("before handler")
	receipts, err := p.handler(its, o)
	p.running = false
	p.here("after handler")
	end := foil.Conclusion{Err: err}
	result := strings.Join(receipts, ",")
	if err == nil {
		end.Result = []byte(result)
	}
	if cerr := o.Conclude(ctx, end); cerr != nil {
		return saysOf(cerr)
	}
	p.here("before reply")
	if err != nil {
		return "error" // the handler's, whose operation is unknown
	}
	return "result " + result
}

// handler carries out the plan, in steps or as a whole.
func (p *worker) handler(ctx context.Context, o *foil.Opened) (receipts []string, err error) {
	raw, err := o.Claims().Redeem(ctx, o.State())
	if err != nil {
		return nil, err
	}
	for step := range strings.FieldsSeq(string(raw)) {
		act := func(ctx context.Context) ([]byte, error) { return p.effect(ctx, o, step) }
		var receipt []byte
		if p.w.steps {
			receipt, err = o.Execution().Step(ctx, step, act)
		} else {
			receipt, err = act(ctx)
		}
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, string(receipt))
	}
	return receipts, nil
}

// effect calls the provider, as a client of it does that heeds its context.
func (p *worker) effect(ctx context.Context, o *foil.Opened, step string) ([]byte, error) {
	switch p.here("before effect") {
	case lose:
		return nil, errGone
	case loseReply:
		_, _ = p.w.provide(p, step, o.IdempotencyKey(step, "provider"))
		return nil, errGone
	}
	if ctx.Err() != nil && !p.froze {
		return nil, context.Cause(ctx)
	}
	receipt, err := p.w.provide(p, step, o.IdempotencyKey(step, "provider"))
	p.here("after effect")
	return []byte(receipt), err
}

func (p *worker) String() string { return fmt.Sprintf("worker %d", p.n) }
