//go:build unix

package soak_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
)

// rotateAll lets every replica do what a timer does, all at once and more often than is
// due: of each period one of them rotates, and one only.
func (r *run) rotateAll(ctx context.Context) {
	var newest time.Time // seal_from of the last rotation
	for ctx.Err() == nil {
		answers := make([]rotation, len(r.fleet.slots))
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				// One that was killed, or whose source is away, does not rotate.
				if err := r.fleet.ask(i, "/rotate?every="+r.every.String(), nil, &answers[i]); err != nil && !errors.Is(err, errGone) && ctx.Err() == nil {
					r.judge.fault("replica %d: rotate: %v", i, err)
				}
			})
		}
		wg.Wait()
		for _, a := range answers {
			if a.Added == "" {
				continue
			}
			if gap := a.SealFrom.Sub(newest); gap.Abs() < r.every-r.every/10 {
				r.judge.fault("key %s seals %v after the one before, and --every is %v: two rotated", a.Added, gap, r.every)
			}
			newest = a.SealFrom
			r.rotated.Store(&rotated{a.Added, time.Now()})
			r.judge.count(func(t *tally) { t.rotations++ })
		}
		select {
		case <-time.After(r.every / 4):
		case <-ctx.Done():
		}
	}
}

// trouble cuts replicas off for less than the propagation time, and kills some, but not
// the victim, until ctx ends. Then all are back and have what they missed.
func (r *run) trouble(ctx context.Context, t *testing.T, victim int) {
	var wg sync.WaitGroup
	for i := range r.fleet.slots {
		if i == victim {
			continue
		}
		wg.Go(func() {
			for pause(ctx, rand.N(r.propagation)) {
				r.world.cut(t, i, rand.IntN(r.world.ways()))
				pause(ctx, r.propagation/4+rand.N(r.propagation*3/4-r.margin))
				r.world.mend(t, i)
				r.judge.count(func(t *tally) { t.outages++ })
				// One that comes before the next refresh would be part of it.
				if !pause(ctx, r.propagation/2) {
					return
				}
			}
		})
	}
	wg.Go(func() {
		for pause(ctx, 200*time.Millisecond+rand.N(600*time.Millisecond)) {
			i := rand.IntN(len(r.fleet.slots))
			if i == victim {
				continue
			}
			r.fleet.kill(i)
			r.judge.count(func(t *tally) { t.kills++ })
			pause(ctx, rand.N(500*time.Millisecond))
			if err := r.fleet.restart(t.Context(), i); err != nil {
				r.judge.fault("replica %d does not start again: %v", i, err)
			}
		}
	})
	wg.Wait()
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// cycle is one round of everything. One replica, the victim, is cut off from just after
// it has learnt of a key until that key was revoked and its ring is too old.
func (r *run) cycle(t *testing.T, n int, over func()) {
	c := &cycle{victim: (n*5 + 3) % len(r.fleet.slots)}
	calm, calmed := context.WithCancel(t.Context())
	var trouble sync.WaitGroup
	trouble.Go(func() { r.trouble(calm, t, c.victim) })
	defer trouble.Wait()
	defer calmed()

	// The newest key is one that the victim knows, and no other follows at once.
	known, key := r.freshKey(t, c.victim)
	if known == nil {
		return
	}
	c.cut = time.Now()
	r.judge.begin(c)
	r.world.cut(t, c.victim, n%r.world.ways())
	defer r.world.mend(t, c.victim)
	var polls sync.WaitGroup
	polling, polled := context.WithCancel(t.Context())
	polls.Go(func() { r.poll(polling, c) })
	defer polls.Wait()
	defer polled()

	pause(t.Context(), max(time.Until(key.SealFrom().Add(-r.propagation/2)), 2*r.propagation))
	calmed()
	trouble.Wait()
	// The key seals, and its successor does not yet: a machine that is late for this
	// shows nothing.
	wanted := key.SealFrom().Add(300 * time.Millisecond)
	if calm := c.cut.Add(2*r.propagation + 500*time.Millisecond); calm.After(wanted) {
		wanted = calm
	}
	time.Sleep(time.Until(wanted))
	r.judge.held(time.Since(wanted))

	// Somebody has stolen the key.
	thief, err := newThief(known, r.ttl)
	if err != nil {
		t.Error(err)
		return
	}
	if !r.revoke(t, c, key.ID()) {
		return
	}
	r.present(t, c, thief)

	r.world.mend(t, c.victim)
	r.judge.mu.Lock()
	c.mended = time.Now()
	r.judge.mu.Unlock()
	polled()
	polls.Wait()
	r.recovered(t, c)
	over()
	time.Sleep(r.ttl + r.margin) // until every token of before is gone
	r.judge.settle()
	r.verdict(c)
	r.judge.count(func(t *tally) { t.cycles++ })
}

// freshKey waits for a rotation that is known to the victim, and returns the ring as it
// then is and its newest key.
func (r *run) freshKey(t *testing.T, victim int) (*keyring.Ring, *keyring.Key) {
	for range 2000 {
		ring, err := r.world.ring().Load(t.Context())
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		rep, err := r.fleet.report(t.Context(), victim)
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		// It was made a moment ago: the victim is not to see the next rotation.
		last := r.rotated.Load()
		young := last != nil && time.Since(last.at) < r.propagation*3/10+200*time.Millisecond
		if keys := ring.Keys(); young && keys[len(keys)-1].ID() == last.key && rep.Rings[0].Serial == ring.Serial() {
			return ring, keys[len(keys)-1]
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("nobody rotates")
	return nil, nil
}

// poll notes when /readyz of the victim, and its metric, say that it is not ready.
func (r *run) poll(ctx context.Context, c *cycle) {
	for pause(ctx, 50*time.Millisecond) {
		rep, err := r.fleet.report(ctx, c.victim)
		if err != nil {
			if ctx.Err() == nil {
				r.judge.fault("/readyz of replica %d: %v", c.victim, err)
			}
			continue
		}
		now := time.Now()
		alert, err := r.fleet.alert(c.victim)
		if err != nil {
			r.judge.fault("/metrics of replica %d: %v", c.victim, err)
			continue
		}
		r.judge.mu.Lock()
		if !rep.Ready && c.told.IsZero() {
			c.told = now
			if rep.Rings[0].Error == "" {
				r.judge.faultLocked("/readyz does not say why it is not ready")
			}
		}
		if alert && c.alerted.IsZero() {
			c.alerted = time.Now()
		}
		r.judge.mu.Unlock()
	}
}

// revoke revokes the key, as foil keys revoke does.
func (r *run) revoke(t *testing.T, c *cycle, key string) bool {
	r.judge.mu.Lock()
	c.revoked, c.revoking = key, time.Now()
	r.judge.watched[key] = true
	r.judge.mu.Unlock()
	var change *keyring.Change
	ring, err := r.world.ring().Update(t.Context(), func(ring *keyring.Ring) (_ *keyring.Ring, err error) {
		if change, err = ring.Revoke(time.Now(), key); err != nil {
			return nil, err
		}
		return change.Ring, nil
	})
	if err != nil {
		t.Error(err)
		return false
	}
	r.judge.mu.Lock()
	defer r.judge.mu.Unlock()
	c.revocation, c.serial, c.emergency = time.Now(), ring.Serial(), change.Added
	if c.emergency == "" {
		r.judge.faultLocked("the key that was revoked did not seal: %v", change)
	}
	return true
}

// newThief seals under the newest key of a ring, as whoever has its secret can.
func newThief(ring *keyring.Ring, ttl time.Duration) (func(context.Context) (string, error), error) {
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		return nil, err
	}
	guard, err := newGuard(codec, ttl)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) { return guard.Seal(ctx, request, outgoing) }, nil
}

// present presents tokens under the revoked key to all replicas until all refuse them,
// and the victim says that it is unavailable.
func (r *run) present(t *testing.T, c *cycle, thief func(context.Context) (string, error)) {
	// One refresh is at most 3/10 of the propagation time away; the rest is for a
	// machine that is busy.
	bound := c.revocation.Add(r.propagation*3/10 + 1500*time.Millisecond)
	end := c.cut.Add(r.maxStale + time.Second)
	var wg sync.WaitGroup
	for i := range r.fleet.slots {
		wg.Go(func() {
			honoured := false
			for {
				token, err := thief(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				var done turned
				if err := r.fleet.ask(i, "/turn", &turn{Open: []string{token}, Seal: 1}, &done); err != nil || len(done.Opened) != 1 {
					r.judge.fault("replica %d: %v", i, err)
					return
				}
				o := done.Opened[0]
				accepted := o.Error == "" && o.Reason == ""
				switch {
				case i == c.victim:
					if accepted {
						honoured = true
						r.judge.count(func(t *tally) { t.honoured = max(t.honoured, o.Began.Sub(c.cut)) })
					}
					if accepted && o.Began.After(c.cut.Add(r.maxStale)) {
						r.judge.fault("the replica that is cut off honours a revoked key %v after the cut; max_stale is %v", o.Began.Sub(c.cut), r.maxStale)
					}
					if o.Error != "" {
						if len(done.Sealed) > 0 {
							r.judge.fault("the replica that is cut off opens nothing, and still seals")
						}
						if !honoured {
							r.judge.fault("the replica that is cut off never honoured the revoked key: that it ceased to shows nothing")
						}
						return
					}
					if o.Began.After(end) {
						r.judge.fault("the replica that is cut off does not say that it is unavailable")
						return
					}
				case !accepted && o.Reason == "unknown_key":
					r.judge.count(func(t *tally) { t.slowest = max(t.slowest, o.Ended.Sub(c.revocation)) })
					return
				case !accepted:
					r.judge.fault("replica %d answers a token under a revoked key with %q %q", i, o.Reason, o.Error)
					return
				case o.Serial >= c.serial:
					r.judge.fault("replica %d honours the revoked key %s although it has serial %d, which revokes it", i, c.revoked, o.Serial)
					return
				case o.Began.After(bound):
					r.judge.fault("replica %d honours a revoked key %v after the revocation", i, o.Began.Sub(c.revocation))
					return
				}
				time.Sleep(30 * time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// recovered waits until the victim is ready again, without a restart.
func (r *run) recovered(t *testing.T, c *cycle) {
	for range 500 {
		rep, err := r.fleet.report(t.Context(), c.victim)
		if err != nil {
			t.Error(err)
			return
		}
		if rep.Ready {
			r.judge.mu.Lock()
			c.ready = time.Now()
			r.judge.mu.Unlock()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.judge.fault("replica %d does not get ready again", c.victim)
}

// verdict looks at what the cycle was for.
func (r *run) verdict(c *cycle) {
	r.judge.mu.Lock()
	defer r.judge.mu.Unlock()
	switch {
	case c.told.IsZero() || c.alerted.IsZero():
		r.judge.faultLocked("a cut of %v was not told: by /readyz %v, by the metric %v", c.mended.Sub(c.cut), !c.told.IsZero(), !c.alerted.IsZero())
	case c.first.IsZero():
		r.judge.faultLocked("a cut of %v led to no refusal: that it was told before shows nothing", c.mended.Sub(c.cut))
	case !c.told.Before(c.first) || !c.alerted.Before(c.first):
		r.judge.faultLocked("the first refusal came %v after the cut, /readyz told it after %v, the metric after %v", c.first.Sub(c.cut), c.told.Sub(c.cut), c.alerted.Sub(c.cut))
	default:
		n := &r.judge.tally
		if w := min(c.first.Sub(c.told), c.first.Sub(c.alerted)); n.warning == 0 || w < n.warning {
			n.warning = w
		}
	}
}
