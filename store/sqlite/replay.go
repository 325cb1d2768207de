package sqlite

import (
	"bytes"
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
)

// Replay is the [replay.Deferrer] of a [Store]: single use across all processes
// that open the file. Its Use reports true only after COMMIT returned. What a
// transaction of the caller's spends by [InTx] is the same.
//
// A caller whose context or timeout ends gets an error at once. If the shared
// transaction had not begun by then, the error says that nothing was written;
// else the transaction goes on, and the ID may be spent. Any error of SQLite at
// COMMIT is an error for every caller that shared it.
type Replay struct{ s *Store }

var (
	_ replay.Deferrer = (*Replay)(nil)
	_ replay.Pinger   = (*Replay)(nil)
)

// Use implements [replay.Store].
func (r *Replay) Use(ctx context.Context, id []byte, expires time.Time) (first bool, err error) {
	if err := replay.Check(id, expires); err != nil {
		return false, err
	}
	id = bytes.Clone(id) // the transaction may outlive this call
	exp := ceilMillis(expires)
	var inserted bool
	var refused error
	err = r.s.write(ctx, func(c *conn) error {
		if refused = c.marks.refuse(id, exp); refused != nil {
			return nil
		}
		n, err := changed(c.use.ExecContext(context.Background(), id, exp))
		if err != nil {
			return err
		}
		inserted = n == 1
		r.s.inserted++
		return nil
	})
	if err != nil { // refused is not to be looked at: the transaction may be under way
		return false, full(err, replay.ErrFull)
	}
	if refused != nil {
		return false, refused
	}
	return inserted, nil
}

// UseAs implements [replay.Deferrer].
func (r *Replay) UseAs(ctx context.Context, id []byte, expires time.Time, attempt []byte) (first bool, err error) {
	if err := checkAttempt(id, expires, attempt); err != nil {
		return false, err
	}
	id, attempt = bytes.Clone(id), bytes.Clone(attempt)
	exp := ceilMillis(expires)
	var mine bool
	var refused error
	err = r.s.write(ctx, func(c *conn) error {
		if refused = c.marks.refuse(id, exp); refused != nil {
			return nil
		}
		bg := context.Background()
		n, err := changed(c.useAs.ExecContext(bg, id, exp, attempt))
		if err != nil {
			return err
		}
		if mine = n == 1; mine {
			r.s.inserted++
			return nil
		}
		var by []byte
		err = c.attempt.QueryRowContext(bg, id).Scan(&by)
		mine = err == nil && subtle.ConstantTimeCompare(by, attempt) == 1
		return err
	})
	if err != nil { // refused is not to be looked at: the transaction may be under way
		return false, full(err, replay.ErrFull)
	}
	if refused != nil {
		return false, refused
	}
	return mine, nil
}

// Attempt implements [replay.Deferrer].
func (r *Replay) Attempt(ctx context.Context, id []byte) (attempt []byte, spent bool, err error) {
	if err := replay.Check(id, time.Time{}); err != nil {
		return nil, false, err
	}
	id = bytes.Clone(id)
	var by []byte
	var found bool
	err = r.s.write(ctx, func(c *conn) error {
		err := c.attempt.QueryRowContext(context.Background(), id).Scan(&by)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		found = err == nil
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return by, found, nil
}

func checkAttempt(id []byte, expires time.Time, attempt []byte) error {
	if len(attempt) != replay.AttemptLen {
		return fmt.Errorf("replay: attempt has %d bytes, want %d", len(attempt), replay.AttemptLen)
	}
	return replay.Check(id, expires)
}

// refuse says why an ID that expires then must not be spent, if so.
func (m *marks) refuse(id []byte, expires int64) error {
	switch {
	case expires <= m.spent:
		return replay.ErrSwept
	case len(id) == ledger.IDLen && ledger.Minted([ledger.IDLen]byte(id)).UnixMilli() < m.restored:
		return replay.ErrRestored
	}
	return nil
}

// Ping implements [replay.Pinger]; see [Store.Ping].
func (r *Replay) Ping(ctx context.Context) error { return r.s.Ping(ctx) }

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (r *Replay) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("sqlite.Replay")) }
