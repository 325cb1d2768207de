package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/store"
)

// rules are queries that find rows which break an invariant: their key, or NULL
// if the table has but one row. ?1 is now. SQLite enforces some of them on whoever
// writes as it is told, but not on who turned its checks off.
var rules = []struct{ table, detail, query string }{
	{"foil_schema", "the row is missing", `SELECT NULL WHERE NOT EXISTS (SELECT 1 FROM foil_schema WHERE one = 1)`},
	{"sweep_mark", "the row is missing: the store refuses everything", `SELECT NULL WHERE NOT EXISTS (SELECT 1 FROM sweep_mark WHERE one = 1)`},
	{"ping", "the row is missing", `SELECT NULL WHERE NOT EXISTS (SELECT 1 FROM ping WHERE one = 1)`},
	{"sweep_mark", "a sweep mark is in the future: some clock ran ahead, and tokens are refused until then",
		`SELECT NULL FROM sweep_mark WHERE until > ?1`},
	{"sweep_mark", "a mark is no time", `SELECT NULL FROM sweep_mark WHERE typeof(until) <> 'integer' OR typeof(operations) <> 'integer' OR typeof(restored) <> 'integer'`},
	{"claim_total", "is not what the claims come to", `SELECT NULL WHERE NOT EXISTS (SELECT 1 FROM claim_total WHERE one = 1
		AND claims = (SELECT count(*) FROM claim) AND bytes = (SELECT coalesce(sum(length(payload)), 0) FROM claim))`},
	{"foil_handle_total", "is not what the handles come to", `SELECT NULL WHERE NOT EXISTS (SELECT 1 FROM foil_handle_total WHERE one = 1
		AND handles = (SELECT count(*) FROM foil_handle) AND bytes = (SELECT coalesce(sum(length(payload)), 0) FROM foil_handle))`},
	{"sqlite_schema", "there is a trigger on foil's tables that is not foil's", `SELECT CAST(name AS BLOB) FROM sqlite_schema WHERE type = 'trigger'
		AND (tbl_name IN ('spent', 'sweep_mark', 'ping', 'claim', 'claim_total') OR tbl_name GLOB 'foil_*')
		AND name NOT IN ('claim_issued', 'claim_dropped', 'foil_handle_put', 'foil_handle_dropped')`},

	{"spent", "the ID, its time or its attempt is malformed", `SELECT id FROM spent WHERE typeof(id) <> 'blob' OR length(id) NOT BETWEEN 1 AND 64
		OR typeof(expires) <> 'integer' OR attempt IS NOT NULL AND (typeof(attempt) <> 'blob' OR length(attempt) <> 16)`},
	{"claim", "the key, its time or who redeemed it is malformed", `SELECT key FROM claim WHERE typeof(key) <> 'blob' OR length(key) <> 32
		OR typeof(expires) <> 'integer' OR by IS NOT NULL AND (typeof(by) <> 'blob' OR length(by) <> 32)`},
	{"foil_handle", "the key or its time is malformed", `SELECT key FROM foil_handle WHERE typeof(key) <> 'blob' OR length(key) <> 32 OR typeof(expires) <> 'integer'`},

	{"foil_operation", "an ID, the answers or the principal is malformed", `SELECT id FROM foil_operation WHERE typeof(id) <> 'blob' OR length(id) <> 16
		OR length(flow) <> 16 OR length(answers) <> 32 OR principal IS NOT NULL AND length(principal) <> 24`},
	{"foil_operation", "the state, fence or round is none", `SELECT id FROM foil_operation WHERE state NOT IN (1, 2, 3, 4) OR fence < 1 OR round < 1`},
	{"foil_operation", "it has ended and has no time of its end, or none until which it is kept", `SELECT id FROM foil_operation WHERE state IN (2, 3) AND (finished IS NULL OR kept_until IS NULL)`},
	{"foil_operation", "it is kept for less than it was promised", `SELECT id FROM foil_operation WHERE kept_until < max(finished + retention, keep)`},
	{"foil_operation", "it has not ended and has an outcome, or a time of its end", `SELECT id FROM foil_operation WHERE state IN (1, 4)
		AND (finished IS NOT NULL OR kept_until IS NOT NULL OR outcome IS NOT NULL OR resolved_by IS NOT NULL)`},
	{"foil_operation", "the number of its steps is wrong", `SELECT id FROM foil_operation o WHERE coalesce(kept_until > ?1, 1)
		AND steps <> (SELECT count(*) FROM foil_step WHERE operation = o.id)`}, // those that are due may have lost some
	{"foil_step", "it belongs to no operation", `SELECT CAST(operation || name AS BLOB) FROM foil_step s WHERE NOT EXISTS (SELECT 1 FROM foil_operation WHERE id = s.operation)`},
	{"foil_step", "its fence is above its operation's, or none", `SELECT CAST(operation || name AS BLOB) FROM foil_step s WHERE fence < 1
		OR fence > (SELECT fence FROM foil_operation WHERE id = s.operation)`},
	{"foil_step", "it has a result and has not ended", `SELECT CAST(operation || name AS BLOB) FROM foil_step WHERE result IS NOT NULL AND ended IS NULL`},
}

// contents are the columns that may be sealed: for each, its row, the key and it.
var contents = []struct {
	table string
	at    place
	query string
}{
	{"claim", claimTable, `SELECT key, sealed, payload FROM claim`},
	{"foil_handle", handleTable, `SELECT key, sealed, payload FROM foil_handle`},
	{"foil_operation", operationTable, `SELECT id, sealed, outcome FROM foil_operation WHERE outcome IS NOT NULL`},
	{"foil_step", stepTable, `SELECT CAST(operation || name AS BLOB), sealed, result FROM foil_step WHERE result IS NOT NULL`},
}

// Fsck proves what must hold in the whole file, as of one moment, and tells report
// of each problem; it ends at the first error of report and returns it. What is
// sealed is opened if Options.AtRest is set, which reads all of it. Problems are
// no error. Fsck keeps nobody from writing, but while it is at work the log
// grows, so that it is better not run at the busiest hour.
func (s *Store) Fsck(ctx context.Context, report func(store.Problem) error) error {
	var stop error
	tell := func(table string, row []byte, detail string) error {
		stop = report(store.Problem{Table: table, Row: hex.EncodeToString(row), Detail: detail})
		return stop
	}
	err := s.view(ctx, func(ctx context.Context, q *sql.Conn) error {
		if err := integrity(ctx, q, tell); err != nil {
			return err
		}
		now := s.opts.Now().UnixMilli()
		for _, r := range rules {
			err := each(ctx, q, r.query, func(rows *sql.Rows) error {
				var row []byte
				if err := rows.Scan(&row); err != nil {
					return err
				}
				return tell(r.table, row, r.detail)
			}, now)
			if err != nil {
				return err
			}
		}
		for _, c := range contents {
			err := each(ctx, q, c.query, func(rows *sql.Rows) error {
				var row, kept []byte
				var sealed sql.NullString
				if err := rows.Scan(&row, &sealed, &kept); err != nil {
					return err
				}
				detail, err := s.checkContent(c.at, row, kept, sealed)
				if err != nil || detail == "" {
					return err
				}
				return tell(c.table, row, detail)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if stop != nil {
		return stop
	}
	return err
}

// checkContent says what is wrong with what a column keeps, "" if nothing is.
func (s *Store) checkContent(at place, row, kept []byte, sealed sql.NullString) (detail string, err error) {
	switch {
	case !sealed.Valid && s.opts.AtRest != nil:
		return "it is not sealed, but Options.AtRest is set", nil
	case !sealed.Valid:
		return "", nil
	case sealed.String == "" || sealed.String != atrest.KeyID(kept):
		return "it is not sealed under the key that it names", nil
	case s.opts.AtRest == nil:
		return "", nil
	}
	_, err = s.opts.AtRest.Open(at.table, row, at.column, kept)
	if errors.Is(err, atrest.ErrSealed) {
		return "it cannot be opened: it was changed, moved here, or sealed under a key that is not in the ring", nil
	}
	return "", err
}

// integrity reports what SQLite itself finds.
func integrity(ctx context.Context, q *sql.Conn, tell func(table string, row []byte, detail string) error) error {
	return each(ctx, q, "PRAGMA main.integrity_check", func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&text); err != nil || text == "ok" {
			return err
		}
		return tell("database", nil, text)
	})
}

// each calls fn for each row.
func each(ctx context.Context, q *sql.Conn, query string, fn func(rows *sql.Rows) error, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("checking: %w", plain(err))
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return plain(rows.Err())
}
