package redis

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store"
)

// rowsChunk is how many rows one script reads: their content may be long.
const rowsChunk = 100

// A row is one of any table, with what it keeps for others.
type row struct {
	table    string
	key      []byte
	fields   []any // as the script gives them
	now      int64
	contents []content
}

type content struct {
	table  string
	row    []byte
	column string
	stored string
}

// rows calls fn for every row, with no more than the first bytes of each content if
// heads is set. Rows that come or go meanwhile may be left out or met twice; one that
// is there all the time is met, whatever is swept between two pages.
func (s *Store) rows(ctx context.Context, heads bool, fn func(*row) error) error {
	for _, table := range []string{"spent", "claim", "handle", "operation"} {
		if heads && table == "spent" {
			continue // it keeps nothing for others
		}
		for after, afterID := "", ""; ; {
			reply, err := s.do(ctx, scriptRows, table, after, afterID, rowsChunk, heads)
			if err != nil {
				return err
			}
			now, err := number(field(reply, 1))
			if err != nil {
				return err
			}
			for _, v := range reply[2:] {
				f, _ := v.([]any)
				afterID, after = text(field(f, 0)), text(field(f, 1))
				r := &row{table: table, key: []byte(text(field(f, 0))), fields: f, now: now}
				r.readContents()
				if err := fn(r); err != nil {
					return err
				}
			}
			if len(reply)-2 < rowsChunk {
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
		results, _ := field(r.fields, 4).([]any)
		for i := 0; i+1 < len(results); i += 2 {
			add("step", stepRow(r.key, text(results[i])), "result", results[i+1])
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
			if err := fn(store.Problem{Table: r.table, Row: hex.EncodeToString(r.key), Detail: detail}); err != nil {
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
	}
	for _, c := range r.contents {
		if _, err := s.give(c.table, c.row, c.column, c.stored); err != nil {
			all = append(all, c.column+": "+strings.TrimPrefix(err.Error(), "redis: "))
		}
	}
	return all
}

func (s *Store) operationProblems(r *row) (all []string) {
	if len(r.key) != ledger.IDLen {
		return []string{"id is not 16 bytes"}
	}
	id := [ledger.IDLen]byte(r.key)
	op, _ := field(r.fields, 2).([]any)
	if len(op) == 16 {
		op = append([]any{}, op...)
		op[13] = nil // its content is looked at by itself
	}
	l := s.Ledger()
	o, err := l.fields(id, 0, op) // at time zero no lease has run out
	if err != nil {
		return []string{strings.TrimPrefix(err.Error(), "redis: ")}
	}
	if _, err := l.steps(id, field(r.fields, 3), nil); err != nil {
		all = append(all, strings.TrimPrefix(err.Error(), "redis: "))
	}
	if sets := strings.TrimSpace(text(field(r.fields, 5))); sets != o.State.String() {
		all = append(all, fmt.Sprintf("it is %s, and listed as %q", o.State, sets))
	}
	if text(field(r.fields, 1)) != fmt.Sprint(o.Started.UnixMilli()) {
		all = append(all, "started differs from the index")
	}
	if ended := o.State == ledger.Succeeded || o.State == ledger.Failed; ended == o.KeptUntil.IsZero() || ended == o.Finished.IsZero() {
		all = append(all, "its state and its end do not agree")
	}
	return all
}
