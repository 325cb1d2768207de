package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/claimcheck"
)

// Claims is the [claimcheck.Store] of a [Store]. A ttl ends by the clock of the
// server.
type Claims struct{ s *Store }

var (
	_ claimcheck.Store              = (*Claims)(nil)
	_ claimcheck.Pinger             = (*Claims)(nil)
	_ claimcheck.IdempotentRedeemer = (*Claims)(nil)
)

const (
	// room is the condition under which there is room for so many bytes more.
	room = `(SELECT sum(count) < $1::bigint AND sum(bytes) + octet_length($3::bytea) <= $2::bigint FROM {s}.total WHERE kind = `

	issueClaim = `INSERT INTO {s}.claim (key, expires, by, payload, sealed)
	SELECT $4::bytea, {up} + $6::bigint, NULL, $3::bytea, $5::boolean WHERE ` + room + `'claim')`

	// For the holder's own redemptions the row is written again, so that this
	// COMMIT waits for all that the first one had to wait for.
	redeemClaim = `UPDATE {s}.claim SET by = $2::bytea
	WHERE key = $1::bytea AND expires > {now} AND (by IS NULL OR by = $2::bytea) RETURNING payload, sealed`

	deleteClaim = `DELETE FROM {s}.claim WHERE key = $1::bytea`
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
	kept, sealed, err := cs.s.seal(tableClaim, key[:], columnPayload, notNil(payload))
	if err != nil {
		return "", err
	}
	o := &cs.s.opts
	full, err := cs.s.insert(ctx, sweepClaims, func(st *statements, n *int64) {
		st.changed(n, issueClaim, o.MaxClaims, o.MaxClaimTotalBytes, kept, key[:], sealed, ceilDuration(ttl))
	})
	if full {
		return "", because(claimcheck.ErrFull, err)
	}
	if err != nil {
		return "", err
	}
	cs.s.sweepInPassing()
	return claim, nil
}

// notNil keeps an empty payload from becoming a NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// insert carries out a statement that inserts one row if there is room, and
// makes room by deleting what is due, as much as it takes.
func (s *Store) insert(ctx context.Context, due sweeping, build func(st *statements, n *int64)) (full bool, err error) {
	for swept := int64(-1); ; {
		var n int64
		err := s.do(ctx, func(st *statements) { build(st, &n) })
		if code(err) == diskFull {
			return true, err
		}
		if err != nil || n == 1 {
			return false, err
		}
		if swept == 0 {
			return true, nil
		}
		if swept, err = s.sweepChunk(ctx, due, sweepLimit); err != nil {
			return false, err
		}
	}
}

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
	if err := cs.s.checkAtRest(); err != nil {
		return nil, err
	}
	var found, sealed bool
	var kept []byte
	err = cs.s.do(ctx, func(st *statements) {
		st.row(&found, []any{&kept, &sealed}, redeemClaim, key[:], who[:])
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, claimcheck.ErrRedeemed
	}
	return cs.s.open(tableClaim, key[:], columnPayload, notNil(kept), sealed)
}

// Revoke implements [claimcheck.Store].
func (cs *Claims) Revoke(ctx context.Context, claim string) error {
	key, ok := claimcheck.Key(claim)
	if !ok {
		return nil
	}
	var n int64
	return cs.s.do(ctx, func(st *statements) { st.changed(&n, deleteClaim, key[:]) })
}

// Ping implements [claimcheck.Pinger]: it parks a claim and takes it back in one
// transaction, and returns claimcheck.ErrFull while there is no room for one.
func (cs *Claims) Ping(ctx context.Context) error {
	if err := cs.s.checkAtRest(); err != nil {
		return err
	}
	key, _ := claimcheck.Key(claimcheck.NewClaim())
	kept, sealed, err := cs.s.seal(tableClaim, key[:], columnPayload, []byte{0})
	if err != nil {
		return err
	}
	o := &cs.s.opts
	full, err := cs.s.insert(ctx, sweepClaims, func(st *statements, n *int64) {
		st.changed(n, issueClaim, o.MaxClaims, o.MaxClaimTotalBytes, kept, key[:], sealed, 1000)
		st.queue(deleteClaim, key[:])
	})
	if full {
		return because(claimcheck.ErrFull, err)
	}
	return err
}

// IdempotentRedeem implements [claimcheck.IdempotentRedeemer]; it reports true.
func (cs *Claims) IdempotentRedeem() bool { return true }

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (cs *Claims) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("postgres.Claims")) }
