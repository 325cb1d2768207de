package ledgertest_test

import (
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// restore takes what is executing and unknown away from everybody, as a store does
// that was restored from a backup. What it leaves out is a fault.
func (f *fake) restore(t *testing.T) {
	now := f.w.clock.Now()
	f.w.restored, f.own = now, now
	page, _, err := f.mem.List(t.Context(), ledger.Query{Limit: ledger.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page {
		op := f.out(&page[i])
		declared := op.State == ledger.Unknown && op.LeaseUntil.After(now)
		switch {
		case op.State == ledger.Succeeded || op.State == ledger.Failed,
			f.is("restore leaves what is executing") && op.State == ledger.Executing,
			f.is("restore leaves what lapsed") && op.State == ledger.Unknown && !declared,
			f.is("restore leaves what is declared unknown") && declared:
			continue
		}
		id, fence := f.in(op.ID), op.Fence
		for raised := 0; ; raised++ {
			err := f.mem.Finish(t.Context(), id, fence, ledger.Finish{State: ledger.Unknown})
			if err != nil {
				t.Fatal(err)
			}
			if raised == 10 || f.is("restore keeps the fence") {
				break
			}
			if _, err := f.mem.Resume(t.Context(), id, fence, time.Hour); err != nil {
				t.Fatal(err)
			}
			fence++
		}
		f.w.mu.Lock()
		f.w.declared[op.ID] = true
		f.w.mu.Unlock()
	}
}

// stale reports whether an operation is one that nobody may resume.
func (f *fake) stale(id [16]byte) bool {
	if f.is("restored operation is resumed") {
		return false
	}
	return f.older(id) || f.is("restored store resumes nothing") && !f.w.restored.IsZero()
}

func (f *fake) older(id [16]byte) bool {
	f.w.mu.Lock()
	mark := f.w.restored
	f.w.mu.Unlock()
	if f.is("restored mark not shared", "restored mark not durable") {
		mark = f.own
	}
	if mark.IsZero() || f.is("no restore mark") {
		return false
	}
	return f.is("restored refuses everything") || !ledger.Minted(id).After(mark)
}
