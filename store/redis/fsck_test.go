//go:build unix

package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/redis"
)

// sound fails if Fsck finds anything.
func sound(t *testing.T, s *redis.Store) {
	t.Helper()
	if err := s.Fsck(t.Context(), func(p store.Problem) error { t.Error(p); return nil }); err != nil {
		t.Fatalf("Fsck: %v", err)
	}
}

// TestFsckFinds breaks each invariant by hand.
func TestFsckFinds(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	c := srv.Client(t)
	id, key := [16]byte(freshID()), string(make([]byte, 32))
	op := "op:" + string(id[:])
	for name, tc := range map[string]struct {
		table   string
		command []any
	}{
		"an ID without its time":          {"spent", []any{"HSET", "spent", "x", "0123456789abcdef"}},
		"a time without its ID":           {"spent", []any{"ZADD", "due", "1", "x"}},
		"an ID without an attempt":        {"spent", []any{"HSET", "spent", "the id", "x"}},
		"a claim total":                   {"claim", []any{"HINCRBY", "meta", "claim_bytes", "1"}},
		"a handle total":                  {"handle", []any{"HINCRBY", "meta", "handle_bytes", "-1"}},
		"a handle's time":                 {"handle", []any{"HSET", "handle:" + key, "expires", "1"}},
		"a handle without its payload":    {"handle", []any{"HDEL", "handle:" + key, "payload"}},
		"a damaged payload":               {"handle", []any{"HSET", "handle:" + key, "payload", "s23456789"}},
		"an unsealed payload":             {"handle", []any{"HSET", "handle:" + key, "payload", "plain"}},
		"a handle that was redeemed":      {"handle", []any{"HSET", "handle:" + key, "by", key}},
		"a state":                         {"operation", []any{"HSET", op, "state", "odd"}},
		"a state of another list":         {"operation", []any{"HSET", op, "state", "failed"}},
		"an operation that is in no list": {"operation", []any{"ZREM", "succeeded", string(id[:])}},
		"an operation in two lists":       {"operation", []any{"ZADD", "unknown", "1", string(id[:])}},
		"an operation that is gone":       {"operation", []any{"DEL", op}},
		"a fence":                         {"operation", []any{"HSET", op, "fence", "0"}},
		"a start":                         {"operation", []any{"HSET", op, "started", "1"}},
		"an end":                          {"operation", []any{"HDEL", op, "finished"}},
		"a time to keep":                  {"operation", []any{"HDEL", op, "kept"}},
		"a step":                          {"operation", []any{"HSET", "step:" + string(id[:]), "step", "x"}},
		"an outcome":                      {"operation", []any{"HSET", op, "outcome", "s"}},
		"a result":                        {"operation", []any{"HSET", "result:" + string(id[:]), "step", "s"}},
	} {
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		s := open(t, srv, redis.Options{})
		if _, err := s.Replay().Use(t.Context(), []byte("the id"), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		write(t, s, id, [32]byte{}, []byte("content"))
		sound(t, s)
		tc.command[1] = "{foil:}" + tc.command[1].(string)
		if err := c.Do(t.Context(), tc.command...).Err(); err != nil {
			t.Fatal(err)
		}
		n := 0
		err := s.Fsck(t.Context(), func(p store.Problem) error {
			if p.Table != tc.table {
				t.Errorf("%s: problem of another table: %v", name, p)
			}
			n++
			return nil
		})
		if err != nil || n == 0 {
			t.Errorf("%s: Fsck found %d problems, %v", name, n, err)
		}
		stop := errors.New("enough")
		if err := s.Fsck(t.Context(), func(store.Problem) error { return stop }); err != stop {
			t.Errorf("%s: Fsck = %v, want the error of its function", name, err)
		}
	}
}
