package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// settings is what every transaction of the store begins with. What single use
// stands on is read back in the same step: the answer to COMMIT means nothing
// without it, nor without the warnings that come before it (see Watch).
const settings = `SELECT set_config('synchronous_commit', 'on', true), current_setting('fsync'), current_setting('synchronous_standby_names'),
	set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true), set_config('client_min_messages', 'warning', true)`

var (
	errSyncCommit = errors.New("the server did not take synchronous_commit=on")
	errNoSync     = errors.New("the server runs with fsync=off, so it forgets when its machine loses power: turn it on (Options.AcceptNoFsync is for tests)")
)

// A statements is what one transaction carries out, in one round trip.
type statements struct {
	s *Store
	b pgx.Batch
}

// queue adds a statement. In sql, {s} is the schema and {now} the server's time in
// Unix milliseconds, read anew for each row, and {up} the same rounded up.
func (st *statements) queue(sql string, args ...any) *pgx.QueuedQuery {
	return st.b.Queue(st.s.text(sql), args...)
}

// row adds a statement that gives at most one row, which goes to dest; found says
// whether there was one. Both are good once the transaction has committed.
func (st *statements) row(found *bool, dest []any, sql string, args ...any) {
	st.queue(sql, args...).QueryRow(func(row pgx.Row) error {
		*found = false // this may be another try
		err := row.Scan(dest...)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		*found = err == nil
		return err
	})
}

// changed adds a statement and counts the rows that it changes.
func (st *statements) changed(n *int64, sql string, args ...any) {
	st.queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		*n = tag.RowsAffected()
		return nil
	})
}

// serverTime is the server's time in SQL, in milliseconds as a numeric.
const serverTime = `(extract(epoch FROM clock_timestamp()) * 1000)`

// text fills in a statement.
func (s *Store) text(sql string) string {
	if s.opts.clock != nil {
		return fill(sql, s.opts.Schema, s.opts.clock())
	}
	if t, ok := s.texts.Load(sql); ok {
		return t.(string)
	}
	t := fill(sql, s.opts.Schema, serverTime)
	s.texts.Store(sql, t)
	return t
}

func fill(sql, schema, time string) string {
	return strings.NewReplacer("{s}", pgx.Identifier{schema}.Sanitize(), "{now}", "floor("+time+")::bigint", "{up}", "ceil("+time+")::bigint").Replace(sql)
}

// do carries out in one transaction what build queues, and returns nil only after
// COMMIT succeeded. READ COMMITTED: each statement sees what was committed before
// it began, which the check of the sweep mark stands on.
func (s *Store) do(ctx context.Context, build func(st *statements)) error {
	return s.within(ctx, s.timeout(), build)
}

// within is do with another timeout.
func (s *Store) within(ctx context.Context, timeout time.Duration, build func(st *statements)) error {
	ctx, cancel, err := s.enter(ctx, timeout)
	if err != nil {
		return err
	}
	defer cancel()
	_, err = s.try(ctx, timeout, build)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

func (s *Store) timeout() time.Duration { return time.Duration(s.patience.Load()) }

// slow is the timeout of what operators ask for, which may read every row.
const slow = time.Hour

// decide is do for statements that may be sent again, because an attempt mark
// tells whether an earlier try was carried out. again is true for the tries after
// one that lost its connection.
func (s *Store) decide(ctx context.Context, build func(st *statements, again bool)) error {
	ctx, cancel, err := s.enter(ctx, s.timeout())
	if err != nil {
		return err
	}
	defer cancel()
	lost, err := s.try(ctx, s.timeout(), func(st *statements) { build(st, false) })
	if err == nil {
		return nil
	}
	if !lost {
		return fmt.Errorf("postgres: %w", err)
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("postgres: the connection was lost, and whether the call was carried out could not be found out: %w", err)
		case <-time.After(pause):
		}
		lost, again := s.try(ctx, s.timeout(), func(st *statements) { build(st, true) })
		if again == nil {
			return nil
		}
		var connecting *connectError
		if !lost && !errors.As(again, &connecting) {
			return fmt.Errorf("postgres: the connection was lost, and whether the call was carried out could not be found out: %w", again)
		}
		if ctx.Err() == nil {
			err = again
		}
	}
}

// enter begins a call.
func (s *Store) enter(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("postgres: nothing was written: %w", err)
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, cancel, nil
}

// connectError says that there was no connection, so that nothing was sent.
type connectError struct{ err error }

func (e *connectError) Error() string { return "no connection: " + e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// try carries out one transaction. lost says that the connection broke, other
// than by the end of ctx, after something may have been sent.
func (s *Store) try(ctx context.Context, timeout time.Duration, build func(st *statements)) (lost bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, &connectError{plain(err)}
	}
	defer conn.Release()
	seen := watchOf(conn.Conn().PgConn())
	if seen != nil {
		seen.warned = false
	}
	st := &statements{s: s}
	st.b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	st.b.Queue(settings, strconv.FormatInt(max(1, timeout.Milliseconds()), 10)).QueryRow(func(row pgx.Row) error {
		var sync, fsync, standbys, discard string
		if err := row.Scan(&sync, &fsync, &standbys, &discard, &discard, &discard); err != nil {
			return err
		}
		if standbys != "" && seen == nil {
			return errUnwatched
		}
		return checkSettings(sync, fsync, s.opts.AcceptNoFsync)
	})
	build(st)
	st.b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errors.New("the server rolled back instead of committing")
		}
		return nil
	})
	if err := conn.SendBatch(ctx, &st.b).Close(); err != nil {
		s.leave(conn)
		return conn.Conn().IsClosed() && ctx.Err() == nil, plain(err)
	}
	if seen != nil && seen.warned {
		return false, errStandby
	}
	return false, nil
}

func checkSettings(sync, fsync string, acceptNoFsync bool) error {
	if sync != "on" {
		return errSyncCommit
	}
	if fsync != "on" && !acceptNoFsync {
		return errNoSync
	}
	return nil
}

// leave ends a transaction that failed, so that the connection can be used again.
// If it cannot, the pool drops the connection.
func (s *Store) leave(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout())
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}
