package sqlite

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// Pragma runs a pragma on the store's connection, and on each that follows it.
func (s *Store) Pragma(t *testing.T, pragma string) {
	t.Helper()
	s.mu.Lock() // keeps run from starting
	defer s.mu.Unlock()
	for s.running { // the call that is over was answered a moment before run ends
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	s.pragmas = append(s.pragmas, pragma)
	if s.conn == nil {
		return
	}
	if _, err := s.conn.sql.ExecContext(context.Background(), pragma); err != nil {
		t.Fatalf("%s: %v", pragma, err)
	}
}

// OnBatch sets a function that is told how many calls each commit answered.
func (s *Store) OnBatch(f func(n int)) { s.onBatch = f }

// SetTimeout changes the timeout. The tests open a store with a long one, so
// that a busy machine does not matter, and shorten it when they wait for it.
func (s *Store) SetTimeout(d time.Duration) (restore func()) {
	old := s.opts.Timeout
	s.opts.Timeout = d
	return func() { s.opts.Timeout = old }
}

// Life ends when Close begins.
func (s *Store) Life() context.Context { return s.life }

// SetMaxSteps changes how many steps an operation may have.
func (s *Store) SetMaxSteps(n int) { s.steps = n }

// SetMaxHandles changes how many handles there may be.
func (s *Store) SetMaxHandles(n int) { s.opts.MaxHandles = n }

// Waiting returns how many calls wait for their turn.
func (s *Store) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// CheckSynchronous runs the check of the pragma on the store's connection.
func (s *Store) CheckSynchronous(ctx context.Context) error {
	return checkSynchronous(ctx, s.conn.sql)
}

// Drop takes the connection away, as an error of SQLite does.
func (s *Store) Drop(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	s.drop()
}
