package openbao

import (
	"context"
	"sync"
)

// A latest shares reads between callers who each need one that begins after they came:
// while a read is under way those who come wait for the next one, which serves them
// all. So however many there are, one read is under way at a time.
type latest[T any] struct {
	read func(ctx context.Context) (T, error)

	mu      sync.Mutex
	running bool
	next    *reading[T]
}

type reading[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// get returns the value of a read that begins after the call of get.
func (l *latest[T]) get(ctx context.Context) (T, error) {
	l.mu.Lock()
	r := l.next
	if r == nil {
		r = &reading[T]{done: make(chan struct{})}
		l.next = r
		if !l.running {
			l.running = true
			go l.run()
		}
	}
	l.mu.Unlock()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (l *latest[T]) run() {
	for {
		l.mu.Lock()
		r := l.next
		l.next = nil
		if r == nil {
			l.running = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		// It ends by the client's own deadline, whoever waits.
		r.value, r.err = l.read(context.Background())
		close(r.done)
	}
}
