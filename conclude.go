package foil

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// Execution returns the operation that this presentation carries out under
// Settle. It is nil in every other mode, and its methods may be called then.
func (o *Opened) Execution() *Execution { return o.exec }

// Recorded returns the outcome of the operation if an earlier presentation has
// executed it under Settle: send that, and call no handler.
func (o *Opened) Recorded() (r *Recorded, ok bool) { return o.recorded, o.recorded != nil }

// A Conclusion is how a handler ended.
type Conclusion struct {
	// Result is what the client gets, as it is to be repeated: the JSON of the
	// result without its requestState, or with Err that of the error. It may be
	// nil if Err does not match ledger.NoEffect.
	Result []byte
	// Asks is whether the result asks, and its state was sealed with this
	// Opened as Outgoing.Prev.
	Asks bool
	// Failed is whether the result tells a failure that is known.
	Failed bool
	// Err is the handler's error. Unless it is wrapped in [ledger.NoEffect],
	// nobody knows what was done: the operation is then unknown.
	Err error
}

// Conclude tells the Guard how the handler of this presentation ended, after Seal
// and before the answer is sent. It must be called once, whatever happened, a
// panic included. If it returns an error, send [Wire] of that instead of the
// result.
//
// Under Settle it records the outcome; under Deferred it looks whether the handler
// has spent the state. In every other mode it does nothing.
func (o *Opened) Conclude(ctx context.Context, end Conclusion) error {
	var err error
	switch {
	case o.deferral != nil:
		if err = o.concludeDeferred(ctx); err != nil {
			o.logEnd(ctx, err)
			o.g.reportEnd(ctx, o, err)
		}
	case o.exec != nil:
		err = o.exec.conclude(ctx, &end, o)
	}
	return err
}

// conclude records the outcome.
func (e *Execution) conclude(ctx context.Context, end *Conclusion, o *Opened) error {
	defer e.end()
	f, err := e.finish(end)
	if err == nil {
		err = e.record(ctx, f)
	}
	if errors.Is(err, ledger.ErrTooLarge) && !end.Asks { // a question that is lost cannot be asked
		f.Outcome = []byte{outcomeLost}
		e.g.o.Logger.LogAttrs(ctx, slog.LevelWarn, "result is too large to be recorded: it is sent once and cannot be repeated",
			slog.String("flow", e.flow), slog.Int("bytes", len(end.Result)))
		err = e.record(ctx, f)
	}
	status := OperationLost
	if err == nil {
		switch f.State {
		case ledger.Succeeded:
			status = OperationSucceeded
		case ledger.Failed:
			status = OperationFailed
		}
	}
	e.g.operation(ctx, o, status)
	switch {
	case err != nil:
		// It was done, or was taken over, and it is not recorded: what the
		// client is told must be what its retry is told.
		o.logEnd(ctx, err)
		return &OperationError{State: ledger.Unknown, Flow: e.flow}
	case f.State == ledger.Unknown:
		o.logLost(ctx)
	}
	return nil
}

var errAsks = errors.New("foil: a result that asks was concluded and no state had been sealed for it")

// finish is what to record.
func (e *Execution) finish(end *Conclusion) (f ledger.Finish, err error) {
	if end.Err != nil && !ledger.IsNoEffect(end.Err) {
		return ledger.Finish{State: ledger.Unknown}, nil
	}
	f.State = ledger.Succeeded
	if end.Failed || end.Err != nil {
		f.State = ledger.Failed
	}
	switch {
	case end.Err != nil:
		f.Outcome = append([]byte{outcomeError}, end.Result...)
	case end.Asks:
		e.mu.Lock()
		asked := e.asked
		e.mu.Unlock()
		if asked == nil {
			return f, errAsks
		}
		f.Outcome = binary.BigEndian.AppendUint32([]byte{outcomeAsks}, uint32(len(asked)))
		f.Outcome = append(append(f.Outcome, asked...), end.Result...)
		if len(f.Outcome) > e.g.o.MaxOutcome {
			// It could not be asked again.
			return f, errors.New("foil: a result that asks is longer than Options.MaxOutcome: ask less at once")
		}
	default:
		f.Outcome = append([]byte{outcomeResult}, end.Result...)
	}
	if len(f.Outcome) > e.g.o.MaxOutcome {
		return f, ledger.ErrTooLarge
	}
	return f, nil
}

// record writes the outcome. It tries for as long as a lease lasts, since the
// operation was carried out and the client waits to hear of it.
func (e *Execution) record(ctx context.Context, f ledger.Finish) error {
	ctx = context.WithoutCancel(ctx)
	return insist(time.Now().Add(e.g.o.Lease), func() error {
		_, err := ledgerCall(e.g, ctx, "finish", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, e.g.o.Ledger.Finish(ctx, e.id, e.fence, f)
		})
		return err
	})
}

// logEnd tells that a handler's result was withheld.
func (o *Opened) logEnd(ctx context.Context, err error) {
	level := slog.LevelError
	if ReasonOf(err) != "" {
		level = slog.LevelWarn
	}
	o.g.o.Logger.LogAttrs(ctx, level, "result withheld", slog.String("flow", o.Flow()), slog.Int("round", o.Round()), slog.String("error", err.Error()))
}

// logLost tells that a handler ended and nobody knows what it did. Its error is
// the handler's to log: it may hold anything.
func (o *Opened) logLost(ctx context.Context) {
	o.g.o.Logger.LogAttrs(ctx, slog.LevelError, "operation outcome unknown: the handler ended with an error that is not ledger.NoEffect; see foil ops show",
		slog.String("flow", o.Flow()), slog.Int("round", o.Round()))
}
