package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Handles is the store of a [Store] for the handle codec: the payload of a token
// stays here, and the client has its key. It needs Options.AtRest or PlainAtRest.
// A caller whose context or timeout ends gets an error at once while the
// transaction may go on; see [Replay].
type Handles struct{ s *Store }

// Put keeps payload under key until expires. It is [ErrExists] if there is one,
// which is left as it is, and [ErrFull] if there is no room. It is durable once
// Put has returned nil.
func (h *Handles) Put(ctx context.Context, key [32]byte, payload []byte, expires time.Time) error {
	if expires.UTC().Year() > 9999 {
		return errors.New("sqlite: a handle's expires is after the year 9999")
	}
	kept, sealed, err := h.s.seal(handleTable, key[:], payload)
	if err != nil {
		return err
	}
	var room, put bool
	err = h.s.write(ctx, func(c *conn) (err error) {
		if room, err = h.room(c, int64(len(kept))); err != nil || !room {
			return err
		}
		n, err := changed(c.putHandle.ExecContext(context.Background(), key[:], ceilMillis(expires), sealed, kept))
		put = n == 1
		h.s.inserted++
		return err
	})
	switch err = full(err, ErrFull); {
	case err != nil:
		return err
	case !room:
		return ErrFull
	case !put:
		return ErrExists
	}
	return nil
}

// room reports whether a payload of so many bytes has room, after deleting as
// much of what is due as that takes. Nothing else is deleted.
func (h *Handles) room(c *conn, bytes int64) (bool, error) {
	for {
		var handles, total int64
		if err := c.handleTotal.QueryRowContext(context.Background()).Scan(&handles, &total); err != nil {
			return false, fmt.Errorf("reading what the handles come to: %w", err)
		}
		if handles < int64(h.s.opts.MaxHandles) && bytes <= h.s.opts.MaxHandleTotalBytes-total {
			return true, nil
		}
		n, err := c.sweep(c.sweepHandles, h.s.horizon(), passingIDs)
		if err != nil || n == 0 {
			return false, err
		}
	}
}

// Get returns the payload under key until the clock, less Options.Skew, has
// reached its expires. found is false for what is not there or over. A payload
// that was tampered with, or put for another key, is an error.
func (h *Handles) Get(ctx context.Context, key [32]byte) (payload []byte, found bool, err error) {
	var kept []byte
	var sealed sql.NullString
	var there bool
	err = h.s.write(ctx, func(c *conn) error {
		err := c.getHandle.QueryRowContext(context.Background(), key[:], h.s.horizon()).Scan(&sealed, &kept)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		there = err == nil
		return err
	})
	if err != nil || !there {
		return nil, false, err
	}
	if payload, err = h.s.unseal(handleTable, key[:], kept, sealed); err != nil {
		return nil, false, err
	}
	return payload, true, nil
}

// Ping reports whether Put could succeed now, by a write of its own. A store that
// is full can still be read, and Ping says so by nil.
func (h *Handles) Ping(ctx context.Context) error {
	if err := h.s.mayKeep(); err != nil {
		return err
	}
	return h.s.Ping(ctx)
}

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (h *Handles) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("sqlite.Handles")) }
