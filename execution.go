package foil

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// An Execution is the operation that one presentation carries out under Once:
// Settle. Its methods may be called on a nil Execution, which is that of every
// other mode: Step then just calls its function. It is safe for concurrent use
// and must not be kept beyond the handler.
type Execution struct {
	g       *Guard
	id      [ledger.IDLen]byte
	flow    string
	fence   uint64
	resumed bool

	mu      sync.Mutex
	steps   map[string]ledger.Step
	granted time.Time // before the call that extended the lease last
	ended   bool
	beat    *time.Timer
	cancel  context.CancelCauseFunc
	asked   []byte // the payload of the state that was sealed last
}

func (g *Guard) execution(o *Opened, op *ledger.Operation, granted time.Time, resumed bool) *Execution {
	e := &Execution{g: g, id: op.ID, flow: o.Flow(), fence: op.Fence, resumed: resumed, granted: granted, steps: make(map[string]ledger.Step)}
	for _, s := range op.Steps {
		e.steps[s.Name] = s
	}
	o.checks = &ClaimChecks{g: g, by: base64.RawURLEncoding.EncodeToString(op.ID[:]), exec: e}
	return e
}

// Resumed reports whether the operation was cut off before and is now carried on.
// Steps that are done return what they returned.
func (e *Execution) Resumed() bool { return e != nil && e.resumed }

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
// Names are unique within the flow, have 1 to 256 bytes and hold no secret.
// Results hold up to the ledger's limit, and are kept with the outcome.
func (e *Execution) Step(ctx context.Context, name string, fn func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	if e == nil {
		return fn(ctx)
	}
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
		if time.Since(granted) < e.g.o.Lease/2 {
			return s, nil
		}
	}
}

func (e *Execution) endStep(ctx context.Context, name string, result []byte) error {
	granted := time.Now()
	// The part is done, whether or not the client still waits.
	_, err := ledgerCall(e.g, context.WithoutCancel(ctx), "step", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, e.g.o.Ledger.EndStep(ctx, e.id, e.fence, name, result, e.g.o.Lease)
	})
	if err != nil {
		return e.failed("step", err)
	}
	e.extended(granted)
	e.note(ledger.Step{Name: name, Fence: e.fence, Ended: granted, Result: slices.Clone(result)})
	return nil
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
	if errors.Is(err, ledger.ErrTooLarge) || errors.Is(err, ledger.ErrFull) {
		return fmt.Errorf("foil: %s: %w", what, err)
	}
	return unavailable("ledger", err)
}

func (e *Execution) extended(granted time.Time) {
	e.mu.Lock()
	if granted.After(e.granted) {
		e.granted = granted
	}
	e.mu.Unlock()
}

func (e *Execution) stop(cause error) {
	e.mu.Lock()
	cancel := e.cancel
	e.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Dispatch is called right before the handler, with the request's context, and
// returns the handler's. Under Settle it checks that the operation is still this
// presentation's and renews its lease from then on; the context ends, with the
// cause [ledger.ErrFenced], when it no longer is. In every other mode it returns
// ctx.
//
// The context does not end because the client has gone: what was approved is
// carried out, and its outcome is there when the client comes back.
func (o *Opened) Dispatch(ctx context.Context) (context.Context, error) {
	e := o.exec
	if e == nil {
		return ctx, nil
	}
	e.mu.Lock()
	granted := e.granted
	e.mu.Unlock()
	if time.Since(granted) > e.g.o.Lease/3 {
		if err := e.renew(ctx); err != nil {
			return nil, &OperationError{State: ledger.Unknown, Flow: e.flow}
		}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel = cancel
	e.beat = time.AfterFunc(e.g.o.Lease/3, e.heartbeat)
	return ctx, nil
}

func (e *Execution) renew(ctx context.Context) error {
	granted := time.Now()
	_, err := ledgerCall(e.g, ctx, "renew", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, e.g.o.Ledger.Renew(ctx, e.id, e.fence, e.g.o.Lease)
	})
	if err == nil {
		e.extended(granted)
	}
	return err
}

// heartbeat renews the lease, and ends the handler's context when it cannot.
func (e *Execution) heartbeat() {
	e.mu.Lock()
	ended, left := e.ended, e.g.o.Lease-time.Since(e.granted)
	e.mu.Unlock()
	if ended {
		return
	}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if left > 0 { // a store that hangs must not hide that the lease is over
		ctx, cancel = context.WithTimeout(ctx, left)
	}
	err := e.renew(ctx)
	cancel()
	e.mu.Lock()
	lapsed := time.Since(e.granted) >= e.g.o.Lease
	next := e.g.o.Lease / 3
	if err != nil {
		next = e.g.o.Lease / 10
		if left := e.g.o.Lease - time.Since(e.granted); left > 0 {
			next = min(next, left) // the handler must not outlive the lease by a beat
		}
	}
	fenced := errors.Is(err, ledger.ErrFenced)
	if !e.ended && !fenced {
		e.beat.Reset(next)
	}
	ended = e.ended
	e.mu.Unlock()
	if ended || err == nil {
		return
	}
	if fenced || lapsed {
		e.g.o.Logger.LogAttrs(context.Background(), slog.LevelError, "operation lost while it was executing",
			slog.String("flow", e.flow), slog.String("error", err.Error()))
		e.stop(ledger.ErrFenced)
	}
}

// end stops the heartbeat.
func (e *Execution) end() {
	e.mu.Lock()
	e.ended = true
	if e.beat != nil {
		e.beat.Stop()
	}
	cancel := e.cancel
	e.mu.Unlock()
	if cancel != nil {
		cancel(context.Canceled)
	}
}

// asks keeps the claims of the state that the handler's result sends out.
func (e *Execution) asks(payload []byte) {
	e.mu.Lock()
	e.asked = slices.Clone(payload)
	e.mu.Unlock()
}

const idempotencyLabel = "foil/ledger/idempotency/v1"

// IdempotencyKey returns a key for one call of one provider: the same for every
// try of the same step in the same flow, on every replica, and another for every
// other. Give it to a provider that honours such keys. It is no secret.
func (o *Opened) IdempotencyKey(step, provider string) string {
	mac := hmac.New(sha256.New, []byte(idempotencyLabel))
	b := append([]byte(nil), o.claims.Flow[:]...)
	b = appendText(b, step)
	b = appendText(b, provider)
	mac.Write(b)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:24])
}

// String tells the flow.
func (e *Execution) String() string {
	if e == nil {
		return "no execution"
	}
	return "execution of flow " + e.flow
}

// Format prints what String gives, under every verb.
func (e *Execution) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(e.String())) }
