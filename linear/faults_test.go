//go:build linux || darwin

package linear_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
)

// Stores that are broken on purpose: the checker must find them.

// readThenWriteReplay looks whether an ID is spent, and spends it after that.
type readThenWriteReplay struct{ ledger ledger.Store }

func (r *readThenWriteReplay) Use(ctx context.Context, id []byte, expires time.Time) (bool, error) {
	key := [16]byte(id)
	key[15]++ // apart from the ledger's own
	_, err := r.ledger.Get(ctx, key)
	if !errors.Is(err, ledger.ErrNotFound) {
		return false, err
	}
	time.Sleep(time.Millisecond)
	_, _, err = r.ledger.Begin(ctx, &ledger.Start{ID: key, Round: 1, Method: "use", Expires: expires, Keep: expires, Lease: hour})
	return err == nil, err
}

// readThenWriteLedger looks whether there is an operation, and begins it after that.
type readThenWriteLedger struct{ ledger.Store }

func (l *readThenWriteLedger) Begin(ctx context.Context, s *ledger.Start) (*ledger.Operation, bool, error) {
	op, err := l.Get(ctx, s.ID)
	if !errors.Is(err, ledger.ErrNotFound) {
		return op, false, err
	}
	time.Sleep(time.Millisecond)
	op, _, err = l.Store.Begin(ctx, s)
	return op, err == nil, err
}

// forgetful remembers by whom a claim was redeemed in this process alone.
type forgetful struct {
	claimcheck.Store
	mu    sync.Mutex
	bound map[string]string
}

func (f *forgetful) Redeem(_ context.Context, claim, by string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bound[claim] == "" {
		f.bound[claim] = by
	}
	if f.bound[claim] != by {
		return nil, claimcheck.ErrRedeemed
	}
	return []byte(payload), nil
}

// unfenced ends an operation under whatever fence it has.
type unfenced struct{ ledger.Store }

func (u *unfenced) Finish(ctx context.Context, id [16]byte, fence uint64, f ledger.Finish) error {
	op, err := u.Get(ctx, id)
	if err != nil {
		return ledger.ErrFenced
	}
	return u.Store.Finish(ctx, id, op.Fence, f)
}

// stale tells what it has read before.
type stale struct {
	ledger.Store
	mu     sync.Mutex
	copies map[[16]byte]*ledger.Operation
}

func (s *stale) Get(ctx context.Context, id [16]byte) (*ledger.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op := s.copies[id]; op != nil {
		return op, nil
	}
	op, err := s.Store.Get(ctx, id)
	if err == nil {
		s.copies[id] = op
	}
	return op, err
}
