package foil

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"sync"

	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/replay"
)

// Once: Deferred, where the handler spends the state in its own transaction.

func canDefer(s replay.Store) bool { _, ok := s.(replay.Deferrer); return ok }

// A deferral is one presentation that has not been spent by Open.
type deferral struct {
	attempt [replay.AttemptLen]byte // names this presentation

	mu      sync.Mutex
	refused bool // Redeem found the state spent
}

func newDeferral() *deferral {
	d := &deferral{}
	_, _ = rand.Read(d.attempt[:]) // it never fails: the process ends instead
	return d
}

// Redeem spends the state under Once: Deferred: within tx, a transaction of the
// handler's from sqlite.InTx or postgres.InTx, so that it is spent if and only if
// the handler's own rows are written; or at once if tx is nil, which is right for
// a decline and for a result that asks again.
//
// An error that matches [ErrInvalid] says that the state was spent before: roll
// back, and return anything; the client gets the refusal. After any other error
// roll back too. A handler that returns without having called Redeem, or without
// having committed, has its result replaced by an internal error, and the state is
// spent.
//
// Under every other Once, Redeem with a nil tx does nothing and with a tx is an
// error: the state was spent by Open, or is not to be spent.
func (o *Opened) Redeem(ctx context.Context, tx replay.Tx) error {
	d := o.deferral
	if d == nil {
		if tx != nil {
			return errors.New("foil: Redeem in a transaction needs Once: foil.Deferred")
		}
		return nil
	}
	g := o.g
	limited, cancel := context.WithTimeout(ctx, g.o.StoreTimeout)
	defer cancel()
	expires := claims.Time(o.claims.Expires)
	began := g.begin()
	var first bool
	var err error
	if tx != nil {
		first, err = tx.UseAs(limited, o.claims.ID[:], expires, d.attempt[:])
	} else {
		first, err = g.deferrer().UseAs(limited, o.claims.ID[:], expires, d.attempt[:])
		g.heard(ctx, err) // a transaction may fail for reasons of its user's
	}
	g.storeCall(ctx, "replay", "use", began, err)
	switch {
	case err != nil:
		return storeFailure("replay store", err)
	case !first:
		d.mu.Lock()
		d.refused = true
		d.mu.Unlock()
		return Reject(ReasonReplayed)
	}
	return nil
}

func (g *Guard) deferrer() replay.Deferrer { return g.o.Replay.(replay.Deferrer) }

// concludeDeferred looks whether the handler has spent the state, and spends it
// if it has not.
func (o *Opened) concludeDeferred(ctx context.Context) error {
	d, g := o.deferral, o.g
	d.mu.Lock()
	refused := d.refused
	d.mu.Unlock()
	if refused {
		return Reject(ReasonReplayed)
	}
	ctx = context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(ctx, g.o.StoreTimeout)
	defer cancel()
	began := g.begin()
	mark, spent, err := g.deferrer().Attempt(limited, o.claims.ID[:])
	g.storeCall(ctx, "replay", "attempt", began, err)
	g.heard(ctx, err)
	switch {
	case err != nil:
		return unavailable("replay store", err)
	case spent && subtle.ConstantTimeCompare(mark, d.attempt[:]) == 1:
		return nil
	case spent:
		return Reject(ReasonReplayed)
	}
	// Under a mark of its own: the handler's transaction may be committing at
	// this moment, and then it has spent the state.
	began = g.begin()
	first, err := g.deferrer().UseAs(limited, o.claims.ID[:], claims.Time(o.claims.Expires), newDeferral().attempt[:])
	g.storeCall(ctx, "replay", "use", began, err)
	g.heard(ctx, err)
	switch {
	case err != nil:
		return storeFailure("replay store", err)
	case first:
		return unavailable("deferred", errNotRedeemed)
	}
	began = g.begin()
	mark, _, err = g.deferrer().Attempt(limited, o.claims.ID[:])
	g.storeCall(ctx, "replay", "attempt", began, err)
	g.heard(ctx, err)
	switch {
	case err != nil:
		return unavailable("replay store", err)
	case subtle.ConstantTimeCompare(mark, d.attempt[:]) == 1:
		return nil
	}
	return Reject(ReasonReplayed)
}

var errNotRedeemed = errors.New("the handler returned and had not committed Opened.Redeem: its result was withheld and the state is spent")
