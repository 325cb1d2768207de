//go:build unix

package redis_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/redis"
)

// An operation that runs, with steps of which the last has not ended.
func running(t *testing.T, s *redis.Store, steps, result int) string {
	t.Helper()
	ctx := t.Context()
	id, l := [16]byte(freshID()), s.Ledger()
	if _, _, err := l.Begin(ctx, start(id[:])); err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		if err := l.EndStep(ctx, id, 1, fmt.Sprint("step ", i), bytes.Repeat([]byte("r"), result), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.BeginStep(ctx, id, 1, "open", time.Hour); err != nil {
		t.Fatal(err)
	}
	return string(id[:])
}

// What Fsck proves of an operation it proves of one with many steps too, and of one
// with long results, which are read a part at a time.
func TestFsckFindsInOperations(t *testing.T) {
	w := newWorld(t)
	for _, size := range []struct{ steps, result int }{{2, 10}, {700, 10}, {30, 1 << 16}} {
		b := w.bench(t)
		ctx, c := t.Context(), w.srv.Client(t)
		id := running(t, b.s, size.steps, size.result)
		over := [16]byte(freshID())
		if _, _, err := b.s.Ledger().Begin(ctx, start(over[:])); err != nil {
			t.Fatal(err)
		}
		if err := b.s.Ledger().Finish(ctx, over, 1, ledger.Finish{State: ledger.Succeeded, Outcome: []byte("o")}); err != nil {
			t.Fatal(err)
		}
		sound(t, b.s)
		if n := sealedRows(t, b.s); n != int64(size.steps)+1 {
			t.Errorf("%d steps: %d sealed rows, want a result of each and an outcome", size.steps, n)
		}
		op, step, result, ended := b.key("op:"+id), b.key("step:"+id), b.key("result:"+id), b.key("op:"+string(over[:]))
		for _, tc := range []struct {
			key, field string
			to         func(string) string
			detail     string
		}{
			{step, "open", func(v string) string { return strings.Replace(v, " 1 ", " 99 ", 1) }, `fence of step "open"`},
			{step, "step 1", func(v string) string { return strings.Replace(v, " 1 ", " 0 ", 1) }, `fence of step "step 1"`},
			{step, "step 1", func(v string) string { return "x" }, "a step is damaged"},
			{result, "open", func(string) string { return "p" }, `step "open" has a result and has not ended`},
			{result, "ghost", func(string) string { return "p" }, "1 results belong to no step"},
			{result, "step 0", func(v string) string { return v[:len(v)-1] }, "result: "},
			{op, "outcome", func(string) string { return "p" }, "it has not ended and has an outcome"},
			{op, "lease", func(v string) string { return "1" + v }, "its lease differs from the index"},
			{ended, "kept", func(string) string { return "1" }, "kept for less than it was promised"},
			{ended, "kept", func(v string) string { return "1" + v }, "swept at another time"},
			{ended, "retention", func(string) string { return "99999999999" }, "kept for less than it was promised"},
			{ended, "keep", func(v string) string { return "1" + v }, "kept for less than it was promised"},
		} {
			was, there := c.HGet(ctx, tc.key, tc.field).Val(), c.HExists(ctx, tc.key, tc.field).Val()
			if err := c.HSet(ctx, tc.key, tc.field, tc.to(was)).Err(); err != nil {
				t.Fatal(err)
			}
			found := false
			err := b.s.Fsck(ctx, func(p store.Problem) error {
				found = found || p.Table == "operation" && strings.Contains(p.Detail, tc.detail)
				return nil
			})
			if err != nil || !found {
				t.Errorf("%d steps, %s of %.12s…: Fsck did not find %q, %v", size.steps, tc.field, tc.key, tc.detail, err)
			}
			c.HSet(ctx, tc.key, tc.field, was)
			if !there {
				c.HDel(ctx, tc.key, tc.field)
			}
		}
		sound(t, b.s)
	}
}

// No script reads more content at a time than it may, however many rows have it.
func TestPagesEndEarly(t *testing.T) {
	w := newWorld(t)
	b := w.bench(t)
	for range 40 {
		if _, err := b.s.Claims().Issue(t.Context(), make([]byte, 1<<16-64), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	s, hook := hooked(t, w.srv, b.opts.Prefix)
	s.SetClock(t, b.now)
	most := 0
	hook.see = func(reply []any) { most = max(most, len(reply)) }
	if n := sealedRows(t, s); n != 40 || most > 3+18 || most < 3+15 {
		t.Errorf("%d rows in pages of up to %d", n, most-3)
	}
	running(t, b.s, 40, 1<<16-64)
	most = 0
	sound(t, s)
	if most > 3+20 {
		t.Errorf("%d results of 64 KiB were read by one script", most)
	}
}
