package ledger

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"
)

// List implements [Store].
func (m *Memory) List(ctx context.Context, q Query) (page []Operation, next string, err error) {
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	var afterTime time.Time
	var afterID [IDLen]byte
	if q.After != "" {
		if afterTime, afterID, err = ParseCursor(q.After); err != nil {
			return nil, "", err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	now := m.now()
	var found []*row
	for _, r := range m.rows {
		if q.After != "" && order(r.op.Started, r.op.ID, afterTime, afterID) <= 0 {
			continue
		}
		if q.selects(r, now) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *row) int { return order(a.op.Started, a.op.ID, b.op.Started, b.op.ID) })
	more := len(found) > q.Limit
	if more {
		found = found[:q.Limit]
	}
	for _, r := range found {
		bare := *r
		bare.op.Steps, bare.op.Outcome = nil, nil
		page = append(page, *bare.view(now))
	}
	if more {
		last := found[len(found)-1]
		next = Cursor(last.op.Started, last.op.ID)
	}
	return page, next, nil
}

// order compares places in the order of List.
func order(at time.Time, aID [IDLen]byte, bt time.Time, bID [IDLen]byte) int {
	return cmp.Or(at.Compare(bt), bytes.Compare(aID[:], bID[:]))
}

func (q *Query) selects(r *row, now time.Time) bool {
	switch {
	case q.State != 0 && r.state(now) != q.State,
		len(q.Flow) != 0 && !bytes.Equal(q.Flow, r.op.Flow[:]),
		!q.Since.IsZero() && r.op.Started.Before(q.Since),
		!q.Until.IsZero() && !r.op.Started.Before(q.Until):
		return false
	}
	return true
}

// Counts implements [Counter].
func (m *Memory) Counts(ctx context.Context) (Counts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Counts{}, err
	}
	var c Counts
	now := m.now()
	for _, r := range m.rows {
		switch r.state(now) {
		case Executing:
			c.Executing++
		case Succeeded:
			c.Succeeded++
		case Failed:
			c.Failed++
		case Unknown:
			c.Unknown++
		}
	}
	return c, nil
}
