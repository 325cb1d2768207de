package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/foilmcp/foil/ledger"
)

// List implements [ledger.Store]. It reads without keeping anybody from writing.
func (l *Ledger) List(ctx context.Context, q ledger.Query) (page []ledger.Operation, next string, err error) {
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	now := l.s.opts.Now().UnixMilli()
	query, args, err := listQuery(q, now)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.s.opts.Timeout, errLocked)
	defer cancel()
	err = l.s.view(ctx, func(ctx context.Context, c *sql.Conn) error {
		rows, err := c.QueryContext(ctx, query, args...)
		if err != nil {
			return plain(err)
		}
		defer rows.Close()
		for rows.Next() {
			var f found
			if err := f.scan(rows, now, false); err != nil {
				return plain(err)
			}
			page = append(page, f.op)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, "", err
	}
	if len(page) > q.Limit {
		page = page[:q.Limit]
		last := &page[q.Limit-1]
		next = ledger.Cursor(last.Started, last.ID)
	}
	return page, next, nil
}

// listQuery asks for one operation more than the page holds.
func listQuery(q ledger.Query, now int64) (query string, args []any, err error) {
	where := []string{"1"}
	add := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	switch q.State {
	case ledger.Executing: // kept_until IS NULL lets SQLite take the short index
		add("kept_until IS NULL AND state = 1 AND lease_until > ?", now)
	case ledger.Unknown:
		add("kept_until IS NULL AND (state = 4 OR state = 1 AND lease_until <= ?)", now)
	case ledger.Succeeded, ledger.Failed:
		add("state = ?", int64(q.State))
	}
	if len(q.Flow) != 0 {
		add("flow = ?", q.Flow)
	}
	if !q.Since.IsZero() {
		add("started >= ?", ceilMillis(q.Since))
	}
	if !q.Until.IsZero() {
		add("started < ?", ceilMillis(q.Until))
	}
	if q.After != "" {
		started, id, err := ledger.ParseCursor(q.After)
		if err != nil {
			return "", nil, err
		}
		add("(started, id) > (?, ?)", started.UnixMilli(), id[:])
	}
	args = append(args, q.Limit+1)
	return "SELECT " + operationColumns + " FROM foil_operation WHERE " + strings.Join(where, " AND ") + " ORDER BY started, id LIMIT ?", args, nil
}

// Counts implements [ledger.Counter]. It reads without keeping anybody from
// writing.
func (l *Ledger) Counts(ctx context.Context) (n ledger.Counts, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.s.opts.Timeout, errLocked)
	defer cancel()
	err = l.s.view(ctx, func(ctx context.Context, c *sql.Conn) (err error) {
		n, err = l.s.count(ctx, c)
		return err
	})
	return n, err
}

func (s *Store) count(ctx context.Context, c *sql.Conn) (n ledger.Counts, err error) {
	now := s.opts.Now().UnixMilli()
	// The first is answered from foil_operation_open, which is short, the others
	// from foil_operation_kept alone.
	err = c.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM foil_operation WHERE kept_until IS NULL AND state = 1 AND lease_until > ?1),
		(SELECT count(*) FROM foil_operation WHERE kept_until IS NULL),
		(SELECT count(*) FROM foil_operation WHERE kept_until IS NOT NULL AND state = 2),
		(SELECT count(*) FROM foil_operation WHERE kept_until IS NOT NULL AND state = 3)`, now).
		Scan(&n.Executing, &n.Unknown, &n.Succeeded, &n.Failed)
	n.Unknown -= n.Executing
	return n, plain(err)
}
