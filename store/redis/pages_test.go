//go:build unix

package redis_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/redis"
)

// betweenPages does something once, after the first full page of rows was read.
type betweenPages struct {
	do  func()
	see func(reply []any) // with every page
}

func (b *betweenPages) DialHook(next client.DialHook) client.DialHook {
	return next
}
func (b *betweenPages) ProcessHook(next client.ProcessHook) client.ProcessHook { return next }
func (b *betweenPages) ProcessPipelineHook(next client.ProcessPipelineHook) client.ProcessPipelineHook {
	return func(ctx context.Context, commands []client.Cmder) error {
		err := next(ctx, commands)
		for _, c := range commands {
			c, ok := c.(*client.Cmd)
			if !ok {
				continue
			}
			reply, err := c.Slice()
			if err != nil {
				continue
			}
			_, content := reply[len(reply)-1].(string) // results, and not what is known of them
			if b.see != nil && (reply[0] == "rows" || reply[0] == "steps" && content) {
				b.see(reply)
			}
			if b.do != nil && len(reply) > 100 && reply[0] == "rows" {
				do := b.do
				b.do = nil
				do()
			}
		}
		return err
	}
}

// hooked opens a store that does something between the pages which it reads.
func hooked(t *testing.T, srv *redistest.Server, prefix string) (*redis.Store, *betweenPages) {
	t.Helper()
	o, err := client.ParseURL(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	o.ReadTimeout, o.WriteTimeout = -1, -1
	c := client.NewClient(o)
	hook := &betweenPages{}
	c.AddHook(hook)
	s, err := redis.New(t.Context(), c, &redis.Options{Prefix: prefix, Timeout: time.Minute, AtRest: sealer(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); c.Close() })
	return s, hook
}

func sealedRows(t *testing.T, s *redis.Store) (n int64) {
	t.Helper()
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range st.Keys {
		n += rows
	}
	return n
}

// Who drops a storage key trusts Stats: a sweep that runs between two of its pages
// must not hide rows that live on, and neither from Fsck.
func TestSweepBetweenPagesHidesNoRow(t *testing.T) {
	w := newWorld(t)
	b := w.bench(t)
	ctx := t.Context()
	for i := range 210 {
		ttl := time.Minute
		if i >= 120 {
			ttl = time.Hour
		}
		if _, err := b.s.Claims().Issue(ctx, []byte("plan"), ttl); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Advance(2 * time.Minute)
	sweep := func() {
		if n, err := b.s.Sweep(ctx); err != nil || n.Claims != 120 {
			t.Errorf("swept %+v, %v", n, err)
		}
	}
	damaged := w.srv.Client(t).ZRange(ctx, b.key("claims"), 130, 130).Val()
	s, hook := hooked(t, w.srv, b.opts.Prefix)
	s.SetClock(t, b.now)
	hook.do = sweep
	// 100 that were over were on the first page.
	if n := sealedRows(t, s); hook.do != nil || n != 190 {
		t.Errorf("%d sealed rows were counted, want the 90 that live and 100 that were there", n)
	}

	for range 120 {
		if _, err := b.s.Claims().Issue(ctx, []byte("plan"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Advance(2 * time.Minute)
	if err := w.srv.Client(t).HSet(ctx, b.key("claim:"+damaged[0]), "by", "x").Err(); err != nil {
		t.Fatal(err)
	}
	hook.do = sweep
	found := 0
	if err := s.Fsck(ctx, func(store.Problem) error { found++; return nil }); err != nil || hook.do != nil || found != 1 {
		t.Errorf("Fsck found %d problems, %v; want the one damaged row behind the sweep", found, err)
	}
}

// Rows of one time are ordered by their bytes, whatever bytes those are, and the one
// at which a page ended may be gone when the next is read.
func TestPagesOfOneTime(t *testing.T) {
	w := newWorld(t)
	b := w.bench(t)
	ctx := t.Context()
	at := b.now().Add(time.Hour)
	for i := range 256 {
		key := [32]byte{byte(i * 37)} // all bytes, the zero byte and those of no character too
		binary.BigEndian.PutUint16(key[30:], uint16(i))
		if err := b.s.Handles().Put(ctx, key, []byte("x"), at); err != nil {
			t.Fatal(err)
		}
	}
	s, hook := hooked(t, w.srv, b.opts.Prefix)
	s.SetClock(t, b.now)
	if n := sealedRows(t, s); n != 256 {
		t.Errorf("%d rows were counted, want 256", n)
	}
	c := w.srv.Client(t)
	last := c.ZRange(ctx, b.key("handles"), 99, 99).Val()[0]
	hook.do = func() {
		if err := c.ZRem(ctx, b.key("handles"), last).Err(); err != nil {
			t.Error(err)
		}
	}
	if n := sealedRows(t, s); hook.do != nil || n != 256 {
		t.Errorf("%d rows were counted, want the 256 that were there", n)
	}
}
