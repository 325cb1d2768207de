package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// content is a column that may be sealed, as it lies in the file.
type content struct {
	sealed sql.NullString
	there  bool
	kept   []byte
}

func (c *content) to() []any { return []any{&c.sealed, &c.there, &c.kept} }

// openContent returns what a column holds, nil if nothing.
func (s *Store) openContent(at place, row []byte, c *content) ([]byte, error) {
	if !c.there {
		return nil, nil
	}
	return s.unseal(at, row, c.kept, c.sealed)
}

// found is an operation as it was read: what is sealed is opened once the
// transaction is over.
type found struct {
	op      ledger.Operation
	outcome content
	steps   []foundStep
}

type foundStep struct {
	step   ledger.Step
	result content
}

type scanner interface{ Scan(to ...any) error }

// scanOperation reads operationColumns and, if wanted, endColumns.
func (f *found) scan(row scanner, now int64, end bool) error {
	op := &f.op
	var id, flow, answers, method, target, by, note []byte
	var state, fence, expires, started, lease int64
	var finished, kept sql.NullInt64
	to := []any{&id, &flow, &op.Round, &answers, &op.Principal, &expires, &state, &fence, &started, &lease, &finished, &kept, &method, &target, &by, &note}
	if end {
		to = append(to, f.outcome.to()...)
	}
	if err := row.Scan(to...); err != nil {
		return err
	}
	if len(id) != ledger.IDLen || len(flow) != ledger.IDLen || len(answers) != len(op.Answers) || state < 1 || state > 4 {
		return errors.New("database file is corrupted: an operation has what none can have")
	}
	op.ID, op.Flow, op.Answers = [ledger.IDLen]byte(id), [ledger.IDLen]byte(flow), [32]byte(answers)
	op.Expires, op.Started, op.LeaseUntil = millis(expires), millis(started), millis(lease)
	op.State, op.Fence = ledger.State(state), uint64(fence)
	if op.State == ledger.Executing && lease <= now {
		op.State = ledger.Unknown
	}
	if finished.Valid {
		op.Finished, op.KeptUntil = millis(finished.Int64), millis(kept.Int64)
	}
	op.Method, op.Target, op.ResolvedBy, op.Note = string(method), string(target), string(by), string(note)
	return nil
}

// readOperation reads an operation without its steps; it is nil if there is none.
func readOperation(row scanner, now int64) (*found, error) {
	f := new(found)
	err := f.scan(row, now, true)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return f, err
}

// readSteps adds the steps of the operation.
func (f *found) readSteps(rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var s foundStep
		if err := s.scan(rows); err != nil {
			return err
		}
		f.steps = append(f.steps, s)
	}
	return rows.Err()
}

// readWhole reads an operation with its steps.
func (c *conn) readWhole(id []byte, now int64) (*found, error) {
	bg := context.Background()
	f, err := readOperation(c.getOperation.QueryRowContext(bg, id), now)
	if err == nil && f != nil {
		err = f.readSteps(c.getSteps.QueryContext(bg, id))
	}
	return f, err
}

func (s *foundStep) scan(row scanner) error {
	var name []byte
	var fence, began int64
	var ended sql.NullInt64
	if err := row.Scan(append([]any{&name, &fence, &began, &ended}, s.result.to()...)...); err != nil {
		return err
	}
	s.step = ledger.Step{Name: string(name), Fence: uint64(fence), Began: millis(began)}
	if ended.Valid {
		s.step.Ended = millis(ended.Int64)
	}
	return nil
}

// reveal opens what is sealed.
func (s *Store) reveal(f *found) (op *ledger.Operation, err error) {
	op = &f.op
	if op.Outcome, err = s.openContent(operationTable, op.ID[:], &f.outcome); err != nil {
		return nil, err
	}
	for i := range f.steps {
		step, err := s.revealStep(op.ID[:], &f.steps[i])
		if err != nil {
			return nil, err
		}
		op.Steps = append(op.Steps, step)
	}
	return op, nil
}

func (s *Store) revealStep(id []byte, f *foundStep) (step ledger.Step, err error) {
	f.step.Result, err = s.openContent(stepTable, stepRow(id, []byte(f.step.Name)), &f.result)
	if err != nil {
		return ledger.Step{}, err
	}
	return f.step, nil
}

// newOperation is the operation that a Start begins.
func newOperation(s *ledger.Start, now, lease int64) *ledger.Operation {
	return &ledger.Operation{
		ID: s.ID, Flow: s.Flow, Round: s.Round, Method: s.Method, Target: s.Target,
		Principal: bytes.Clone(s.Principal), Answers: s.Answers, Expires: millis(s.Expires.UnixMilli()),
		State: ledger.Executing, Fence: 1, Started: millis(now), LeaseUntil: millis(lease),
	}
}

func millis(ms int64) time.Time { return time.UnixMilli(ms) }

// leaseUntil is when a lease that begins now ends.
func leaseUntil(now int64, lease time.Duration) int64 {
	return ceilMillis(time.UnixMilli(now).Add(lease))
}

// blob is never nil, which SQLite would take for NULL.
func blob(s string) []byte { return append([]byte{}, s...) }

// optional is nil, which SQLite takes for NULL, for no bytes.
func optional(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

// fenceNumber reports whether a fence can be one of ours.
func fenceNumber(fence uint64) (int64, bool) { return int64(fence), fence >= 1 && int64(fence) > 0 }

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (f *found) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("sqlite.found")) }
