package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/foilmcp/foil/store"
)

// problem fails for each that is found.
func problem(t *testing.T) func(store.Problem) error {
	return func(p store.Problem) error {
		t.Errorf("Fsck: %v", p)
		return nil
	}
}

// Fsck finds each thing that can be wrong, and nothing else.
func TestFsck(t *testing.T) {
	w := newWorld(t, nil)
	s := w.open(t)
	c, err := writeContent(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Ledger().Begin(t.Context(), newStart()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Replay().Use(t.Context(), newID(), soon()); err != nil {
		t.Fatal(err)
	}
	if err := s.Fsck(t.Context(), problem(t)); err != nil {
		t.Fatal(err)
	}
	// The tables themselves keep most of it from happening.
	w.sql(t, `DO $$ DECLARE c record; BEGIN
		FOR c IN SELECT conrelid::regclass AS tab, conname FROM pg_constraint WHERE connamespace = '{s}'::regnamespace AND contype IN ('c', 'f') LOOP
			EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.tab, c.conname);
		END LOOP; END $$`)
	for _, table := range tables {
		w.sql(t, `CREATE TABLE {s}.copy_`+table+` AS TABLE {s}.`+table, `ALTER TABLE {s}.`+table+` DISABLE TRIGGER USER`)
	}
	for _, c := range []struct{ table, detail, wrong string }{
		{"mark", "exactly one row", `DELETE FROM {s}.mark`},
		{"mark", "negative", `UPDATE {s}.mark SET restored = -1`},
		{"spent", "1 to 64 bytes", `UPDATE {s}.spent SET id = ''`},
		{"spent", "attempt mark", `UPDATE {s}.spent SET attempt = 'x'`},
		{"claim", "key does not have", `UPDATE {s}.claim SET key = 'x'`},
		{"claim", "holder", `UPDATE {s}.claim SET by = 'x'`},
		{"claim", "seal does not open", `UPDATE {s}.claim SET payload = set_byte(payload, 39, 1 + get_byte(payload, 39) % 255)`},
		{"claim", "too short", `UPDATE {s}.claim SET payload = 'x'`},
		{"claim", "not sealed", `UPDATE {s}.claim SET sealed = false`},
		{"handle", "key does not have", `UPDATE {s}.handle SET key = 'x'`},
		{"handle", "seal does not open", `UPDATE {s}.handle SET key = sha256('another')`},
		{"total", "totals of claims", `DELETE FROM {s}.claim`},
		{"total", "totals of claims", `DELETE FROM {s}.total WHERE kind = 'claim'`},
		{"total", "totals of handles", `UPDATE {s}.total SET bytes = bytes + 1 WHERE kind = 'handle'`},
		{"operation", "wrong length", `UPDATE {s}.operation SET flow = 'x'`},
		{"operation", "state is none", `UPDATE {s}.operation SET state = 7`},
		{"operation", "fence or the round", `UPDATE {s}.operation SET fence = 0`},
		{"operation", "without a time", `UPDATE {s}.operation SET kept_until = NULL WHERE state = 2`},
		{"operation", "without a time", `UPDATE {s}.operation SET kept_until = finished WHERE state = 2`},
		{"operation", "has not ended but", `UPDATE {s}.operation SET finished = 1 WHERE state = 1`},
		{"operation", "seal does not open", `UPDATE {s}.operation SET outcome = set_byte(outcome, 40, 1 + get_byte(outcome, 40) % 255)`},
		{"step", "belongs to no operation", `UPDATE {s}.step SET operation = decode(repeat('00', 16), 'hex')`},
		{"step", "fence is greater", `UPDATE {s}.step SET fence = 9`},
		{"step", "has not ended", `UPDATE {s}.step SET ended = NULL`},
		{"step", "without a gap", `UPDATE {s}.step SET seq = 2`},
		{"step", "seal does not open", `UPDATE {s}.step SET name = 'another'`},
	} {
		w.sql(t, c.wrong)
		var found []string
		hit := false
		if err := s.Fsck(t.Context(), func(p store.Problem) error {
			hit = hit || p.Table == c.table && strings.Contains(p.Detail, c.detail)
			found = append(found, p.String())
			return nil
		}); err != nil {
			t.Errorf("%s: %v", c.wrong, err)
		}
		if !hit {
			t.Errorf("after %s Fsck found %q, want %s: %s", c.wrong, found, c.table, c.detail)
		}
		for _, table := range tables {
			w.sql(t, `DELETE FROM {s}.`+table, `INSERT INTO {s}.`+table+` SELECT * FROM {s}.copy_`+table)
		}
	}
	if err := s.Fsck(t.Context(), problem(t)); err != nil {
		t.Error(err)
	}
	for kind, err := range readContent(t, s, c) {
		if err != nil {
			t.Errorf("%s after Fsck: %v", kind, err)
		}
	}
	w.sql(t, `UPDATE {s}.step SET fence = 9`)
	stop := errors.New("enough")
	if err := s.Fsck(t.Context(), func(store.Problem) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Fsck = %v, want the error of report", err)
	}
}
