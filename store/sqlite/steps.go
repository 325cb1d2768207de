package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// BeginStep implements [ledger.Store].
func (l *Ledger) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	if err := errors.Join(ledger.CheckStep(name), ledger.CheckLease(lease)); err != nil {
		return ledger.Step{}, err
	}
	var s foundStep
	err := l.step(ctx, id, fence, name, lease, func(c *conn, now, f int64, there bool, was *foundStep) error {
		bg := context.Background()
		s = *was
		switch {
		case !there:
			s.step = ledger.Step{Name: name, Fence: fence, Began: millis(now)}
			return c.newStep(id[:], name, f, now, nil, sql.NullString{}, nil)
		case s.step.Done():
			return nil
		}
		s.step.Fence = fence
		_, err := c.againStep.ExecContext(bg, id[:], blob(name), f)
		return err
	})
	if err != nil {
		return ledger.Step{}, err
	}
	return l.s.revealStep(id[:], &s)
}

// EndStep implements [ledger.Store].
func (l *Ledger) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	if err := errors.Join(ledger.CheckStep(name), ledger.CheckLease(lease)); err != nil {
		return err
	}
	if len(result) > l.s.opts.MaxOutcomeBytes {
		return ledger.ErrTooLarge
	}
	kept, sealed, err := l.s.sealOptional(stepTable, stepRow(id[:], []byte(name)), result)
	if err != nil {
		return err
	}
	done := false
	err = l.step(ctx, id, fence, name, lease, func(c *conn, now, f int64, there bool, was *foundStep) error {
		if done = was.step.Done(); done {
			return nil
		}
		if !there {
			return c.newStep(id[:], name, f, now, &now, sealed, kept)
		}
		_, err := c.endStep.ExecContext(context.Background(), id[:], blob(name), f, now, sealed, kept)
		return err
	})
	if err == nil && done {
		err = ledger.ErrFenced
	}
	return err
}

// step extends the lease of who has the fence and tells fn of the step, if it is
// there. A step that is one too many is ErrTooManySteps, and then nothing is written.
func (l *Ledger) step(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration,
	fn func(c *conn, now, fence int64, there bool, was *foundStep) error,
) error {
	tooMany := false
	err := l.own(ctx, id, fence, func(c *conn, now, f int64) (bool, error) {
		bg := context.Background()
		var steps int
		if mine, err := one(c.running.QueryRowContext(bg, id[:], f), &steps); err != nil || !mine {
			return false, err
		}
		var was foundStep
		err := was.scan(c.getStep.QueryRowContext(bg, id[:], blob(name)))
		there := err == nil
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return false, err
		}
		if tooMany = !there && steps >= l.s.steps; tooMany {
			return true, nil
		}
		if _, err := c.renew.ExecContext(bg, id[:], f, leaseUntil(now, lease)); err != nil {
			return false, err
		}
		return true, fn(c, now, f, there, &was)
	})
	if err == nil && tooMany {
		err = ledger.ErrTooManySteps
	}
	return err
}

func (c *conn) newStep(id []byte, name string, fence, began int64, ended *int64, sealed sql.NullString, result []byte) error {
	bg := context.Background()
	if _, err := c.addStep.ExecContext(bg, id, blob(name), fence, began, ended, sealed, result); err != nil {
		return err
	}
	_, err := c.countStep.ExecContext(bg, id)
	return err
}

// one scans a row and reports whether there was one.
func one(row scanner, to ...any) (bool, error) {
	err := row.Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
