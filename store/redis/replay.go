package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
)

// Replay is the [replay.Store] of a [Store]: single use across all processes that
// open the database.
//
// Each call writes a random attempt mark beside the ID. If the connection is lost
// before the answer is there, the call asks again under the same mark, and reports
// true only if that is the mark that stands. A caller whose context or timeout ends
// gets an error at once, and the ID may be spent.
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
	minted := int64(-1) // of another length: nothing is known of when
	if len(id) == ledger.IDLen {
		minted = ledger.Minted([ledger.IDLen]byte(id)).UnixMilli()
	}
	attempt := make([]byte, attemptLen)
	rand.Read(attempt)
	s := r.s
	reply, err := s.room(ctx, scriptUse, string(id), ceilMillis(expires), attempt, millisUp(s.opts.Skew), minted, s.sinceSweep())
	if isFull(err) {
		return false, fmt.Errorf("%w: %w", replay.ErrFull, err)
	}
	if err != nil {
		return false, err
	}
	switch text(reply[0]) {
	case "first":
		return true, nil
	case "spent":
		return false, nil
	case "swept":
		return false, replay.ErrSwept
	case "restored":
		return false, replay.ErrRestored
	}
	return false, errReply
}

var errReply = errors.New("redis: the server gave an answer that is none")

// Ping implements [replay.Pinger]; see [Store.Ping].
func (r *Replay) Ping(ctx context.Context) error {
	err := r.s.ping(ctx, "", 0, 0)
	if isFull(err) {
		return fmt.Errorf("%w: %w", replay.ErrFull, err)
	}
	return err
}

// Ephemeral implements [replay.Ephemeral]: it reports whether Options.Durability is
// None.
func (r *Replay) Ephemeral() bool { return r.s.opts.Durability == None }

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (r *Replay) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("redis.Replay")) }

// Ping reports whether a write could succeed now: it looks at what the store stands
// on and makes one, as durable as all others.
func (s *Store) Ping(ctx context.Context) error { return s.ping(ctx, "", 0, 0) }

// ping also reports errFull if a table of at most so many rows and bytes has no room.
func (s *Store) ping(ctx context.Context, table string, rows int, bytes int64) error {
	s.checked.Store(0)
	reply, err := s.room(ctx, scriptPing, table, rows, bytes)
	if err != nil {
		return err
	}
	switch text(reply[0]) {
	case "pong":
		return nil
	case "full":
		return errFull
	}
	return errReply
}

var errFull = errors.New("redis: store is full")
