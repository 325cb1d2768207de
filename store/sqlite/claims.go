package sqlite

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/claimcheck"
)

// Claims is the [claimcheck.Store] of a [Store]. It needs Options.AtRest or
// PlainAtRest. A caller whose context or
// timeout ends gets an error at once while the transaction may go on; see
// [Replay].
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
	kept, sealed, err := cs.s.seal(claimTable, key[:], payload)
	if err != nil {
		return "", err
	}
	var room bool
	err = cs.s.write(ctx, func(c *conn) (err error) {
		if room, err = cs.room(c, int64(len(kept))); err != nil || !room {
			return err
		}
		expires := ceilMillis(cs.s.opts.Now().Add(ttl))
		_, err = c.issue.ExecContext(context.Background(), key[:], expires, kept, sealed)
		return err
	})
	if err = full(err, claimcheck.ErrFull); err != nil {
		return "", err
	}
	if !room {
		return "", claimcheck.ErrFull
	}
	return claim, nil
}

// room reports whether a payload of so many bytes has room, after deleting as
// much of what is due as that takes. Nothing else is deleted.
func (cs *Claims) room(c *conn, bytes int64) (bool, error) {
	o := &cs.s.opts
	now := o.Now().UnixMilli()
	for {
		var claims, total int64
		if err := c.total.QueryRowContext(context.Background()).Scan(&claims, &total); err != nil {
			return false, fmt.Errorf("reading what the claims come to: %w", err)
		}
		if claims < int64(o.MaxClaims) && bytes <= o.MaxClaimTotalBytes-total {
			return true, nil
		}
		n, err := c.sweep(c.sweepClaims, now, passingIDs)
		if err != nil || n == 0 {
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
	var found bool
	var got []byte
	var sealed sql.NullString
	err = cs.s.write(ctx, func(c *conn) error {
		bg := context.Background()
		now := cs.s.opts.Now().UnixMilli()
		if _, err := c.bind.ExecContext(bg, key[:], now, who[:]); err != nil {
			return err
		}
		var holder []byte
		err := c.payload.QueryRowContext(bg, key[:], now).Scan(&holder, &got, &sealed)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		found = err == nil && subtle.ConstantTimeCompare(holder, who[:]) == 1
		return err
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, claimcheck.ErrRedeemed
	}
	return cs.s.unseal(claimTable, key[:], got, sealed)
}

// Revoke implements [claimcheck.Store].
func (cs *Claims) Revoke(ctx context.Context, claim string) error {
	key, ok := claimcheck.Key(claim)
	if !ok {
		return nil
	}
	return cs.s.write(ctx, func(c *conn) error {
		_, err := c.revoke.ExecContext(context.Background(), key[:])
		return err
	})
}

// Ping implements [claimcheck.Pinger]: it writes, see [Store.Ping], and returns
// claimcheck.ErrFull while there is no room for a claim.
func (cs *Claims) Ping(ctx context.Context) error {
	if err := cs.s.mayKeep(); err != nil {
		return err
	}
	var room bool
	err := cs.s.write(ctx, func(c *conn) (err error) {
		if err = c.writePing(); err != nil {
			return err
		}
		room, err = cs.room(c, 1)
		return err
	})
	if err == nil && !room {
		err = claimcheck.ErrFull
	}
	return err
}

// IdempotentRedeem implements [claimcheck.IdempotentRedeemer]; it reports true.
func (cs *Claims) IdempotentRedeem() bool { return true }

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (cs *Claims) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("sqlite.Claims")) }
