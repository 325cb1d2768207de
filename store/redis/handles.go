package redis

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Handles keeps the payloads of handles: it is a handle.Store.
type Handles struct{ s *Store }

// Put keeps payload under key until expires by the server's clock, less
// Options.Skew. A key that is there is an error and is left as it is; so is a store
// that is full. After any other error the payload may be kept or not.
func (h *Handles) Put(ctx context.Context, key [32]byte, payload []byte, expires time.Time) error {
	if y := expires.UTC().Year(); y < 1970 || y > 9999 {
		return errors.New("redis: expires is out of range")
	}
	o := &h.s.opts
	return h.s.put(ctx, "handle", key, payload, false, ceilMillis(expires)+millisUp(o.Skew), o.MaxHandles, o.MaxHandleTotalBytes)
}

// Get returns the payload under key, and whether there is one that has not expired.
// One that is damaged or was sealed for another key is an error.
func (h *Handles) Get(ctx context.Context, key [32]byte) (payload []byte, found bool, err error) {
	reply, err := h.s.do(ctx, scriptGet, "handle", key[:])
	if err != nil {
		return nil, false, err
	}
	switch text(reply[0]) {
	case "none":
		return nil, false, nil
	case "row":
		payload, err := h.s.give("handle", key[:], "payload", text(field(reply, 1)))
		return payload, err == nil, err
	}
	return nil, false, errReply
}

// Ping reports whether Get would succeed now; it writes, see [Store.Ping]. A store
// that is full can still be read.
func (h *Handles) Ping(ctx context.Context) error {
	if h.s.opts.AtRest == nil && !h.s.opts.PlainAtRest {
		return errNoForm
	}
	if err := h.s.ping(ctx, "", 0, 0); !isFull(err) {
		return err
	}
	return nil
}

// Ephemeral reports whether Options.Durability is None.
func (h *Handles) Ephemeral() bool { return h.s.opts.Durability == None }

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (h *Handles) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("redis.Handles")) }
