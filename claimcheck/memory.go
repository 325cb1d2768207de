package claimcheck

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Defaults of [MemoryOptions].
const (
	DefaultMaxPayloadBytes = 1 << 20
	DefaultMaxClaims       = 1 << 16
	DefaultMaxTotalBytes   = 256 << 20
)

// MemoryOptions are the options of [NewMemory]. The zero value is safe.
type MemoryOptions struct {
	// MaxPayloadBytes is the length of the longest payload; a longer one is
	// ErrTooLarge. Zero or less means DefaultMaxPayloadBytes.
	MaxPayloadBytes int

	// MaxClaims and MaxTotalBytes bound what is parked at one time, redeemed
	// claims included until their ttl ends; beyond is ErrFull. Zero or less
	// means DefaultMaxClaims and DefaultMaxTotalBytes.
	MaxClaims     int
	MaxTotalBytes int

	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Memory is a [Store] in the memory of this process. It is bounded, fails
// closed when it is full, is safe for concurrent use and starts no goroutine.
type Memory struct {
	opts MemoryOptions

	mu    sync.Mutex
	rows  map[[sha256.Size]byte]*row
	due   rowHeap
	total int // bytes of all payloads
}

type row struct {
	key      [sha256.Size]byte
	payload  []byte
	expires  time.Time
	redeemed bool
	by       [sha256.Size]byte // if redeemed
	index    int               // in due
}

// NewMemory returns an empty store. A nil opts means the defaults.
func NewMemory(opts *MemoryOptions) *Memory {
	var o MemoryOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxPayloadBytes <= 0 {
		o.MaxPayloadBytes = DefaultMaxPayloadBytes
	}
	if o.MaxClaims <= 0 {
		o.MaxClaims = DefaultMaxClaims
	}
	if o.MaxTotalBytes <= 0 {
		o.MaxTotalBytes = DefaultMaxTotalBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Memory{opts: o, rows: make(map[[sha256.Size]byte]*row)}
}

// Issue implements [Store].
func (m *Memory) Issue(ctx context.Context, payload []byte, ttl time.Duration) (claim string, err error) {
	if ttl <= 0 {
		return "", errors.New("claimcheck: ttl must be positive")
	}
	if len(payload) > m.opts.MaxPayloadBytes {
		return "", ErrTooLarge
	}
	claim = NewClaim()
	key, _ := Key(claim)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	now := m.sweep()
	if len(m.rows) >= m.opts.MaxClaims || len(payload) > m.opts.MaxTotalBytes-m.total {
		return "", ErrFull
	}
	r := &row{key: key, payload: bytes.Clone(payload), expires: now.Add(ttl)}
	m.rows[key] = r
	m.total += len(r.payload)
	heap.Push(&m.due, r)
	return claim, nil
}

// Redeem implements [Store].
func (m *Memory) Redeem(ctx context.Context, claim, by string) (payload []byte, err error) {
	who, err := ByKey(by)
	if err != nil {
		return nil, err
	}
	key, ok := Key(claim)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrRedeemed
	}
	m.sweep()
	r := m.rows[key]
	if r == nil || r.redeemed && subtle.ConstantTimeCompare(r.by[:], who[:]) != 1 {
		return nil, ErrRedeemed
	}
	r.redeemed, r.by = true, who
	return bytes.Clone(r.payload), nil
}

// Revoke implements [Store].
func (m *Memory) Revoke(ctx context.Context, claim string) error {
	key, ok := Key(claim)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if r := m.rows[key]; ok && r != nil {
		heap.Remove(&m.due, r.index)
		m.drop(r)
	}
	return nil
}

// Ping implements [Pinger]: it returns ErrFull while there is no room.
func (m *Memory) Ping(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	m.sweep()
	if len(m.rows) >= m.opts.MaxClaims || m.total >= m.opts.MaxTotalBytes {
		return ErrFull
	}
	return nil
}

// IdempotentRedeem implements [IdempotentRedeemer]; it reports true.
func (m *Memory) IdempotentRedeem() bool { return true }

// Ephemeral implements [Ephemeral]; it reports true.
func (m *Memory) Ephemeral() bool { return true }

// Format implements fmt.Formatter, so that no verb prints the payloads.
func (m *Memory) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("claimcheck.Memory")) }

// sweep drops what has expired and returns the time it went by. Each row is
// dropped once, so the cost is that of issuing it.
func (m *Memory) sweep() time.Time {
	now := m.opts.Now().Round(0)
	for len(m.due) > 0 && !m.due[0].expires.After(now) {
		m.drop(heap.Pop(&m.due).(*row))
	}
	return now
}

func (m *Memory) drop(r *row) {
	delete(m.rows, r.key)
	m.total -= len(r.payload)
}

// rowHeap is a heap.Interface with the row that expires first on top.
type rowHeap []*row

func (h rowHeap) Len() int           { return len(h) }
func (h rowHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h rowHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *rowHeap) Push(x any) {
	r := x.(*row)
	r.index = len(*h)
	*h = append(*h, r)
}
func (h *rowHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
