package foil

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foilmcp/foil/replay"
)

// coolDown is how long a failed store is taken to be down without asking it.
const coolDown = time.Second

// health remembers that a store failed, so that an outage looks the same to
// every state that is presented, good or bad.
type health struct {
	name   string
	pinger replay.Pinger // nil: the store cannot be asked

	down   atomic.Bool
	mu     sync.Mutex // guards failed, and each change of down
	failed time.Time
}

func (h *health) report(now time.Time, err error) {
	if err == nil && !h.down.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// Only a call that worked shows that the store is back.
	h.down.Store(err != nil)
	if err != nil {
		h.failed = now
	}
}

var errKnownDown = errors.New("it failed a moment ago")

// ready reports whether a store may be called. While it is known to
// be down it is asked, at most once per coolDown, whether it is back. A store
// that cannot be asked gets one presentation in that time, good or bad.
func (g *Guard) ready(ctx context.Context, h *health) error {
	if !h.down.Load() {
		return nil
	}
	now := g.o.Now()
	h.mu.Lock()
	if since := now.Sub(h.failed); since >= 0 && since < coolDown {
		h.mu.Unlock()
		return errKnownDown
	}
	h.failed = now // others wait for this one's finding
	h.mu.Unlock()
	if h.pinger == nil {
		return nil // this one may find out; down stays until a call has worked
	}
	// The finding is for all callers: it must not depend on this one's patience.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.StoreTimeout)
	defer cancel()
	began := g.begin()
	err := h.pinger.Ping(ctx)
	g.storeCall(ctx, h.name, "ping", began, err)
	h.report(g.o.Now(), err)
	return err
}

// backend returns the health of what opens this token, nil if that depends on
// nothing. In a Migration either format has its own, told apart by the prefix,
// which is no secret: one that is away must not shut out the other.
func (g *Guard) backend(token string) *health {
	h := &g.tokens
	if m, ok := g.codec.(*Migration); ok {
		c, old := m.opens(token)
		if c == nil {
			return nil
		}
		if old {
			h = &g.old
		}
	}
	if h.pinger == nil {
		return nil
	}
	return h
}
