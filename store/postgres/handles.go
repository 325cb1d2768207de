package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// MaxHandleBytes is the length of the longest payload that Handles takes.
const MaxHandleBytes = 1 << 20

// ErrHandlesFull says that Handles has no room. It makes none by forgetting
// something before its time.
var ErrHandlesFull = errors.New("postgres: store of handles is full")

// Handles is the handle store of a [Store]: it implements handle.Store, which this
// package does not import.
type Handles struct{ s *Store }

const (
	putHandle = `INSERT INTO {s}.handle (key, expires, payload, sealed)
	SELECT $4::bytea, $6::bigint, $3::bytea, $5::boolean WHERE ` + room + `'handle')`

	getHandle = `SELECT payload, sealed FROM {s}.handle WHERE key = $1::bytea AND expires > {now} - $2::bigint`

	deleteHandle = `DELETE FROM {s}.handle WHERE key = $1::bytea`
)

// Put keeps payload under key until expires by the server's clock, and never
// overwrites: a key that is there is an error. Errors: ErrHandlesFull.
func (h *Handles) Put(ctx context.Context, key [32]byte, payload []byte, expires time.Time) error {
	if len(payload) > MaxHandleBytes {
		return fmt.Errorf("postgres: payload has %d bytes, want at most %d", len(payload), MaxHandleBytes)
	}
	if expires.UTC().Year() > 9999 {
		return errors.New("postgres: expires is after the year 9999")
	}
	kept, sealed, err := h.s.seal(tableHandle, key[:], columnPayload, notNil(payload))
	if err != nil {
		return err
	}
	full, err := h.put(ctx, func(st *statements, n *int64) {
		st.changed(n, putHandle, h.s.opts.MaxHandles, h.s.opts.MaxHandleTotalBytes, kept, key[:], sealed, ceilMillis(expires))
	})
	if full {
		return because(ErrHandlesFull, err)
	}
	if err == nil {
		h.s.sweepInPassing()
	}
	return err
}

func (h *Handles) put(ctx context.Context, build func(st *statements, n *int64)) (full bool, err error) {
	full, err = h.s.insert(ctx, sweepHandles, build)
	if code(err) == uniqueViolation {
		err = errors.New("postgres: a payload is there under this key")
	}
	return full, err
}

// Get returns the payload under key, or found false if there is none or its time
// has passed.
func (h *Handles) Get(ctx context.Context, key [32]byte) (payload []byte, found bool, err error) {
	if err := h.s.checkAtRest(); err != nil {
		return nil, false, err
	}
	var kept []byte
	var sealed bool
	err = h.s.do(ctx, func(st *statements) {
		st.row(&found, []any{&kept, &sealed}, getHandle, key[:], ceilDuration(h.s.opts.Skew))
	})
	if err != nil || !found {
		return nil, false, err
	}
	if payload, err = h.s.open(tableHandle, key[:], columnPayload, notNil(kept), sealed); err != nil {
		return nil, false, err
	}
	return payload, true, nil
}

// Ping reports whether Put and Get could succeed now: it puts a payload and takes
// it back in one transaction. Errors: ErrHandlesFull.
func (h *Handles) Ping(ctx context.Context) error {
	if err := h.s.checkAtRest(); err != nil {
		return err
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails, as documented
	kept, sealed, err := h.s.seal(tableHandle, key[:], columnPayload, []byte{0})
	if err != nil {
		return err
	}
	full, err := h.put(ctx, func(st *statements, n *int64) {
		st.changed(n, putHandle, h.s.opts.MaxHandles, h.s.opts.MaxHandleTotalBytes, kept, key[:], sealed, int64(1)<<43)
		st.queue(deleteHandle, key[:])
	})
	if full {
		return because(ErrHandlesFull, err)
	}
	return err
}

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (h *Handles) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("postgres.Handles")) }
