//go:build unix

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/redis"
)

func TestEmptiedDatabaseIsNoticed(t *testing.T) {
	for name, spoil := range map[string][]any{
		"flushed":     {"FLUSHALL"},
		"deleted":     {"DEL", "{foil:}meta"},
		"another one": {"HSET", "{foil:}meta", "id", "00112233445566778899aabbccddeeff"},
		"migrated":    {"HSET", "{foil:}meta", "schema", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t, redistest.Durable...)
			s := open(t, srv, redis.Options{})
			id := freshID()
			use(t, s, id, true)
			if err := srv.Client(t).Do(t.Context(), spoil...).Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Hour)); first || !errors.Is(err, redis.ErrReplaced) {
					t.Fatalf("Use = %v, %v; want ErrReplaced", first, err)
				}
			}
			if err := s.Ping(t.Context()); !errors.Is(err, redis.ErrReplaced) {
				t.Fatalf("Ping: %v; want ErrReplaced", err)
			}
			_, err := redis.Open(t.Context(), srv.URL(), &redis.Options{Timeout: time.Minute})
			if newer := name == "migrated"; newer != (err != nil && contains(err.Error(), "newer")) {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

func TestForeignDataIsRefused(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	for _, command := range [][]any{{"SET", "{foil:}meta", "x"}, {"HSET", "{foil:}meta", "x", "y"}} {
		c := srv.Client(t)
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := redis.Open(t.Context(), srv.URL(), &redis.Options{Timeout: time.Minute}); err == nil || !contains(err.Error(), "another program") {
			t.Errorf("Open over another program's data: %v", err)
		}
	}
}

// TestTakenIDsAreNoticed: whoever deletes spent IDs, or a server that evicts, must
// not make tokens good again.
func TestTakenIDsAreNoticed(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	for _, key := range []string{"spent", "due"} {
		s := open(t, srv, redis.Options{Prefix: key})
		id := freshID()
		use(t, s, id, true)
		if err := srv.Client(t).Del(t.Context(), "{"+key+"}"+key).Err(); err != nil {
			t.Fatal(err)
		}
		for _, id := range [][]byte{freshID(), id} {
			first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Hour))
			if first || err == nil && key == "spent" {
				t.Errorf("Use after %s was deleted = %v, %v; want an error", key, first, err)
			}
		}
	}
}

// TestNothingHasATimeToLive: Redis would forget it without raising the mark.
func TestNothingHasATimeToLive(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	s := open(t, srv, redis.Options{})
	use(t, s, freshID(), true)
	write(t, s, [16]byte(freshID()), [32]byte{}, []byte("content"))
	c := srv.Client(t)
	keys, err := c.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) < 8 {
		t.Fatalf("KEYS = %d keys, %v", len(keys), err)
	}
	for _, key := range keys {
		if ttl := c.TTL(t.Context(), key).Val(); ttl != -1 {
			t.Errorf("%.20q lives for %v", key, ttl)
		}
		if !contains(key, "{foil:}") {
			t.Errorf("%.20q is not under the prefix", key)
		}
	}
}

func TestExpiredIsRefusedByTheServersClock(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	s := open(t, srv, redis.Options{Skew: time.Second})
	id := freshID()
	for range 2 {
		// A SET NX with a past expiry would succeed each time.
		if first, err := s.Replay().Use(t.Context(), id, time.Now().Add(-2*time.Second)); first || !errors.Is(err, replay.ErrSwept) {
			t.Fatalf("Use of an expired id = %v, %v; want ErrSwept", first, err)
		}
	}
	if n := srv.Client(t).HLen(t.Context(), "{foil:}spent").Val(); n != 0 {
		t.Errorf("%d expired IDs were kept", n)
	}
	if first, err := s.Replay().Use(t.Context(), id, time.Now().Add(-time.Second/2)); err != nil || !first {
		t.Fatalf("Use within the skew = %v, %v; want true", first, err)
	}
}

func TestCallsSweepInPassing(t *testing.T) {
	w := newWorld(t)
	b := w.bench(t)
	for range 300 {
		if _, err := b.s.Replay().Use(t.Context(), freshID(), b.now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Advance(time.Hour)
	for range 300 {
		if _, err := b.s.Replay().Use(t.Context(), freshID(), b.now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.srv.Client(t).HLen(t.Context(), b.key("spent")).Val(); n != 300 {
		t.Errorf("%d IDs are kept, want the 300 that are live", n)
	}
}

func TestRestored(t *testing.T) {
	w := newWorld(t)
	b := w.bench(t)
	ctx := t.Context()
	spent := freshID()
	use(t, b.s, spent, true)
	l := b.s.Ledger()
	running, lapsed, ended := [16]byte(freshID()), [16]byte(freshID()), [16]byte(freshID())
	for _, id := range [][16]byte{running, lapsed, ended} {
		s := start(id[:])
		if id == lapsed {
			s.Lease = time.Second
		}
		if _, _, err := l.Begin(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Finish(ctx, ended, 1, ledger.Finish{State: ledger.Succeeded, Outcome: []byte("outcome")}); err != nil {
		t.Fatal(err)
	}
	claim, err := b.s.Claims().Issue(ctx, []byte("plan"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.s.Handles().Put(ctx, [32]byte{}, []byte("x"), b.now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(2 * time.Second)
	before, err := b.s.Restored(ctx)
	if err != nil || !before.Equal(b.now().Add(redis.DefaultSkew)) {
		t.Fatalf("Restored = %v, %v; want now and the skew", before, err)
	}
	// The mark only rises.
	b.clock.Advance(-time.Second)
	if again, err := b.s.Restored(ctx); err != nil || !again.Equal(before) {
		t.Fatalf("Restored under a clock set back = %v, %v; want the mark of before", again, err)
	}
	minted := func(at time.Time) []byte {
		id := freshID()
		ms := at.UnixMilli()
		for i := 5; i >= 0; i-- {
			id[i] = byte(ms)
			ms >>= 8
		}
		return id
	}
	expires := b.now().Add(time.Hour)
	old := minted(before.Add(-time.Millisecond))
	if first, err := b.s.Replay().Use(ctx, old, expires); first || !errors.Is(err, replay.ErrRestored) {
		t.Errorf("Use of an id minted before = %v, %v; want ErrRestored", first, err)
	}
	if _, started, err := l.Begin(ctx, start(minted(before.Add(-time.Millisecond)))); started || !errors.Is(err, ledger.ErrRestored) {
		t.Errorf("Begin of a token minted before: %v, %v; want ErrRestored", started, err)
	}
	use(t, b.s, minted(before), true)
	use(t, b.s, spent, false)
	if first, err := b.s.Replay().Use(ctx, old[:15], expires); !first || err != nil {
		t.Errorf("Use of an id of another length = %v, %v; want true", first, err)
	}
	if _, err := b.s.Claims().Redeem(ctx, claim, "me"); !errors.Is(err, claimcheck.ErrRedeemed) {
		t.Errorf("Redeem of a claim of before: %v", err)
	}
	if _, found, err := b.s.Handles().Get(ctx, [32]byte{}); found || err != nil {
		t.Errorf("Get of a handle of before = %v, %v", found, err)
	}
	for _, id := range [][16]byte{running, lapsed} {
		op, err := l.Get(ctx, id)
		if err != nil || op.State != ledger.Unknown || op.Fence != 1<<32+1 {
			t.Fatalf("what was executing is %+v, %v; want unknown under a raised fence", op, err)
		}
		for fence := range uint64(4) { // whoever took it over since the backup
			if err := l.Finish(ctx, id, fence, ledger.Finish{State: ledger.Succeeded}); !errors.Is(err, ledger.ErrFenced) {
				t.Errorf("Finish with fence %d: %v; want ErrFenced", fence, err)
			}
		}
		if _, err := l.Resume(ctx, id, op.Fence, time.Hour); err != nil {
			t.Errorf("Resume: %v", err)
		}
	}
	if op, err := l.Get(ctx, ended); err != nil || op.State != ledger.Succeeded || op.Fence != 1 {
		t.Errorf("what had ended is %+v, %v", op, err)
	}
	sound(t, b.s)
}

// sound fails if Fsck finds anything.
func sound(t *testing.T, s *redis.Store) {
	t.Helper()
	if err := s.Fsck(t.Context(), func(p store.Problem) error { t.Error(p); return nil }); err != nil {
		t.Fatalf("Fsck: %v", err)
	}
}

func TestStatsAndSweep(t *testing.T) {
	w := newWorld(t)
	b := w.bench(t)
	b.opts.MaxClaims = 10
	ctx := t.Context()
	if st, err := b.s.Stats(ctx); err != nil || st.Backend != "redis" || st.Schema != 1 || !st.SweptUntil.IsZero() || !st.RestoredAt.IsZero() || len(st.Keys) != 0 {
		t.Fatalf("Stats of an empty database = %+v, %v", st, err)
	}
	for range 1500 {
		if _, err := b.s.Replay().Use(ctx, freshID(), b.now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	unknown := [16]byte(freshID())
	if _, _, err := b.s.Ledger().Begin(ctx, start(unknown[:])); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Ledger().Finish(ctx, unknown, 1, ledger.Finish{State: ledger.Unknown}); err != nil {
		t.Fatal(err)
	}
	write(t, b.s, [16]byte(freshID()), [32]byte{}, []byte("content"))
	st, err := b.s.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st.Spent != 1500 || st.Claims != 1 || st.Handles != 1 || st.Succeeded != 1 || st.Unknown != 1 || st.Executing != 0 || st.ClaimBytes < 7 || st.SizeBytes == 0 {
		t.Errorf("Stats = %+v", st)
	}
	if n := 0; len(st.Keys) != 1 {
		t.Errorf("Stats has %d keys, want 1", len(st.Keys))
	} else {
		for id, rows := range st.Keys {
			n += int(rows)
			if len(id) != 8 {
				t.Errorf("key id %q is not 8 hex digits", id)
			}
		}
		if n != 4 {
			t.Errorf("Stats has %d sealed rows, want 4", n)
		}
	}
	sound(t, b.s)
	b.clock.Advance(48 * time.Hour)
	swept, err := b.s.Sweep(ctx)
	if want := (store.Swept{Spent: 1500, Claims: 1, Handles: 1, Operations: 1}); err != nil || swept != want {
		t.Errorf("Sweep = %+v, %v; want %+v", swept, err, want)
	}
	st, err = b.s.Stats(ctx)
	if err != nil || st.Spent != 0 || st.Claims != 0 || st.ClaimBytes != 0 || st.Handles != 0 || st.Succeeded != 0 || st.Unknown != 1 || !st.SweptUntil.Equal(b.now().Add(-redis.DefaultSkew)) {
		t.Errorf("Stats after the sweep = %+v, %v", st, err)
	}
	if keys := w.srv.Client(t).Keys(ctx, "{test*").Val(); len(keys) != 4 { // meta, ops, unknown and the operation
		t.Errorf("%d keys are left, want 4: %q", len(keys), keys)
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

func TestLedgerThatMayForget(t *testing.T) {
	srv := redistest.Start(t, "appendonly yes", "appendfsync everysec")
	s := open(t, srv, redis.Options{Durability: redis.Everysec})
	use(t, s, freshID(), true)
	if _, started, err := s.Ledger().Begin(t.Context(), start(freshID())); started || err == nil || !contains(err.Error(), "LedgerMayForget") {
		t.Errorf("Begin in a ledger that may forget: %v, %v", started, err)
	}
	if err := s.Ledger().Ping(t.Context()); err == nil {
		t.Error("Ping of a ledger that may forget: no error")
	}
	named := open(t, srv, redis.Options{Durability: redis.Everysec, LedgerMayForget: true})
	if _, started, err := named.Ledger().Begin(t.Context(), start(freshID())); !started || err != nil {
		t.Errorf("Begin where it was named: %v, %v", started, err)
	}
	none := open(t, srv, redis.Options{Durability: redis.None})
	for _, v := range []interface{ Ephemeral() bool }{none.Replay(), none.Claims(), none.Handles(), none.Ledger()} {
		if !v.Ephemeral() {
			t.Errorf("%T of Durability None does not say that it is ephemeral", v)
		}
	}
	for _, v := range []interface{ Ephemeral() bool }{s.Replay(), s.Claims(), s.Handles(), s.Ledger()} {
		if v.Ephemeral() {
			t.Errorf("%T of Durability Everysec says that it is ephemeral", v)
		}
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t)
	b := w.bench(t)
	ctx := t.Context()
	issue := func() error { _, err := b.s.Claims().Issue(ctx, []byte("plan"), time.Minute); return err }
	var n byte
	put := func() error {
		n++
		return b.s.Handles().Put(ctx, [32]byte{n}, []byte("plan"), b.now().Add(time.Minute))
	}
	begin := func() error {
		s := start(freshID())
		s.Keep, s.Lease = b.now(), time.Minute
		_, _, err := b.s.Ledger().Begin(ctx, s)
		return err
	}
	check := func(what string, fn func() error, want error) {
		t.Helper()
		for range 3 {
			if err := fn(); err != nil {
				t.Fatalf("%s with room: %v", what, err)
			}
		}
		for range 2 {
			if err := fn(); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s without room: %v", what, err)
			}
		}
	}
	for range 2 {
		b.s.SetLimits(3, 1<<20)
		check("Issue", issue, claimcheck.ErrFull)
		check("Put", put, nil)
		if err := b.s.Claims().Ping(ctx); !errors.Is(err, claimcheck.ErrFull) {
			t.Errorf("Ping without room for a claim: %v", err)
		}
		if err := b.s.Handles().Ping(ctx); err != nil {
			t.Errorf("Ping without room for a handle, which can be read: %v", err)
		}
		b.clock.Advance(time.Hour)
		b.s.SetLimits(100, 3*(4+1+32)) // bytes of three sealed payloads
		check("Issue", issue, claimcheck.ErrFull)
		check("Put", put, nil)
		b.clock.Advance(time.Hour) // what is due makes room
	}
	b.s.SetLimits(3, 1<<20)
	check("Begin", begin, ledger.ErrFull)
	if err := b.s.Ledger().Ping(ctx); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("Ping without room for an operation: %v", err)
	}
	page, _, err := b.s.Ledger().List(ctx, ledger.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range page {
		if err := b.s.Ledger().Finish(ctx, op.ID, op.Fence, ledger.Finish{State: ledger.Failed}); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Advance(time.Hour)
	if err := b.s.Ledger().Ping(ctx); err != nil {
		t.Errorf("Ping with operations that are due: %v", err)
	}
	if _, err := b.s.Claims().Issue(ctx, make([]byte, 1<<16+1), time.Minute); !errors.Is(err, claimcheck.ErrTooLarge) {
		t.Errorf("Issue of a long payload: %v", err)
	}
}

// TestLongListIsReadInSteps lists more than one script looks at.
func TestLongListIsReadInSteps(t *testing.T) {
	srv := redistest.Start(t, "appendonly no")
	s := open(t, srv, redis.Options{Durability: redis.None, LedgerMayForget: true})
	const n = 2500
	for i := range n {
		st := start(freshID())
		if i%1000 == 999 {
			st.Flow = [16]byte{1}
		}
		if _, _, err := s.Ledger().Begin(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	flow := [16]byte{1}
	page, next, err := s.Ledger().List(t.Context(), ledger.Query{Flow: flow[:], Limit: 10})
	if err != nil || len(page) != 2 || next != "" {
		t.Errorf("List of a flow = %d operations, %q, %v; want 2", len(page), next, err)
	}
	seen := make(map[[16]byte]bool)
	q := ledger.Query{Limit: 700}
	for range 10 {
		page, next, err := s.Ledger().List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range page {
			seen[op.ID] = true
		}
		if q.After = next; next == "" {
			break
		}
	}
	if len(seen) != n {
		t.Errorf("List shows %d operations, want %d", len(seen), n)
	}
}

func TestCallsShareTheWay(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	s := open(t, srv, redis.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if first, err := s.Replay().Use(ctx, freshID(), time.Now().Add(time.Hour)); first || !errors.Is(err, context.Canceled) {
		t.Fatalf("Use = %v, %v", first, err)
	}
	// Each caller gets its own answer.
	done := make(chan error, 500)
	for i := range cap(done) {
		go func() {
			claim, err := s.Claims().Issue(t.Context(), fmt.Append(nil, i), time.Hour)
			if err == nil {
				var got []byte
				if got, err = s.Claims().Redeem(t.Context(), claim, "me"); err == nil && string(got) != fmt.Sprint(i) {
					err = errors.New("got the payload of another")
				}
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
