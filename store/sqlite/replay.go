package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/foilmcp/foil/replay"
	sqlite3 "modernc.org/sqlite/lib"
)

// Replay is the [replay.Store] of a [Store]: single use across all processes
// that open the file. Its Use reports true only after COMMIT returned.
//
// A caller whose context or timeout ends gets an error at once. If the shared
// transaction had not begun by then, the error says that nothing was written;
// else the transaction goes on, and the ID may be spent. Any error of SQLite at
// COMMIT is an error for every caller that shared it.
type Replay struct{ s *Store }

var (
	_ replay.Store  = (*Replay)(nil)
	_ replay.Pinger = (*Replay)(nil)
)

// Use implements [replay.Store].
func (r *Replay) Use(ctx context.Context, id []byte, expires time.Time) (first bool, err error) {
	if err := replay.Check(id, expires); err != nil {
		return false, err
	}
	id = bytes.Clone(id) // the transaction may outlive this call
	exp := ceilMillis(expires)
	var inserted, swept bool
	err = r.s.write(ctx, func(c *conn) error {
		if swept = exp <= c.mark; swept {
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
	switch {
	case code(err) == sqlite3.SQLITE_FULL:
		return false, fmt.Errorf("%w: %w", replay.ErrFull, err)
	case err != nil:
		return false, err
	case swept:
		return false, replay.ErrSwept
	}
	return inserted, nil
}

// Ping implements [replay.Pinger]; see [Store.Ping].
func (r *Replay) Ping(ctx context.Context) error { return r.s.Ping(ctx) }

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (r *Replay) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("sqlite.Replay")) }
