package postgres

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/foilmcp/foil/store"
	"github.com/jackc/pgx/v5"
)

// Stats counts what the schema holds. It reads every row and is meant for
// operators.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	out := store.Stats{Backend: "postgres", Keys: make(map[string]int64)}
	var found bool
	var swept, ended, restored int64
	err := s.within(ctx, slow, func(st *statements) {
		st.row(&found, []any{&out.Schema}, `SELECT version FROM {s}.schema_version WHERE one`)
		st.row(&found, []any{&swept, &ended, &restored}, readMark)
		st.row(&found, []any{&out.Spent}, `SELECT count(*) FROM {s}.spent WHERE expires > (SELECT swept FROM {s}.mark WHERE one)`)
		st.row(&found, []any{&out.Claims, &out.ClaimBytes}, `SELECT count(*), coalesce(sum(octet_length(payload)), 0)::bigint FROM {s}.claim WHERE expires > (SELECT {now})`)
		st.row(&found, []any{&out.Handles}, `SELECT count(*) FROM {s}.handle WHERE expires > (SELECT {now})`)
		st.row(&found, []any{&out.Executing, &out.Succeeded, &out.Failed, &out.Unknown}, countOperations)
		st.row(&found, []any{&out.SizeBytes}, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
			FROM pg_catalog.pg_class c WHERE c.relnamespace = '{s}'::regnamespace AND c.relkind = 'r'`)
		// A sealed value begins with four bytes that name its key.
		st.queue(`SELECT substr(v, 1, 4), count(*) FROM (
			SELECT payload AS v FROM {s}.claim WHERE sealed UNION ALL SELECT payload FROM {s}.handle WHERE sealed
			UNION ALL SELECT outcome FROM {s}.operation WHERE sealed AND outcome IS NOT NULL
			UNION ALL SELECT result FROM {s}.step WHERE sealed AND result IS NOT NULL) sealed GROUP BY 1`).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var kid []byte
				var n int64
				if err := rows.Scan(&kid, &n); err != nil {
					return err
				}
				out.Keys[hex.EncodeToString(kid)] = n
			}
			return rows.Err()
		})
	})
	if err != nil {
		return store.Stats{}, err
	}
	if swept > 0 {
		out.SweptUntil = time.UnixMilli(swept)
	}
	if restored > 0 {
		out.RestoredAt = time.UnixMilli(restored)
	}
	return out, nil
}
