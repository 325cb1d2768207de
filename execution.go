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
	running map[string]chan struct{} // names whose step is under way; closed when it ends
	granted time.Time                // before the call that extended the lease last
	until   time.Time                // when the handler's time is up
	ended   bool
	beat    *time.Timer
	cancel  context.CancelCauseFunc
	asked   []byte // the payload of the state that was sealed last
}

func (g *Guard) execution(o *Opened, op *ledger.Operation, granted time.Time, resumed bool) *Execution {
	e := &Execution{g: g, id: op.ID, flow: o.Flow(), fence: op.Fence, resumed: resumed, granted: granted, steps: make(map[string]ledger.Step), running: make(map[string]chan struct{})}
	for _, s := range op.Steps {
		e.steps[s.Name] = s
	}
	o.checks = &ClaimChecks{g: g, by: base64.RawURLEncoding.EncodeToString(op.ID[:]), exec: e}
	return e
}

// Resumed reports whether the operation was cut off before and is now carried on.
// Steps that are done return what they returned.
func (e *Execution) Resumed() bool { return e != nil && e.resumed }

func (e *Execution) extended(granted time.Time) {
	e.mu.Lock()
	if granted.After(e.granted) {
		e.granted = granted
	}
	e.mu.Unlock()
}

// elapsed is the time since t by the clock that shows more: the monotonic one
// stands still while a machine is suspended, and a lease does not.
func elapsed(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
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
// carried out, and its outcome is there when the client comes back. It ends, with
// the cause [context.DeadlineExceeded], after Options.MaxExecution.
func (o *Opened) Dispatch(ctx context.Context) (context.Context, error) {
	e := o.exec
	if e == nil {
		return ctx, nil
	}
	e.mu.Lock()
	granted := e.granted
	e.mu.Unlock()
	if elapsed(granted) > e.g.o.Lease/3 {
		if err := e.renew(context.WithoutCancel(ctx)); err != nil {
			return nil, &OperationError{State: ledger.Unknown, Flow: e.flow}
		}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel = cancel
	e.until = time.Now().Add(e.g.o.MaxExecution)
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
	ended, left, over := e.ended, e.g.o.Lease-elapsed(e.granted), !time.Now().Before(e.until)
	e.mu.Unlock()
	switch {
	case ended:
		return
	case over: // the lease runs out by itself, and the operation is unknown
		e.g.o.Logger.LogAttrs(context.Background(), slog.LevelError, "operation given up: its handler takes longer than Options.MaxExecution",
			slog.String("flow", e.flow), slog.Duration("max", e.g.o.MaxExecution))
		e.stop(context.DeadlineExceeded)
		return
	}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if left > 0 { // a store that hangs must not hide that the lease is over
		ctx, cancel = context.WithTimeout(ctx, left)
	}
	err := e.renew(ctx)
	cancel()
	e.mu.Lock()
	lapsed := elapsed(e.granted) >= e.g.o.Lease
	next := e.g.o.Lease / 3
	if err != nil {
		next = e.g.o.Lease / 10
		if left := e.g.o.Lease - elapsed(e.granted); left > 0 {
			next = min(next, left) // the handler must not outlive the lease by a beat
		}
	}
	fenced := errors.Is(err, ledger.ErrFenced)
	if !e.ended && !fenced {
		e.beat.Reset(min(next, time.Until(e.until)))
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
