// Package storemem is a ledger in this process that several replicas share, and
// that the battery can take away and let forget. It is for tests and
// demonstrations: what it remembers dies with the process.
package storemem

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/ledger"
)

// A Ledger is a ledger.Memory that does not say that it is one, so that Guards
// take it for the ledger that a fleet shares. It is safe for concurrent use.
type Ledger struct {
	ledger.Store
	memory *ledger.Memory

	mu    sync.Mutex
	ahead time.Duration
	back  chan struct{} // closed when the store is back; nil while it is there
}

var (
	_ ledger.Store  = (*Ledger)(nil)
	_ ledger.Pinger = (*Ledger)(nil)
	_ attack.Store  = (*Ledger)(nil)
)

// New returns an empty ledger.
func New() *Ledger {
	l := &Ledger{}
	l.memory = ledger.NewMemory(&ledger.MemoryOptions{Now: l.now})
	l.Store = l.memory
	return l
}

func (l *Ledger) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.ahead)
}

// reach waits while the ledger is away, for as long as the caller does.
func (l *Ledger) reach(ctx context.Context) error {
	l.mu.Lock()
	back := l.back
	l.mu.Unlock()
	if back == nil {
		return nil
	}
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Begin implements [ledger.Store].
func (l *Ledger) Begin(ctx context.Context, s *ledger.Start) (*ledger.Operation, bool, error) {
	if err := l.reach(ctx); err != nil {
		return nil, false, err
	}
	return l.Store.Begin(ctx, s)
}

// Get implements [ledger.Store].
func (l *Ledger) Get(ctx context.Context, id [ledger.IDLen]byte) (*ledger.Operation, error) {
	if err := l.reach(ctx); err != nil {
		return nil, err
	}
	return l.Store.Get(ctx, id)
}

// Ping implements [ledger.Pinger].
func (l *Ledger) Ping(ctx context.Context) error {
	if err := l.reach(ctx); err != nil {
		return err
	}
	return l.memory.Ping(ctx)
}

// Sweep sets the clock ahead for as long as it takes to forget.
func (l *Ledger) Sweep(ctx context.Context, until time.Time) (forgotten int, err error) {
	l.mu.Lock()
	l.ahead = time.Until(until) + ledger.DefaultSkew
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.ahead = 0
		l.mu.Unlock()
	}()
	return l.memory.Sweep(ctx)
}

// Outage lets every call wait for the ledger until restore is called.
func (l *Ledger) Outage(context.Context) (restore func() error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back != nil {
		return nil, errors.New("storemem: the ledger is away already")
	}
	back := make(chan struct{})
	l.back = back
	return func() error {
		l.mu.Lock()
		l.back = nil
		l.mu.Unlock()
		close(back)
		return nil
	}, nil
}
