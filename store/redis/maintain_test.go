//go:build unix

package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/redis"
)

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
	for _, id := range []*[16]byte{&running, &lapsed, &ended} {
		clear(id[:6]) // minted long ago
	}
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
		if err != nil || op.State != ledger.Unknown || op.Fence != 2<<32+1 { // restored twice
			t.Fatalf("what was executing is %+v, %v; want unknown under a raised fence", op, err)
		}
		for fence := range uint64(4) { // whoever took it over since the backup
			if err := l.Finish(ctx, id, fence, ledger.Finish{State: ledger.Succeeded}); !errors.Is(err, ledger.ErrFenced) {
				t.Errorf("Finish with fence %d: %v; want ErrFenced", fence, err)
			}
		}
		if _, err := l.Resume(ctx, id, op.Fence, time.Hour); !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("Resume: %v, want ErrFenced", err)
		}
	}
	if op, err := l.Get(ctx, ended); err != nil || op.State != ledger.Succeeded || op.Fence != 1 {
		t.Errorf("what had ended is %+v, %v", op, err)
	}
	sound(t, b.s)
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
