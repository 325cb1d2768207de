package redis

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/foilmcp/foil/store"
)

// rowsChunk is how many rows one script reads: their content may be long.
const rowsChunk = 100

// rowsBudget is how many bytes of content one script reads before it stops, at the end
// of a row.
const rowsBudget = 1 << 20

// A row is one of any table, with what it keeps for others.
type row struct {
	table    string
	key      []byte
	fields   []any // as the script gives them
	now      int64
	contents []content
	steps    []keptStep // of an operation
}

type content struct {
	table  string
	row    []byte
	column string
	stored string
}

// rows calls fn for every row, with no more than the first bytes of each content if
// heads is set. Rows that come or go meanwhile may be left out or met twice; one that
// is there all the time is met, whatever is swept between two pages. The steps of an
// operation that has many, or long results, come in rows of their own behind it.
func (s *Store) rows(ctx context.Context, heads bool, fn func(*row) error) error {
	for _, table := range []string{"spent", "claim", "handle", "operation"} {
		if heads && table == "spent" {
			continue // it keeps nothing for others
		}
		for after, afterID := "", ""; ; {
			reply, err := s.do(ctx, scriptRows, table, after, afterID, rowsChunk, heads, rowsBudget)
			if err != nil {
				return err
			}
			now, err := number(field(reply, 1))
			if err != nil {
				return err
			}
			if len(reply) < 3 {
				return errReply
			}
			for _, v := range reply[3:] {
				f, _ := v.([]any)
				afterID, after = text(field(f, 0)), text(field(f, 1))
				r := &row{table: table, key: []byte(text(field(f, 0))), fields: f, now: now}
				r.readContents()
				if err := fn(r); err != nil {
					return err
				}
				if table == "operation" && field(r.fields, 7) == nil {
					if err := s.stepRows(ctx, r, heads, fn); err != nil {
						return err
					}
				}
			}
			if text(reply[2]) != "more" {
				break
			}
		}
	}
	return nil
}

func (r *row) readContents() {
	add := func(table string, row []byte, column string, v any) {
		if stored, ok := v.(string); ok {
			r.contents = append(r.contents, content{table, row, column, stored})
		}
	}
	switch r.table {
	case "claim", "handle":
		add(r.table, r.key, "payload", field(r.fields, 3))
	case "operation":
		op, _ := field(r.fields, 2).([]any)
		add("operation", r.key, "outcome", field(op, 13))
		steps, _ := field(r.fields, 7).([]any)
		r.readSteps(steps)
		fallthrough
	case "step":
		for _, step := range r.steps {
			add("step", stepRow(r.key, step.name), "result", step.result)
		}
	}
}

// Fsck calls fn with every invariant that does not hold, until fn returns an error.
// It opens all that is sealed. Rows that come or go meanwhile may be left out; a
// database in use shows no problem for that alone.
func (s *Store) Fsck(ctx context.Context, fn func(store.Problem) error) error {
	reply, err := s.do(ctx, scriptTotals)
	if err != nil {
		return err
	}
	for _, v := range reply[1:] {
		t, _ := v.([]any)
		if a, b := field(t, 1), field(t, 2); a != b {
			if err := fn(store.Problem{Table: text(field(t, 0)), Detail: fmt.Sprintf("recorded total is %v, rows come to %v", a, b)}); err != nil {
				return err
			}
		}
	}
	return s.rows(ctx, false, func(r *row) error {
		for _, detail := range s.problems(r) {
			table := r.table
			if table == "step" {
				table = "operation" // the key is its operation's
			}
			if err := fn(store.Problem{Table: table, Row: hex.EncodeToString(r.key), Detail: detail}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) problems(r *row) (all []string) {
	bad := func(is bool, detail string) {
		if is {
			all = append(all, detail)
		}
	}
	f := func(i int) string { return text(field(r.fields, i)) }
	switch r.table {
	case "spent":
		bad(len(r.key) == 0 || len(r.key) > 64, "id is not 1 to 64 bytes")
		bad(len(f(2)) != attemptLen, "id has no attempt mark")
	case "claim", "handle":
		bad(len(r.key) != 32, "key is not 32 bytes")
		bad(f(1) != f(2), "expires differs from the index")
		bad(field(r.fields, 3) == nil, "payload is missing")
		bad(field(r.fields, 4) != nil && (len(f(4)) != 32 || r.table == "handle"), "by is not 32 bytes")
	case "operation":
		all = s.operationProblems(r)
	case "step":
		all = s.stepProblems(r, f(0))
	}
	for _, c := range r.contents {
		if _, err := s.give(c.table, c.row, c.column, c.stored); err != nil {
			all = append(all, c.column+": "+strings.TrimPrefix(err.Error(), "redis: "))
		}
	}
	return all
}
