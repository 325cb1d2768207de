package postgres

import (
	"context"
	"time"

	"github.com/foilmcp/foil/store"
)

const (
	// sweepLimit bounds what one transaction of a sweep deletes. Operations
	// bring their steps with them.
	sweepLimit     = 1000
	sweepLimitSlow = 100

	// A sweep in passing is due after so many calls that write or so much time.
	passingWrites = 256
	passingTime   = 10 * time.Second
)

// A sweeping deletes at most $1 rows whose time has come. Of several that sweep at
// once each takes what the others have not.
type sweeping struct {
	mark string // raised in a transaction before, may be empty; parameters as in sql
	lock string // taken first in the same transaction, may be empty
	sql  string
	skew bool // $2 is the skew in milliseconds
}

// Claims and handles are counted by triggers, one shard after the other, so of
// two that delete several rows at once each could wait for the other.
const lockTable = `SELECT pg_advisory_xact_lock(1718577516, '{s}.claim'::regclass::oid::integer)`

var (
	// It deletes only below the mark as it is committed, so that whoever misses
	// a row sees the mark.
	sweepSpent = sweeping{sql: `DELETE FROM {s}.spent WHERE id = ANY (ARRAY (
		SELECT id FROM {s}.spent WHERE expires <= (SELECT swept FROM {s}.mark WHERE one)
		ORDER BY expires LIMIT $1::integer FOR UPDATE SKIP LOCKED))`}

	sweepClaims = sweeping{lock: lockTable, sql: `DELETE FROM {s}.claim WHERE key = ANY (ARRAY (
		SELECT key FROM {s}.claim WHERE expires <= (SELECT {now})
		ORDER BY expires LIMIT $1::integer FOR UPDATE SKIP LOCKED))`}

	sweepHandles = sweeping{lock: lockTable, skew: true, sql: `DELETE FROM {s}.handle WHERE key = ANY (ARRAY (
		SELECT key FROM {s}.handle WHERE expires <= (SELECT {now} - $2::bigint)
		ORDER BY expires LIMIT $1::integer FOR UPDATE SKIP LOCKED))`}

	sweepOperations = sweeping{skew: true, mark: raiseEnded, sql: `DELETE FROM {s}.operation WHERE id = ANY (ARRAY (
		SELECT id FROM {s}.operation WHERE kept_until <= (SELECT {now} - $2::bigint) AND expires <= (SELECT ended FROM {s}.mark WHERE one)
		ORDER BY kept_until LIMIT $1::integer FOR UPDATE SKIP LOCKED))`}
)

// raiseSwept raises the mark of spent tokens to the clock less the skew: always,
// or if there is something to delete. raiseEnded raises that of operations to the
// greatest Expires of those that may be deleted next, and no further: an operation
// may be begun long after its Expires by who has checked it before.
const (
	raiseSwept = `UPDATE {s}.mark SET swept = n.until FROM (SELECT {now} - $1::bigint AS until OFFSET 0) n
	WHERE one AND swept < n.until AND ($2::boolean OR EXISTS (SELECT FROM {s}.spent WHERE expires <= n.until))`

	raiseEnded = `UPDATE {s}.mark SET ended = n.until FROM (SELECT max(expires) AS until FROM (
		SELECT expires FROM {s}.operation WHERE kept_until <= (SELECT {now} - $2::bigint) ORDER BY kept_until LIMIT $1::integer) d) n
	WHERE one AND ended < n.until`
)

func (s *Store) raise(ctx context.Context, always bool) error {
	return s.do(ctx, func(st *statements) { st.queue(raiseSwept, ceilDuration(s.opts.Skew), always) })
}

func (s *Store) sweepChunk(ctx context.Context, what sweeping, limit int) (n int64, err error) {
	args := []any{limit}
	if what.skew {
		args = append(args, ceilDuration(s.opts.Skew))
	}
	if what.mark != "" {
		if err := s.do(ctx, func(st *statements) { st.queue(what.mark, args...) }); err != nil {
			return 0, err
		}
	}
	err = s.do(ctx, func(st *statements) {
		if what.lock != "" {
			st.queue(what.lock)
		}
		st.changed(&n, what.sql, args...)
	})
	return n, err
}

// Sweep deletes everything whose time has come, and first raises the sweep mark
// to the server's clock less Options.Skew, durably. Nobody needs to call it, as
// calls sweep a little in passing; it gives room back at a chosen moment. It
// works in bounded transactions, and several may sweep at once. On an error the
// result says what was deleted before it.
func (s *Store) Sweep(ctx context.Context) (store.Swept, error) {
	var total store.Swept
	if err := s.raise(ctx, true); err != nil {
		return total, err
	}
	for _, part := range []struct {
		what  sweeping
		limit int
		n     *int64
	}{
		{sweepSpent, sweepLimit, &total.Spent},
		{sweepClaims, sweepLimit, &total.Claims},
		{sweepHandles, sweepLimit, &total.Handles},
		{sweepOperations, sweepLimitSlow, &total.Operations},
	} {
		for {
			n, err := s.sweepChunk(ctx, part.what, part.limit)
			if err != nil {
				return total, err
			}
			*part.n += n
			if n < int64(part.limit) {
				break
			}
		}
	}
	return total, nil
}

// sweepInPassing is called after each call that has written. Now and then it
// starts a sweep of about twice as much as was written meanwhile, so that the
// sweeps keep up. It never makes a call wait, and its errors are nobody's: the
// next one does the work.
func (s *Store) sweepInPassing() {
	written := s.written.Add(1)
	passed := time.Since(s.began) - time.Duration(s.swept.Load())
	if written < passingWrites && passed < passingTime || !s.sweeping.CompareAndSwap(false, true) {
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.working.Add(1)
	s.mu.Unlock()
	s.written.Add(-written)
	s.swept.Store(int64(time.Since(s.began)))
	go func() {
		defer s.working.Done()
		defer s.sweeping.Store(false)
		if s.raise(s.ctx, false) != nil {
			return
		}
		limit := int(min(2*written+passingWrites, sweepLimit))
		for _, what := range []sweeping{sweepSpent, sweepClaims, sweepHandles, sweepOperations} {
			if _, err := s.sweepChunk(s.ctx, what, limit); err != nil {
				return
			}
		}
	}()
}
