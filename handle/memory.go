package handle

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Defaults of [MemoryOptions].
const (
	DefaultMaxHandles    = 1 << 16
	DefaultMaxTotalBytes = 256 << 20
)

// sweepStep bounds how many payloads one call forgets. It is more than one, so
// that sweeping overtakes storing, and small, so that no call waits for long.
const sweepStep = 64

var (
	// ErrFull says that a [Memory] has no room. It never makes room by
	// forgetting a payload before its time.
	ErrFull = errors.New("handle: store is full")
	// ErrExists says that a [Memory] has a payload under the key.
	ErrExists = errors.New("handle: key exists already")
)

// MemoryOptions are the options of [NewMemory]. The zero value is safe.
type MemoryOptions struct {
	// MaxHandles and MaxTotalBytes bound what is kept at one time; beyond is
	// ErrFull. Zero or less means DefaultMaxHandles and DefaultMaxTotalBytes.
	// Beside its payload a handle takes about 200 bytes, which do not count.
	MaxHandles    int
	MaxTotalBytes int

	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Memory is a [Store] in the memory of this process, so its handles die with it:
// right for a server on stdio, and wrong wherever a second process, or the same
// one after a restart, must open a handle. It is bounded, fails closed when it is
// full, is safe for concurrent use and starts no goroutine.
type Memory struct {
	o MemoryOptions

	mu    sync.Mutex
	rows  map[[32]byte]*row
	due   rowHeap
	total int // bytes of all payloads
}

type row struct {
	key     [32]byte
	payload []byte
	expires time.Time
}

// NewMemory returns an empty store. A nil opts means the defaults.
func NewMemory(opts *MemoryOptions) *Memory {
	var o MemoryOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxHandles <= 0 {
		o.MaxHandles = DefaultMaxHandles
	}
	if o.MaxTotalBytes <= 0 {
		o.MaxTotalBytes = DefaultMaxTotalBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Memory{o: o, rows: make(map[[32]byte]*row)}
}

// Put implements [Store].
func (m *Memory) Put(ctx context.Context, key [32]byte, payload []byte, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	m.sweep(sweepStep)
	if m.rows[key] != nil {
		return ErrExists
	}
	if len(m.rows) >= m.o.MaxHandles || len(payload) > m.o.MaxTotalBytes-m.total {
		return ErrFull
	}
	r := &row{key: key, payload: bytes.Clone(payload), expires: expires.Round(0)} // wall time
	m.rows[key] = r
	m.total += len(r.payload)
	heap.Push(&m.due, r)
	return nil
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, key [32]byte) (payload []byte, found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	r := m.rows[key]
	if r == nil || !m.now().Before(r.expires) {
		return nil, false, nil
	}
	return bytes.Clone(r.payload), true, nil
}

// Ephemeral reports true: the handles die with the process.
func (m *Memory) Ephemeral() bool { return true }

// Sweep forgets every payload whose time is over and reports how many there were.
// Nobody needs to call it; it gives memory back at a chosen moment.
func (m *Memory) Sweep(ctx context.Context) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return m.sweep(len(m.rows)), nil
}

// Format implements fmt.Formatter, so that no verb prints the payloads.
func (m *Memory) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("handle.Memory")) }

// now is wall time, as expires is.
func (m *Memory) now() time.Time { return m.o.Now().Round(0) }

// sweep forgets at most limit payloads whose time is over.
func (m *Memory) sweep(limit int) (n int) {
	for now := m.now(); n < limit && len(m.due) > 0 && !now.Before(m.due[0].expires); n++ {
		r := heap.Pop(&m.due).(*row)
		delete(m.rows, r.key)
		m.total -= len(r.payload)
	}
	return n
}

// rowHeap is a heap.Interface with the row that is due first in front.
type rowHeap []*row

func (h rowHeap) Len() int           { return len(h) }
func (h rowHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h rowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rowHeap) Push(x any)        { *h = append(*h, x.(*row)) }
func (h *rowHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
