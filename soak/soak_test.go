//go:build unix

package soak_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

const replicas = 12

// timing are the promises of the ring, and how hard it is treated.
type timing struct {
	propagation, skew, ttl, maxStale time.Duration
	every                            time.Duration // between rotations
	margin                           time.Duration // before its end that a token is opened again
	halt                             time.Duration // of a process that breaks what the times allow for
	last                             time.Duration // how long cycles are begun
}

// short is for every test run; the skew is there for a machine that is busy.
var short = timing{
	propagation: 2 * time.Second, skew: 2 * time.Second, ttl: 2 * time.Second, maxStale: 10 * time.Second,
	every: 2 * time.Second, margin: 250 * time.Millisecond, halt: time.Second, last: time.Nanosecond,
}

// long has no slack but a skew of a second, for a machine that does nothing else.
var long = timing{
	propagation: 3 * time.Second, skew: time.Second, ttl: 4 * time.Second, maxStale: 11 * time.Second,
	every: 2 * time.Second, margin: 150 * time.Millisecond, halt: 700 * time.Millisecond,
}

func times(t *testing.T) timing {
	text := os.Getenv("FOIL_SOAK")
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("FOIL_SOAK is how long, such as 10m, not %q", text)
	}
	tm := long
	tm.last = d
	return tm
}

func TestFile(t *testing.T) {
	t.Parallel()
	soak(t, newFileWorld)
}

func TestOpenBao(t *testing.T) {
	t.Parallel()
	soak(t, newBaoWorld)
}

// soak runs until it has an answer: a run in which the machine held up a process for
// longer than the times of the ring allow for, and in which something went wrong, says
// nothing.
func soak(t *testing.T, newWorld func(*testing.T, int) world) {
	if testing.Short() {
		t.Skip("takes 15 seconds: run it without -short")
	}
	tm := times(t)
	const attempts = 3
	for attempt := 1; ; attempt++ {
		var wrong []string
		var halt time.Duration
		ok := t.Run("fleet", func(t *testing.T) { wrong, halt = soakOnce(t, newWorld, tm) })
		switch {
		case len(wrong) == 0:
			return
		case ok && halt > tm.halt && attempt < attempts:
			t.Logf("attempt %d says nothing: a process was held up for %v; what went wrong: %q", attempt, halt, wrong[0])
			continue
		}
		for _, w := range wrong {
			t.Error(w)
		}
		if halt > tm.halt {
			t.Errorf("the machine is too busy: a process was held up for %v, in each of %d attempts", halt, attempts)
		}
		return
	}
}

func soakOnce(t *testing.T, newWorld func(*testing.T, int) world, tm timing) ([]string, time.Duration) {
	w := newWorld(t, replicas)
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Propagation: tm.propagation, Skew: tm.skew, MaxTTL: tm.ttl, Keep: -1}) // Keep would only hide faults
	if err != nil {
		t.Fatal(err)
	}
	if err := w.ring().Create(t.Context(), ring); err != nil {
		t.Fatal(err)
	}
	r := &run{timing: tm, world: w, judge: newJudge(tm)}
	r.fleet = startFleet(t, w, replicas, tm.maxStale)
	var stop context.CancelFunc
	r.last, stop = context.WithCancel(t.Context())
	defer stop()

	var flows, others sync.WaitGroup
	for i := range r.fleet.slots {
		flows.Go(func() { r.drive(i) })
	}
	began := time.Now()
	running, end := context.WithCancel(t.Context())
	defer end()
	others.Go(func() { r.watchHalts(running) })
	others.Go(func() { r.rotateAll(running) })

	for n := 0; n == 0 || time.Since(began) < tm.last; n++ {
		r.cycle(t, n, func() {
			if time.Since(began) >= tm.last {
				stop()
			}
		})
		if wrong, _, _, _ := r.judge.result(); len(wrong) > 0 || t.Failed() {
			break
		}
	}
	stop()
	flows.Wait() // every token has been opened as old as it may be
	took := time.Since(began)
	end()
	others.Wait()
	r.judge.settle()
	wrong, n, keys, halt := r.judge.result()
	t.Logf("%v: %d sealed under %d keys, %d opened (%.0f flows a second), %d of them older than 0.8 of their life; %d rotations, %d outages, %d kills, %d cuts beyond propagation with a revocation; "+
		"refused for a revocation %d, for a cut %d, unavailable beyond max_stale %d, expired on the way %d; a cut was told at least %v before the first refusal for it; a revoked key was refused by all that follow within %v, by who is cut off after %v; longest halt of a process %v",
		took.Round(time.Second), n.sealed, keys, n.opened, float64(n.sealed)/took.Seconds(), n.old, n.rotations, n.outages, n.kills, n.cycles, n.cost, n.cutOff, n.unavailable, n.late,
		n.warning.Round(time.Millisecond), n.slowest.Round(time.Millisecond), n.honoured.Round(time.Millisecond), halt.Round(time.Millisecond))
	if len(wrong) > 0 {
		return wrong, halt
	}
	// It must have shown what it is for.
	if n.sealed < 500 || n.opened < n.sealed || n.old < n.sealed/4 || keys < 3 || n.rotations < 3 || n.outages < 3 || n.kills < 1 || n.cutOff == 0 || n.late > n.sealed/2 {
		return []string{"the fleet did too little to show anything"}, halt
	}
	return nil, halt
}
