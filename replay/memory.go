package replay

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// Defaults of [MemoryOptions].
const (
	DefaultMaxIDs = 1 << 20
	DefaultSkew   = 60 * time.Second
)

// sweepStep bounds how many IDs one Use forgets. It is more than one, so that
// sweeping overtakes inserting, and small, so that no call waits for long.
const sweepStep = 64

// MemoryOptions are the options of [NewMemory]. The zero value is safe.
type MemoryOptions struct {
	// MaxIDs is how many IDs the store holds at most; then it refuses with
	// ErrFull. Zero or less means DefaultMaxIDs. A million IDs take less
	// than 100 MB, whatever their length, and twice that with attempt marks.
	MaxIDs int

	// Skew is the largest difference between the clock of this store and that
	// of any process that judges expiry. An ID is kept for Skew beyond its
	// expires. Zero or less means DefaultSkew.
	Skew time.Duration

	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Memory is a [Store] and a [Deferrer] in the memory of this process. It is bounded, fails
// closed when it is full, and forgets nothing before its time. It is safe for
// concurrent use and starts no goroutine: each Use forgets a few of the IDs
// whose time has come.
type Memory struct {
	maxIDs int
	skew   time.Duration
	now    func() time.Time

	mu   sync.Mutex
	mark time.Time // every ID with expires at or before it may be forgotten
	ids  map[key]struct{}
	due  map[int64][]key // Unix second, rounded up from expires -> IDs
	secs secondHeap      // the keys of due

	attempts map[key][AttemptLen]byte // of IDs that were spent with one
}

// key is the first half of SHA-256 of an ID. It is small and has no pointers,
// so a million of them cost the garbage collector nothing. If two IDs ever had
// one key, the second would be refused.
type key [sha256.Size / 2]byte

func keyOf(id []byte) key {
	sum := sha256.Sum256(id)
	return key(sum[:sha256.Size/2])
}

// NewMemory returns an empty store. A nil opts means the defaults.
func NewMemory(opts *MemoryOptions) *Memory {
	var o MemoryOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxIDs <= 0 {
		o.MaxIDs = DefaultMaxIDs
	}
	if o.Skew <= 0 {
		o.Skew = DefaultSkew
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Memory{
		maxIDs: o.MaxIDs,
		skew:   o.Skew,
		now:    o.Now,
		mark:   time.Unix(0, 0),
		ids:    make(map[key]struct{}),
		due:    make(map[int64][]key),

		attempts: make(map[key][AttemptLen]byte),
	}
}

// Use implements [Store]. If ctx has ended it returns its error and marks
// nothing.
func (m *Memory) Use(ctx context.Context, id []byte, expires time.Time) (first bool, err error) {
	return m.use(ctx, id, expires, nil)
}

// UseAs implements [Deferrer].
func (m *Memory) UseAs(ctx context.Context, id []byte, expires time.Time, attempt []byte) (first bool, err error) {
	if err := CheckAttempt(attempt); err != nil {
		return false, err
	}
	mark := [AttemptLen]byte(attempt)
	return m.use(ctx, id, expires, &mark)
}

func (m *Memory) use(ctx context.Context, id []byte, expires time.Time, attempt *[AttemptLen]byte) (first bool, err error) {
	if err := Check(id, expires); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.sweep(sweepStep)
	if !expires.After(m.mark) {
		return false, ErrSwept
	}
	k := keyOf(id)
	if _, spent := m.ids[k]; spent {
		by, with := m.attempts[k]
		return attempt != nil && with && by == *attempt, nil
	}
	if len(m.ids) >= m.maxIDs {
		return false, ErrFull
	}
	m.add(k, ceilSecond(expires))
	if attempt != nil {
		m.attempts[k] = *attempt
	}
	return true, nil
}

// Attempt implements [Deferrer].
func (m *Memory) Attempt(ctx context.Context, id []byte) (attempt []byte, spent bool, err error) {
	if err := Check(id, time.Time{}); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	k := keyOf(id)
	if _, spent := m.ids[k]; !spent {
		return nil, false, nil
	}
	if by, with := m.attempts[k]; with {
		attempt = by[:]
	}
	return attempt, true, nil
}

// Ping implements [Pinger]: it returns ErrFull while there is no room.
func (m *Memory) Ping(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	m.sweep(sweepStep)
	if len(m.ids) >= m.maxIDs {
		return ErrFull
	}
	return nil
}

// Ephemeral implements [Ephemeral]; it reports true.
func (m *Memory) Ephemeral() bool { return true }

// Sweep forgets every ID whose time has come and reports how many there were.
// Nobody needs to call it; it gives memory back at a chosen moment.
func (m *Memory) Sweep(ctx context.Context) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return m.sweep(len(m.ids)), nil
}

// Format implements fmt.Formatter, so that no verb prints the IDs.
func (m *Memory) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("replay.Memory")) }

// sweep raises the mark to the clock less the skew and forgets at most limit
// IDs below it. The mark comes first: an ID that is below the mark is refused
// whether or not it has been forgotten yet.
func (m *Memory) sweep(limit int) (n int) {
	// Round drops the monotonic reading; expires is wall time.
	if horizon := m.now().Add(-m.skew).Round(0); horizon.After(m.mark) {
		m.mark = horizon
	}
	upTo := m.mark.Unix() // rounded down, as the keys of due are rounded up
	for n < limit && len(m.secs) > 0 && m.secs[0] <= upTo {
		sec := m.secs[0]
		ids := m.due[sec]
		k := min(limit-n, len(ids))
		for _, id := range ids[len(ids)-k:] {
			delete(m.ids, id)
			delete(m.attempts, id)
		}
		n += k
		if k < len(ids) {
			m.due[sec] = ids[:len(ids)-k]
			break
		}
		delete(m.due, sec)
		heap.Pop(&m.secs)
	}
	return n
}

func (m *Memory) add(k key, sec int64) {
	m.ids[k] = struct{}{}
	if _, ok := m.due[sec]; !ok {
		heap.Push(&m.secs, sec)
	}
	m.due[sec] = append(m.due[sec], k)
}

// ceilSecond rounds up, so that an ID is never forgotten early.
func ceilSecond(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// secondHeap is a heap.Interface with the earliest second first.
type secondHeap []int64

func (h secondHeap) Len() int           { return len(h) }
func (h secondHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h secondHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *secondHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *secondHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
