package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/claimcheck"
)

// Claims is the [claimcheck.Store] of a [Store]. A caller whose context or timeout
// ends gets an error at once while the server may go on; see [Replay].
type Claims struct{ s *Store }

var (
	_ claimcheck.Store              = (*Claims)(nil)
	_ claimcheck.Pinger             = (*Claims)(nil)
	_ claimcheck.IdempotentRedeemer = (*Claims)(nil)
)

// Issue implements [claimcheck.Store].
func (cs *Claims) Issue(ctx context.Context, payload []byte, ttl time.Duration) (claim string, err error) {
	if ttl <= 0 {
		return "", errors.New("claimcheck: ttl must be positive")
	}
	if len(payload) > cs.s.opts.MaxClaimBytes {
		return "", claimcheck.ErrTooLarge
	}
	claim = claimcheck.NewClaim()
	key, _ := claimcheck.Key(claim)
	o := &cs.s.opts
	us := ttl.Microseconds()
	if ttl > time.Duration(us)*time.Microsecond {
		us++
	}
	err = cs.s.put(ctx, "claim", key, payload, true, us, o.MaxClaims, o.MaxClaimTotalBytes)
	if errors.Is(err, errFull) || isFull(err) {
		return "", fmt.Errorf("%w: %w", claimcheck.ErrFull, err)
	}
	if err != nil {
		return "", err
	}
	return claim, nil
}

// put parks a payload until a moment in milliseconds, or for some microseconds. A
// key that is there is errExists.
func (s *Store) put(ctx context.Context, table string, key [32]byte, payload []byte, relative bool, expires int64, rows int, bytes int64) error {
	stored, err := s.keep(table, key[:], "payload", payload)
	if err != nil {
		return err
	}
	attempt := make([]byte, attemptLen)
	rand.Read(attempt)
	reply, err := s.room(ctx, scriptPut, table, key[:], stored, attempt, relative, expires, rows, bytes, s.sinceSweep())
	if err != nil {
		return err
	}
	switch text(reply[0]) {
	case "put":
		return nil
	case "full":
		return errFull
	case "exists":
		return errExists
	}
	return errReply
}

var errExists = errors.New("redis: there is a row of this key; it was left as it is")

// Redeem implements [claimcheck.Store].
func (cs *Claims) Redeem(ctx context.Context, claim, by string) (payload []byte, err error) {
	who, err := claimcheck.ByKey(by)
	if err != nil {
		return nil, err
	}
	key, ok := claimcheck.Key(claim)
	if !ok {
		return nil, claimcheck.ErrRedeemed
	}
	reply, err := cs.s.do(ctx, scriptRedeem, key[:], who[:])
	if err != nil {
		return nil, err
	}
	switch text(reply[0]) {
	case "row":
		return cs.s.give("claim", key[:], "payload", text(field(reply, 1)))
	case "redeemed":
		return nil, claimcheck.ErrRedeemed
	}
	return nil, errReply
}

// Revoke implements [claimcheck.Store].
func (cs *Claims) Revoke(ctx context.Context, claim string) error {
	key, ok := claimcheck.Key(claim)
	if !ok {
		return nil
	}
	_, err := cs.s.do(ctx, scriptRevoke, key[:])
	return err
}

// Ping implements [claimcheck.Pinger]: it writes, see [Store.Ping], and returns
// claimcheck.ErrFull while there is no room for a claim.
func (cs *Claims) Ping(ctx context.Context) error {
	if cs.s.opts.AtRest == nil && !cs.s.opts.PlainAtRest {
		return errNoForm
	}
	err := cs.s.ping(ctx, "claim", cs.s.opts.MaxClaims, cs.s.opts.MaxClaimTotalBytes)
	if errors.Is(err, errFull) || isFull(err) {
		return fmt.Errorf("%w: %w", claimcheck.ErrFull, err)
	}
	return err
}

// IdempotentRedeem implements [claimcheck.IdempotentRedeemer]; it reports true.
func (cs *Claims) IdempotentRedeem() bool { return true }

// Ephemeral implements [claimcheck.Ephemeral]: it reports whether
// Options.Durability is None.
func (cs *Claims) Ephemeral() bool { return cs.s.opts.Durability == None }

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (cs *Claims) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("redis.Claims")) }
