//go:build unix

package crash_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/internal/redistest"
)

// TestStoreServerKilled kills the server of the store with kill -9 while many
// approvals are carried out, and starts it again. No effect may be there twice, and
// what retries are told once it is back must be what happened.
func TestStoreServerKilled(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		s := pgtest.Start(t)
		serverKilled(t, s.Database(t), func() {
			if err := errors.Join(s.Kill(), s.Resume()); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("redis", func(t *testing.T) {
		s := redistest.Start(t, redistest.Durable...)
		serverKilled(t, s.URL(), func() {
			s.Kill(t)
			s.Restart(t)
		})
	})
}

func serverKilled(t *testing.T, name string, restart func()) {
	s := newSite(t, name)
	var mu sync.Mutex
	var flows []*trial
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				f := &trial{spec: spec{tool: []string{whole, steps}[n%2], points: []string{anytime}}, site: s, name: rand.Text()}
				if err := f.under(t.Context(), n); err != nil {
					t.Errorf("%s: %v", f.tool, err)
				}
				mu.Lock()
				flows = append(flows, f)
				mu.Unlock()
			}
		})
	}
	for range max(4, number(t, "FOIL_CRASH", 0)/25) {
		time.Sleep(time.Duration(50+mrand.IntN(300)) * time.Millisecond)
		restart()
	}
	time.Sleep(100 * time.Millisecond)
	close(stop)
	wg.Wait()
	counts := make(map[string]int)
	for _, f := range flows {
		if err := f.excuse(t.Context(), f.calm(t.Context())); err != nil && !errors.Is(err, errBusy) {
			t.Errorf("%s: %v", f.tool, err)
		}
		counts[f.tool+" "+f.first.kind]++
	}
	t.Logf("%d approvals: %v", len(flows), counts)
	if counts[steps+" "+isUnknown] > 0 || counts[steps+" "+isResult] == 0 || counts[whole+" "+isResult] == 0 {
		t.Error("what can be resumed must be done, and something of everything")
	}
}

// under presents a state again and again to one replica and the other while the
// store comes and goes, until it has an outcome.
func (f *trial) under(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for ; ; n++ {
		a, err := call(ctx, f.replicas[n%2].url, f.tool, f.name, f.state, "accept")
		switch {
		case err != nil:
			return err
		case f.state == "" && a.state != "":
			f.state = a.state
			continue
		case a.kind == isResult && f.state != "", a.kind == isUnknown && f.tool == whole:
			f.first = a
			return nil
		case a.kind == isRefusal:
			return fmt.Errorf("an honest retry got %v", a)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("still %v: %w", a, ctx.Err())
		}
	}
}

// calm checks one approval when everything is calm again.
func (f *trial) calm(ctx context.Context) error {
	again, err := f.retries(ctx)
	if err != nil {
		return err
	}
	if f.first.kind == isResult && again.body != f.first.body {
		return fmt.Errorf("first %v, then %v", f.first, again)
	}
	f.first = again // what was unknown may have been recorded since
	events, err := journalOf(ctx, f.provider.url, f.name)
	if err != nil {
		return err
	}
	for _, step := range []string{stepName(0), stepName(1), stepName(2)} {
		keys, calls := make(map[string]bool), 0
		for _, e := range events {
			if e.Kind == "effect" && e.Step == step {
				keys[e.Key] = true
				calls++
			}
		}
		wanted := f.tool == steps || step == stepName(0) && f.first.kind == isResult
		if len(keys) > 1 || f.tool == whole && calls > 1 || wanted && calls == 0 {
			return fmt.Errorf("%s was called %d times under %d keys, and retries get %v", step, calls, len(keys), f.first)
		}
	}
	if f.first.kind != isUnknown {
		return nil
	}
	f.flow = f.first.flow
	if in, err := f.listed(ctx); err != nil || !in {
		return fmt.Errorf("the unknown operation is listed: %v, %v", in, err)
	}
	return nil
}
