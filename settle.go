package foil

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/ledger"
)

// Once: Settle on the way in: which presentation executes, and what the others
// are told.

// checkSettle says what is missing for Settle.
func (p Policy) checkSettle(l KeyLimits, o *Options) error {
	if o.Ledger == nil {
		return errors.New("foil: Options.Ledger is nil: Once: Settle needs a store of operations")
	}
	if o.Claims != nil {
		if i, ok := o.Claims.(claimcheck.IdempotentRedeemer); !ok || !i.IdempotentRedeem() {
			return errors.New("foil: Options.Claims hands out a payload once, whoever asks, so that an operation that was cut off could not get its plan again: with Once: Settle use a store that says IdempotentRedeem")
		}
	}
	retention := p.retention(l, o)
	switch {
	case retention < p.FlowLimit:
		return fmt.Errorf("foil: outcomes are kept for %v, less than the flow limit %v: set Options.OutcomeRetention, and the ring's keep, to no less", retention, p.FlowLimit)
	case l.Keep > 0 && retention > l.Keep:
		return fmt.Errorf("foil: Options.OutcomeRetention %v is longer than the ring's keep %v, after which no key opens the state that asks for the outcome", retention, l.Keep)
	}
	return nil
}

// retention is how long an outcome is kept.
func (p Policy) retention(l KeyLimits, o *Options) time.Duration {
	switch {
	case o.OutcomeRetention > 0:
		return o.OutcomeRetention
	case l.Keep > 0:
		return min(DefaultOutcomeRetention, l.Keep)
	}
	return DefaultOutcomeRetention
}

// readable is the last moment at which a token may still be read.
func (g *Guard) readable(c *claims.Claims, t *terms) time.Time {
	last := claims.Time(c.Expires)
	if t.Once == Settle {
		last = later(last, claims.Time(c.Deadline)).Add(t.retention(t.keys, &g.o))
	}
	return last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// settle makes an operation of a state that passed every other check, or finds
// the one that there is. late is why none may start now.
func (g *Guard) settle(ctx context.Context, req *Request, o *Opened, t *terms, late Reason) error {
	if req.Principal.kind != principalNamed && !g.o.SettleAnonymous {
		// Seal refuses these; a binding switched off since must not open them.
		return Reject(ReasonPrincipalMissing)
	}
	answers, err := answersDigest(o, &g.limits)
	if err != nil {
		return Reject(ReasonAmbiguous)
	}
	op, execution, err := g.startOrFind(ctx, req, o, t, late, answers)
	if err != nil || execution != nil {
		o.exec = execution
		return err
	}
	if subtle.ConstantTimeCompare(op.Answers[:], answers[:]) != 1 {
		return Reject(ReasonAnswersChanged)
	}
	if g.o.Authorize != nil {
		if err := g.o.Authorize(ctx, *req, o); err != nil {
			return Reject(ReasonUnauthorized)
		}
	}
	if op.State == ledger.Unknown && t.Resumable && late != ReasonFlowExpired {
		if op, o.exec, err = g.resume(ctx, o, op); err != nil || o.exec != nil {
			return err
		}
	}
	switch op.State {
	case ledger.Succeeded, ledger.Failed:
		return g.retell(ctx, o, op, t)
	case ledger.Executing:
		return &OperationError{State: op.State, Flow: o.Flow(), RetryAfter: retryAfter(op)}
	}
	return &OperationError{State: ledger.Unknown, Flow: o.Flow()}
}

// startOrFind starts the operation, or returns the one there is.
func (g *Guard) startOrFind(ctx context.Context, req *Request, o *Opened, t *terms, late Reason, answers [32]byte) (*ledger.Operation, *Execution, error) {
	if late != "" {
		op, err := ledgerCall(g, ctx, "get", func(ctx context.Context) (*ledger.Operation, error) {
			op, err := g.o.Ledger.Get(ctx, o.claims.ID)
			if errors.Is(err, ledger.ErrNotFound) {
				return nil, nil
			}
			return op, err
		})
		switch {
		case err != nil:
			return nil, nil, unavailable("ledger", err)
		case op == nil:
			return nil, nil, Reject(late)
		}
		return op, nil, nil
	}
	c := &o.claims
	expires, deadline := claims.Time(c.Expires), claims.Time(c.Deadline)
	latest := expires
	if deadline.Before(latest) {
		latest = deadline
	}
	s := &ledger.Start{
		ID: c.ID, Flow: c.Flow, Round: c.Round,
		Method: cut(req.Method, ledger.MaxName), Target: cut(req.Target, ledger.MaxTarget),
		Answers: answers, Expires: latest, Lease: g.o.Lease,
		Keep: deadline.Add(g.skew(t)), Retention: t.retention(t.keys, &g.o),
	}
	if c.HasPrincipal {
		s.Principal = slices.Clone(c.Principal[:])
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, unavailable("ledger", err)
	}
	// From here on a client that hangs up stops nothing: an operation that has
	// begun and that nobody carries out would be unknown.
	ctx = context.WithoutCancel(ctx)
	granted := time.Now()
	var started bool
	op, err := ledgerCall(g, ctx, "begin", func(ctx context.Context) (op *ledger.Operation, err error) {
		op, started, err = g.o.Ledger.Begin(ctx, s)
		return op, err
	})
	if err != nil {
		return nil, nil, storeFailure("ledger", err)
	}
	if started {
		return op, g.execution(o, op, granted, false), nil
	}
	return op, nil, nil
}

// resume takes over an operation that was cut off, or returns what has become of
// it.
func (g *Guard) resume(ctx context.Context, o *Opened, op *ledger.Operation) (*ledger.Operation, *Execution, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, unavailable("ledger", err)
	}
	ctx = context.WithoutCancel(ctx) // as in startOrFind
	granted := time.Now()
	taken, err := ledgerCall(g, ctx, "resume", func(ctx context.Context) (*ledger.Operation, error) {
		taken, err := g.o.Ledger.Resume(ctx, op.ID, op.Fence, g.o.Lease)
		if errors.Is(err, ledger.ErrFenced) {
			return nil, nil // somebody else was faster
		}
		return taken, err
	})
	if err == nil && taken == nil {
		op, err = ledgerCall(g, ctx, "get", func(ctx context.Context) (*ledger.Operation, error) {
			return g.o.Ledger.Get(ctx, op.ID)
		})
	}
	switch {
	case err != nil:
		return nil, nil, unavailable("ledger", err)
	case taken == nil:
		return op, nil, nil
	}
	return taken, g.execution(o, taken, granted, true), nil
}

// ledgerCall makes one call of the ledger, within the store's time.
func ledgerCall[T any](g *Guard, ctx context.Context, op string, call func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, g.o.StoreTimeout)
	defer cancel()
	began := g.begin()
	got, err := call(limited)
	told := err
	if final(err) || errors.Is(err, ledger.ErrRestored) {
		told = nil // an answer, and not the store's fault
	}
	g.storeCall(ctx, "ledger", op, began, told)
	if ctx.Err() == nil && !errors.Is(err, ledger.ErrSwept) {
		g.ledger.report(g.o.Now(), told)
	}
	return got, err
}

// retryAfter is when a client may ask again for an operation in progress.
func retryAfter(op *ledger.Operation) time.Duration {
	const least, most = 200 * time.Millisecond, 2 * time.Second
	left := op.LeaseUntil.Sub(op.Started) / 10
	return max(least, min(most, left))
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// answersDigest identifies the answers of a presentation: the asked keys, without
// _meta, which a client may change between two tries.
func answersDigest(o *Opened, lim *canonjson.Limits) (sum [32]byte, err error) {
	b := []byte("foil/answers/v1")
	for _, key := range sortedKeys(o.answers) {
		b = appendText(b, key)
		raw := o.answers[key]
		if len(raw) == 0 || raw[0] != '{' {
			s, err := canonjson.Sum(raw, lim)
			if err != nil {
				return sum, err
			}
			b = append(append(b, 0), s.Exact[:]...)
			continue
		}
		members := make(map[string][32]byte)
		var bad error
		err := canonjson.Object(raw, lim, func(name string, value []byte) bool {
			if name == "_meta" {
				return true
			}
			var s canonjson.Sums
			s, bad = canonjson.Sum(value, lim)
			members[name] = s.Exact
			return bad == nil
		})
		if err = errors.Join(err, bad); err != nil {
			return sum, err
		}
		b = binary.BigEndian.AppendUint32(append(b, 1), uint32(len(members)))
		for _, name := range sortedKeys(members) {
			m := members[name]
			b = append(appendText(b, name), m[:]...)
		}
	}
	return sha256.Sum256(b), nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
