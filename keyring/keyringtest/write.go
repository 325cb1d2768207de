package keyringtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/foilmcp/foil/keyring"
)

func testEmpty(t *testing.T, h *Harness) {
	empty := func() {
		t.Helper()
		if r, err := h.Store.Load(t.Context()); r != nil || err == nil {
			t.Fatalf("Load of nothing = %v, %v; want an error", r, err)
		}
	}
	empty()
	r, err := h.Store.Update(t.Context(), func(*keyring.Ring) (*keyring.Ring, error) {
		t.Error("Update calls its function without a document")
		return ring(t, 2, false, 1), nil
	})
	if r != nil || err == nil {
		t.Errorf("Update of nothing = %v, %v; want an error", r, err)
	}
	empty()
}

func testCreate(t *testing.T, h *Harness) {
	r := h.created(t)
	for range 2 {
		stored(t, h.Store, r)
	}
}

func testCreateTwice(t *testing.T, h *Harness) {
	r := h.created(t)
	for _, other := range []*keyring.Ring{ring(t, 1, false, 1), ring(t, 6, false, 3), r} {
		if err := h.Store.Create(t.Context(), other); !errors.Is(err, keyring.ErrExists) {
			t.Errorf("Create over a document: %v, want ErrExists", err)
		}
		stored(t, h.Store, r)
	}
	if h.Peer == nil {
		return
	}
	if err := h.Peer(t).Create(t.Context(), ring(t, 6, false, 3)); !errors.Is(err, keyring.ErrExists) {
		t.Errorf("Create by a peer over a document: %v, want ErrExists", err)
	}
	stored(t, h.Store, r)
}

func testCreateConcurrent(t *testing.T, h *Harness) {
	stores := []keyring.Store{h.Store}
	if h.Peer != nil {
		stores = append(stores, h.Peer(t))
	}
	const callers = 16
	rings := make([]*keyring.Ring, callers)
	for i := range rings {
		rings[i] = ring(t, int64(1+i), false, 1)
	}
	var winners atomic.Int32
	var winner atomic.Pointer[keyring.Ring]
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i, r := range rings {
		wg.Go(func() {
			<-begin
			switch err := stores[i%len(stores)].Create(t.Context(), r); {
			case err == nil:
				winners.Add(1)
				winner.Store(r)
			case !errors.Is(err, keyring.ErrExists):
				t.Errorf("Create: %v, want nil or ErrExists", err)
			}
		})
	}
	close(begin)
	wg.Wait()
	if n := winners.Load(); n != 1 {
		t.Fatalf("%d of %d concurrent creates succeeded, want 1", n, callers)
	}
	stored(t, h.Store, winner.Load())
}

func testUpdate(t *testing.T, h *Harness) {
	was := h.created(t)
	for want := was.Serial() + 1; want < was.Serial()+4; want++ {
		r := mustRotate(t, h.Store)
		if r.Serial() != want {
			t.Fatalf("Update returned serial %d, want %d: what is stored afterwards", r.Serial(), want)
		}
		stored(t, h.Store, r)
	}
}

func testUnchanged(t *testing.T, h *Harness) {
	was := h.created(t)
	for range 2 {
		r, err := h.Store.Update(t.Context(), func(r *keyring.Ring) (*keyring.Ring, error) { return r, nil })
		if err != nil || r == nil || r.Serial() != was.Serial() {
			t.Fatalf("Update without a change = %v, %v; want the ring as it is", r, err)
		}
		stored(t, h.Store, was)
	}
}

func testFunctionFails(t *testing.T, h *Harness) {
	was := h.created(t)
	boom := errors.New("boom")
	for name, result := range map[string]*keyring.Ring{"no ring": nil, "a ring": ring(t, 6, false, 3)} {
		calls := 0
		_, err := h.Store.Update(t.Context(), func(*keyring.Ring) (*keyring.Ring, error) { calls++; return result, boom })
		if !errors.Is(err, boom) || calls != 1 {
			t.Errorf("Update whose function returns %s and an error: %v after %d calls, want that error after 1", name, err, calls)
		}
		stored(t, h.Store, was)
	}
}

func testBadUpdates(t *testing.T, h *Harness) {
	was := h.created(t)
	for _, tc := range []struct {
		name string
		ring *keyring.Ring
	}{
		{"no ring", nil},
		{"the same serial", ring(t, 5, false, 3)},
		{"a lower serial", ring(t, 4, false, 3)},
		{"a skipped serial", ring(t, 7, false, 3)},
		{"another kind", ring(t, 6, true, 3)},
	} {
		r, err := h.Store.Update(t.Context(), func(*keyring.Ring) (*keyring.Ring, error) { return tc.ring, nil })
		if err == nil {
			t.Errorf("Update with %s = %v, want an error", tc.name, r)
		}
		stored(t, h.Store, was)
	}
	if next := mustRotate(t, h.Store); next.Serial() != 6 {
		t.Errorf("serial %d after refused updates, want 6", next.Serial())
	}
}

// race lets many callers at once add a key each. A store may give up on a race with
// an error, as long as it does not say that it won.
func race(t *testing.T, h *Harness, stores ...keyring.Store) {
	t.Helper()
	was := h.created(t)
	const callers, rounds = 12, 4
	var mu sync.Mutex
	won := map[int64]int{}
	failed := 0
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			<-begin
			for range rounds {
				r, err := rotate(t.Context(), stores[i%len(stores)])
				mu.Lock()
				switch {
				case err != nil:
					failed++
				case r == nil:
					t.Error("Update returned no ring and no error")
				default:
					won[r.Serial()]++
				}
				mu.Unlock()
			}
		})
	}
	close(begin)
	wg.Wait()
	if len(won) == 0 {
		t.Fatal("of many updates at once none succeeded")
	}
	for serial, n := range won {
		if n != 1 {
			t.Errorf("%d updates returned serial %d: all but one of them are lost", n, serial)
		}
	}
	got, err := h.Store.Load(t.Context())
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	// An update that failed may have been written nevertheless.
	if n := got.Serial() - was.Serial(); n < int64(len(won)) || n > int64(len(won)+failed) {
		t.Errorf("document has serial %d after %d updates and %d failures upon %d", got.Serial(), len(won), failed, was.Serial())
	}
	if want := len(was.Keys()) + int(got.Serial()-was.Serial()); len(got.Keys()) != want {
		t.Errorf("document has %d keys, want %d: one for each update", len(got.Keys()), want)
	}
}

func testConcurrent(t *testing.T, h *Harness) { race(t, h, h.Store) }

func testPeerConcurrent(t *testing.T, h *Harness) { race(t, h, h.Store, h.peer(t)) }

func testContext(t *testing.T, h *Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Store.Create(ctx, ring(t, 1, false, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Create with a cancelled context: %v, want context.Canceled", err)
	}
	was := h.created(t) // nothing is there
	if r, err := h.Store.Load(ctx); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Load with a cancelled context = %v, %v; want context.Canceled", r, err)
	}
	if _, err := rotate(ctx, h.Store); !errors.Is(err, context.Canceled) {
		t.Errorf("Update with a cancelled context: %v, want context.Canceled", err)
	}
	stored(t, h.Store, was)
}
