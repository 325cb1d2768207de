package sqlite_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay/replaytest"
	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/sqlite"
)

func problems(t *testing.T, s *sqlite.Store) (all []store.Problem) {
	t.Helper()
	err := s.Fsck(context.Background(), func(p store.Problem) error {
		all = append(all, p)
		return nil
	})
	if err != nil {
		t.Fatalf("Fsck: %v", err)
	}
	return all
}

// wantSound checks that Fsck finds nothing.
func wantSound(t *testing.T, s *sqlite.Store) {
	t.Helper()
	for _, p := range problems(t, s) {
		t.Errorf("Fsck: %v", p)
	}
}

func TestFsck(t *testing.T) {
	operation := func(set string) string { return "UPDATE foil_operation SET " + set + " WHERE state = 2" }
	running := func(set string) string { return "UPDATE foil_operation SET " + set + " WHERE state = 1" }
	for _, tc := range []struct{ damage, table, detail string }{
		{"DELETE FROM sweep_mark", "sweep_mark", "missing"},
		{"DELETE FROM ping", "ping", "missing"},
		{"UPDATE sweep_mark SET until = 4000000000000", "sweep_mark", "in the future"},
		{"UPDATE sweep_mark SET restored = 'x'", "sweep_mark", "no time"},
		{"UPDATE claim_total SET bytes = bytes + 1", "claim_total", "come to"},
		{"DELETE FROM claim_total", "claim_total", "come to"},
		{"UPDATE foil_handle_total SET handles = 7", "foil_handle_total", "come to"},
		{"CREATE TRIGGER mine AFTER INSERT ON foil_step BEGIN SELECT 1; END", "sqlite_schema", "trigger"},
		{"INSERT INTO spent (id, expires) VALUES (x'', 1)", "spent", "malformed"},
		{"UPDATE spent SET attempt = x'00'", "spent", "malformed"},
		{"UPDATE claim SET by = 'me'", "claim", "malformed"},
		{"UPDATE foil_handle SET expires = 'never'", "foil_handle", "malformed"},
		{operation("flow = x'00'"), "foil_operation", "malformed"},
		{operation("principal = x'00'"), "foil_operation", "malformed"},
		{running("state = 5"), "foil_operation", "none"},
		{operation("fence = 0"), "foil_operation", "none"},
		{operation("finished = NULL"), "foil_operation", "no time of its end"},
		{operation("kept_until = NULL"), "foil_operation", "no time of its end"},
		{operation("kept_until = kept_until - 1"), "foil_operation", "less than it was promised"},
		{running("kept_until = 1"), "foil_operation", "has not ended"},
		{running("outcome = x'00'"), "foil_operation", "has not ended"},
		{operation("steps = 2"), "foil_operation", "number of its steps"},
		{"DELETE FROM foil_step", "foil_operation", "number of its steps"},
		{"DELETE FROM foil_operation", "foil_step", "no operation"},
		{"UPDATE foil_step SET fence = 2", "foil_step", "fence is above"},
		{"UPDATE foil_step SET ended = NULL", "foil_step", "has not ended"},
		{"UPDATE claim SET payload = payload || x'00'", "claim", "cannot be opened"},
		{"UPDATE claim SET payload = zeroblob(8)", "claim", "key that it names"},
		{"UPDATE foil_handle SET key = zeroblob(32)", "foil_handle", "cannot be opened"},
		{"UPDATE foil_handle SET sealed = NULL", "foil_handle", "not sealed"},
		{operation("outcome = zeroblob(64)"), "foil_operation", "key that it names"},
		{operation("sealed = NULL"), "foil_operation", "not sealed"},
		{"UPDATE foil_step SET name = x'41'", "foil_step", "cannot be opened"},
		{"PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'foil_handle_expires'", "database", ""},
	} {
		t.Run(tc.damage, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "foil.db")
			opts := &sqlite.Options{AtRest: sealer(t)}
			s := open(t, path, opts)
			r := writeRows(t, s, "secret of the test")
			st := newStart(time.Now())
			mustBegin(t, s, st)
			id := newID()
			mustUse(t, s, id, true)
			wantSound(t, s)
			execute(t, raw(t, path), "PRAGMA busy_timeout = 60000; PRAGMA ignore_check_constraints = ON", tc.damage)
			found := false
			for _, p := range problems(t, s) {
				found = found || p.Table == tc.table && strings.Contains(p.Detail, tc.detail)
				if _, err := hex.DecodeString(p.Row); err != nil {
					t.Errorf("row %q is not in hex", p.Row)
				}
				if text := fmt.Sprint(p); strings.Contains(text, "secret of the test") || strings.Contains(text, r.claim) {
					t.Errorf("problem tells content: %s", text)
				}
			}
			if !found {
				t.Errorf("Fsck found %v, want a problem of %s: %s", problems(t, s), tc.table, tc.detail)
			}
		})
	}
}

// The first error of report ends it.
func TestFsckStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	execute(t, raw(t, path), "DELETE FROM ping", "UPDATE claim_total SET bytes = 3")
	enough := errors.New("enough")
	n := 0
	err := s.Fsck(t.Context(), func(store.Problem) error { n++; return enough })
	if err != enough || n != 1 {
		t.Errorf("Fsck = %v after %d problems, want the error of the first", err, n)
	}
}

// Close ends a Fsck that is under way, and none starts after it.
func TestFsckEndsWithClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := sqliteOpen(t, path)
	execute(t, raw(t, path), "DELETE FROM ping", "UPDATE claim_total SET bytes = 3")
	closed := make(chan error, 1)
	err := s.Fsck(t.Context(), func(store.Problem) error {
		go func() { closed <- s.Close() }()
		<-s.Life().Done()
		time.Sleep(20 * time.Millisecond) // so that Close has the chance not to wait
		select {
		case <-closed:
			t.Error("Close returned while Fsck was under way")
			closed <- nil
		default:
		}
		return nil
	})
	if err != sqlite.ErrClosed {
		t.Errorf("Fsck while Close = %v, want ErrClosed", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := s.Stats(t.Context()); !errors.Is(err, sqlite.ErrClosed) {
		t.Errorf("Stats after Close: %v, want ErrClosed", err)
	}
}

// What reads much keeps nobody from writing, and is kept by nobody.
func TestReadersDoNotWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	begun := newStart(time.Now())
	mustBegin(t, s, begun)
	execute(t, raw(t, path), "DELETE FROM ping")
	err := s.Fsck(t.Context(), func(store.Problem) error {
		mustUse(t, s, newID(), true)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, path)
	defer unlock()
	if _, err := s.Stats(t.Context()); err != nil {
		t.Errorf("Stats of a locked file: %v", err)
	}
	if _, err := s.Ledger().Counts(t.Context()); err != nil {
		t.Errorf("Counts of a locked file: %v", err)
	}
	if _, err := s.Ledger().Get(t.Context(), begun.ID); err != nil {
		t.Errorf("Get in a locked file: %v", err)
	}
}

func TestRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	clock := replaytest.NewClock(time.Now())
	s := open(t, path, &sqlite.Options{Now: clock.Now})
	r := writeRows(t, s, "x")
	st := newStart(clock.Now())
	mustBegin(t, s, st)
	before, err := s.Restored(t.Context())
	if want := clock.Now().Add(sqlite.DefaultSkew); err != nil || before.Before(want) || before.Sub(want) > time.Millisecond {
		t.Errorf("Restored = %v, %v; want now and the skew, %v", before, err, want)
	}
	clock.Advance(-time.Hour) // the mark never falls
	again, err := s.Restored(t.Context())
	if err != nil || !again.Equal(before) {
		t.Errorf("Restored by a clock set back = %v, %v; want %v", again, err, before)
	}
	if _, err := s.Claims().Redeem(t.Context(), r.claim, "op"); err == nil {
		t.Error("a claim outlives Restored")
	}
	if _, ok, err := s.Handles().Get(t.Context(), r.key); ok || err != nil {
		t.Errorf("a handle outlives Restored: %v, %v", ok, err)
	}
	wantTotals(t, path, 0, 0)
	op, err := s.Ledger().Get(t.Context(), st.ID)
	if err != nil || op.State.String() != "unknown" || op.Fence <= 1 {
		t.Errorf("what was executing is %+v, %v; want unknown with a raised fence", op, err)
	}
	if err := s.Ledger().Renew(t.Context(), st.ID, 1, time.Minute); err == nil {
		t.Error("who executed before Restored still may")
	}
	if _, err := s.Ledger().Resume(t.Context(), st.ID, op.Fence, time.Minute); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("Resume: %v, want ErrFenced", err)
	}
	wantSound(t, s)
}

// One operation has more steps than a transaction of Sweep deletes, and there
// are more operations than that.
func TestSweepOperations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	clock := replaytest.NewClock(time.Now().Truncate(time.Second))
	s := open(t, path, &sqlite.Options{Now: clock.Now})
	many, stays := newStart(clock.Now()), newStart(clock.Now())
	mustBegin(t, s, many)
	mustBegin(t, s, stays)
	mustFinish(t, s, many.ID, 1, "x")
	c := raw(t, path)
	execute(t, c, "PRAGMA busy_timeout = 60000", fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
		INSERT INTO foil_step (operation, name, fence, began) SELECT x'%x', CAST('s' || i AS BLOB), 1, 0 FROM n`, many.ID[:]),
		"UPDATE foil_operation SET steps = 2500 WHERE state = 2",
		fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
		INSERT INTO foil_operation (id, flow, round, answers, expires, state, fence, started, lease_until, keep, retention, steps, finished, kept_until, method, target)
		SELECT randomblob(16), flow, round, answers, expires, state, fence, started, lease_until, keep, retention, 0, finished, kept_until, method, target
		FROM foil_operation, n WHERE id = x'%x'`, many.ID[:]))
	wantSound(t, s)
	clock.Advance(time.Hour + sqlite.DefaultSkew - time.Millisecond)
	if n, err := s.Sweep(t.Context()); err != nil || n.Operations != 0 {
		t.Fatalf("Sweep before their time = %+v, %v", n, err)
	}
	clock.Advance(time.Millisecond)
	n, err := s.Sweep(t.Context())
	if want := (store.Swept{Operations: 2501}); err != nil || n != want {
		t.Fatalf("Sweep = %+v, %v; want %+v", n, err, want)
	}
	var steps, operations, mark int64
	err = c.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM foil_step), (SELECT count(*) FROM foil_operation), operations FROM sweep_mark").Scan(&steps, &operations, &mark)
	if err != nil || steps != 0 || operations != 1 || mark != many.Expires.UnixMilli() {
		t.Errorf("after Sweep: %d steps, %d operations, mark %d (%v); want 0, 1 and the expires of what was swept, %d", steps, operations, mark, err, many.Expires.UnixMilli())
	}
	wantSound(t, s)
}
