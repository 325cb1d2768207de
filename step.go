package foil

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// The steps of an operation: what is done once, however often it is carried on.

// Done reports whether a step of this name is done, and when: what a handler that
// resumes tells the person.
func (e *Execution) Done(name string) (at time.Time, ok bool) {
	if e == nil {
		return time.Time{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.steps[name]
	return s.Ended, s.Done()
}

// Interrupted reports whether a step of this name began in an earlier execution
// and is not known to have been done. Step calls its function again.
func (e *Execution) Interrupted(name string) bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.steps[name]
	return ok && !s.Done()
}

// Step does a part of the operation that must not be done twice: it writes down
// that the part begins, calls fn, and writes down its result. In an operation that
// is resumed, a part that is done is not done again: Step returns the result. A
// part that had begun, and of which nobody knows whether it was done, is done
// again: fn must be idempotent, or use the key of [Opened.IdempotencyKey].
//
// The fence is checked before and after. An error that matches
// [ledger.ErrFenced] says that somebody else has taken the operation over: stop at
// once. An error of fn is returned as it is, and the part is not done.
//
// Of two calls with one name at the same time the second waits for the first,
// and fn must not call Step with the name of its own step. While the ledger does
// not answer, Step goes on writing the result down until the lease is over.
//
// Names are unique within the flow, have 1 to 256 bytes and hold no secret; an
// operation has at most 100,000. Results hold up to the ledger's limit, and are
// kept with the outcome.
func (e *Execution) Step(ctx context.Context, name string, fn func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	if e == nil {
		return fn(ctx)
	}
	if err := ledger.CheckStep(name); err != nil {
		return nil, fmt.Errorf("foil: %w", err)
	}
	leave, err := e.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	step, err := e.beginStep(ctx, name)
	if err != nil || step.Done() {
		return step.Result, err
	}
	result, err := fn(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.endStep(ctx, name, result); err != nil {
		return nil, err
	}
	return result, nil
}

// input is Step for what the operation starts from: fetching it has no effect
// that could be done twice, so that it begins is not written down.
func (e *Execution) input(ctx context.Context, name string, fetch func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	if e == nil {
		return fetch(ctx)
	}
	leave, err := e.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	e.mu.Lock()
	s := e.steps[name]
	e.mu.Unlock()
	if s.Done() {
		return slices.Clone(s.Result), nil
	}
	input, err := fetch(ctx)
	if err != nil {
		return nil, err
	}
	return input, e.endStep(ctx, name, input)
}

// enter waits until no other call is at work on the step of this name.
func (e *Execution) enter(ctx context.Context, name string) (leave func(), err error) {
	for {
		e.mu.Lock()
		busy, ok := e.running[name]
		if !ok {
			done := make(chan struct{})
			e.running[name] = done
			e.mu.Unlock()
			return func() {
				e.mu.Lock()
				delete(e.running, name)
				e.mu.Unlock()
				close(done)
			}, nil
		}
		e.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (e *Execution) beginStep(ctx context.Context, name string) (ledger.Step, error) {
	for {
		granted := time.Now()
		s, err := ledgerCall(e.g, ctx, "step", func(ctx context.Context) (ledger.Step, error) {
			return e.g.o.Ledger.BeginStep(ctx, e.id, e.fence, name, e.g.o.Lease)
		})
		if err != nil {
			return ledger.Step{}, e.failed("step", err)
		}
		e.extended(granted)
		if s.Done() {
			e.note(s)
			return s, nil
		}
		// A process that was stopped between the answer and this line asks
		// again: its lease may be over.
		if elapsed(granted) < e.g.o.Lease/2 {
			return s, nil
		}
	}
}

// endStep writes down that a part is done, whether or not the client still waits.
// It tries for as long as the lease lasts: the effect is there, and must not be
// done again for want of a line in the ledger.
func (e *Execution) endStep(ctx context.Context, name string, result []byte) error {
	e.mu.Lock()
	until := time.Now().Add(e.g.o.Lease - elapsed(e.granted))
	e.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	var granted time.Time
	unsure := false // whether an earlier try was carried out
	err := insist(until, func() error {
		granted = time.Now()
		_, err := ledgerCall(e.g, ctx, "step", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, e.g.o.Ledger.EndStep(ctx, e.id, e.fence, name, result, e.g.o.Lease)
		})
		if unsure && errors.Is(err, ledger.ErrFenced) && e.wrote(ctx, name, result) {
			return nil
		}
		unsure = true
		return err
	})
	if err != nil {
		return e.failed("step", err)
	}
	e.extended(granted)
	e.note(ledger.Step{Name: name, Fence: e.fence, Ended: granted, Result: slices.Clone(result)})
	return nil
}

// wrote looks whether this execution has written this result down.
func (e *Execution) wrote(ctx context.Context, name string, result []byte) bool {
	s, err := ledgerCall(e.g, ctx, "step", func(ctx context.Context) (ledger.Step, error) {
		return e.g.o.Ledger.BeginStep(ctx, e.id, e.fence, name, e.g.o.Lease)
	})
	return err == nil && s.Done() && s.Fence == e.fence && bytes.Equal(s.Result, result)
}

// insist calls write until it works, gets an answer that is final, or until is near.
// The pause between two tries doubles.
func insist(until time.Time, write func() error) error {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		err := write()
		if err == nil || final(err) || time.Now().Add(pause).After(until) {
			return err
		}
		time.Sleep(pause)
	}
}

// final reports whether an error of the ledger is an answer, which asking again
// does not change.
func final(err error) bool {
	return errors.Is(err, ledger.ErrFenced) || errors.Is(err, ledger.ErrTooLarge) || errors.Is(err, ledger.ErrTooManySteps)
}

func (e *Execution) note(s ledger.Step) {
	e.mu.Lock()
	e.steps[s.Name] = s
	e.mu.Unlock()
}

// failed wraps an error of the ledger, and ends the handler's context if the
// operation is no longer ours.
func (e *Execution) failed(what string, err error) error {
	if errors.Is(err, ledger.ErrFenced) {
		e.stop(err)
		return err
	}
	if final(err) || errors.Is(err, ledger.ErrFull) {
		return fmt.Errorf("foil: %s: %w", what, err)
	}
	return unavailable("ledger", err)
}
