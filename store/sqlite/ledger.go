package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// Ledger is the [ledger.Store] of a [Store]. Leases are counted by Options.Now,
// in milliseconds. It needs Options.AtRest or PlainAtRest, which hold for
// outcomes and results of steps; methods, targets, principal tags and notes lie
// in the file as they are.
//
// A caller whose context or timeout ends gets an error at once. If the shared
// transaction had not begun by then, the error says that nothing was written;
// else it goes on, and its outcome is unknown to the caller. So is that of a
// commit that SQLite reports as failed. Begin never reports started then: the
// operation, if it was written, becomes unknown when its lease ends.
type Ledger struct{ s *Store }

var (
	_ ledger.Store   = (*Ledger)(nil)
	_ ledger.Pinger  = (*Ledger)(nil)
	_ ledger.Counter = (*Ledger)(nil)
)

// Begin implements [ledger.Store].
func (l *Ledger) Begin(ctx context.Context, s *ledger.Start) (op *ledger.Operation, started bool, err error) {
	if err := s.Check(); err != nil {
		return nil, false, err
	}
	if err := l.s.mayKeep(); err != nil { // or its outcome could not be kept
		return nil, false, err
	}
	st := *s
	st.Principal = optional(s.Principal) // the transaction may outlive this call
	// Rounded down, so that two moments within one millisecond are one.
	expires, minted := st.Expires.UnixMilli(), ledger.Minted(st.ID).UnixMilli()
	var begun *ledger.Operation
	var there *found
	var refused error
	err = l.s.write(ctx, func(c *conn) (err error) {
		now := l.s.opts.Now().UnixMilli()
		switch {
		case expires <= c.marks.operations:
			refused = ledger.ErrSwept
		case minted < c.marks.restored:
			refused = ledger.ErrRestored
		default:
			lease := leaseUntil(now, st.Lease)
			n, err := changed(c.beginOperation.ExecContext(context.Background(), st.ID[:], st.Flow[:], st.Round, st.Answers[:], st.Principal,
				expires, now, lease, ceilMillis(st.Keep), millisUp(st.Retention), blob(st.Method), blob(st.Target)))
			if err != nil {
				return err
			}
			if n == 1 {
				l.s.inserted++
				begun = newOperation(&st, now, lease)
				return nil
			}
		}
		there, err = readOperation(c.getOperation.QueryRowContext(context.Background(), st.ID[:]), now)
		return err
	})
	switch err = full(err, ledger.ErrFull); {
	case err != nil:
		return nil, false, err
	case begun != nil:
		return begun, true, nil
	case there == nil:
		return nil, false, cmp.Or(refused, errors.New("sqlite: database file is corrupted: an operation is there and is not"))
	}
	op, err = l.s.reveal(there)
	return op, false, err
}

func millisUp(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// Get implements [ledger.Store]. It reads without keeping anybody from writing,
// but where the connection that writes was lost, which the next write makes anew.
func (l *Ledger) Get(ctx context.Context, id [ledger.IDLen]byte) (*ledger.Operation, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.s.opts.Timeout, errLocked)
	defer cancel()
	var there *found
	err := l.s.view(ctx, func(ctx context.Context, q *sql.Conn) (err error) {
		there, err = readOperation(q.QueryRowContext(ctx, selectOperation, id[:]), l.s.opts.Now().UnixMilli())
		if err == nil && there != nil {
			err = there.readSteps(q.QueryContext(ctx, selectSteps, id[:]))
		}
		return plain(err)
	})
	if err != nil && ctx.Err() == nil {
		var again *found // fn may still run once write has returned
		if err = l.s.write(ctx, func(c *conn) (err error) {
			again, err = c.readWhole(id[:], l.s.opts.Now().UnixMilli())
			return err
		}); err == nil {
			there = again
		}
	}
	if err != nil {
		return nil, err
	}
	if there == nil {
		return nil, ledger.ErrNotFound
	}
	return l.s.reveal(there)
}

// Renew implements [ledger.Store].
func (l *Ledger) Renew(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) error {
	if err := ledger.CheckLease(lease); err != nil {
		return err
	}
	return l.own(ctx, id, fence, func(c *conn, now, f int64) (bool, error) {
		n, err := changed(c.renew.ExecContext(context.Background(), id[:], f, leaseUntil(now, lease)))
		return n == 1, err
	})
}

// Resume implements [ledger.Store].
func (l *Ledger) Resume(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) (*ledger.Operation, error) {
	if err := ledger.CheckLease(lease); err != nil {
		return nil, err
	}
	if err := l.s.mayKeep(); err != nil {
		return nil, err
	}
	var there *found
	err := l.own(ctx, id, fence, func(c *conn, now, f int64) (bool, error) {
		if ledger.Minted(id).UnixMilli() < c.marks.restored {
			return false, nil // what was done since the backup nobody knows
		}
		n, err := changed(c.resume.ExecContext(context.Background(), id[:], f, now, leaseUntil(now, lease)))
		if err != nil || n != 1 {
			return false, err
		}
		there, err = c.readWhole(id[:], now)
		return there != nil, err
	})
	if err != nil {
		return nil, err
	}
	return l.s.reveal(there)
}

// own writes as who has the fence; if fn reports that it is another's,
// ErrFenced is returned.
func (l *Ledger) own(ctx context.Context, id [ledger.IDLen]byte, fence uint64, fn func(c *conn, now, fence int64) (mine bool, err error)) error {
	f, valid := fenceNumber(fence)
	var mine bool
	err := l.s.write(ctx, func(c *conn) (err error) {
		if valid {
			mine, err = fn(c, l.s.opts.Now().UnixMilli(), f)
		}
		return err
	})
	if err = full(err, ledger.ErrFull); err == nil && !mine {
		err = ledger.ErrFenced
	}
	return err
}

// Finish implements [ledger.Store].
func (l *Ledger) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	if err := f.Check(l.s.opts.MaxOutcomeBytes); err != nil {
		return err
	}
	kept, sealed, err := l.s.sealOptional(operationTable, id[:], f.Outcome)
	if err != nil {
		return err
	}
	var ended bool
	var state int64
	var outcome content
	err = l.own(ctx, id, fence, func(c *conn, now, fence int64) (bool, error) {
		bg := context.Background()
		var n int
		var err error
		if f.State == ledger.Unknown {
			n, err = changed(c.finishUnknown.ExecContext(bg, id[:], fence))
		} else {
			n, err = changed(c.finish.ExecContext(bg, id[:], fence, int64(f.State), now, sealed, kept))
		}
		if err != nil || n == 1 {
			return n == 1, err
		}
		ended, err = one(c.ended.QueryRowContext(bg, id[:], fence), append([]any{&state}, outcome.to()...)...)
		return ended, err
	})
	if err != nil || !ended {
		return err
	}
	// It has ended under this fence: the same once more is no error.
	was, err := l.s.openContent(operationTable, id[:], &outcome)
	if err != nil {
		return err
	}
	if ledger.State(state) != f.State || (was == nil) != (f.Outcome == nil) || !bytes.Equal(was, f.Outcome) {
		return ledger.ErrFenced
	}
	return nil
}

// Resolve implements [ledger.Store].
func (l *Ledger) Resolve(ctx context.Context, id [ledger.IDLen]byte, fence uint64, r ledger.Resolution) error {
	if err := r.Check(l.s.opts.MaxOutcomeBytes); err != nil {
		return err
	}
	kept, sealed, err := l.s.sealOptional(operationTable, id[:], r.Outcome)
	if err != nil {
		return err
	}
	return l.own(ctx, id, fence, func(c *conn, now, f int64) (bool, error) {
		n, err := changed(c.resolve.ExecContext(context.Background(), id[:], f, now, int64(r.State), blob(r.By), optional([]byte(r.Note)), sealed, kept))
		return n == 1, err
	})
}

// Ping implements [ledger.Pinger]; see [Store.Ping].
func (l *Ledger) Ping(ctx context.Context) error {
	if err := l.s.mayKeep(); err != nil {
		return err
	}
	return l.s.Ping(ctx)
}

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (l *Ledger) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("sqlite.Ledger")) }
