package postgres

import (
	"fmt"
	"time"
)

// Clock makes the store go by a clock of the test's instead of the server's.
func (o *Options) Clock(clock func() time.Time) {
	o.clock = func() string {
		ns := clock().UnixNano()
		return fmt.Sprintf("%d.%06d", ns/1e6, ns%1e6)
	}
}

// MaxSteps lowers how many steps one operation may have.
func (o *Options) MaxSteps(n int) { o.maxSteps = n }

// SetTimeout changes the timeout. The tests open a store with a long one, so
// that a busy machine does not matter, and shorten it when they wait for it.
func (s *Store) SetTimeout(d time.Duration) (restore func()) {
	old := s.patience.Swap(int64(d))
	return func() { s.patience.Store(old) }
}

// NoSweep keeps the store from sweeping in passing, where a test counts requests.
func (s *Store) NoSweep() { s.sweeping.Store(true) }
