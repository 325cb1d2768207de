package ledger

import (
	"bytes"
	"container/heap"
	"context"
	"strings"
	"time"
)

// lock locks m and returns the row of id if fence is its, for a caller whose
// context has not ended. Without a row it is unlocked again.
func (m *Memory) lock(ctx context.Context, id [IDLen]byte, fence uint64) (*row, error) {
	m.mu.Lock()
	if err := ctx.Err(); err != nil {
		m.mu.Unlock()
		return nil, err
	}
	r := m.rows[id]
	if r == nil || r.op.Fence != fence {
		m.mu.Unlock()
		return nil, ErrFenced
	}
	return r, nil
}

// run is lock for a process that executes; it extends the lease.
func (m *Memory) run(ctx context.Context, id [IDLen]byte, fence uint64, lease time.Duration) (*row, error) {
	if err := CheckLease(lease); err != nil {
		return nil, err
	}
	r, err := m.lock(ctx, id, fence)
	if err != nil {
		return nil, err
	}
	if r.op.State != Executing {
		m.mu.Unlock()
		return nil, ErrFenced
	}
	return r, nil
}

func (r *row) extend(now time.Time, lease time.Duration) {
	r.op.LeaseUntil = millisUp(now.Add(lease))
}

// Renew implements [Store].
func (m *Memory) Renew(ctx context.Context, id [IDLen]byte, fence uint64, lease time.Duration) error {
	r, err := m.run(ctx, id, fence, lease)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	r.extend(m.now(), lease)
	return nil
}

// Resume implements [Store].
func (m *Memory) Resume(ctx context.Context, id [IDLen]byte, fence uint64, lease time.Duration) (*Operation, error) {
	if err := CheckLease(lease); err != nil {
		return nil, err
	}
	r, err := m.lock(ctx, id, fence)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	now := m.now()
	if r.state(now) != Unknown {
		return nil, ErrFenced
	}
	r.op.Fence++
	r.op.State = Executing
	r.extend(now, lease)
	return r.view(now), nil
}

// BeginStep implements [Store].
func (m *Memory) BeginStep(ctx context.Context, id [IDLen]byte, fence uint64, name string, lease time.Duration) (Step, error) {
	if err := CheckStep(name); err != nil {
		return Step{}, err
	}
	r, err := m.run(ctx, id, fence, lease)
	if err != nil {
		return Step{}, err
	}
	defer m.mu.Unlock()
	now := m.now()
	s, err := m.step(r, name, now)
	if err != nil {
		return Step{}, err
	}
	r.extend(now, lease)
	if !s.Done() {
		s.Fence = fence
	}
	out := *s
	out.Result = bytes.Clone(s.Result)
	return out, nil
}

// EndStep implements [Store].
func (m *Memory) EndStep(ctx context.Context, id [IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	if err := CheckStep(name); err != nil {
		return err
	}
	if len(result) > m.opts.MaxOutcome {
		return ErrTooLarge
	}
	r, err := m.run(ctx, id, fence, lease)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	now := m.now()
	s, err := m.step(r, name, now)
	if err != nil {
		return err
	}
	if s.Done() {
		return ErrFenced
	}
	s.Fence, s.Ended, s.Result = fence, now, bytes.Clone(result)
	m.grow(r, len(result))
	r.extend(now, lease)
	return nil
}

// step returns the step of this name, which it adds if there is none.
func (m *Memory) step(r *row, name string, now time.Time) (*Step, error) {
	if i, ok := r.steps[name]; ok {
		return &r.op.Steps[i], nil
	}
	if len(r.op.Steps) >= MaxSteps {
		return nil, ErrTooManySteps
	}
	if m.total >= m.opts.MaxTotalBytes {
		return nil, ErrFull
	}
	name = strings.Clone(name)
	r.steps[name] = len(r.op.Steps)
	r.op.Steps = append(r.op.Steps, Step{Name: name, Began: now})
	m.grow(r, stepSize+len(name))
	return &r.op.Steps[len(r.op.Steps)-1], nil
}

// Finish implements [Store].
func (m *Memory) Finish(ctx context.Context, id [IDLen]byte, fence uint64, f Finish) error {
	if err := f.Check(m.opts.MaxOutcome); err != nil {
		return err
	}
	r, err := m.lock(ctx, id, fence)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	switch {
	case r.op.State == Succeeded || r.op.State == Failed:
		if r.op.State != f.State || !bytes.Equal(r.op.Outcome, f.Outcome) {
			return ErrFenced
		}
	case f.State == Unknown:
		r.op.State = Unknown
	default:
		m.end(r, f.State, f.Outcome)
	}
	return nil
}

// Resolve implements [Store].
func (m *Memory) Resolve(ctx context.Context, id [IDLen]byte, fence uint64, res Resolution) error {
	if err := res.Check(m.opts.MaxOutcome); err != nil {
		return err
	}
	r, err := m.lock(ctx, id, fence)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	if r.state(m.now()) != Unknown {
		return ErrFenced
	}
	r.op.Fence++
	r.op.ResolvedBy, r.op.Note = strings.Clone(res.By), strings.Clone(res.Note)
	m.grow(r, len(res.By)+len(res.Note))
	m.end(r, res.State, res.Outcome)
	return nil
}

// end gives an operation its outcome, and lets it be forgotten in due time.
func (m *Memory) end(r *row, state State, outcome []byte) {
	r.op.State, r.op.Outcome, r.op.Finished = state, bytes.Clone(outcome), m.now()
	r.op.KeptUntil = millisUp(r.op.Finished.Add(r.retention))
	if r.keep.After(r.op.KeptUntil) {
		r.op.KeptUntil = r.keep
	}
	m.grow(r, len(outcome))
	heap.Push(&m.due, r)
}
