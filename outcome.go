package foil

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/ledger"
)

// A Recorded is the outcome of an operation that an earlier presentation of the
// same state, with the same answers, has executed. Send it; call no handler.
type Recorded struct {
	// Result is what was given to [Opened.Conclude]. It is nil if Lost.
	Result []byte
	// Failed reports whether the operation is known to have failed.
	Failed bool
	// IsError reports whether Result is an error and not a result.
	IsError bool
	// Token is the state of a result that asked, sealed again: the same flow,
	// round and identity, and a fresh time. It is "" for every other result.
	Token string
	// Lost reports that the outcome was too large to be recorded.
	Lost bool
	// At is when the operation ended, by the ledger's clock.
	At time.Time
	// ResolvedBy is who resolved it, if an operator did.
	ResolvedBy string
}

// What the ledger keeps of an outcome: one byte that says what follows.
const (
	outcomeResult = 'r' // the result
	outcomeError  = 'e' // an error that went out in its place
	outcomeAsks   = 'a' // the length of a payload (4 bytes), the payload, the result
	outcomeLost   = 'l' // nothing: it was too large
)

// EncodeOutcome returns what [ledger.Resolution] takes as the outcome of an
// operation for which result is to be told: the JSON of the method's result. It is
// for tools that resolve; a Guard encodes what it records by itself.
func EncodeOutcome(result []byte) []byte { return append([]byte{outcomeResult}, result...) }

// DecodeOutcome returns the result in an outcome that a Guard recorded or
// EncodeOutcome returned, for tools that show it. It is nil if nothing was kept.
func DecodeOutcome(outcome []byte) (result []byte, err error) {
	r, _, err := readOutcome(outcome)
	if err != nil {
		return nil, err
	}
	return r.Result, nil
}

var errOutcome = errors.New("foil: a recorded outcome cannot be read")

func readOutcome(b []byte) (r *Recorded, asks []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errOutcome
	}
	r = &Recorded{}
	kind, rest := b[0], b[1:]
	switch kind {
	case outcomeResult:
		r.Result = rest
	case outcomeError:
		r.Result, r.IsError = rest, true
	case outcomeLost:
		r.Lost = true
	case outcomeAsks:
		if len(rest) < 4 {
			return nil, nil, errOutcome
		}
		n := binary.BigEndian.Uint32(rest)
		if rest = rest[4:]; uint64(n) > uint64(len(rest)) {
			return nil, nil, errOutcome
		}
		asks, r.Result = rest[:n:n], rest[n:]
	default:
		return nil, nil, errOutcome
	}
	return r, asks, nil
}

// retell makes o carry the recorded outcome of op.
func (g *Guard) retell(ctx context.Context, o *Opened, op *ledger.Operation, t *terms) error {
	r, asks, err := readOutcome(op.Outcome)
	if err != nil {
		return unavailable("ledger", err)
	}
	r.Failed, r.At, r.ResolvedBy = op.State == ledger.Failed, op.Finished, op.ResolvedBy
	if asks != nil {
		if r.Token, err = g.sealAgain(ctx, asks, t); err != nil {
			return err
		}
	}
	o.recorded = r
	return nil
}

// sealAgain seals the claims of a question that went out before: the same
// identity, flow and round, so that whichever copy is answered first counts, and
// a fresh time within the flow's deadline.
func (g *Guard) sealAgain(ctx context.Context, payload []byte, t *terms) (string, error) {
	var c claims.Claims
	if err := c.Parse(payload); err != nil || !c.Own {
		return "", unavailable("ledger", errOutcome)
	}
	now := g.o.Now().Truncate(time.Millisecond)
	c.IssuedAt = claims.Seconds(now)
	c.Expires = min(claims.Seconds(now.Add(t.TTL)), c.Deadline)
	if !t.Without.Has(BindExpiry) && !(c.IssuedAt < c.Deadline) {
		return "", Reject(ReasonFlowExpired)
	}
	token, err := g.codec.Seal(ctx, c.Append(nil), g.readable(&c, t))
	if err != nil {
		return "", unavailable("seal", err)
	}
	return token, nil
}
