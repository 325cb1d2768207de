package sqlite

import (
	"context"
	"database/sql"

	"github.com/foilmcp/foil/store"
)

// Stats returns figures of the file, as of one moment. It counts rows, which
// takes a while in a large file, and keeps nobody from writing.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	st := store.Stats{Backend: "sqlite", Keys: make(map[string]int64)}
	err := s.view(ctx, func(ctx context.Context, q *sql.Conn) (err error) {
		if st.Schema, err = readVersion(ctx, q); err != nil {
			return err
		}
		var m marks
		if err := q.QueryRowContext(ctx, selectMarks).Scan(&m.spent, &m.operations, &m.restored); err != nil {
			return plain(err)
		}
		var pages, pageSize int64
		for _, r := range []struct {
			query string
			to    []any
		}{
			{"SELECT count(*) FROM spent WHERE expires > (SELECT until FROM sweep_mark)", []any{&st.Spent}},
			{"SELECT claims, bytes FROM claim_total", []any{&st.Claims, &st.ClaimBytes}},
			{"SELECT handles FROM foil_handle_total", []any{&st.Handles}},
			{"PRAGMA page_count", []any{&pages}},
			{"PRAGMA page_size", []any{&pageSize}},
		} {
			if err := q.QueryRowContext(ctx, r.query).Scan(r.to...); err != nil {
				return plain(err)
			}
		}
		st.SizeBytes = pages * pageSize
		if m.spent > 0 {
			st.SweptUntil = millis(m.spent)
		}
		if m.restored > 0 {
			st.RestoredAt = millis(m.restored)
		}
		n, err := s.count(ctx, q)
		if err != nil {
			return err
		}
		st.Executing, st.Succeeded, st.Failed, st.Unknown = n.Executing, n.Succeeded, n.Failed, n.Unknown
		return countKeys(ctx, q, st.Keys)
	})
	if err != nil {
		return store.Stats{}, err
	}
	return st, nil
}

func countKeys(ctx context.Context, q *sql.Conn, keys map[string]int64) error {
	rows, err := q.QueryContext(ctx, `SELECT sealed, count(*) FROM (
		SELECT sealed FROM claim UNION ALL SELECT sealed FROM foil_handle
		UNION ALL SELECT sealed FROM foil_operation UNION ALL SELECT sealed FROM foil_step
	) WHERE sealed IS NOT NULL GROUP BY sealed`)
	if err != nil {
		return plain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var n int64
		if err := rows.Scan(&key, &n); err != nil {
			return err
		}
		keys[key] = n
	}
	return rows.Err()
}
