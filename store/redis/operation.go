package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// operation reads what the scripts' view gives: a tag, the time, the fields of the
// operation, its steps and their results.
func (l *Ledger) operation(id [ledger.IDLen]byte, reply []any) (*ledger.Operation, error) {
	now, err := number(field(reply, 1))
	if err != nil {
		return nil, err
	}
	fields, _ := field(reply, 2).([]any)
	op, err := l.fields(id, now, fields)
	if err != nil {
		return nil, err
	}
	if op.Steps, err = l.steps(id, field(reply, 3), field(reply, 4)); err != nil {
		return nil, err
	}
	return op, nil
}

// fields reads the fields of an operation, in the order in which the scripts ask.
func (l *Ledger) fields(id [ledger.IDLen]byte, now int64, f []any) (*ledger.Operation, error) {
	damaged := errors.New("redis: an operation is damaged")
	if len(f) != 16 || len(text(f[0])) != ledger.IDLen || len(text(f[5])) != 32 {
		return nil, damaged
	}
	op := &ledger.Operation{
		ID: id, Flow: [ledger.IDLen]byte([]byte(text(f[0]))), Method: text(f[2]), Target: text(f[3]),
		Principal: []byte(text(f[4])), Answers: [32]byte([]byte(text(f[5]))),
		ResolvedBy: text(f[14]), Note: text(f[15]),
	}
	round, err := number(f[1])
	if err != nil {
		return nil, err
	}
	fence, err := number(f[8])
	if err != nil {
		return nil, err
	}
	op.Round, op.Fence = int(round), uint64(fence)
	if op.State, err = ledger.ParseState(text(f[7])); err != nil || fence < 1 {
		return nil, damaged
	}
	for i, to := range map[int]*time.Time{6: &op.Expires, 9: &op.Started, 10: &op.Finished, 11: &op.LeaseUntil, 12: &op.KeptUntil} {
		if *to, err = timeAt(f[i]); err != nil {
			return nil, err
		}
	}
	if op.State == ledger.Executing && op.LeaseUntil.UnixMilli() <= now {
		op.State = ledger.Unknown
	}
	op.Outcome, err = l.s.giveMaybe("operation", id[:], "outcome", f[13])
	if err != nil {
		return nil, err
	}
	return op, nil
}

// steps reads two hashes by step names: what is known of each, and the results.
func (l *Ledger) steps(id [ledger.IDLen]byte, steps, results any) ([]ledger.Step, error) {
	known, _ := steps.([]any)
	ended, _ := results.([]any)
	result := make(map[string]any, len(ended)/2)
	for i := 0; i+1 < len(ended); i += 2 {
		result[text(ended[i])] = ended[i+1]
	}
	type ordered struct {
		ledger.Step
		order int
	}
	var all []ordered
	for i := 0; i+1 < len(known); i += 2 {
		name := text(known[i])
		step, order, err := l.step(id, name, text(known[i+1]), result[name])
		if err != nil {
			return nil, err
		}
		all = append(all, ordered{step, order})
	}
	slices.SortFunc(all, func(a, b ordered) int { return a.order - b.order })
	var out []ledger.Step
	for _, s := range all {
		out = append(out, s.Step)
	}
	return out, nil
}

// step reads "order fence began ended".
func (l *Ledger) step(id [ledger.IDLen]byte, name, known string, result any) (step ledger.Step, order int, err error) {
	var began, ended int64
	step.Name = name
	if n, err := fmt.Sscanf(known, "%d %d %d %d", &order, &step.Fence, &began, &ended); err != nil || n != 4 {
		return ledger.Step{}, 0, errors.New("redis: a step is damaged")
	}
	step.Began = time.UnixMilli(began)
	if ended != 0 {
		step.Ended = time.UnixMilli(ended)
	}
	if step.Result, err = l.s.giveMaybe("step", stepRow(id[:], name), "result", result); err != nil {
		return ledger.Step{}, 0, err
	}
	return step, order, nil
}

// listBudget is how many operations one script looks at.
const listBudget = 1000

// List implements [ledger.Store]. A long list is read in several steps, so a page
// may show operations as of different moments.
func (l *Ledger) List(ctx context.Context, q ledger.Query) (page []ledger.Operation, next string, err error) {
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	after, afterID, state := "", "", ""
	if q.After != "" {
		at, id, err := ledger.ParseCursor(q.After)
		if err != nil {
			return nil, "", err
		}
		after, afterID = fmt.Sprint(at.UnixMilli()), string(id[:])
	}
	if q.State != 0 {
		state = q.State.String()
	}
	bound := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return fmt.Sprint(ceilMillis(t))
	}
	for {
		// One more than asked for, to know whether there is a next page.
		reply, err := l.do(ctx, scriptOpList, after, afterID, bound(q.Since), bound(q.Until), state, string(q.Flow), q.Limit+1-len(page), listBudget)
		if err != nil {
			return nil, "", err
		}
		now, err := number(field(reply, 1))
		if err != nil {
			return nil, "", err
		}
		rows, _ := field(reply, 2).([]any)
		for i := 0; i+1 < len(rows); i += 2 {
			id := []byte(text(rows[i]))
			f, _ := rows[i+1].([]any)
			if len(id) != ledger.IDLen {
				return nil, "", errReply
			}
			op, err := l.fields([ledger.IDLen]byte(id), now, f)
			if err != nil {
				return nil, "", err
			}
			page = append(page, *op)
		}
		if len(page) > q.Limit {
			page = page[:q.Limit]
			last := page[q.Limit-1]
			return page, ledger.Cursor(last.Started, last.ID), nil
		}
		if text(reply[0]) != "more" {
			return page, "", nil
		}
		after, afterID = text(field(reply, 3)), text(field(reply, 4))
	}
}

// Counts implements [ledger.Counter].
func (l *Ledger) Counts(ctx context.Context) (ledger.Counts, error) {
	reply, err := l.do(ctx, scriptOpCount)
	if err != nil {
		return ledger.Counts{}, err
	}
	var c ledger.Counts
	for i, to := range []*int64{&c.Executing, &c.Succeeded, &c.Failed, &c.Unknown} {
		if *to, err = number(field(reply, i+1)); err != nil {
			return ledger.Counts{}, err
		}
	}
	return c, nil
}
