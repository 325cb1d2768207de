package postgres

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/jackc/pgx/v5"
)

const (
	// runs is the condition that a process still executes under its fence.
	runs = `id = $1::bytea AND fence = $2::bigint AND state = 1`

	renew = `UPDATE {s}.operation SET lease_until = {now} + $3::bigint WHERE ` + runs

	// What is older than a restore is left unknown: nobody knows what was done
	// since the backup. A restore at the same time raises the fence.
	resume = `UPDATE {s}.operation SET fence = fence + 1, state = 1, lease_until = {now} + $3::bigint
	WHERE id = $1::bytea AND fence = $2::bigint AND ` + isUnknown + ` AND EXISTS (SELECT FROM {s}.mark WHERE one AND restored <= $4::bigint)`

	// The operation is locked by renew in the same transaction, so that its
	// steps are numbered one after the other. That this transaction has written
	// the row is asked for: else a Resume that commits between the two statements
	// would let a step in whose renew had found nothing.
	putStep = `INSERT INTO {s}.step (operation, name, seq, fence, began, ended, result, sealed)
	SELECT o.id, $3::bytea, n.seq, $2::bigint, {now}, CASE WHEN $4::boolean THEN {now} END, $5::bytea, $6::boolean
	FROM {s}.operation o, (SELECT coalesce(max(seq), 0) + 1 AS seq FROM {s}.step WHERE operation = $1::bytea) n
	WHERE ` + runs + ` AND o.xmin = pg_current_xact_id()::xid AND (n.seq <= $7::integer OR EXISTS (SELECT FROM {s}.step WHERE operation = $1::bytea AND name = $3::bytea))
	ON CONFLICT (operation, name) DO UPDATE SET fence = excluded.fence, ended = excluded.ended, result = excluded.result, sealed = excluded.sealed
	WHERE step.ended IS NULL`

	readStep = `SELECT name, fence, began, ended, result, sealed FROM {s}.step WHERE operation = $1::bytea AND name = $2::bytea`

	ends = `finished = n.now, kept_until = greatest(n.now + retention, keep), outcome = $4::bytea, sealed = $5::boolean`

	finish = `UPDATE {s}.operation SET state = $3::smallint, ` + ends + `
	FROM (SELECT {now} AS now OFFSET 0) n WHERE id = $1::bytea AND fence = $2::bigint AND state IN (1, 4)`

	giveUp = `UPDATE {s}.operation SET state = 4 WHERE id = $1::bytea AND fence = $2::bigint AND state IN (1, 4)`

	resolve = `UPDATE {s}.operation SET state = $3::smallint, fence = fence + 1, resolved_by = $6::bytea, note = $7::bytea, ` + ends + `
	FROM (SELECT {now} AS now OFFSET 0) n WHERE id = $1::bytea AND fence = $2::bigint AND ` + isUnknown
)

// fenceArg is a fence for the database; false if none can be that.
func fenceArg(fence uint64) (int64, bool) { return int64(fence), fence >= 1 && fence <= math.MaxInt64 }

// one carries out a statement that changes the row of an operation, and then what
// build queues. ErrFenced says that there was no such row.
func (l *Ledger) one(ctx context.Context, id [ledger.IDLen]byte, fence uint64, sql string, args []any, then func(st *statements)) error {
	f, ok := fenceArg(fence)
	if !ok {
		return ledger.ErrFenced
	}
	var n int64
	err := l.s.do(ctx, func(st *statements) {
		st.changed(&n, sql, append([]any{id[:], f}, args...)...)
		if then != nil {
			then(st)
		}
	})
	if code(err) == diskFull {
		return because(ledger.ErrFull, err)
	}
	if err == nil && n != 1 {
		return ledger.ErrFenced
	}
	return err
}

// Renew implements [ledger.Store].
func (l *Ledger) Renew(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) error {
	if err := ledger.CheckLease(lease); err != nil {
		return err
	}
	return l.one(ctx, id, fence, renew, []any{ceilDuration(lease)}, nil)
}

// Resume implements [ledger.Store].
func (l *Ledger) Resume(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) (*ledger.Operation, error) {
	if err := ledger.CheckLease(lease); err != nil {
		return nil, err
	}
	if err := l.s.checkAtRest(); err != nil {
		return nil, err
	}
	var r operationRow
	var found bool
	err := l.one(ctx, id, fence, resume, []any{ceilDuration(lease), ledger.Minted(id).UnixMilli()}, func(st *statements) { st.queueReadAll(&found, &r, id[:]) })
	if err != nil {
		return nil, err
	}
	return l.s.operation(&r)
}

// BeginStep implements [ledger.Store].
func (l *Ledger) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	if err := ledger.CheckStep(name); err != nil {
		return ledger.Step{}, err
	}
	if err := ledger.CheckLease(lease); err != nil {
		return ledger.Step{}, err
	}
	var r stepRow
	var found bool
	err := l.one(ctx, id, fence, renew, []any{ceilDuration(lease)}, func(st *statements) {
		st.queue(putStep, id[:], int64(fence), []byte(name), false, nil, false, l.s.opts.maxSteps)
		st.readStep(&found, &r, id[:], name)
	})
	if err != nil {
		return ledger.Step{}, err
	}
	if !found {
		return ledger.Step{}, ledger.ErrTooManySteps
	}
	return l.s.step(id[:], &r)
}

// EndStep implements [ledger.Store].
func (l *Ledger) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	if err := ledger.CheckStep(name); err != nil {
		return err
	}
	if err := ledger.CheckLease(lease); err != nil {
		return err
	}
	if len(result) > l.s.opts.MaxOutcome {
		return ledger.ErrTooLarge
	}
	kept, sealed, err := l.s.seal(tableStep, stepPlace(id[:], name), columnResult, result)
	if err != nil {
		return err
	}
	var put int64
	var found bool
	var r stepRow
	err = l.one(ctx, id, fence, renew, []any{ceilDuration(lease)}, func(st *statements) {
		st.changed(&put, putStep, id[:], int64(fence), []byte(name), true, kept, sealed, l.s.opts.maxSteps)
		st.readStep(&found, &r, id[:], name)
	})
	switch {
	case err != nil:
		return err
	case !found:
		return ledger.ErrTooManySteps
	case put != 1:
		return ledger.ErrFenced
	}
	return nil
}

func (st *statements) readStep(found *bool, r *stepRow, operation []byte, name string) {
	st.queue(readStep, operation, []byte(name)).QueryRow(func(row pgx.Row) error {
		err := scanStep(row, r)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		*found = err == nil
		return err
	})
}

// Finish implements [ledger.Store].
func (l *Ledger) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	if err := f.Check(l.s.opts.MaxOutcome); err != nil {
		return err
	}
	if f.State == ledger.Unknown {
		return l.one(ctx, id, fence, giveUp, nil, nil)
	}
	kept, sealed, err := l.s.seal(tableOperation, id[:], columnOutcome, f.Outcome)
	if err != nil {
		return err
	}
	err = l.one(ctx, id, fence, finish, []any{int16(f.State), kept, sealed}, nil)
	if !errors.Is(err, ledger.ErrFenced) {
		return err
	}
	// Whoever lost the answer may ask again: the same is no error.
	op, err := l.Get(ctx, id)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return ledger.ErrFenced
	case err != nil:
		return err
	}
	same := op.Fence == fence && op.State == f.State && op.ResolvedBy == "" && bytes.Equal(op.Outcome, f.Outcome) && (op.Outcome == nil) == (f.Outcome == nil)
	if !same {
		return ledger.ErrFenced
	}
	return nil
}

// Resolve implements [ledger.Store].
func (l *Ledger) Resolve(ctx context.Context, id [ledger.IDLen]byte, fence uint64, r ledger.Resolution) error {
	if err := r.Check(l.s.opts.MaxOutcome); err != nil {
		return err
	}
	kept, sealed, err := l.s.seal(tableOperation, id[:], columnOutcome, r.Outcome)
	if err != nil {
		return err
	}
	return l.one(ctx, id, fence, resolve, []any{int16(r.State), kept, sealed, []byte(r.By), []byte(r.Note)}, nil)
}
