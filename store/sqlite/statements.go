package sqlite

import (
	"context"
	"database/sql"
)

// conn is the one connection of a store that writes, with its statements.
type conn struct {
	sql                     *sql.Conn
	all                     []*sql.Stmt // each of the following
	begin, commit, rollback *sql.Stmt
	readMarks, raiseMark    *sql.Stmt
	use, useAs, attempt     *sql.Stmt
	dueIDs, sweepIDs        *sql.Stmt
	ping                    *sql.Stmt

	total                *sql.Stmt
	issue, bind, payload *sql.Stmt
	revoke, sweepClaims  *sql.Stmt

	handleTotal                  *sql.Stmt
	putHandle, getHandle         *sql.Stmt
	sweepHandles                 *sql.Stmt
	raiseOperations              *sql.Stmt
	sweepSteps, sweepOperations  *sql.Stmt
	beginOperation, getOperation *sql.Stmt
	renew, resume                *sql.Stmt
	running                      *sql.Stmt
	getSteps, getStep            *sql.Stmt
	addStep, againStep, endStep  *sql.Stmt
	countStep                    *sql.Stmt
	finish, finishUnknown        *sql.Stmt
	ended, resolve               *sql.Stmt

	marks // as read in the transaction under way
}

// marks are what is refused, in Unix milliseconds.
type marks struct {
	spent      int64 // IDs that expire then or before
	operations int64 // operations that expire then or before
	restored   int64 // tokens that were minted before
}

// Statements that InTx runs too; there the tables have the schema named.
const (
	selectMarks   = `SELECT until, operations, restored FROM main.sweep_mark WHERE one = 1`
	insertAttempt = `INSERT INTO main.spent (id, expires, attempt) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING`
	selectAttempt = `SELECT attempt FROM main.spent WHERE id = ?1`
)

// operationColumns are what scanOperation reads; endColumns are its last.
const (
	operationColumns = `id, flow, round, answers, principal, expires, state, fence, started, lease_until, finished, kept_until, method, target, resolved_by, note`
	endColumns       = `sealed, outcome IS NOT NULL, outcome`
	stepColumns      = `name, fence, began, ended, sealed, result IS NOT NULL, result`
)

// Statements that Get runs on a connection of its own.
const (
	selectOperation = `SELECT ` + operationColumns + `, ` + endColumns + ` FROM foil_operation WHERE id = ?1`
	selectSteps     = `SELECT ` + stepColumns + ` FROM foil_step WHERE operation = ?1 ORDER BY seq`
)

// unknownAt is what makes an operation unknown at ?3.
const unknownAt = `(state = 4 OR state = 1 AND lease_until <= ?3)`

// prepare compiles every statement that a store runs.
func (c *conn) prepare(ctx context.Context) error {
	for _, p := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&c.begin, `BEGIN IMMEDIATE`},
		{&c.commit, `COMMIT`},
		{&c.rollback, `ROLLBACK`},

		{&c.readMarks, selectMarks},
		{&c.raiseMark, `UPDATE sweep_mark SET until = ?1 WHERE one = 1 AND until < ?1`},

		{&c.use, `INSERT INTO spent (id, expires) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING`},
		{&c.useAs, insertAttempt},
		{&c.attempt, selectAttempt},
		{&c.dueIDs, `SELECT EXISTS (SELECT 1 FROM spent WHERE expires <= ?1)`},
		{&c.sweepIDs, `DELETE FROM spent WHERE id IN (SELECT id FROM spent WHERE expires <= ?1 ORDER BY expires LIMIT ?2)`},

		{&c.ping, `UPDATE ping SET count = count + 1, pad = randomblob(length(pad)) WHERE one = 1`},

		{&c.total, `SELECT claims, bytes FROM claim_total WHERE one = 1`},
		{&c.issue, `INSERT INTO claim (key, expires, by, payload, sealed) VALUES (?1, ?2, NULL, ?3, ?4)`},
		{&c.bind, `UPDATE claim SET by = ?3 WHERE key = ?1 AND expires > ?2 AND by IS NULL`},
		{&c.payload, `SELECT by, payload, sealed FROM claim WHERE key = ?1 AND expires > ?2`},
		{&c.revoke, `DELETE FROM claim WHERE key = ?1`},
		{&c.sweepClaims, `DELETE FROM claim WHERE rowid IN (SELECT rowid FROM claim WHERE expires <= ?1 ORDER BY expires LIMIT ?2)`},

		{&c.handleTotal, `SELECT handles, bytes FROM foil_handle_total WHERE one = 1`},
		{&c.putHandle, `INSERT INTO foil_handle (key, expires, sealed, payload) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO NOTHING`},
		{&c.getHandle, `SELECT sealed, payload FROM foil_handle WHERE key = ?1 AND expires > ?2`},
		{&c.sweepHandles, `DELETE FROM foil_handle WHERE rowid IN (SELECT rowid FROM foil_handle WHERE expires <= ?1 ORDER BY expires LIMIT ?2)`},

		{&c.raiseOperations, `UPDATE sweep_mark SET operations = ?1 WHERE one = 1 AND operations < ?1`},
		{&c.sweepSteps, `DELETE FROM foil_step WHERE seq IN (
			SELECT s.seq FROM foil_operation o JOIN foil_step s ON s.operation = o.id
			WHERE o.kept_until <= ?1 ORDER BY o.kept_until LIMIT ?2)`},
		{&c.sweepOperations, `DELETE FROM foil_operation WHERE rowid IN (
			SELECT o.rowid FROM foil_operation o WHERE o.kept_until <= ?1
			AND NOT EXISTS (SELECT 1 FROM foil_step s WHERE s.operation = o.id)
			ORDER BY o.kept_until LIMIT ?2) RETURNING expires`},

		{&c.beginOperation, `INSERT INTO foil_operation (id, flow, round, answers, principal, expires, state, fence, started, lease_until, keep, retention, steps, method, target)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, 1, ?7, ?8, ?9, ?10, 0, ?11, ?12) ON CONFLICT (id) DO NOTHING`},
		{&c.getOperation, selectOperation},
		{&c.renew, `UPDATE foil_operation SET lease_until = ?3 WHERE id = ?1 AND fence = ?2 AND state = 1`},
		{&c.resume, `UPDATE foil_operation SET state = 1, fence = fence + 1, lease_until = ?4 WHERE id = ?1 AND fence = ?2 AND ` + unknownAt},
		{&c.running, `SELECT steps FROM foil_operation WHERE id = ?1 AND fence = ?2 AND state = 1`},
		{&c.getSteps, selectSteps},
		{&c.getStep, `SELECT ` + stepColumns + ` FROM foil_step WHERE operation = ?1 AND name = ?2`},
		{&c.addStep, `INSERT INTO foil_step (operation, name, fence, began, ended, sealed, result) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`},
		{&c.againStep, `UPDATE foil_step SET fence = ?3 WHERE operation = ?1 AND name = ?2`},
		{&c.endStep, `UPDATE foil_step SET fence = ?3, ended = ?4, sealed = ?5, result = ?6 WHERE operation = ?1 AND name = ?2`},
		{&c.countStep, `UPDATE foil_operation SET steps = steps + 1 WHERE id = ?1`},
		{&c.finish, `UPDATE foil_operation SET state = ?3, finished = ?4, kept_until = max(?4 + retention, keep), sealed = ?5, outcome = ?6
			WHERE id = ?1 AND fence = ?2 AND state IN (1, 4)`},
		{&c.finishUnknown, `UPDATE foil_operation SET state = 4 WHERE id = ?1 AND fence = ?2 AND state IN (1, 4)`},
		{&c.ended, `SELECT state, ` + endColumns + ` FROM foil_operation WHERE id = ?1 AND fence = ?2 AND resolved_by IS NULL`},
		{&c.resolve, `UPDATE foil_operation SET state = ?4, fence = fence + 1, finished = ?3, kept_until = max(?3 + retention, keep),
			resolved_by = ?5, note = ?6, sealed = ?7, outcome = ?8 WHERE id = ?1 AND fence = ?2 AND ` + unknownAt},
	} {
		stmt, err := c.sql.PrepareContext(ctx, p.query)
		if err != nil {
			return plain(err)
		}
		c.all = append(c.all, stmt)
		*p.to = stmt
	}
	return nil
}
