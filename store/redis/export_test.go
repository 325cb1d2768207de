package redis

import (
	"testing"
	"time"
)

// SetClock makes the scripts go by now instead of the clock of the server. Scripts
// of several stores on one database must go by one clock.
func (s *Store) SetClock(t testing.TB, now func() time.Time) {
	t.Helper()
	s.clock = now
	node, err := s.node(t.Context())
	if err == nil {
		err = s.load(t.Context(), node)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// SetTimeout changes Options.Timeout. No call may be under way.
func (s *Store) SetTimeout(d time.Duration) { s.opts.Timeout = d }

// SetMaxSteps lowers ledger.MaxSteps.
func (s *Store) SetMaxSteps(n int) { s.maxSteps = n }

// SetLimits changes what the store may hold.
func (s *Store) SetLimits(rows int, bytes int64) {
	s.opts.MaxClaims, s.opts.MaxClaimTotalBytes = rows, bytes
	s.opts.MaxHandles, s.opts.MaxHandleTotalBytes = rows, bytes
	s.opts.MaxOperations = rows
}

// Forget makes the next call look at the server again.
func (s *Store) Forget() { s.checked.Store(0) }
