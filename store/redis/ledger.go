package redis

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// Ledger is the [ledger.Store] of a [Store]. Leases go by the server's clock. In a
// full server nothing new begins, but what has begun may still end, so that an
// outcome is not lost for lack of room.
type Ledger struct{ s *Store }

var (
	_ ledger.Store   = (*Ledger)(nil)
	_ ledger.Pinger  = (*Ledger)(nil)
	_ ledger.Counter = (*Ledger)(nil)
)

var errForgetful = errors.New("redis: with this Options.Durability the server may forget an operation, which could then start again: use Always, or set Options.LedgerMayForget")

// do runs a script that is not allowed on a ledger that may forget.
func (l *Ledger) do(ctx context.Context, sc *script, args ...any) ([]any, error) {
	if l.s.opts.Durability != Always && !l.s.opts.LedgerMayForget {
		return nil, errForgetful
	}
	reply, err := l.s.room(ctx, sc, args...)
	if isFull(err) {
		return nil, fmt.Errorf("%w: %w", ledger.ErrFull, err)
	}
	if err != nil {
		return nil, err
	}
	switch text(reply[0]) {
	case "fenced":
		return nil, ledger.ErrFenced
	case "full":
		return nil, ledger.ErrFull
	case "steps":
		return nil, ledger.ErrTooManySteps
	}
	return reply, nil
}

func fenceText(fence uint64) string { return strconv.FormatUint(fence, 10) }

// Begin implements [ledger.Store].
func (l *Ledger) Begin(ctx context.Context, st *ledger.Start) (op *ledger.Operation, started bool, err error) {
	if err := st.Check(); err != nil {
		return nil, false, err
	}
	if err := l.mayKeep(); err != nil { // or its outcome could not be kept
		return nil, false, err
	}
	attempt := make([]byte, attemptLen)
	rand.Read(attempt)
	own := *st // the call may outlive this one, and the caller's Start with it
	st, own.Principal = &own, bytes.Clone(st.Principal)
	reply, err := l.do(ctx, scriptBegin, st.ID[:], st.Flow[:], st.Round, st.Method, st.Target, st.Principal, st.Answers[:],
		st.Expires.UnixMilli(), millisUp(st.Lease), ceilMillis(st.Keep), millisUp(st.Retention),
		attempt, ledger.Minted(st.ID).UnixMilli(), l.s.opts.MaxOperations, millisUp(l.s.opts.Skew), l.s.sinceSweep())
	if err != nil {
		return nil, false, err
	}
	switch text(reply[0]) {
	case "swept":
		return nil, false, ledger.ErrSwept
	case "restored":
		return nil, false, ledger.ErrRestored
	case "started", "there":
		op, err := l.operation(st.ID, reply)
		return op, err == nil && text(reply[0]) == "started", err
	}
	return nil, false, errReply
}

// Get implements [ledger.Store].
func (l *Ledger) Get(ctx context.Context, id [ledger.IDLen]byte) (*ledger.Operation, error) {
	reply, err := l.do(ctx, scriptOpGet, id[:])
	if err != nil {
		return nil, err
	}
	if text(reply[0]) == "none" {
		return nil, ledger.ErrNotFound
	}
	return l.operation(id, reply)
}

// Renew implements [ledger.Store].
func (l *Ledger) Renew(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) error {
	if err := ledger.CheckLease(lease); err != nil {
		return err
	}
	_, err := l.do(ctx, scriptRenew, id[:], fenceText(fence), millisUp(lease))
	return err
}

// Resume implements [ledger.Store].
func (l *Ledger) Resume(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) (*ledger.Operation, error) {
	if err := ledger.CheckLease(lease); err != nil {
		return nil, err
	}
	if err := l.mayKeep(); err != nil {
		return nil, err
	}
	reply, err := l.do(ctx, scriptResume, id[:], fenceText(fence), millisUp(lease), ledger.Minted(id).UnixMilli())
	if err != nil {
		return nil, err
	}
	return l.operation(id, reply)
}

// BeginStep implements [ledger.Store].
func (l *Ledger) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	if err := errors.Join(ledger.CheckStep(name), ledger.CheckLease(lease)); err != nil {
		return ledger.Step{}, err
	}
	reply, err := l.do(ctx, scriptStepBegin, id[:], fenceText(fence), name, millisUp(lease), l.s.maxSteps)
	if err != nil {
		return ledger.Step{}, err
	}
	step, _, err := l.step(id, name, text(field(reply, 1)), field(reply, 2))
	return step, err
}

// EndStep implements [ledger.Store].
func (l *Ledger) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	if err := errors.Join(ledger.CheckStep(name), ledger.CheckLease(lease)); err != nil {
		return err
	}
	if len(result) > l.s.opts.MaxOutcome {
		return ledger.ErrTooLarge
	}
	has, stored, err := l.s.keepMaybe("step", stepRow(id[:], name), "result", result)
	if err != nil {
		return err
	}
	_, err = l.do(ctx, scriptStepEnd, id[:], fenceText(fence), name, millisUp(lease), l.s.maxSteps, has, stored)
	return err
}

// Finish implements [ledger.Store].
func (l *Ledger) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	if err := f.Check(l.s.opts.MaxOutcome); err != nil {
		return err
	}
	has, stored, err := l.s.keepMaybe("operation", id[:], "outcome", f.Outcome)
	if err != nil {
		return err
	}
	reply, err := l.do(ctx, scriptFinish, id[:], fenceText(fence), f.State.String(), has, stored)
	if err != nil || text(reply[0]) != "recorded" {
		return err
	}
	recorded, err := l.s.giveMaybe("operation", id[:], "outcome", field(reply, 1))
	if err != nil {
		return err
	}
	if !bytes.Equal(recorded, f.Outcome) || (recorded == nil) != (f.Outcome == nil) {
		return ledger.ErrFenced
	}
	return nil
}

// Resolve implements [ledger.Store].
func (l *Ledger) Resolve(ctx context.Context, id [ledger.IDLen]byte, fence uint64, r ledger.Resolution) error {
	if err := r.Check(l.s.opts.MaxOutcome); err != nil {
		return err
	}
	has, stored, err := l.s.keepMaybe("operation", id[:], "outcome", r.Outcome)
	if err != nil {
		return err
	}
	_, err = l.do(ctx, scriptResolve, id[:], fenceText(fence), r.State.String(), has, stored, r.By, r.Note)
	return err
}

// Ping implements [ledger.Pinger]: it writes, see [Store.Ping], and returns
// ledger.ErrFull while there is no room for an operation.
func (l *Ledger) Ping(ctx context.Context) error {
	if l.s.opts.Durability != Always && !l.s.opts.LedgerMayForget {
		return errForgetful
	}
	if err := l.mayKeep(); err != nil {
		return err
	}
	err := l.s.ping(ctx, "op", l.s.opts.MaxOperations, millisUp(l.s.opts.Skew))
	if errors.Is(err, errFull) || isFull(err) {
		return fmt.Errorf("%w: %w", ledger.ErrFull, err)
	}
	return err
}

// Ephemeral implements [ledger.Ephemeral]: it reports whether Options.Durability is
// None.
func (l *Ledger) Ephemeral() bool { return l.s.opts.Durability == None }

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (l *Ledger) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("redis.Ledger")) }

// mayKeep reports whether somebody said how content is to be kept.
func (l *Ledger) mayKeep() error {
	if l.s.opts.AtRest == nil && !l.s.opts.PlainAtRest {
		return errNoForm
	}
	return nil
}

// keepMaybe is keep for what may be nil, which is not kept at all.
func (s *Store) keepMaybe(table string, row []byte, column string, b []byte) (has bool, stored []byte, err error) {
	if b == nil {
		return false, nil, nil
	}
	stored, err = s.keep(table, row, column, b)
	return true, stored, err
}

func (s *Store) giveMaybe(table string, row []byte, column string, stored any) ([]byte, error) {
	if stored == nil {
		return nil, nil
	}
	return s.give(table, row, column, text(stored))
}
