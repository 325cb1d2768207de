package postgres

import (
	"context"
	"errors"
	"math"

	"github.com/foilmcp/foil/ledger"
	"github.com/jackc/pgx/v5"
)

const (
	listOperations = `SELECT ` + operationColumns + ` FROM {s}.operation
	WHERE ($1::smallint = 0 OR ` + stateNow + ` = $1::smallint) AND ($2::bytea IS NULL OR flow = $2::bytea)
		AND started >= $3::bigint AND started < $4::bigint AND (started, id) > ($5::bigint, $6::bytea)
	ORDER BY started, id LIMIT $7::integer`

	countOperations = `SELECT count(*) FILTER (WHERE s = 1), count(*) FILTER (WHERE s = 2), count(*) FILTER (WHERE s = 3), count(*) FILTER (WHERE s = 4)
	FROM (SELECT ` + stateNow + ` AS s FROM {s}.operation) o`
)

// List implements [ledger.Store].
func (l *Ledger) List(ctx context.Context, q ledger.Query) (page []ledger.Operation, next string, err error) {
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	since, until := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		since = ceilMillis(q.Since)
	}
	if !q.Until.IsZero() {
		until = ceilMillis(q.Until)
	}
	var flow []byte // NULL selects all
	if len(q.Flow) != 0 {
		flow = q.Flow
	}
	after, afterID := int64(math.MinInt64), []byte{}
	if q.After != "" {
		at, id, err := ledger.ParseCursor(q.After)
		if err != nil {
			return nil, "", err
		}
		after, afterID = at.UnixMilli(), id[:]
	}
	var rows []operationRow
	err = l.s.do(ctx, func(st *statements) {
		st.queue(listOperations, int16(q.State), flow, since, until, after, afterID, q.Limit+1).Query(func(found pgx.Rows) error {
			for found.Next() {
				var r operationRow
				if err := found.Scan(r.dest()...); err != nil {
					return err
				}
				rows = append(rows, r)
			}
			return found.Err()
		})
	})
	if err != nil {
		return nil, "", err
	}
	for i := range min(len(rows), q.Limit) {
		op, err := l.s.operation(&rows[i])
		if err != nil {
			return nil, "", err
		}
		page = append(page, *op)
	}
	if len(rows) > q.Limit {
		last := page[len(page)-1]
		next = ledger.Cursor(last.Started, last.ID)
	}
	return page, next, nil
}

// Counts implements [ledger.Counter]. It reads every operation.
func (l *Ledger) Counts(ctx context.Context) (c ledger.Counts, err error) {
	var found bool
	err = l.s.do(ctx, func(st *statements) {
		st.row(&found, []any{&c.Executing, &c.Succeeded, &c.Failed, &c.Unknown}, countOperations)
	})
	if err != nil {
		return ledger.Counts{}, err
	}
	if !found {
		return ledger.Counts{}, errors.New("postgres: the operations could not be counted")
	}
	return c, nil
}
