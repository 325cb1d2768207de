package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/jackc/pgx/v5"
)

// Replay is the [replay.Store] of a [Store]: single use across all replicas that
// share the schema. A caller whose context or timeout ends gets an error while
// the server may go on, so that the ID may be spent. The store is bounded by the
// server's disk: a full one is replay.ErrFull.
type Replay struct{ s *Store }

var (
	_ replay.Store    = (*Replay)(nil)
	_ replay.Pinger   = (*Replay)(nil)
	_ replay.Deferrer = (*Replay)(nil)
)

// The mark is checked before the ID is written, and again after, by a statement
// of its own. Only the second check is what single use stands on: if a sweep has
// deleted the row of an earlier Use while this one was under way, it has raised
// the mark before, and a statement that begins later sees that. It takes no lock,
// so that neither a sweep nor a Use in a long transaction of a caller's makes
// anybody wait.
const (
	insertSpent = `INSERT INTO {s}.spent (id, expires, attempt, named)
	SELECT $1::bytea, $2::bigint, $3::bytea, $4::boolean FROM {s}.mark m
	WHERE m.one AND $2::bigint > m.swept AND coalesce($5::bigint >= m.restored, true)
	ON CONFLICT (id) DO `

	useSpent = insertSpent + `NOTHING`

	// The row of this very attempt is written again, though it stays the same:
	// the COMMIT that follows then waits for all that an earlier one, whose
	// answer was lost, had to wait for.
	useSpentAgain = insertSpent + `UPDATE SET attempt = excluded.attempt
	WHERE spent.attempt = excluded.attempt AND spent.named = excluded.named`

	readSpent = `SELECT m.swept, m.restored, s.attempt, s.named
	FROM {s}.mark m LEFT JOIN {s}.spent s ON s.id = $1::bytea WHERE m.one`
)

// spending is one attempt to spend an ID.
type spending struct {
	id      []byte
	expires int64
	minted  *int64 // nil for IDs that do not tell
	attempt []byte
	named   bool

	swept, restored int64
	found           bool   // the mark
	holder          []byte // attempt of whoever was first
	holderNamed     *bool
}

func newSpending(id []byte, expires time.Time, attempt []byte) *spending {
	u := &spending{id: id, expires: ceilMillis(expires), attempt: attempt, named: attempt != nil}
	if len(id) == ledger.IDLen {
		ms := ledger.Minted([ledger.IDLen]byte(id)).UnixMilli()
		u.minted = &ms
	}
	if !u.named {
		u.attempt = make([]byte, replay.AttemptLen)
		_, _ = rand.Read(u.attempt) // never fails, as documented
	}
	return u
}

func (u *spending) queue(queue func(sql string, args ...any) *pgx.QueuedQuery, insert string) {
	queue(insert, u.id, u.expires, u.attempt, u.named, u.minted)
	queue(readSpent, u.id).QueryRow(u.scan)
}

func (u *spending) scan(row pgx.Row) error {
	u.holder, u.holderNamed, u.found = nil, nil, false
	err := row.Scan(&u.swept, &u.restored, &u.holder, &u.holderNamed)
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoMark
	}
	u.found = err == nil
	return err
}

var errNoMark = errors.New("the row of the marks is missing: the tables are damaged")

// outcome is what a transaction that has carried the statements out has found.
func (u *spending) outcome() (first bool, err error) {
	switch {
	case !u.found:
		return false, fmt.Errorf("postgres: %w", errNoMark)
	case u.expires <= u.swept:
		return false, replay.ErrSwept
	case u.minted != nil && *u.minted < u.restored:
		return false, replay.ErrRestored
	case u.holderNamed == nil:
		return false, errors.New("postgres: the ID was not written, for no reason that the store knows")
	}
	return *u.holderNamed == u.named && subtle.ConstantTimeCompare(u.holder, u.attempt) == 1, nil
}

// Use implements [replay.Store].
func (r *Replay) Use(ctx context.Context, id []byte, expires time.Time) (first bool, err error) {
	if err := replay.Check(id, expires); err != nil {
		return false, err
	}
	return r.spend(ctx, newSpending(id, expires, nil), useSpent)
}

// UseAs implements [replay.Deferrer].
func (r *Replay) UseAs(ctx context.Context, id []byte, expires time.Time, attempt []byte) (first bool, err error) {
	if err := checkAttempt(id, expires, attempt); err != nil {
		return false, err
	}
	return r.spend(ctx, newSpending(id, expires, attempt), useSpentAgain)
}

func checkAttempt(id []byte, expires time.Time, attempt []byte) error {
	if err := replay.Check(id, expires); err != nil {
		return err
	}
	if len(attempt) != replay.AttemptLen {
		return fmt.Errorf("postgres: attempt has %d bytes, want %d", len(attempt), replay.AttemptLen)
	}
	return nil
}

func (r *Replay) spend(ctx context.Context, u *spending, insert string) (first bool, err error) {
	err = r.s.decide(ctx, func(st *statements, again bool) {
		if again {
			insert = useSpentAgain
		}
		u.queue(st.queue, insert)
	})
	if code(err) == diskFull {
		return false, because(replay.ErrFull, err)
	}
	if err != nil {
		return false, err
	}
	r.s.sweepInPassing()
	return u.outcome()
}

// Attempt implements [replay.Deferrer].
func (r *Replay) Attempt(ctx context.Context, id []byte) (attempt []byte, spent bool, err error) {
	if err := replay.Check(id, time.Time{}); err != nil {
		return nil, false, err
	}
	var named bool
	err = r.s.do(ctx, func(st *statements) {
		st.row(&spent, []any{&attempt, &named}, `SELECT attempt, named FROM {s}.spent WHERE id = $1`, id)
	})
	if err != nil {
		return nil, false, err
	}
	if !spent || !named {
		return nil, spent, nil
	}
	return bytes.Clone(attempt), true, nil
}

// Ping implements [replay.Pinger]: it spends a made-up ID and takes it back in one
// transaction.
func (r *Replay) Ping(ctx context.Context) error {
	u := newSpending(make([]byte, 16), time.UnixMilli(1<<43), nil)
	_, _ = rand.Read(u.id)
	u.minted = nil
	var deleted int64
	err := r.s.do(ctx, func(st *statements) {
		u.queue(st.queue, useSpent)
		st.changed(&deleted, `DELETE FROM {s}.spent WHERE id = $1`, u.id)
	})
	if code(err) == diskFull {
		return because(replay.ErrFull, err)
	}
	if err != nil {
		return err
	}
	if first, err := u.outcome(); err != nil || !first || deleted != 1 {
		return because(errors.New("postgres: an ID could not be spent"), err)
	}
	return nil
}

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (r *Replay) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("postgres.Replay")) }

// ceilMillis rounds up, so that nothing is forgotten early.
func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// ceilDuration is a duration in milliseconds, rounded up.
func ceilDuration(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
