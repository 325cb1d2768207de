package ledgertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foilmcp/foil/ledger"
)

func (f *fake) Get(ctx context.Context, id [16]byte) (*ledger.Operation, error) {
	ctx, err := f.gate(ctx)
	if err != nil {
		return nil, err
	}
	op, err := f.mem.Get(ctx, f.in(id))
	if err != nil {
		switch f.fault {
		case "absent is nothing":
			return nil, nil
		case "id in errors, in base64":
			return nil, fmt.Errorf("%w: %s", err, base64ID(id))
		}
	}
	return f.out(op), err
}

func (f *fake) List(ctx context.Context, q ledger.Query) ([]ledger.Operation, string, error) {
	ctx, err := f.gate(ctx)
	if err != nil {
		return nil, "", err
	}
	limit := q.Limit
	offset := 0
	switch f.fault {
	case "takes any limit":
		q.Limit = min(max(q.Limit, 0), ledger.MaxLimit)
	case "limit is ignored":
		if q.Check() == nil {
			q.Limit = ledger.MaxLimit
		}
	case "takes any cursor":
		if _, _, err := ledger.ParseCursor(q.After); err != nil {
			q.After = ""
		}
	case "cursor is lax":
		q.After = strings.TrimSpace(q.After)
	case "takes any flow":
		if len(q.Flow) != ledger.IDLen {
			q.Flow = nil
		}
	case "list ignores the state":
		q.State = min(q.State, ledger.Unknown+1) / (ledger.Unknown + 1) * (ledger.Unknown + 1)
	case "list ignores the flow":
		if q.Check() == nil {
			q.Flow = nil
		}
	case "since is after":
		if !q.Since.IsZero() {
			q.Since = q.Since.Add(time.Millisecond)
		}
	case "until is inclusive":
		if !q.Until.IsZero() {
			q.Until = q.Until.Add(time.Millisecond)
		}
	case "since rounds down":
		if !q.Since.IsZero() {
			q.Since = q.Since.Truncate(time.Millisecond)
		}
	case "until rounds down":
		if !q.Until.IsZero() {
			q.Until = q.Until.Truncate(time.Millisecond)
		}
	case "cursor is an offset":
		if at, _, err := ledger.ParseCursor(q.After); err == nil {
			offset, q.After = int(at.UnixMilli()), ""
		}
		if q.Check() == nil {
			q.Limit = ledger.MaxLimit
		}
	}
	page, next, err := f.mem.List(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for i := range page {
		full, err := f.mem.Get(ctx, page[i].ID)
		page[i] = *f.out(&page[i])
		if err == nil && f.is("list has outcomes") {
			page[i].Outcome = full.Outcome
		}
		if err == nil && f.is("list has steps") {
			page[i].Steps = full.Steps
		}
		if f.is("list drops the principal") {
			page[i].Principal = nil
		}
	}
	switch f.fault {
	case "list has no order":
		slices.SortFunc(page, func(a, b ledger.Operation) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	case "list has the newest first":
		slices.Reverse(page)
	case "list by what happened last":
		slices.SortStableFunc(page, func(a, b ledger.Operation) int { return a.LeaseUntil.Compare(b.LeaseUntil) })
	case "list misses what lapsed":
		if q.State == ledger.Unknown {
			now := f.w.clock.Now()
			page = slices.DeleteFunc(page, func(op ledger.Operation) bool { return op.LeaseUntil.Before(now) })
		}
	case "list has what lapsed as executing":
		for i := range page {
			if page[i].State == ledger.Unknown {
				page[i].State = ledger.Executing
			}
		}
	case "cursor is a time":
		if next != "" {
			at, _, _ := ledger.ParseCursor(next)
			next = ledger.Cursor(at, [16]byte(bytes.Repeat([]byte{0xff}, 16)))
		}
	case "cursor repeats":
		if next != "" {
			at, id, _ := ledger.ParseCursor(next)
			id[0] = 0
			next = ledger.Cursor(at, id)
		}
	case "ends after a page":
		next = ""
	case "cursor is an offset":
		if limit == 0 {
			limit = ledger.DefaultLimit
		}
		page, next = page[min(offset, len(page)):], ""
		if len(page) > limit {
			page, next = page[:limit], ledger.Cursor(time.UnixMilli(int64(offset+limit)), [16]byte{})
		}
	}
	return page, next, nil
}

func (f *fake) Counts(ctx context.Context) (ledger.Counts, error) {
	ctx, err := f.gate(ctx)
	if err != nil {
		return ledger.Counts{}, err
	}
	c, err := f.mem.Counts(ctx)
	switch f.fault {
	case "counts what lapsed as executing":
		page, _, _ := f.mem.List(ctx, ledger.Query{State: ledger.Unknown})
		for _, op := range page {
			if op.LeaseUntil.Before(f.w.clock.Now()) {
				c.Executing, c.Unknown = c.Executing+1, c.Unknown-1
			}
		}
	case "counts failed as succeeded":
		c.Succeeded, c.Failed = c.Succeeded+c.Failed, 0
	}
	return c, err
}

func (f *fake) Ping(ctx context.Context) error {
	if _, err := f.gate(ctx); err != nil && !f.is("ping is blind") {
		return err
	}
	switch f.fault {
	case "ping fails":
		return errors.New("fake: unwell")
	case "ping begins":
		now := f.w.clock.Now()
		_, _, err := f.mem.Begin(ctx, &ledger.Start{Round: 1, Expires: now.Add(time.Hour), Keep: now, Lease: time.Minute})
		return err
	}
	return nil
}

func (f *fake) Ephemeral() bool { return f.is("says it is ephemeral") }

func (f *fake) Sweep(ctx context.Context) error {
	now := f.w.clock.Now()
	page, _, err := f.mem.List(ctx, ledger.Query{Limit: ledger.MaxLimit})
	if err != nil {
		return err
	}
	for i := range page {
		op := f.out(&page[i])
		over := op.State == ledger.Succeeded || op.State == ledger.Failed
		if f.is("ignores the skew") && over && !op.KeptUntil.After(now) ||
			f.is("forgets early") && over && !op.Expires.After(now) ||
			f.is("forgets what is executing") && op.State == ledger.Executing && op.Expires.Before(now) ||
			f.is("forgets what is unknown") && op.State == ledger.Unknown && op.Expires.Before(now) ||
			f.is("sweeps everything") {
			f.forget(op.ID)
		}
	}
	if f.is("never forgets") {
		return nil
	}
	_, err = f.mem.Sweep(ctx)
	return err
}
