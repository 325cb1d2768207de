package handletest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/handle"
)

func testRoundTrip(t *testing.T, h *Harness) {
	most := h.MaxPayload
	if most == 0 {
		most = 1 << 20
	}
	for _, n := range []int{0, 1, 2, 255, 256, 4095, 4096, 65_535, 65_536, most} {
		if n > most {
			continue
		}
		all := make([]byte, n)
		for i := range all {
			all[i] = byte(i * 7) // every value there is
		}
		for _, p := range []string{string(all), strings.Repeat("\x00", n), strings.Repeat("\xff", n)} {
			key := freshKey()
			missing(t, h.Store, key)
			put(t, h.Store, key, p, h.live())
			found(t, h.Store, key, p)
			found(t, h.Store, key, p) // a Get spends nothing
		}
	}
	key := freshKey()
	if err := h.Store.Put(t.Context(), key, nil, h.live()); err != nil {
		t.Fatalf("Put of nil: %v", err)
	}
	found(t, h.Store, key, "")
}

// testDistinct puts keys that a careless store takes for one.
func testDistinct(t *testing.T, h *Harness) {
	base := freshKey()
	base[31] = 'a'
	keys := [][32]byte{{}, {31: 1}, {0: 1}, base}
	for _, i := range []int{0, 3, 4, 7, 8, 15, 16, 30, 31} {
		twin := base
		twin[i] ^= 0x20 // another case, were it a letter
		keys = append(keys, twin)
		var ones [32]byte
		for j := range ones {
			ones[j] = 0xff
		}
		ones[i] = 0
		keys = append(keys, ones)
	}
	for i, key := range keys {
		missing(t, h.Store, key)
		put(t, h.Store, key, fmt.Sprint("payload ", i), h.live())
	}
	for i, key := range keys {
		found(t, h.Store, key, fmt.Sprint("payload ", i))
	}
}

func testOverwrite(t *testing.T, h *Harness) {
	key := freshKey()
	put(t, h.Store, key, "first", h.live())
	for _, p := range []string{"second", "first", ""} {
		if err := h.Store.Put(t.Context(), key, []byte(p), h.live().Add(time.Hour)); err == nil {
			t.Errorf("Put of a key that is there: no error")
		}
		found(t, h.Store, key, "first")
	}
	if h.Clock == nil {
		return
	}
	h.Clock.Advance(2*h.Skew + 20*time.Minute) // beyond live: the later expires did not count
	missing(t, h.Store, key)
}

// race lets 64 callers at once put each of some keys, over the given stores.
func race(t *testing.T, h *Harness, stores ...handle.Store) {
	t.Helper()
	const callers, rounds = 64, 10
	for round := range rounds {
		key, expires := freshKey(), h.live()
		var puts atomic.Int32
		var winner atomic.Pointer[string]
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				<-start
				s := stores[i%len(stores)]
				mine := strings.Repeat(fmt.Sprintf("caller %d ", i), 50)
				won := s.Put(t.Context(), key, []byte(mine), expires) == nil
				if won {
					puts.Add(1)
					winner.Store(&mine)
				}
				got, ok, err := s.Get(t.Context(), key)
				if err != nil || ok != (got != nil) || won && !ok || string(got) != strings.Repeat(string(got[:len(got)/50]), 50) {
					t.Errorf("Get beside others = %d bytes, found %t, %v; want one whole payload", len(got), ok, err)
				}
			})
		}
		close(start)
		wg.Wait()
		if n := puts.Load(); n != 1 {
			t.Fatalf("round %d: %d of %d concurrent puts succeeded, want 1", round, n, callers)
		}
		for _, s := range stores {
			found(t, s, key, *winner.Load())
		}
	}
}

func testConcurrent(t *testing.T, h *Harness) { race(t, h, h.Store) }

func testPayloadReuse(t *testing.T, h *Harness) {
	key, buf := freshKey(), []byte(strings.Repeat("x", 100))
	if err := h.Store.Put(t.Context(), key, buf[:60], h.live()); err != nil {
		t.Fatalf("Put: %v", err)
	}
	if string(buf) != strings.Repeat("x", 100) {
		t.Fatal("Put changed the caller's buffer")
	}
	for i := range buf {
		buf[i] = 'y'
	}
	found(t, h.Store, key, strings.Repeat("x", 60))
}

func testPayloadOwned(t *testing.T, h *Harness) {
	key, want := freshKey(), strings.Repeat("x", 100)
	put(t, h.Store, key, want, h.live())
	got, _, err := h.Store.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	for i := range got {
		got[i] = 'y'
	}
	_ = append(got, "zzzzzzzzzzzzzzzz"...)
	found(t, h.Store, key, want)
}

func testContext(t *testing.T, h *Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	key := freshKey()
	if err := h.Store.Put(ctx, key, []byte("x"), h.live()); !errors.Is(err, context.Canceled) {
		t.Fatalf("Put with a cancelled context: %v; want context.Canceled", err)
	}
	missing(t, h.Store, key)
	put(t, h.Store, key, "y", h.live())
	if got, ok, err := h.Store.Get(ctx, key); got != nil || ok || !errors.Is(err, context.Canceled) {
		t.Fatalf("Get with a cancelled context = %d bytes, found %t, %v; want context.Canceled", len(got), ok, err)
	}
	found(t, h.Store, key, "y")
}

func testPing(t *testing.T, h *Harness) {
	p, ok := h.Store.(interface{ Ping(context.Context) error })
	if !ok {
		t.Skip("needs a store with a method Ping")
	}
	key := freshKey()
	put(t, h.Store, key, "x", h.live())
	for range 2 {
		if err := p.Ping(t.Context()); err != nil {
			t.Fatalf("Ping: %v", err)
		}
	}
	found(t, h.Store, key, "x")
}

// testKept looks just before the moment from which a payload may go.
func testKept(t *testing.T, h *Harness) {
	if h.Clock == nil {
		t.Skip("needs a store with a clock of its own: set Harness.Clock")
	}
	for _, life := range []time.Duration{h.Skew + time.Minute, h.Skew + time.Minute + 999*time.Millisecond, h.Skew + 100*24*time.Hour} {
		key := freshKey()
		put(t, h.Store, key, "x", h.now().Add(life))
		h.Clock.Advance(life - h.Skew - time.Millisecond)
		found(t, h.Store, key, "x")
		h.sweep(t)
		put(t, h.Store, freshKey(), "y", h.live()) // a store may sweep in passing
		found(t, h.Store, key, "x")
	}
}

func testExpired(t *testing.T, h *Harness) {
	key := freshKey()
	if h.Clock == nil {
		put(t, h.Store, key, "x", time.Now().Add(time.Second))
		deadline := time.Now().Add(h.Skew + time.Minute)
		for {
			_, ok, err := h.Store.Get(t.Context(), key)
			switch {
			case err != nil:
				t.Fatalf("Get: %v", err)
			case !ok:
				return
			case time.Now().After(deadline):
				t.Fatal("found long after it expired")
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for _, life := range []time.Duration{h.Skew + time.Minute, h.Skew + time.Minute + 999*time.Millisecond} {
		key = freshKey()
		put(t, h.Store, key, "x", h.now().Add(life))
		h.Clock.Advance(life + h.Skew + time.Second)
		missing(t, h.Store, key) // swept or not
		h.sweep(t)
		missing(t, h.Store, key)
	}
}

func testSweepKeepsLive(t *testing.T, h *Harness) {
	if h.Sweep == nil {
		t.Skip("needs a store that sweeps when told: set Harness.Sweep")
	}
	keys := make(map[[32]byte]string)
	for i := range 200 {
		key := freshKey()
		keys[key] = fmt.Sprint("payload ", i)
		put(t, h.Store, key, keys[key], h.live())
		if h.Clock != nil {
			put(t, h.Store, freshKey(), "short", h.now().Add(h.Skew+time.Second))
		}
	}
	if h.Clock != nil {
		h.Clock.Advance(h.Skew + 5*time.Minute)
	}
	h.sweep(t)
	for key, p := range keys {
		found(t, h.Store, key, p)
	}
}

func testSealed(t *testing.T, h *Harness) {
	if h.Raw == nil {
		t.Skip("needs a store that seals at rest: set Harness.Raw")
	}
	const secret = "foil-claim.never to be seen at rest"
	key := freshKey()
	put(t, h.Store, key, strings.Repeat(secret, 20), h.live())
	raw := h.Raw(t)
	if len(raw) < 20*len(secret) {
		t.Fatalf("Raw gave %d bytes, fewer than the payload has: it does not look where that is kept", len(raw))
	}
	// Three alignments of base64 and both cases of hex hide nothing either.
	for _, spelling := range spellings([]byte(secret)) {
		if bytes.Contains(raw, []byte(spelling)) {
			t.Fatal("a payload can be read where it is kept")
		}
	}
	found(t, h.Store, key, strings.Repeat(secret, 20))
}

func testSwap(t *testing.T, h *Harness) {
	if h.Swap == nil {
		t.Skip("needs a store that seals at rest: set Harness.Swap")
	}
	a, b := freshKey(), freshKey()
	put(t, h.Store, a, "of a", h.live())
	put(t, h.Store, b, "of b", h.live())
	h.Swap(t, a, b)
	for _, key := range [][32]byte{a, b} {
		if got, ok, err := h.Store.Get(t.Context(), key); err == nil || ok || got != nil {
			t.Errorf("Get of what was put for another key = %d bytes, found %t, %v; want an error", len(got), ok, err)
		}
	}
	h.Swap(t, a, b)
	found(t, h.Store, a, "of a") // so the harness did swap
	found(t, h.Store, b, "of b")
}
