package openbao

import (
	"context"
	"sync"
)

// Limits of a batch. The server takes 1000 JSON strings in a request by default, and
// each item is four of them.
const (
	maxBatch      = 128
	maxBatchBytes = 4 << 20
)

// An item is one caller's part of a batch.
type item struct {
	ctx  context.Context // the caller's; an item whose caller has left is not sent
	in   string
	out  string
	err  error
	done chan struct{}
}

// A batcher lets concurrent callers share calls: while one is under way whoever comes
// waits, and the next call takes all who wait. Another call joins it only when a good
// many wait, since a request costs the server more than an item does. A caller who is
// alone is not held up.
type batcher struct {
	call       func(ctx context.Context, items []*item) // sets out or err of each
	most, runs int                                      // items in a call, calls under way
	many       int                                      // who wait before another call joins

	mu    sync.Mutex
	queue []*item
	now   int // calls under way
}

// do returns the result for in. ctx must have a deadline.
func (b *batcher) do(ctx context.Context, in string) (string, error) {
	it := &item{ctx: ctx, in: in, done: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, it)
	if b.now == 0 || b.now < b.runs && len(b.queue) >= b.many {
		b.now++
		go b.run()
	}
	b.mu.Unlock()
	select {
	case <-it.done:
		return it.out, it.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// run makes calls until nobody waits.
func (b *batcher) run() {
	for {
		items := b.take()
		if items == nil {
			return
		}
		// The call is for all of them and ends by the client's own deadline.
		b.call(context.Background(), items)
		for _, it := range items {
			close(it.done)
		}
	}
}

// take takes the next batch from the queue; nil if there is none, and then one call
// less is under way.
func (b *batcher) take() []*item {
	b.mu.Lock()
	defer b.mu.Unlock()
	var items []*item
	bytes, n := 0, 0
	for _, it := range b.queue {
		if it.ctx.Err() == nil {
			if len(items) == b.most || len(items) > 0 && bytes+len(it.in) > maxBatchBytes {
				break
			}
			items = append(items, it)
			bytes += len(it.in)
		}
		n++
	}
	clear(b.queue[:n]) // let go of what was taken
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil
	}
	if items == nil {
		b.now--
	}
	return items
}
