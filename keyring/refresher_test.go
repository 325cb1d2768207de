package keyring_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foilmcp/foil/keyring"
)

func TestRefresherNeedsAFirstLoad(t *testing.T) {
	boom := errors.New("boom")
	if _, err := keyring.NewRefresher(t.Context(), &fakeSource{err: boom}, nil); !errors.Is(err, boom) {
		t.Error(err)
	}
	if _, err := keyring.NewRefresher(t.Context(), &fakeSource{}, nil); err == nil {
		t.Error("a source without a ring is accepted")
	}
	for _, o := range []keyring.RefresherOptions{{MaxStale: -1}, {MaxStale: 8 * 24 * time.Hour}, {LoadTimeout: -1}} {
		if _, err := keyring.NewRefresher(t.Context(), &fakeSource{ring: keyring.NewEphemeral()}, &o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := keyring.NewRefresher(t.Context(), &fakeSource{hang: true}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("a source that hangs:", err)
		}
	})
}

func TestRefresherFollowsTheSource(t *testing.T) {
	ring := newRing(t, nil)
	inBubble(t, ring, func(t *testing.T, src *fakeSource, r *keyring.Refresher, log *lockedBuffer) {
		first, _ := r.Ring()
		src.set(mustParse(t, string(ring.Marshal())), nil)
		begin := time.Now()
		wait(time.Hour)
		// 40 thirds of the propagation time; a little more often, at random.
		if n := src.since(begin); n < 40 || n > 52 {
			t.Errorf("%d loads in an hour", n)
		}
		src.mu.Lock()
		gaps := map[time.Duration]bool{}
		for i := 1; i < len(src.loads); i++ {
			gap := src.loads[i].Sub(src.loads[i-1])
			gaps[gap] = true
			if gap > 90*time.Second || gap < 72*time.Second {
				t.Errorf("gap of %v", gap)
			}
		}
		src.mu.Unlock()
		if len(gaps) < 10 {
			t.Error("no jitter")
		}
		if again, _ := r.Ring(); again != first {
			t.Error("the same document makes another Ring: what codecs derived is lost")
		}
		src.set(rotate(t, ring, start).Ring, nil)
		wait(100 * time.Second)
		if serial(t, r) != 2 {
			t.Error("the new ring is not in use")
		}
		if !strings.Contains(log.String(), "key ring changed") {
			t.Error(log)
		}
		if st := r.Status(); !st.Ready || st.Stale || st.Serial != 2 || st.Error != "" || st.Age > 90*time.Second || r.Ready() != nil {
			t.Errorf("%+v", st)
		}
	})
}

func TestRefresherOutage(t *testing.T) {
	ring := newRing(t, nil)
	inBubble(t, ring, func(t *testing.T, src *fakeSource, r *keyring.Refresher, log *lockedBuffer) {
		src.set(nil, errors.New("source away"))
		wait(4 * time.Minute)
		if err := r.Ready(); err != nil {
			t.Error("not ready before the propagation time is over:", err)
		}
		if st := r.Status(); !st.Ready || !strings.Contains(st.Error, "source away") {
			t.Errorf("%+v", st)
		}
		wait(2 * time.Minute)
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "source away") || errors.Is(err, keyring.ErrStale) {
			t.Error("after the propagation time:", err)
		}
		if serial(t, r) != 1 {
			t.Error("the ring is not used while not ready")
		}
		// Retries are quicker, but not hot.
		from := time.Now()
		wait(10 * time.Minute)
		if n := src.since(from); n < 60 || n > 80 {
			t.Errorf("%d retries in ten minutes", n)
		}
		wait(43*time.Minute + 50*time.Second) // 59:50 in all
		if _, err := r.Ring(); err != nil {
			t.Error("before max stale:", err)
		}
		wait(11 * time.Second)
		if got, err := r.Ring(); !errors.Is(err, keyring.ErrStale) || got != nil {
			t.Errorf("past max stale: %v, %v", got, err)
		}
		if st := r.Status(); !st.Stale || st.Ready || !errors.Is(r.Ready(), keyring.ErrStale) {
			t.Errorf("%+v", st)
		}
		if strings.Count(log.String(), "key ring not ready") != 1 {
			t.Errorf("not ready is not logged once:\n%s", log)
		}
		src.set(ring, nil)
		wait(11 * time.Second)
		if serial(t, r) != 1 || r.Ready() != nil || r.Status().Error != "" {
			t.Error("it does not recover")
		}
		if !strings.Contains(log.String(), "refreshed again") {
			t.Error("recovery is not logged")
		}
	})
}

// Close is not kept waiting by a source that hangs, and a hanging load is given up
// in time for the next.
func TestRefresherHangingSource(t *testing.T) {
	ring := newRing(t, nil)
	inBubble(t, ring, func(t *testing.T, src *fakeSource, r *keyring.Refresher, log *lockedBuffer) {
		src.mu.Lock()
		src.hang = true
		src.mu.Unlock()
		from := time.Now()
		wait(10 * time.Minute)
		if n := src.since(from); n < 40 {
			t.Errorf("only %d loads while they hang", n)
		}
		if !strings.Contains(r.Status().Error, "deadline") {
			t.Errorf("%+v", r.Status())
		}
		wait(9 * time.Second) // somewhere inside a load, most likely
		closed := time.Now()
		r.Close()
		if d := time.Since(closed); d > 0 {
			t.Errorf("Close took %v", d)
		}
	})
}

func TestRefresherRefusesAlarmingChanges(t *testing.T) {
	ring := mustParse(t, strings.Replace(doc(`[{"id":"a","secret":"`+b64(1)+`","seal_from":100},{"id":"b","secret":"`+b64(2)+`","seal_from":100}]`),
		`"revoked":[]`, `"revoked":["a"]`, 1))
	text := string(ring.Marshal())
	edit := func(pairs ...string) *keyring.Ring {
		t.Helper()
		out := strings.NewReplacer(pairs...).Replace(text)
		if out == text {
			t.Fatal("edit changes nothing")
		}
		return mustParse(t, out)
	}
	next := `"serial": 8`
	for _, tc := range []struct {
		name, says string
		ring       *keyring.Ring
		err        error
	}{
		{"lower serial", "serial 7 to 6", edit(`"serial": 7`, `"serial": 6`), nil},
		{"same serial, other content", "without a new serial", edit(`"keep": 86400`, `"keep": 86401`), nil},
		{"interop", "interop", edit(`"serial": 7`, next, `"interop": false`, `"interop": true`), nil},
		{"storage", "storage", edit(`"serial": 7`, next, `"interop": false`, `"interop": false, "storage": true`, `"keep": 86400`, `"keep": 0`), nil},
		{"revocation taken back", `"a" was taken back`, edit(`"serial": 7`, next, "[\n    \"a\"\n  ]", "[]"), nil},
		{"other bytes", `"b" has other bytes`, edit(`"serial": 7`, next, b64(2), b64(3)), nil},
		{"revoked bytes under another id", `the bytes of the revoked key "a"`, edit(`"serial": 7`, next, `"id": "a"`, `"id": "innocent"`), nil},
		{"malformed", "malformed", nil, errors.New("keyring: malformed")},
		{"nothing", "no ring", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, ring, func(t *testing.T, src *fakeSource, r *keyring.Refresher, log *lockedBuffer) {
				src.set(tc.ring, tc.err)
				if err := r.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v does not say %q", err, tc.says)
				}
				if got, _ := r.Ring(); got != ring {
					t.Error("the ring in use changed")
				}
				wait(6 * time.Minute)
				if r.Ready() == nil {
					t.Error("it does not count as a failed refresh")
				}
				if !strings.Contains(log.String(), "level=WARN") {
					t.Error("it is not logged")
				}
				if strings.Contains(log.String(), b64(2)[:6]) || strings.Contains(log.String(), b64(3)[:6]) {
					t.Error("a key in the log")
				}
				wait(time.Hour)
				if _, err := r.Ring(); !errors.Is(err, keyring.ErrStale) {
					t.Error("it does not become stale:", err)
				}
				src.set(edit(`"serial": 7`, `"serial": 9`), nil)
				wait(11 * time.Second)
				if serial(t, r) != 9 {
					t.Error("it does not recover")
				}
			})
		})
	}
}

func TestRefreshByHand(t *testing.T) {
	ring := newRing(t, nil)
	inBubble(t, ring, func(t *testing.T, src *fakeSource, r *keyring.Refresher, log *lockedBuffer) {
		src.set(rotate(t, ring, start).Ring, nil)
		if err := r.Refresh(t.Context()); err != nil || serial(t, r) != 2 {
			t.Error(err)
		}
		// A caller that gives up is no failure of the source.
		src.mu.Lock()
		src.hang = true
		src.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) || r.Status().Error != "" {
			t.Errorf("%v, %+v", err, r.Status())
		}
		// Refreshes run one at a time; waiting for the turn ends with ctx.
		ctx1, cancel1 := context.WithCancel(t.Context())
		go r.Refresh(ctx1)
		synctest.Wait()
		ctx2, cancel2 := context.WithTimeout(t.Context(), time.Second)
		defer cancel2()
		before := src.since(time.Time{})
		if err := r.Refresh(ctx2); !errors.Is(err, context.DeadlineExceeded) || src.since(time.Time{}) != before {
			t.Errorf("%v: two refreshes at once", err)
		}
		cancel1()
	})
}

// After Close the ring in use goes on until it is stale, and nothing loads.
func TestRefresherClosed(t *testing.T) {
	inBubble(t, newRing(t, nil), func(t *testing.T, src *fakeSource, r *keyring.Refresher, log *lockedBuffer) {
		r.Close()
		at := time.Now()
		wait(30 * time.Minute)
		if src.since(at) != 0 || serial(t, r) != 1 || r.Ready() == nil {
			t.Error("closed Refresher is wrong")
		}
		wait(31 * time.Minute)
		if _, err := r.Ring(); !errors.Is(err, keyring.ErrStale) {
			t.Error(err)
		}
	})
}

// Ring may be called from many goroutines while the ring changes; run with -race.
func TestRefresherConcurrently(t *testing.T) {
	f, _ := newFile(t)
	r, err := keyring.NewRefresher(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := int64(0)
			for range 200 {
				ring, err := r.Ring()
				if err != nil || ring.Serial() < last {
					t.Errorf("serial %v after %d, %v", ring, last, err)
				}
				last = ring.Serial()
				r.Status()
				r.Ready()
			}
		})
	}
	for range 10 {
		if _, err := rotateFile(t.Context(), f); err != nil {
			t.Error(err)
		}
		if err := r.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if serial(t, r) != 11 {
		t.Error("not at the last ring")
	}
}
