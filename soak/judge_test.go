//go:build unix

package soak_test

import (
	"fmt"
	"sync"
	"time"
)

// A flow is a token on its way.
type flow struct {
	sealed
	sealer int
}

// An answer is what became of one presentation of it.
type answer struct {
	*flow
	opener int
	opened
}

// A cycle is what was done to the fleet that explains refusals.
type cycle struct {
	victim int // the replica that was cut off for too long
	// It was cut off from cut to mended, and ready again at ready; told and alerted are
	// when /readyz and the metric had said so.
	cut, told, alerted, mended, ready time.Time

	revoked              string    // the key
	revoking, revocation time.Time // when that began, and was written
	serial               int64     // of the ring with it
	emergency            string    // the key that was made instead

	first time.Time // refusal for the cut
}

// A judge looks at every answer. What a refusal was for is known only afterwards, so
// it judges those at the end of a cycle.
type judge struct {
	ttl, maxStale, propagation time.Duration

	mu       sync.Mutex
	cycles   []*cycle
	pending  []answer        // refusals, and what was opened under a key being revoked
	watched  map[string]bool // keys that are revoked, or about to be
	wrong    []string
	stall    time.Duration // the longest that a process was held up
	tally    tally
	sealedBy map[string]int // by key
}

type tally struct {
	sealed, opened, old, late, cost, cutOff, unavailable int
	rotations, kills, outages, cycles                    int

	slowest  time.Duration // from a revocation until a replica refused the key
	warning  time.Duration // the least from a cut being told to the first refusal for it
	honoured time.Duration // the longest that a replica that is cut off honoured the key
}

func newJudge(tm timing) *judge {
	return &judge{ttl: tm.ttl, maxStale: tm.maxStale, propagation: tm.propagation, watched: make(map[string]bool), sealedBy: make(map[string]int)}
}

// fault notes what must not be.
func (j *judge) fault(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faultLocked(format, args...)
}

func (j *judge) faultLocked(format string, args ...any) {
	if len(j.wrong) < 30 {
		j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
	}
}

func (j *judge) count(change func(*tally)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.tally)
}

func (j *judge) held(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stall = max(j.stall, d)
}

// begin adds a cycle.
func (j *judge) begin(c *cycle) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cycles = append(j.cycles, c)
}

// seal notes what a replica sealed, and the errors of what it did not.
func (j *judge) seal(i int, flows []*flow, errs []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tally.sealed += len(flows)
	for _, f := range flows {
		j.sealedBy[f.Key]++
		if f.Key == "" {
			j.faultLocked("replica %d sealed under a key that it does not know", i)
		}
	}
	for _, e := range errs {
		if !j.mayBeStale(i, time.Now()) {
			j.faultLocked("replica %d does not seal: %s", i, e)
		}
		j.tally.unavailable++
	}
}

// mayBeStale reports whether a replica was cut off for so long that it says unavailable.
func (j *judge) mayBeStale(i int, at time.Time) bool {
	for _, c := range j.cycles {
		// Its last good refresh was before the cut, by a propagation time at most.
		if c.victim == i && at.After(c.cut.Add(j.maxStale-j.propagation)) && (c.ready.IsZero() || at.Before(c.ready.Add(time.Second))) {
			return true
		}
	}
	return false
}

// open notes what became of a token.
func (j *judge) open(a answer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case a.Error != "":
		j.tally.unavailable++
		if !j.mayBeStale(a.opener, a.Ended) {
			j.faultLocked("replica %d is unavailable: %s", a.opener, a.Error)
		}
	case a.Reason != "":
		j.pending = append(j.pending, a)
	default:
		j.tally.opened++
		if a.Ended.Sub(a.flow.Began) > j.ttl*8/10 {
			j.tally.old++
		}
		if j.watched[a.Key] {
			j.pending = append(j.pending, a)
		}
	}
}

// settle judges what was pending; everything that explains it has happened.
func (j *judge) settle() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, a := range j.pending {
		if a.Reason == "" {
			j.afterRevocation(&a)
		} else {
			j.refusal(&a)
		}
	}
	j.pending = nil
}

// afterRevocation looks at a token that was opened under a key which was revoked, then
// or later.
func (j *judge) afterRevocation(a *answer) {
	for _, c := range j.cycles {
		if c.revoked != a.Key || c.serial == 0 {
			continue
		}
		if a.Serial >= c.serial {
			j.faultLocked("replica %d opens under the revoked key %s although it has serial %d, which revokes it", a.opener, a.Key, a.Serial)
		}
		if a.opener == c.victim && a.opened.Began.After(c.cut.Add(j.maxStale)) {
			j.faultLocked("replica %d, cut off, opens under the revoked key %s %v after the cut: max_stale is %v", a.opener, a.Key, a.opened.Began.Sub(c.cut), j.maxStale)
		}
	}
}

func (j *judge) refusal(a *answer) {
	// The times in a token are rounded down to milliseconds.
	if !a.Ended.Before(a.flow.Began.Add(j.ttl - 5*time.Millisecond)) {
		j.tally.late++ // it had expired, or was about to
		return
	}
	for _, c := range j.cycles {
		switch {
		case a.Reason != "unknown_key":
		case c.revoked != "" && a.Key == c.revoked && a.Ended.After(c.revoking):
			j.tally.cost++
			return
		case c.emergency != "" && a.Key == c.emergency && a.Serial < c.serial:
			j.tally.cost++ // it had not refreshed since
			return
		case c.cuts(a):
			j.tally.cutOff++
			if c.first.IsZero() || a.Ended.Before(c.first) {
				c.first = a.Ended
			}
			return
		}
	}
	j.faultLocked("an honest retry was refused (%s): sealed by replica %d under %s at %s, opened by replica %d, which has serial %d, %v later",
		a.Reason, a.sealer, a.Key, a.flow.Began.Format("05.000"), a.opener, a.Serial, a.Ended.Sub(a.flow.Began))
}

// cuts reports whether a refusal is for the cut: the victim does not know the newest
// key, and seals under one that has ended elsewhere.
func (c *cycle) cuts(a *answer) bool {
	within := func(t time.Time) bool { return t.After(c.cut) && (c.ready.IsZero() || t.Before(c.ready)) }
	return a.opener == c.victim && within(a.opened.Began) || a.sealer == c.victim && within(a.flow.Began)
}

// result returns what must not be, what was done, and the longest halt.
func (j *judge) result() ([]string, tally, int, time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wrong, j.tally, len(j.sealedBy), j.stall
}
