package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/store"
	"github.com/jackc/pgx/v5"
)

// maxProblems bounds what one invariant, and the opening of one table, reports.
const maxProblems = 1000

// An invariant is one that rows break which the query finds: by key, as bytes.
type invariant struct{ table, detail, broken string }

var invariants = []invariant{
	{"mark", "there is not exactly one row", `SELECT ''::bytea WHERE (SELECT count(*) FROM {s}.mark WHERE one) <> 1`},
	{"mark", "a mark is negative", `SELECT ''::bytea FROM {s}.mark WHERE swept < 0 OR ended < 0 OR restored < 0`},

	{"spent", "the ID does not have 1 to 64 bytes", `SELECT id FROM {s}.spent WHERE octet_length(id) NOT BETWEEN 1 AND 64`},
	{"spent", "the attempt mark does not have 16 bytes", `SELECT id FROM {s}.spent WHERE octet_length(attempt) <> 16`},

	{"claim", "the key does not have 32 bytes", `SELECT key FROM {s}.claim WHERE octet_length(key) <> 32`},
	{"claim", "the holder does not have 32 bytes", `SELECT key FROM {s}.claim WHERE octet_length(by) <> 32`},
	{"handle", "the key does not have 32 bytes", `SELECT key FROM {s}.handle WHERE octet_length(key) <> 32`},
	{"total", "the totals of claims are not what the rows come to", totals("claim")},
	{"total", "the totals of handles are not what the rows come to", totals("handle")},

	{"operation", "an ID, flow, principal, digest of answers or attempt mark has a wrong length", `SELECT id FROM {s}.operation
		WHERE octet_length(id) <> 16 OR octet_length(flow) <> 16 OR octet_length(principal) <> 24 OR octet_length(answers) <> 32 OR octet_length(attempt) <> 16`},
	{"operation", "the state is none", `SELECT id FROM {s}.operation WHERE state NOT BETWEEN 1 AND 4`},
	{"operation", "the fence or the round is less than 1", `SELECT id FROM {s}.operation WHERE fence < 1 OR round < 1`},
	{"operation", "it has ended without a time until which it is kept", `SELECT id FROM {s}.operation
		WHERE state IN (2, 3) AND (finished IS NULL OR kept_until IS NULL OR kept_until < keep OR kept_until < finished + retention)`},
	{"operation", "it has not ended but has an outcome, an end or a resolution", `SELECT id FROM {s}.operation
		WHERE state IN (1, 4) AND (finished IS NOT NULL OR kept_until IS NOT NULL OR outcome IS NOT NULL OR resolved_by IS NOT NULL OR note IS NOT NULL)`},

	{"step", "it belongs to no operation", `SELECT operation || name FROM {s}.step s WHERE NOT EXISTS (SELECT FROM {s}.operation o WHERE o.id = s.operation)`},
	{"step", "its fence is greater than the operation's", `SELECT s.operation || s.name FROM {s}.step s JOIN {s}.operation o ON o.id = s.operation WHERE s.fence > o.fence`},
	{"step", "it has a result but has not ended", `SELECT operation || name FROM {s}.step WHERE ended IS NULL AND result IS NOT NULL`},
	{"step", "the operation's steps are not numbered from 1 without a gap", `SELECT operation FROM {s}.step GROUP BY operation HAVING min(seq) <> 1 OR max(seq) <> count(*)`},
}

// totals finds the shards of a table that are counted wrong.
func totals(table string) string {
	return `SELECT set_byte('\x00'::bytea, 0, n.shard) FROM generate_series(0, 15) n(shard)
	LEFT JOIN {s}.total t ON t.kind = '` + table + `' AND t.shard = n.shard
	LEFT JOIN (SELECT get_byte(key, 0) % 16 AS shard, count(*) AS count, sum(octet_length(payload)) AS bytes FROM {s}.` + table + ` GROUP BY 1) r ON r.shard = n.shard
	WHERE t.count IS DISTINCT FROM coalesce(r.count, 0) OR t.bytes IS DISTINCT FROM coalesce(r.bytes, 0)`
}

// A kept names a column that may be sealed. query gives at most $2 rows after the
// key $1: the key, the row's name to the seal, the content and whether it is sealed.
type kept struct{ table, column, query string }

var keeping = []kept{
	{tableClaim, columnPayload, `SELECT key, key, payload, sealed FROM {s}.claim WHERE key > $1::bytea ORDER BY key LIMIT $2::integer`},
	{tableHandle, columnPayload, `SELECT key, key, payload, sealed FROM {s}.handle WHERE key > $1::bytea ORDER BY key LIMIT $2::integer`},
	{tableOperation, columnOutcome, `SELECT id, id, outcome, sealed FROM {s}.operation WHERE id > $1::bytea AND outcome IS NOT NULL ORDER BY id LIMIT $2::integer`},
	{tableStep, columnResult, `SELECT operation || name, operation || name, result, sealed FROM {s}.step
		WHERE (operation, name) > (substr($1::bytea, 1, 16), substr($1::bytea, 17)) AND result IS NOT NULL ORDER BY operation, name LIMIT $2::integer`},
}

// Fsck proves what must hold over all rows, and reports what does not: lengths,
// states, totals, that what has ended says so and that steps belong to
// operations. With Options.AtRest it opens every sealed row, and without
// PlainAtRest it reports every row that is not sealed. It changes nothing and may
// run while the store is in use: all but the opening is as of one moment for each
// invariant. It reports at most a thousand rows for each. An error of report ends
// it and is returned.
func (s *Store) Fsck(ctx context.Context, report func(store.Problem) error) error {
	var found []store.Problem
	err := s.within(ctx, slow, func(st *statements) {
		for _, inv := range invariants {
			st.queue(inv.broken + fmt.Sprintf(" LIMIT %d", maxProblems)).Query(func(rows pgx.Rows) error {
				for rows.Next() {
					var key []byte
					if err := rows.Scan(&key); err != nil {
						return err
					}
					found = append(found, store.Problem{Table: inv.table, Row: hex.EncodeToString(key), Detail: inv.detail})
				}
				return rows.Err()
			})
		}
	})
	if err != nil {
		return err
	}
	for _, p := range found {
		if err := report(p); err != nil {
			return err
		}
	}
	for _, k := range keeping {
		if err := s.fsckKept(ctx, k, report); err != nil {
			return err
		}
	}
	return nil
}

// fsckKept opens every row of a table, a few at a time as they may be long.
func (s *Store) fsckKept(ctx context.Context, k kept, report func(store.Problem) error) error {
	const page = 16
	type row struct {
		key, place, content []byte
		sealed              bool
	}
	problems := 0
	for after := []byte{}; problems < maxProblems; {
		var rows []row
		err := s.within(ctx, slow, func(st *statements) {
			st.queue(k.query, after, page).Query(func(found pgx.Rows) error {
				for found.Next() {
					var r row
					if err := found.Scan(&r.key, &r.place, &r.content, &r.sealed); err != nil {
						return err
					}
					rows = append(rows, r)
				}
				return found.Err()
			})
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			after = r.key
			detail, err := s.fsckContent(k, r.place, r.content, r.sealed)
			if err != nil {
				return err
			}
			if detail == "" {
				continue
			}
			problems++
			if err := report(store.Problem{Table: k.table, Row: hex.EncodeToString(r.key), Detail: detail}); err != nil {
				return err
			}
		}
		if len(rows) < page {
			break
		}
	}
	return nil
}

func (s *Store) fsckContent(k kept, place, content []byte, sealed bool) (detail string, err error) {
	switch {
	case sealed && atrest.KeyID(content) == "":
		return "it is too short to be sealed", nil
	case sealed && s.opts.AtRest != nil:
		_, err := s.opts.AtRest.Open(k.table, place, k.column, content)
		if errors.Is(err, atrest.ErrSealed) {
			return "its seal does not open", nil
		}
		if err != nil {
			return "", fmt.Errorf("postgres: %w", err)
		}
	case !sealed && s.opts.AtRest != nil && !s.opts.PlainAtRest:
		return "it is not sealed", nil
	}
	return "", nil
}
