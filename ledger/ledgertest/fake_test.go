package ledgertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// clock moves when told.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is what replicas of a fake share and what survives a restart.
type world struct {
	clock *clock
	mem   *ledger.Memory

	mu       sync.Mutex
	away     bool
	limit    int
	restored time.Time
	inside   map[[16]byte][16]byte // ID -> ID in mem, once it was forgotten
	outside  map[[16]byte][16]byte
	alias    map[string][]byte // what a fault keeps a reference to
	declared map[[16]byte]bool // finished as unknown
	again    map[[16]byte]int
}

// fake is a ledger.Memory, but for its fault.
type fake struct {
	fault string
	w     *world
	mem   *ledger.Memory
	first bool      // the handle that the test has as Store
	own   time.Time // restored, in the wrong place
	mu    sync.Mutex
}

const (
	skew       = time.Minute
	maxOutcome = 1 << 12
	maxSteps   = 40
	password   = "the-password-of-the-backend"
)

func (f *fake) is(faults ...string) bool { return slices.Contains(faults, f.fault) }

func (f *fake) in(id [16]byte) [16]byte {
	switch f.fault {
	case "ids are 8 bytes":
		clear(id[8:])
	case "ids fold case":
		for i := range id {
			id[i] |= 0x20
		}
	case "ids end at a zero":
		if i := bytes.IndexByte(id[:], 0); i >= 0 {
			clear(id[i:])
		}
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if other, ok := f.w.inside[id]; ok {
		return other
	}
	return id
}

// forget lets mem forget id, by giving it another.
func (f *fake) forget(id [16]byte) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	old := id
	if other, ok := f.w.inside[id]; ok {
		old = other
	}
	next := old
	next[15]++
	f.w.inside[id], f.w.outside[next] = next, id
	delete(f.w.outside, old)
}

// out is op as the fake tells it.
func (f *fake) out(op *ledger.Operation) *ledger.Operation {
	if op == nil {
		return nil
	}
	now := f.w.clock.Now()
	f.w.mu.Lock()
	if id, ok := f.w.outside[op.ID]; ok {
		op.ID = id
	}
	declared, again := f.w.declared[op.ID], f.w.again[op.ID]
	for key, kept := range f.w.alias {
		switch {
		case key == "principal"+string(op.ID[:]):
			op.Principal = kept
		case key == "outcome"+string(op.ID[:]) && op.Outcome != nil:
			op.Outcome = kept
		case key == "result"+string(op.ID[:]) && len(op.Steps) > 0:
			op.Steps[0].Result = kept
		}
	}
	f.w.mu.Unlock()
	ended := op.State == ledger.Succeeded || op.State == ledger.Failed
	switch f.fault {
	case "lease never runs out":
		if op.State == ledger.Unknown && !declared {
			op.State = ledger.Executing
		}
	case "lapse is an end":
		if op.State == ledger.Unknown && !declared {
			op.Finished = now
		}
	case "declared unknown is an end":
		if declared && !ended {
			op.Finished, op.KeptUntil = op.Started, op.Started
		}
	case "lapse is written":
		if op.State == ledger.Unknown {
			_ = f.mem.Finish(context.Background(), f.in(op.ID), op.Fence, ledger.Finish{State: ledger.Unknown})
		}
	case "resolve keeps the fence":
		if op.ResolvedBy != "" {
			op.Fence--
		}
	case "drops the note":
		op.Note = ""
	case "empty outcome is nil":
		if len(op.Outcome) == 0 {
			op.Outcome = nil
		}
	case "nil outcome is empty":
		if ended && op.Outcome == nil {
			op.Outcome = []byte{}
		}
	case "outcome is text":
		if op.Outcome != nil {
			op.Outcome = []byte(strings.ToValidUTF8(string(op.Outcome), "?"))
		}
	case "outcome is trimmed":
		if op.Outcome != nil {
			op.Outcome = append([]byte{}, bytes.TrimSpace(op.Outcome)...)
		}
	case "steps by name":
		slices.SortFunc(op.Steps, func(a, b ledger.Step) int { return strings.Compare(a.Name, b.Name) })
	case "steps by end":
		slices.SortStableFunc(op.Steps, func(a, b ledger.Step) int { return b.Ended.Compare(a.Ended) })
	case "step keeps its first fence":
		for i := range op.Steps {
			op.Steps[i].Fence = 1
		}
	case "steps not durable", "steps not shared":
		if !f.first {
			op.Steps = nil
		}
	case "retention counts from the start":
		if ended {
			op.KeptUntil = op.Started.Add(time.Hour)
		}
	case "finish again keeps longer":
		if ended {
			op.KeptUntil = op.KeptUntil.Add(time.Duration(again) * time.Second)
		}
	case "hands out its memory":
		f.w.mu.Lock()
		f.w.alias["principal"+string(op.ID[:])] = op.Principal
		f.w.mu.Unlock()
	}
	return op
}

func (f *fake) keep(what string, id [16]byte, b []byte) {
	if b == nil || f.fault != "keeps the "+what+" slice" {
		return
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	what, _, _ = strings.Cut(what, " ")
	f.w.alias[what+string(id[:])] = b
}

// gate is the way to the backend.
func (f *fake) gate(ctx context.Context) (context.Context, error) {
	if err := ctx.Err(); err != nil && !f.is("writes, then asks the context") {
		if f.is("ignores the context") {
			return context.WithoutCancel(ctx), nil
		}
		return ctx, err
	}
	f.w.mu.Lock()
	away := f.w.away
	f.w.mu.Unlock()
	if !away {
		return context.WithoutCancel(ctx), nil
	}
	switch f.fault {
	case "fenced on error":
		return ctx, fmt.Errorf("fake: no backend: %w", ledger.ErrFenced)
	case "not found on error":
		return ctx, fmt.Errorf("fake: no backend: %w", ledger.ErrNotFound)
	case "secret in errors":
		return ctx, fmt.Errorf("fake: no backend at fake://user:%s@host", password)
	}
	return ctx, errors.New("fake: no backend")
}

// pause lets others in between two steps that ought to be one.
func pause() {
	for range 5 {
		runtime.Gosched()
	}
}

func (f *fake) Begin(ctx context.Context, s *ledger.Start) (*ledger.Operation, bool, error) {
	ended := ctx.Err()
	ctx, err := f.gate(ctx)
	if err != nil {
		switch {
		case f.is("starts on error") && ctx.Err() == nil:
			return nil, true, nil
		case f.is("id in errors"):
			return nil, false, fmt.Errorf("%w: begin %x", err, s.ID)
		case f.is("id in errors, as a UUID"):
			return nil, false, fmt.Errorf("%w: begin %x-%x-%x-%x-%x", err, s.ID[:4], s.ID[4:6], s.ID[6:8], s.ID[8:10], s.ID[10:])
		case f.is("principal in errors"):
			return nil, false, fmt.Errorf("%w: begin for %s", err, s.Principal)
		}
		return nil, false, err
	}
	c := *s
	c.ID = f.in(s.ID)
	f.spoil(&c)
	if f.is("not atomic over peers") {
		f.mu.Lock()
		defer f.mu.Unlock()
	}
	there, _ := f.mem.Get(ctx, c.ID)
	if f.is("not atomic", "not atomic over peers") {
		pause()
	}
	if there == nil || f.is("restored refuses what is there") {
		if f.older(s.ID) {
			return nil, false, ledger.ErrRestored
		}
	}
	if there == nil {
		if err := f.room(ctx); err != nil {
			return nil, f.is("full says started"), err
		}
	} else if f.is("mark refuses what is there") && s.Expires.Before(f.w.clock.Now()) {
		return nil, false, ledger.ErrSwept
	}
	if f.is("mark in another step") {
		time.Sleep(100 * time.Microsecond) // the way to the backend and back
	}
	op, started, err := f.mem.Begin(ctx, &c)
	if errors.Is(err, ledger.ErrSwept) {
		op, started, err = f.revive(ctx, &c, there)
	}
	if err != nil {
		if f.is("id in errors") {
			err = fmt.Errorf("%w: begin %x", err, s.ID)
		}
		return nil, false, err
	}
	f.keep("principal", s.ID, s.Principal)
	if !started {
		switch f.fault {
		case "begins twice":
			started = op.State == ledger.Executing
		case "begin touches what is there":
			_ = f.mem.Renew(ctx, c.ID, op.Fence, c.Lease)
		case "begin returns what it was given":
			op.Round, op.Target = s.Round, s.Target
		case "begin resumes what is unknown":
			if op.State == ledger.Unknown {
				op, _ = f.mem.Resume(ctx, c.ID, op.Fence, c.Lease)
			}
		case "begin returns steps":
			op.Steps = f.peek(ctx, s.ID).Steps
		case "begin returns no outcome":
			op.Outcome = nil
		}
	}
	if there == nil && f.is("not atomic", "not atomic over peers") {
		started = true
	}
	return f.out(op), started, ended
}

// spoil changes what is written down, by some faults.
func (f *fake) spoil(s *ledger.Start) {
	switch f.fault {
	case "takes any start":
		s.Round = max(s.Round, 1)
	case "takes any lease":
		s.Lease = max(s.Lease, time.Minute)
	case "drops the principal":
		s.Principal = nil
	case "target is a C string":
		s.Target, _, _ = strings.Cut(s.Target, "\x00")
	case "target is UTF-8":
		s.Target = strings.ToValidUTF8(s.Target, "?")
	case "round is one byte":
		s.Round = max(s.Round%256, 1)
	case "expires in seconds":
		s.Expires = s.Expires.Truncate(time.Second)
	case "lease in minutes":
		s.Lease = max(s.Lease.Truncate(time.Minute), time.Minute)
	case "lease in seconds":
		s.Lease += 100 * time.Millisecond
	case "kept by retention alone":
		s.Keep = f.w.clock.Now()
	case "kept by Keep alone":
		s.Retention = 0
	case "kept by the sum":
		s.Keep = s.Keep.Add(s.Retention)
	}
}

// revive is for faults that start what may have been forgotten.
func (f *fake) revive(ctx context.Context, s *ledger.Start, there *ledger.Operation) (*ledger.Operation, bool, error) {
	again := *s
	switch {
	case f.is("no mark"), f.is("mark in another step") && there != nil,
		f.is("mark not durable", "mark not shared") && !f.first,
		f.is("mark compares nanoseconds") && s.Expires.Nanosecond()%1e6 != 0,
		f.is("mark goes by the clock") && s.Expires.After(f.w.clock.Now().Add(-skew)):
		again.Expires = f.w.clock.Now().AddDate(1, 0, 0)
	case f.is("below the mark only"):
		again.Expires = s.Expires.Add(time.Millisecond)
	default:
		return nil, false, ledger.ErrSwept
	}
	return f.mem.Begin(ctx, &again)
}

func (f *fake) room(ctx context.Context) error {
	f.w.mu.Lock()
	limit := f.w.limit
	f.w.mu.Unlock()
	if limit == 0 {
		return nil
	}
	c, err := f.mem.Counts(ctx)
	if err != nil || c.Executing+c.Succeeded+c.Failed+c.Unknown < int64(limit) {
		return err
	}
	switch f.fault {
	case "evicts":
		page, _, _ := f.mem.List(ctx, ledger.Query{Limit: 1})
		f.forget(f.out(&page[0]).ID)
		fallthrough
	case "unbounded":
		return nil
	}
	return ledger.ErrFull
}
