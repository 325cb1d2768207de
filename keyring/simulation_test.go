package keyring

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A fleet of twelve replicas with clocks up to skew apart follows one ring through
// 200 rotations. Every two seconds each replica seals a token, which another opens
// at once and a third some time before it expires. Sources fail for less than the
// propagation time; writes come at the worst moments. No honest token may be
// refused; and each term of the schedule must be needed for that.
//
// The worst case is: a write just after a refresh; an outage of just under the
// propagation time that begins with the next refresh; a retry just before it ends.

const (
	simReplicas  = 12
	simRotations = 200
	simStep      = 2 // seconds
)

type simToken struct {
	key     string
	exp     int64 // by the clock of the replica that sealed it
	replica int   // where it is opened
}

type simReplica struct {
	ring            *Ring
	clock           int64 // what this clock is ahead of real time
	next, refreshed int64 // real time of the next and of the last good refresh
	down            int64 // the source is away from down to up
	up              int64
}

// simRules are what the test takes away one by one.
type simRules struct {
	lead         func(*Ring) time.Duration
	every, retry func(propagation time.Duration) time.Duration
}

type simResult struct {
	rotations, sealed, opened, refused, noKey, maxKeys int
}

func simulate(t *testing.T, seed uint64, rules simRules, stopAt int) simResult {
	t.Helper()
	const base = 1_796_000_000
	rnd := rand.New(rand.NewPCG(seed, 1))
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	stored, err := NewRing(at(base), &RingOptions{Keep: -1}) // Keep would only hide faults
	if err != nil {
		t.Fatal(err)
	}
	prop, skew, ttl := int64(stored.propagation/time.Second), int64(stored.skew/time.Second), int64(stored.maxTTL/time.Second)
	every, retry := int64(rules.every(stored.propagation)/time.Second), int64(rules.retry(stored.propagation)/time.Second)
	var res simResult
	replicas := make([]*simReplica, simReplicas)
	for i := range replicas {
		replicas[i] = &simReplica{ring: stored, next: base + rnd.Int64N(every)/simStep*simStep}
	}
	setClocks := func() {
		for _, r := range replicas {
			r.clock = rnd.Int64N(skew+1) - skew/2
		}
		a := rnd.IntN(simReplicas)
		replicas[a].clock, replicas[(a+1)%simReplicas].clock = skew/2, -skew/2
	}
	setClocks()
	pending := map[int64][]simToken{} // by the step they are opened in
	open := func(now int64, tok simToken) {
		r := replicas[tok.replica]
		if now+r.clock >= tok.exp {
			return // expired by this clock: an honest refusal
		}
		res.opened++
		if k := r.ring.Key(tok.key); k == nil || !k.Opens(at(now+r.clock)) {
			res.refused++
		}
	}
	rotations, rotateAt, waited := 0, base+rnd.Int64N(1000)*simStep, int64(0)
	for now := int64(base); (rotations < simRotations || now < rotateAt) && res.refused < stopAt; now += simStep {
		if now >= rotateAt+waited && rotations < simRotations {
			if victim := replicas[rotations%simReplicas]; victim.refreshed != now-simStep && waited < every {
				waited += simStep // the worst moment: this replica has just refreshed
			} else {
				waited = 0
				rotations++
				res.rotations = rotations
				writer := replicas[rnd.IntN(simReplicas)]
				c, err := stored.rotate(at(now+writer.clock), rules.lead(stored))
				if err != nil {
					t.Fatal(err)
				}
				stored = c.Ring
				res.maxKeys = max(res.maxKeys, len(stored.keys))
				rotateAt = now + 900 + rnd.Int64N(750)*simStep
				for _, r := range replicas {
					if rnd.IntN(2) == 0 && now-r.up > every {
						r.down = max(now, r.next) // the worst moment again
						r.up = r.down + prop - 1 - rnd.Int64N(20)
					}
				}
			}
		}
		for _, r := range replicas {
			if rnd.IntN(2000) == 0 && now-r.up > every {
				r.down, r.up = now, now+1+rnd.Int64N(prop-1)
			}
			switch {
			case now < r.next:
			case r.down <= now && now < r.up:
				r.next = now + retry - rnd.Int64N(retry/5)/simStep*simStep
			default:
				r.ring, r.refreshed = stored, now
				r.next = now + every - rnd.Int64N(every/5)/simStep*simStep
			}
		}
		for i, r := range replicas {
			k, err := r.ring.Sealing(at(now + r.clock))
			if err != nil {
				res.noKey++
				continue
			}
			res.sealed++
			tok := simToken{key: k.id, exp: now + r.clock + ttl, replica: (i + 1 + rnd.IntN(simReplicas-1)) % simReplicas}
			open(now, tok)
			tok.replica = (i + 1 + rnd.IntN(simReplicas-1)) % simReplicas
			later := rnd.Int64N(ttl+skew) / simStep * simStep
			if rnd.IntN(4) == 0 {
				later = ttl - simStep // the last moment finds an open_until that is too early
			}
			pending[now+later] = append(pending[now+later], tok)
		}
		for _, tok := range pending[now] {
			open(now, tok)
		}
		delete(pending, now)
		// Clocks are corrected now and then.
		if rnd.IntN(600) == 0 {
			setClocks()
		}
	}
	return res
}

func TestSimulatedFleet(t *testing.T) {
	const seed = 20261130
	third := func(p time.Duration) time.Duration { return p / 3 }
	for _, tc := range []struct {
		name   string
		rules  simRules
		honest bool
	}{
		{"as written", simRules{(*Ring).lead, refreshEvery, retryEvery}, true},
		{"without propagation/3", simRules{func(r *Ring) time.Duration { return r.propagation + r.skew }, refreshEvery, retryEvery}, false},
		{"without skew", simRules{func(r *Ring) time.Duration { return r.propagation + r.propagation/3 }, refreshEvery, retryEvery}, false},
		{"without quick retries", simRules{(*Ring).lead, third, third}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			res := simulate(t, seed, tc.rules, 10)
			t.Logf("seed %d: %+v", uint64(seed), res)
			if tc.honest && (res.rotations != simRotations || res.sealed < 1_000_000 || res.opened < res.sealed) {
				t.Fatal("the fleet did next to nothing")
			}
			if res.noKey > 0 {
				t.Errorf("%d times there was no key to seal with", res.noKey)
			}
			if tc.honest && res.refused > 0 {
				t.Errorf("%d honest tokens refused", res.refused)
			}
			if !tc.honest && res.refused == 0 {
				t.Error("nothing was refused: the simulation would not notice if the term were missing")
			}
		})
	}
}
