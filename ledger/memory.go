package ledger

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of [MemoryOptions].
const (
	DefaultMaxOperations = 1 << 16
	DefaultMaxTotalBytes = 256 << 20
	DefaultSkew          = 60 * time.Second
)

// sweepStep bounds how many operations one Begin forgets. It is more than one,
// so that sweeping overtakes inserting, and small, so that no call waits long.
const sweepStep = 64

// MemoryOptions are the options of [NewMemory]. The zero value is safe.
type MemoryOptions struct {
	// MaxOperations is how many operations the store holds at most; then Begin
	// is ErrFull. Zero or less means DefaultMaxOperations.
	MaxOperations int

	// MaxOutcome is the length in bytes of the longest outcome or result of a
	// step; a longer one is ErrTooLarge. Zero or less means DefaultOutcome.
	MaxOutcome int

	// MaxTotalBytes bounds what all operations hold together. Beyond it nothing
	// new begins, neither an operation nor a step: that is ErrFull. What has
	// begun may still end, so that an outcome is not lost for lack of room.
	// Zero or less means DefaultMaxTotalBytes.
	MaxTotalBytes int

	// Skew is the largest difference between the clock of this store and that
	// of any process that judges expiry. An operation is kept for Skew beyond
	// its time. Zero or less means DefaultSkew.
	Skew time.Duration

	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Memory is a [Store] in the memory of this process. It is bounded, fails closed
// when it is full, and forgets nothing before its time; what is executing or
// unknown it never forgets. It is safe for concurrent use and starts no
// goroutine: each Begin forgets a few of the operations whose time has come.
type Memory struct {
	opts MemoryOptions

	mu    sync.Mutex
	mark  time.Time // the greatest Expires that was forgotten
	rows  map[[IDLen]byte]*row
	due   rowHeap // what has ended
	total int     // bytes of all rows
}

// A row is an operation as it is stored: op.State is Executing whether or not
// the lease has run out.
type row struct {
	op        Operation
	keep      time.Time
	retention time.Duration
	steps     map[string]int // name -> index in op.Steps
	size      int
}

// rowSize is about what a row takes beside its strings and byte slices.
const (
	rowSize  = 512
	stepSize = 160
)

// NewMemory returns an empty store. A nil opts means the defaults.
func NewMemory(opts *MemoryOptions) *Memory {
	var o MemoryOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxOperations <= 0 {
		o.MaxOperations = DefaultMaxOperations
	}
	if o.MaxOutcome <= 0 {
		o.MaxOutcome = DefaultOutcome
	}
	if o.MaxTotalBytes <= 0 {
		o.MaxTotalBytes = DefaultMaxTotalBytes
	}
	if o.Skew <= 0 {
		o.Skew = DefaultSkew
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Memory{opts: o, rows: make(map[[IDLen]byte]*row)}
}

// millis rounds down, as all times of a store are in milliseconds.
func millis(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()) }

// millisUp rounds up, so that nothing is forgotten early.
func millisUp(t time.Time) time.Time { return millis(t.Add(time.Millisecond - 1)) }

func (m *Memory) now() time.Time { return millis(m.opts.Now()) }

// Begin implements [Store].
func (m *Memory) Begin(ctx context.Context, s *Start) (op *Operation, started bool, err error) {
	if err := s.Check(); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	now := m.now()
	m.sweep(now, sweepStep)
	if r := m.rows[s.ID]; r != nil {
		bare := *r
		bare.op.Steps = nil
		return bare.view(now), false, nil
	}
	// Both are rounded down, so two times within one millisecond are one.
	expires := millis(s.Expires)
	if !expires.After(m.mark) {
		return nil, false, ErrSwept
	}
	if m.full() {
		return nil, false, ErrFull
	}
	r := &row{
		op: Operation{
			ID: s.ID, Flow: s.Flow, Round: s.Round, Method: strings.Clone(s.Method), Target: strings.Clone(s.Target),
			Principal: bytes.Clone(s.Principal), Answers: s.Answers, Expires: expires,
			State: Executing, Fence: 1, Started: now, LeaseUntil: millisUp(now.Add(s.Lease)),
		},
		keep:      millisUp(s.Keep),
		retention: s.Retention,
		steps:     make(map[string]int),
	}
	m.rows[s.ID] = r
	m.grow(r, rowSize+len(s.Method)+len(s.Target)+len(s.Principal))
	return r.view(now), true, nil
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, id [IDLen]byte) (*Operation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := m.rows[id]
	if r == nil {
		return nil, ErrNotFound
	}
	return r.view(m.now()), nil
}

// Ping implements [Pinger]: it returns ErrFull while there is no room.
func (m *Memory) Ping(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	m.sweep(m.now(), sweepStep)
	if m.full() {
		return ErrFull
	}
	return nil
}

// Ephemeral implements [Ephemeral]; it reports true.
func (m *Memory) Ephemeral() bool { return true }

// Sweep forgets every operation whose time has come and reports how many there
// were. Nobody needs to call it; it gives memory back at a chosen moment.
func (m *Memory) Sweep(ctx context.Context) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return m.sweep(m.now(), len(m.due)), nil
}

// Format implements fmt.Formatter, so that no verb prints the operations.
func (m *Memory) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("ledger.Memory")) }

// sweep forgets at most limit operations whose time has come. The mark rises in
// the same step: what is forgotten cannot start again.
func (m *Memory) sweep(now time.Time, limit int) (n int) {
	for n < limit && len(m.due) > 0 && !m.due[0].op.KeptUntil.Add(m.opts.Skew).After(now) {
		r := heap.Pop(&m.due).(*row)
		if r.op.Expires.After(m.mark) {
			m.mark = r.op.Expires
		}
		delete(m.rows, r.op.ID)
		m.total -= r.size
		n++
	}
	return n
}

func (m *Memory) full() bool {
	return len(m.rows) >= m.opts.MaxOperations || m.total >= m.opts.MaxTotalBytes
}

func (m *Memory) grow(r *row, n int) {
	r.size += n
	m.total += n
}

// state is the state as of now.
func (r *row) state(now time.Time) State {
	if r.op.State == Executing && !now.Before(r.op.LeaseUntil) {
		return Unknown
	}
	return r.op.State
}

// view is a copy that the caller may keep and change.
func (r *row) view(now time.Time) *Operation {
	op := r.op
	op.State = r.state(now)
	op.Principal = bytes.Clone(op.Principal)
	op.Outcome = bytes.Clone(op.Outcome)
	op.Steps = slices.Clone(op.Steps)
	for i := range op.Steps {
		op.Steps[i].Result = bytes.Clone(op.Steps[i].Result)
	}
	return &op
}

// rowHeap is a heap.Interface with the row that may be forgotten first on top.
type rowHeap []*row

func (h rowHeap) Len() int           { return len(h) }
func (h rowHeap) Less(i, j int) bool { return h[i].op.KeptUntil.Before(h[j].op.KeptUntil) }
func (h rowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rowHeap) Push(x any)        { *h = append(*h, x.(*row)) }
func (h *rowHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
