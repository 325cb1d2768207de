package ledgertest_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/foilmcp/foil/ledger"
)

func base64ID(id [16]byte) string { return base64.StdEncoding.EncodeToString(id[:]) }

// late turns an answer into the error of a context that had ended.
func late(ended, err error) error {
	if err == nil {
		return ended
	}
	return err
}

// peek is the operation as mem has it, or an empty one.
func (f *fake) peek(ctx context.Context, id [16]byte) *ledger.Operation {
	op, err := f.mem.Get(ctx, f.in(id))
	if err != nil {
		return &ledger.Operation{}
	}
	return op
}

// fence is the fence that a call is checked with.
func (f *fake) fence(ctx context.Context, call string, id [16]byte, fence uint64) uint64 {
	if op := f.peek(ctx, id); op.Fence != 0 && f.is(call+" by any fence", "any fence will do") {
		return op.Fence
	}
	return fence
}

func (f *fake) Renew(ctx context.Context, id [16]byte, fence uint64, lease time.Duration) error {
	ended := ctx.Err()
	ctx, err := f.gate(ctx)
	if err != nil {
		return err
	}
	fence = f.fence(ctx, "renew", id, fence)
	op := f.peek(ctx, id)
	switch {
	case f.is("renew adds to the lease") && op.State == ledger.Executing:
		lease += op.LeaseUntil.Sub(f.w.clock.Now())
	case f.is("renew refuses what lapsed") && op.State == ledger.Unknown:
		return ledger.ErrFenced
	case f.is("renew only prolongs") && op.State == ledger.Executing:
		lease = max(lease, op.LeaseUntil.Sub(f.w.clock.Now()))
	case f.is("renew does nothing"):
		lease = max(op.LeaseUntil.Sub(f.w.clock.Now()), time.Millisecond)
	case f.is("absent is not fenced") && op.Fence == 0:
		return ledger.ErrNotFound
	case f.is("renew takes any lease") && lease < time.Millisecond:
		lease = time.Millisecond
	}
	err = f.mem.Renew(ctx, f.in(id), fence, lease)
	if errors.Is(err, ledger.ErrFenced) && op.Fence == fence && op.Fence != 0 {
		if op.State == ledger.Unknown && f.is("renew revives what is declared unknown") || f.is("renew of what has ended") {
			return nil
		}
	}
	return late(ended, err)
}

func (f *fake) Resume(ctx context.Context, id [16]byte, fence uint64, lease time.Duration) (*ledger.Operation, error) {
	ended := ctx.Err()
	ctx, err := f.gate(ctx)
	if err != nil {
		return nil, err
	}
	if f.stale(id) {
		return nil, ledger.ErrFenced
	}
	fence = f.fence(ctx, "resume", id, fence)
	op := f.peek(ctx, id)
	if f.is("resume is not atomic") && op.State == ledger.Unknown && op.Fence == fence {
		pause()
		_, _ = f.mem.Resume(ctx, f.in(id), fence, lease)
		return f.peek(ctx, id), nil
	}
	if f.is("resume takes what is executing") && op.State == ledger.Executing && op.Fence == fence {
		_ = f.mem.Finish(ctx, f.in(id), fence, ledger.Finish{State: ledger.Unknown})
	}
	got, err := f.mem.Resume(ctx, f.in(id), fence, lease)
	if err != nil {
		if f.is("resume takes what failed") && op.State == ledger.Failed {
			return f.out(op), nil
		}
		return nil, err
	}
	switch f.fault {
	case "resume keeps the fence":
		got.Fence--
	case "resume returns no steps":
		got.Steps = nil
	case "resume starts anew":
		got.Started = f.w.clock.Now()
	case "resume has no lease":
		_ = f.mem.Renew(ctx, f.in(id), got.Fence, time.Millisecond)
		got.LeaseUntil = f.w.clock.Now()
	}
	return f.out(got), ended
}

func (f *fake) bound(ctx context.Context, id [16]byte, name string) error {
	op := f.peek(ctx, id)
	for _, s := range op.Steps {
		if s.Name == name && !f.is("bound counts twice") {
			return nil
		}
	}
	if len(op.Steps) >= maxSteps && !f.is("steps are unbounded") {
		if f.is("too many steps is full") {
			return ledger.ErrFull
		}
		return ledger.ErrTooManySteps
	}
	return nil
}

func (f *fake) name(name string) string {
	if f.is("steps fold case") {
		return strings.ToLower(name)
	}
	if f.is("steps trim space") && strings.TrimSpace(name) != "" {
		return strings.TrimSpace(name)
	}
	return name
}

func (f *fake) BeginStep(ctx context.Context, id [16]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	ended := ctx.Err()
	ctx, err := f.gate(ctx)
	if err != nil {
		return ledger.Step{}, err
	}
	fence = f.fence(ctx, "step", id, fence)
	op := f.peek(ctx, id)
	if f.is("done step needs no fence") {
		for _, s := range op.Steps {
			if s.Name == name && s.Done() {
				return s, nil
			}
		}
	}
	if err := f.bound(ctx, id, name); err != nil {
		return ledger.Step{}, err
	}
	if f.is("takes any step") && name == "" {
		return ledger.Step{}, nil
	}
	s, err := f.mem.BeginStep(ctx, f.in(id), fence, f.name(name), lease)
	if err != nil {
		return ledger.Step{}, err
	}
	s.Name = name
	switch f.fault {
	case "done step runs again":
		s.Ended, s.Result = time.Time{}, nil
	case "done step has no result":
		s.Result = nil
	case "step begins anew":
		s.Began = f.w.clock.Now()
	case "step keeps its first fence":
		s.Fence = 1
	case "step does not extend":
		_ = f.mem.Renew(ctx, f.in(id), fence, max(time.Millisecond, op.LeaseUntil.Sub(f.w.clock.Now())))
	case "done step does not extend":
		if s.Done() {
			_ = f.mem.Renew(ctx, f.in(id), fence, max(time.Millisecond, op.LeaseUntil.Sub(f.w.clock.Now())))
		}
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if kept := f.w.alias["result"+string(id[:])]; kept != nil {
		s.Result = kept
	}
	return s, ended
}

func (f *fake) EndStep(ctx context.Context, id [16]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	ended := ctx.Err()
	ctx, err := f.gate(ctx)
	if err != nil {
		return err
	}
	if len(result) > maxOutcome && !f.is("takes any result") {
		return ledger.ErrTooLarge
	}
	fence = f.fence(ctx, "step", id, fence)
	op := f.peek(ctx, id)
	there := false
	for _, s := range op.Steps {
		there = there || s.Name == name
	}
	if f.is("step needs a beginning") && !there {
		return ledger.ErrFenced
	}
	if err := f.bound(ctx, id, name); err != nil {
		return err
	}
	err = f.mem.EndStep(ctx, f.in(id), fence, f.name(name), result, lease)
	if f.is("step ends twice") && there && op.Fence == fence && errors.Is(err, ledger.ErrFenced) {
		return nil
	}
	if err == nil {
		f.keep("result", id, result)
		if f.is("step end does not extend") {
			_ = f.mem.Renew(ctx, f.in(id), fence, max(time.Millisecond, op.LeaseUntil.Sub(f.w.clock.Now())))
		}
	}
	return late(ended, err)
}

func (f *fake) Finish(ctx context.Context, id [16]byte, fence uint64, fin ledger.Finish) error {
	ended := ctx.Err()
	ctx, err := f.gate(ctx)
	if err != nil {
		return err
	}
	if f.is("takes any finish") && (fin.State == 0 || fin.State > ledger.Unknown) {
		return nil
	}
	if f.is("cuts long outcomes") && len(fin.Outcome) > maxOutcome {
		fin.Outcome = fin.Outcome[:maxOutcome]
	}
	if err := fin.Check(maxOutcome); err != nil && !f.is("takes any outcome") {
		if f.is("outcome in errors") {
			return fmt.Errorf("%w: %.30s", err, fin.Outcome)
		}
		return err
	}
	fence = f.fence(ctx, "finish", id, fence)
	op := f.peek(ctx, id)
	over := op.State == ledger.Succeeded || op.State == ledger.Failed
	switch {
	case f.is("finish again is fenced") && over,
		f.is("late finish is fenced") && op.State == ledger.Unknown && f.w.clock.Now().After(op.LeaseUntil),
		f.is("declared unknown is final") && op.State == ledger.Unknown && f.w.clock.Now().Before(op.LeaseUntil):
		return ledger.ErrFenced
	}
	if f.is("finish is not atomic") && !over && op.Fence == fence {
		pause()
		_ = f.mem.Finish(ctx, f.in(id), fence, fin)
		return nil
	}
	err = f.mem.Finish(ctx, f.in(id), fence, fin)
	if errors.Is(err, ledger.ErrFenced) {
		byOperator := op.ResolvedBy != ""
		same := op.State == fin.State && string(op.Outcome) == string(fin.Outcome)
		switch {
		case f.is("finish overwrites") && over && !byOperator && op.Fence == fence && fin.State != ledger.Unknown,
			f.is("unknown overwrites") && over && fin.State == ledger.Unknown,
			f.is("same state is the same") && op.State == fin.State && op.Fence == fence,
			f.is("finish overrules the operator") && byOperator,
			f.is("same as the operator's is no error") && byOperator && same,
			f.is("same outcome needs no fence") && over && same && !byOperator:
			return nil
		}
		return err
	}
	if err == nil {
		f.keep("outcome", id, fin.Outcome)
		f.w.mu.Lock()
		f.w.again[id]++
		f.w.declared[id] = fin.State == ledger.Unknown
		f.w.mu.Unlock()
	}
	return late(ended, err)
}

func (f *fake) Resolve(ctx context.Context, id [16]byte, fence uint64, r ledger.Resolution) error {
	ended := ctx.Err()
	ctx, err := f.gate(ctx)
	if err != nil {
		return err
	}
	if f.is("resolved by nobody") && r.By == "" {
		r.By = "nobody"
	}
	if err := r.Check(maxOutcome); err != nil && !f.is("takes any finding") {
		return err
	}
	fence = f.fence(ctx, "resolve", id, fence)
	op := f.peek(ctx, id)
	if f.is("resolve ends what is executing") && op.State == ledger.Executing && op.Fence == fence {
		_ = f.mem.Finish(ctx, f.in(id), fence, ledger.Finish{State: ledger.Unknown})
	}
	if f.is("resolve is not atomic") && op.State == ledger.Unknown && op.Fence == fence {
		pause()
		_ = f.mem.Resolve(ctx, f.in(id), fence, r)
		return nil
	}
	err = f.mem.Resolve(ctx, f.in(id), fence, r)
	if errors.Is(err, ledger.ErrFenced) && op.ResolvedBy != "" && f.is("resolves twice") {
		return nil
	}
	if err == nil {
		f.keep("outcome of the resolution", id, r.Outcome)
	}
	return late(ended, err)
}
