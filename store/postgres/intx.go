package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/replay"
	"github.com/jackc/pgx/v5"
)

// InTx spends IDs in a transaction of the caller's, in the schema DefaultSchema
// of the same database: the mark and the caller's own rows come true together or
// not at all. See [Replay.InTx].
func InTx(tx pgx.Tx) replay.Tx { return &inTx{tx: tx, schema: DefaultSchema} }

// InTx spends IDs in a transaction of the caller's, which must be one on the
// store's database. UseAs sets synchronous_commit=on for the rest of the
// transaction; the caller must not unset it. Every isolation level is good: in
// REPEATABLE READ and above, two that spend one ID at the same time, and a sweep
// at the same time, are an error, 40001, after which the caller may try again
// from the start. While the transaction is open, whoever else presents the token
// waits for it until their timeout, so it should be short. After any error the
// caller must roll back.
//
// The caller commits, and so must look for what COMMIT alone does not say: if the
// wait for a synchronous standby is cancelled, pgx reports a commit, and only the
// connection's OnNotice gets the warning, SQLSTATE 01000 or 57P01, unless
// client_min_messages hides it. Then whether the mark outlives the primary is
// unknown, and the action must not be taken for done.
func (r *Replay) InTx(tx pgx.Tx) replay.Tx {
	return &inTx{tx: tx, schema: r.s.opts.Schema, acceptNoFsync: r.s.opts.AcceptNoFsync}
}

type inTx struct {
	tx            pgx.Tx
	schema        string
	acceptNoFsync bool
}

// txSettings is settings for a transaction of the caller's, whose timeouts are
// the caller's too.
const txSettings = `SELECT set_config('synchronous_commit', 'on', true), current_setting('fsync'), version FROM {s}.schema_version WHERE one`

// lockMark makes the check of the mark good where a statement sees no more than
// the first one of its transaction did: to lock a row that was changed since is
// an error there, 40001. In READ COMMITTED it does nothing.
const lockMark = `SELECT FROM {s}.mark WHERE one AND current_setting('transaction_isolation') <> 'read committed' FOR SHARE`

// UseAs implements [replay.Tx].
func (x *inTx) UseAs(ctx context.Context, id []byte, expires time.Time, attempt []byte) (first bool, err error) {
	if err := checkAttempt(id, expires, attempt); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("postgres: nothing was written: %w", err)
	}
	if x.tx == nil {
		return false, errors.New("postgres: the transaction is nil")
	}
	var b pgx.Batch
	queue := func(sql string, args ...any) *pgx.QueuedQuery {
		return b.Queue(fill(sql, x.schema, serverTime), args...)
	}
	queue(txSettings).QueryRow(x.checkSettings)
	u := newSpending(id, expires, attempt)
	queue(lockMark)
	u.queue(queue, useSpentAgain)
	if err := x.tx.SendBatch(ctx, &b).Close(); err != nil {
		full := code(err) == diskFull
		err = fmt.Errorf("postgres: in the caller's transaction: %w", plain(err))
		if full {
			err = because(replay.ErrFull, err)
		}
		return false, err
	}
	return u.outcome()
}

func (x *inTx) checkSettings(row pgx.Row) error {
	var sync, fsync string
	var version int
	err := row.Scan(&sync, &fsync, &version)
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("the row of the version is missing: the tables are damaged")
	}
	if err != nil {
		return err
	}
	if version != schemaVersion {
		return fmt.Errorf("schema version is %d, want %d", version, schemaVersion)
	}
	return checkSettings(sync, fsync, x.acceptNoFsync)
}
