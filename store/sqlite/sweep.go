package sqlite

import (
	"context"
	"database/sql"
	"time"
)

const (
	// sweepChunk bounds what one transaction of Sweep deletes, so that other
	// callers get their turn in between.
	sweepChunk = 1000

	// A sweep in passing is due after so many new IDs or so much time.
	passingIDs  = 256
	passingTime = 10 * time.Second
)

// SweepResult says how much a sweep deleted.
type SweepResult struct {
	IDs    int // spent IDs past their time
	Claims int // claims past theirs, redeemed or not
}

// Sweep deletes everything whose time has come, and first raises the sweep mark
// to the clock less Options.Skew, durably. Nobody needs to call it, as calls
// sweep a little in passing; it gives room back at a chosen moment. SQLite
// reuses the room within the file and does not shrink it. On an error the
// result says what was deleted before it.
func (s *Store) Sweep(ctx context.Context) (SweepResult, error) {
	var total SweepResult
	for {
		var ids, claims int
		err := s.write(ctx, func(c *conn) (err error) {
			if err := c.raise(s.horizon()); err != nil {
				return err
			}
			if ids, err = c.sweep(c.sweepIDs, c.mark, sweepChunk); err != nil {
				return err
			}
			claims, err = c.sweep(c.sweepClaims, s.opts.Now().UnixMilli(), sweepChunk)
			s.inserted, s.swept = 0, s.opts.Now() // none is due in passing
			return err
		})
		if err != nil {
			return total, err
		}
		total.IDs += ids
		total.Claims += claims
		if ids < sweepChunk && claims < sweepChunk {
			return total, nil
		}
	}
}

// horizon is the greatest expires that may be forgotten now, rounded down.
func (s *Store) horizon() int64 { return s.opts.Now().Add(-s.opts.Skew).UnixMilli() }

// raise raises the sweep mark to until, if it is below.
func (c *conn) raise(until int64) error {
	if until <= c.mark {
		return nil
	}
	if _, err := c.raiseMark.ExecContext(context.Background(), until); err != nil {
		return err
	}
	c.mark = until
	return nil
}

func (c *conn) sweep(stmt *sql.Stmt, until int64, limit int) (n int, err error) {
	return changed(stmt.ExecContext(context.Background(), until, limit))
}

// sweepInPassing deletes a few rows in a transaction that is under way anyway:
// about twice as many IDs as were written since the last time, so that it keeps
// up. The mark rises only if there is something to delete.
func (s *Store) sweepInPassing(c *conn) error {
	now := s.opts.Now()
	passed := now.Sub(s.swept)
	if s.inserted < passingIDs && passed >= 0 && passed < passingTime {
		return nil
	}
	limit := 2*s.inserted + passingIDs
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
		if _, err := c.sweep(c.sweepIDs, c.mark, limit); err != nil {
			return err
		}
	}
	_, err := c.sweep(c.sweepClaims, now.UnixMilli(), passingIDs)
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
