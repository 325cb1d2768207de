package postgres

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/jackc/pgx/v5"
)

// Ledger is the [ledger.Store] of a [Store]. Leases are counted by the clock of
// the server. The store is bounded by the server's disk: a full one is
// ledger.ErrFull.
type Ledger struct{ s *Store }

var (
	_ ledger.Store   = (*Ledger)(nil)
	_ ledger.Pinger  = (*Ledger)(nil)
	_ ledger.Counter = (*Ledger)(nil)
)

const (
	// stateNow is the state as of now.
	stateNow = `(CASE WHEN state = 1 AND lease_until <= {now} THEN 4 ELSE state END)`

	// isUnknown is its condition for one row.
	isUnknown = `(state = 4 OR state = 1 AND lease_until <= {now})`

	operationColumns = `id, flow, round, method, target, principal, answers, expires, ` + stateNow + `, fence,
		started, finished, lease_until, kept_until, resolved_by, note`

	insertOperation = `INSERT INTO {s}.operation (id, flow, round, method, target, principal, answers, expires, state, fence,
		started, lease_until, keep, retention, sealed, attempt)
	SELECT $1::bytea, $2::bytea, $3::integer, $4::bytea, $5::bytea, $6::bytea, $7::bytea, $8::bigint, 1, 1,
		n.now, n.now + $9::bigint, $10::bigint, $11::bigint, false, $12::bytea
	FROM {s}.mark m, (SELECT {now} AS now OFFSET 0) n
	WHERE m.one AND $8::bigint > m.ended AND $13::bigint >= m.restored
	ON CONFLICT (id) DO `

	beginOperation = insertOperation + `NOTHING`

	// The row of this very attempt, as long as it is its own, is written again,
	// so that this COMMIT waits for all that the first one had to wait for.
	beginAgain = insertOperation + `UPDATE SET lease_until = excluded.lease_until
	WHERE operation.attempt = excluded.attempt AND operation.fence = 1 AND operation.state = 1`

	// What was begun though the mark has risen meanwhile is undone. See
	// insertSpent.
	undoBegin = `DELETE FROM {s}.operation o USING {s}.mark m
	WHERE o.id = $1::bytea AND o.attempt = $2::bytea AND o.fence = 1 AND o.state = 1 AND m.one AND (m.ended >= $3::bigint OR m.restored > $4::bigint)`

	readMark      = `SELECT swept, ended, restored FROM {s}.mark WHERE one`
	readOperation = `SELECT ` + operationColumns + `, outcome, sealed, attempt, state FROM {s}.operation WHERE id = $1::bytea`
	readSteps     = `SELECT name, fence, began, ended, result, sealed FROM {s}.step WHERE operation = $1::bytea ORDER BY seq`
)

// operationRow is what the database has of an operation.
type operationRow struct {
	op                 ledger.Operation
	id, flow           []byte
	method, target     []byte
	answers            []byte
	by, note           []byte
	expires, started   int64
	lease              int64
	finished, kept     *int64
	state, storedState int16
	fence              int64
	attempt            []byte
	outcome            []byte // the outcome as it is kept
	sealed             bool
	steps              []stepRow
}

type stepRow struct {
	step   ledger.Step
	kept   []byte
	sealed bool
}

// dest are the columns of operationColumns.
func (r *operationRow) dest() []any {
	return []any{&r.id, &r.flow, &r.op.Round, &r.method, &r.target, &r.op.Principal, &r.answers, &r.expires, &r.state, &r.fence,
		&r.started, &r.finished, &r.lease, &r.kept, &r.by, &r.note}
}

// operation makes of a row what callers get, with outcome and steps opened.
func (s *Store) operation(r *operationRow) (*ledger.Operation, error) {
	op := &r.op
	if len(r.id) != ledger.IDLen || len(r.flow) != ledger.IDLen || len(r.answers) != len(op.Answers) {
		return nil, errors.New("postgres: a row of an operation is damaged")
	}
	op.ID, op.Flow, op.Answers = [ledger.IDLen]byte(r.id), [ledger.IDLen]byte(r.flow), [32]byte(r.answers)
	op.Method, op.Target, op.ResolvedBy, op.Note = string(r.method), string(r.target), string(r.by), string(r.note)
	op.State, op.Fence = ledger.State(r.state), uint64(r.fence)
	op.Expires, op.Started, op.LeaseUntil = time.UnixMilli(r.expires), time.UnixMilli(r.started), time.UnixMilli(r.lease)
	if r.finished != nil {
		op.Finished = time.UnixMilli(*r.finished)
	}
	if r.kept != nil {
		op.KeptUntil = time.UnixMilli(*r.kept)
	}
	var err error
	if op.Outcome, err = s.open(tableOperation, r.id, columnOutcome, r.outcome, r.sealed); err != nil {
		return nil, err
	}
	for i := range r.steps {
		st, err := s.step(r.id, &r.steps[i])
		if err != nil {
			return nil, err
		}
		op.Steps = append(op.Steps, st)
	}
	return op, nil
}

func (s *Store) step(operation []byte, r *stepRow) (ledger.Step, error) {
	var err error
	r.step.Result, err = s.open(tableStep, stepPlace(operation, r.step.Name), columnResult, r.kept, r.sealed)
	return r.step, err
}

// stepPlace names a step's row to the seal.
func stepPlace(operation []byte, name string) []byte {
	return append(append(make([]byte, 0, len(operation)+len(name)), operation...), name...)
}

func scanStep(row pgx.Row, r *stepRow) error {
	var name []byte
	var fence, began int64
	var ended *int64
	if err := row.Scan(&name, &fence, &began, &ended, &r.kept, &r.sealed); err != nil {
		return err
	}
	r.step = ledger.Step{Name: string(name), Fence: uint64(fence), Began: time.UnixMilli(began)}
	if ended != nil {
		r.step.Ended = time.UnixMilli(*ended)
	}
	return nil
}

// queueRead adds the statement that reads an operation without its steps.
func (st *statements) queueRead(found *bool, r *operationRow, id []byte) {
	st.row(found, append(r.dest(), &r.outcome, &r.sealed, &r.attempt, &r.storedState), readOperation, id)
}

// queueReadAll adds the statements that read an operation with its steps.
func (st *statements) queueReadAll(found *bool, r *operationRow, id []byte) {
	st.queueRead(found, r, id)
	st.queue(readSteps, id).Query(func(rows pgx.Rows) error {
		r.steps = nil
		for rows.Next() {
			var step stepRow
			if err := scanStep(rows, &step); err != nil {
				return err
			}
			r.steps = append(r.steps, step)
		}
		return rows.Err()
	})
}

// Begin implements [ledger.Store].
func (l *Ledger) Begin(ctx context.Context, s *ledger.Start) (op *ledger.Operation, started bool, err error) {
	if err := s.Check(); err != nil {
		return nil, false, err
	}
	// An operation whose outcome could not be written must not run.
	if err := l.s.checkAtRest(); err != nil {
		return nil, false, err
	}
	attempt := make([]byte, 16)
	_, _ = rand.Read(attempt) // never fails, as documented
	var r operationRow
	var found, marked bool
	var swept, mark, restored, undone int64
	expires, minted := s.Expires.UnixMilli(), ledger.Minted(s.ID).UnixMilli()
	args := beginArgs(s, attempt)
	err = l.s.decide(ctx, func(st *statements, again bool) {
		insert := beginOperation
		if again {
			insert = beginAgain
		}
		st.queue(insert, args...)
		st.changed(&undone, undoBegin, s.ID[:], attempt, expires, minted)
		st.row(&marked, []any{&swept, &mark, &restored}, readMark)
		st.queueRead(&found, &r, s.ID[:])
	})
	if code(err) == diskFull {
		return nil, false, because(ledger.ErrFull, err)
	}
	switch {
	case err != nil:
		return nil, false, err
	case !marked:
		return nil, false, fmt.Errorf("postgres: %w", errNoMark)
	case found:
		if op, err = l.s.operation(&r); err != nil {
			return nil, false, err
		}
		l.s.sweepInPassing()
		own := subtle.ConstantTimeCompare(r.attempt, attempt) == 1
		return op, own && r.fence == 1 && ledger.State(r.storedState) == ledger.Executing, nil
	case expires <= mark:
		return nil, false, ledger.ErrSwept
	case minted < restored:
		return nil, false, ledger.ErrRestored
	}
	return nil, false, errors.New("postgres: the operation was not written, for no reason that the store knows")
}

// beginArgs are the parameters of insertOperation.
func beginArgs(s *ledger.Start, attempt []byte) []any {
	var principal []byte // NULL if there is none
	if len(s.Principal) != 0 {
		principal = s.Principal
	}
	return []any{s.ID[:], s.Flow[:], s.Round, []byte(s.Method), []byte(s.Target), principal, s.Answers[:],
		s.Expires.UnixMilli(), ceilDuration(s.Lease), ceilMillis(s.Keep), ceilDuration(s.Retention), attempt, ledger.Minted(s.ID).UnixMilli()}
}

// Get implements [ledger.Store].
func (l *Ledger) Get(ctx context.Context, id [ledger.IDLen]byte) (*ledger.Operation, error) {
	var r operationRow
	var found bool
	err := l.s.do(ctx, func(st *statements) { st.queueReadAll(&found, &r, id[:]) })
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ledger.ErrNotFound
	}
	return l.s.operation(&r)
}

// Ping implements [ledger.Pinger]: it begins a made-up operation and takes it back
// in one transaction.
func (l *Ledger) Ping(ctx context.Context) error {
	if err := l.s.checkAtRest(); err != nil {
		return err
	}
	s := &ledger.Start{Round: 1, Lease: time.Second, Expires: time.UnixMilli(1 << 43), Keep: time.UnixMilli(1 << 43)}
	_, _ = rand.Read(s.ID[:])
	for i := range 6 {
		s.ID[i] = 0xff // younger than any restore
	}
	var begun, deleted int64
	err := l.s.do(ctx, func(st *statements) {
		st.changed(&begun, beginOperation, beginArgs(s, make([]byte, 16))...)
		st.changed(&deleted, `DELETE FROM {s}.operation WHERE id = $1::bytea`, s.ID[:])
	})
	if code(err) == diskFull {
		return because(ledger.ErrFull, err)
	}
	if err == nil && (begun != 1 || deleted != 1) {
		err = errors.New("postgres: an operation could not be begun")
	}
	return err
}

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (l *Ledger) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("postgres.Ledger")) }
