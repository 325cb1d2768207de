package redis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// A keptStep is a step of an operation as it is stored: "order fence began ended", the
// length of its result, -1 without one, and the result if it was read.
type keptStep struct {
	name, known string
	length      int64
	result      any
}

func (r *row) readSteps(steps []any) {
	for _, v := range steps {
		f, _ := v.([]any)
		step := keptStep{name: text(field(f, 0)), known: text(field(f, 1)), length: -1, result: field(f, 3)}
		if n, err := number(field(f, 2)); err == nil {
			step.length = n
		}
		r.steps = append(r.steps, step)
	}
}

// stepRows calls fn with the steps of an operation, some at a time, in rows that are
// "step" and have the key of the operation. Their first field is the fence that the
// operation had, and a second one how many results belong to no step.
func (s *Store) stepRows(ctx context.Context, op *row, heads bool, fn func(*row) error) error {
	results := int64(-1) // when the scan began
	seen := make(map[string]bool)
	for cursor := "0"; ; {
		reply, err := s.do(ctx, scriptOpSteps, op.key, "scan", cursor)
		if err != nil {
			return err
		}
		if len(reply) < 4 {
			return errReply
		}
		if results < 0 {
			if results, err = number(reply[3]); err != nil {
				return err
			}
		}
		page := &row{table: "step", key: op.key, fields: []any{reply[2], nil}, now: op.now}
		page.readSteps(reply[4:])
		for _, step := range page.steps {
			if step.length >= 0 {
				seen[step.name] = true
			}
		}
		if err := s.readResults(ctx, page, heads, fn); err != nil {
			return err
		}
		if cursor = text(reply[1]); cursor == "0" {
			break
		}
	}
	// What was there when the scan began was met, unless it was swept since.
	if heads || int64(len(seen)) >= results {
		return nil
	}
	reply, err := s.do(ctx, scriptOpSteps, op.key, "lost")
	if err != nil {
		return err
	}
	return fn(&row{table: "step", key: op.key, fields: []any{nil, field(reply, 1)}, now: op.now})
}

// readResults calls fn with the steps of a page, so many at a time that their results
// are about as long as one script may read.
func (s *Store) readResults(ctx context.Context, page *row, heads bool, fn func(*row) error) error {
	for rest := page.steps; len(rest) > 0; {
		part := &row{table: "step", key: page.key, fields: page.fields, now: page.now}
		args := []any{page.key, "results", heads}
		n, sum := 0, int64(0)
		for n < len(rest) && sum < rowsBudget {
			if rest[n].length >= 0 {
				sum += rest[n].length
				args = append(args, rest[n].name)
			}
			n++
		}
		part.steps, rest = rest[:n], rest[n:]
		if len(args) > 3 {
			reply, err := s.do(ctx, scriptOpSteps, args...)
			if err != nil {
				return err
			}
			i := 0
			for j := range part.steps {
				if part.steps[j].length >= 0 {
					i++
					part.steps[j].result = field(reply, i)
				}
			}
		}
		part.readContents()
		if err := fn(part); err != nil {
			return err
		}
	}
	return nil
}

// stepProblems looks at steps, under the fence of their operation.
func (s *Store) stepProblems(r *row, fence string) (all []string) {
	if len(r.key) != ledger.IDLen {
		return nil // it is said of the operation
	}
	highest, err := number(fence)
	if err != nil {
		highest = -1 // it is gone, or damaged, which is said of it
	}
	for _, kept := range r.steps {
		step, _, err := s.Ledger().step([ledger.IDLen]byte(r.key), kept.name, kept.known, nil)
		switch {
		case err != nil:
			all = append(all, strings.TrimPrefix(err.Error(), "redis: "))
		case step.Fence < 1 || highest >= 0 && step.Fence > uint64(highest):
			all = append(all, fmt.Sprintf("the fence of step %q is above its own, or none", kept.name))
		case kept.length >= 0 && step.Ended.IsZero():
			all = append(all, fmt.Sprintf("step %q has a result and has not ended", kept.name))
		}
	}
	if lost, err := number(field(r.fields, 1)); r.table == "step" && err == nil && lost > 0 {
		all = append(all, fmt.Sprintf("%d results belong to no step", lost))
	}
	return all
}

func (s *Store) operationProblems(r *row) (all []string) {
	if len(r.key) != ledger.IDLen {
		return []string{"id is not 16 bytes"}
	}
	id := [ledger.IDLen]byte(r.key)
	op, _ := field(r.fields, 2).([]any)
	outcome := field(op, 13)
	if len(op) == 16 {
		op = append([]any{}, op...)
		op[13] = nil // its content is looked at by itself
	}
	o, err := s.Ledger().fields(id, 0, op) // at time zero no lease has run out
	if err != nil {
		return []string{strings.TrimPrefix(err.Error(), "redis: ")}
	}
	bad := func(is bool, detail string) {
		if is {
			all = append(all, detail)
		}
	}
	if sets := strings.TrimSpace(text(field(r.fields, 3))); sets != o.State.String() {
		all = append(all, fmt.Sprintf("it is %s, and listed as %q", o.State, sets))
	}
	due := text(field(r.fields, 4)) // in the list of its state
	bad(text(field(r.fields, 1)) != fmt.Sprint(o.Started.UnixMilli()), "started differs from the index")
	if ended := o.State == ledger.Succeeded || o.State == ledger.Failed; ended {
		bad(o.Finished.IsZero() || o.KeptUntil.IsZero(), "it has ended and has no time of its end, or none until which it is kept")
		bad(due != fmt.Sprint(o.KeptUntil.UnixMilli()), "it is swept at another time than it is kept until")
		promised, _ := field(r.fields, 5).([]any)
		retention, err1 := number(field(promised, 0))
		keep, err2 := number(field(promised, 1))
		bad(err1 != nil || err2 != nil || o.KeptUntil.Before(o.Finished.Add(time.Duration(retention)*time.Millisecond)) || o.KeptUntil.UnixMilli() < keep,
			"it is kept for less than it was promised")
	} else {
		bad(!o.Finished.IsZero() || !o.KeptUntil.IsZero() || outcome != nil || o.ResolvedBy != "", "it has not ended and has an outcome, or a time of its end")
		bad(o.State == ledger.Executing && due != fmt.Sprint(o.LeaseUntil.UnixMilli()), "its lease differs from the index")
	}
	if field(r.fields, 7) == nil {
		return all // its steps come by themselves
	}
	all = append(all, s.stepProblems(r, text(field(op, 8)))...)
	with := int64(0)
	for _, step := range r.steps {
		if step.length >= 0 {
			with++
		}
	}
	if n, err := number(field(r.fields, 6)); err != nil || n > with {
		all = append(all, fmt.Sprintf("%d results belong to no step", n-with))
	}
	return all
}
