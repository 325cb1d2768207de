package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/foilmcp/foil/store"
)

const (
	// sweepChunk bounds what one transaction of Sweep deletes, so that other
	// callers get their turn in between.
	sweepChunk = 1000

	// A sweep in passing is due after so many new rows or so much time.
	passingIDs  = 256
	passingTime = 10 * time.Second
)

// Sweep deletes everything whose time has come, in transactions of bounded size,
// and first raises the sweep mark to the clock less Options.Skew, durably. Nobody
// needs to call it, as calls sweep a little in passing; it gives room back at a
// chosen moment. SQLite reuses the room within the file and does not shrink it. On
// an error the result says what was deleted before it. It is bounded by ctx and not
// by Options.Timeout.
func (s *Store) Sweep(ctx context.Context) (store.Swept, error) {
	var total store.Swept
	for {
		var n store.Swept
		var more bool
		err := s.writeWithin(ctx, slow, func(c *conn) (err error) {
			n, more = store.Swept{}, false
			if err := c.raise(s.horizon()); err != nil {
				return err
			}
			for _, t := range []struct {
				n     *int64
				sweep func() (int, error)
			}{
				{&n.Spent, func() (int, error) { return c.sweep(c.sweepIDs, c.marks.spent, sweepChunk) }},
				{&n.Claims, func() (int, error) { return c.sweep(c.sweepClaims, s.opts.Now().UnixMilli(), sweepChunk) }},
				{&n.Handles, func() (int, error) { return c.sweep(c.sweepHandles, s.horizon(), sweepChunk) }},
				{new(int64), func() (int, error) { return c.sweep(c.sweepSteps, s.horizon(), sweepChunk) }},
				{&n.Operations, func() (int, error) { return c.forgetOperations(s.horizon(), sweepChunk) }},
			} {
				swept, err := t.sweep()
				if err != nil {
					return err
				}
				*t.n = int64(swept)
				more = more || swept >= sweepChunk
			}
			s.inserted, s.swept = 0, s.opts.Now() // none is due in passing
			return nil
		})
		if err != nil {
			return total, err
		}
		total.Spent += n.Spent
		total.Claims += n.Claims
		total.Handles += n.Handles
		total.Operations += n.Operations
		if !more {
			return total, nil
		}
	}
}

// horizon is the greatest expires that may be forgotten now, rounded down.
func (s *Store) horizon() int64 { return s.opts.Now().Add(-s.opts.Skew).UnixMilli() }

// raise raises the sweep mark to until, if it is below.
func (c *conn) raise(until int64) error {
	if until <= c.marks.spent {
		return nil
	}
	if _, err := c.raiseMark.ExecContext(context.Background(), until); err != nil {
		return err
	}
	c.marks.spent = until
	return nil
}

// forgetOperations deletes operations that have ended and may be forgotten, and
// raises their mark to the greatest expires among them: that and no more, so that
// nothing is refused that cannot have been there. Their steps go before them, in
// portions of their own, since one may have many.
func (c *conn) forgetOperations(until int64, limit int) (n int, err error) {
	bg := context.Background()
	rows, err := c.sweepOperations.QueryContext(bg, until, limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	mark := c.marks.operations
	for ; rows.Next(); n++ {
		var expires int64
		if err := rows.Scan(&expires); err != nil {
			return 0, err
		}
		mark = max(mark, expires)
	}
	if err := rows.Err(); err != nil || mark == c.marks.operations {
		return n, err
	}
	_, err = c.raiseOperations.ExecContext(bg, mark)
	c.marks.operations = mark
	return n, err
}

func (c *conn) sweep(stmt *sql.Stmt, until int64, limit int) (n int, err error) {
	return changed(stmt.ExecContext(context.Background(), until, limit))
}

// sweepInPassing deletes a few rows in a transaction that is under way anyway:
// half as many again as were written since the last time, so that it overtakes
// what comes in and leaves it most of the disk's time. The mark rises only if there is something to delete.
func (s *Store) sweepInPassing(c *conn) error {
	now := s.opts.Now()
	passed := now.Sub(s.swept)
	if s.inserted < passingIDs && passed >= 0 && passed < passingTime {
		return nil
	}
	limit := max(passingIDs, s.inserted+s.inserted/2)
	s.inserted, s.swept = 0, now
	until := s.horizon()
	var due bool
	if err := c.dueIDs.QueryRowContext(context.Background(), until).Scan(&due); err != nil {
		return err
	}
	if due {
		if err := c.raise(until); err != nil {
			return err
		}
		if _, err := c.sweep(c.sweepIDs, c.marks.spent, limit); err != nil {
			return err
		}
	}
	if _, err := c.sweep(c.sweepClaims, now.UnixMilli(), passingIDs); err != nil {
		return err
	}
	if _, err := c.sweep(c.sweepHandles, until, limit); err != nil {
		return err
	}
	if _, err := c.sweep(c.sweepSteps, until, limit); err != nil {
		return err
	}
	_, err := c.forgetOperations(until, limit)
	return err
}

// changed returns how many rows a statement changed.
func changed(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}
