package attack

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/foilmcp/foil"
)

// outages are attacks on the store of spent tokens, or while it is away.
func outages() []Attack {
	return []Attack{
		{
			Name: "replay-swept", Does: "the same token when its ID was forgotten by a replica whose clock is ahead", StoppedBy: "sweep mark",
			must: []string{Refused, Unavailable}, off: Accepted, run: runSwept,
			unseen: func(m Mode) string {
				if m.Once == foil.Settle && m.Without.Has(foil.BindExpiry) {
					return "without expiry tokens of tomorrow were carried out, and once those are forgotten every token of today is older than the mark"
				}
				return ""
			},
		},
		{
			Name: "store-down", Does: "presents states, good and forged, while the store is away", StoppedBy: "fail closed",
			must: []string{Unavailable}, off: Accepted, run: runStoreDown,
		},
	}
}

var errNoStore = errors.New("Config.Store is nil: the attack needs the servers' store")

// sweptLife is how long the token of replay-swept has left. The sweep mark then
// rises by as much above the time, so it is less than any honest token of the
// battery has left.
const sweptLife = 15 * time.Second

func runSwept(b *bout) (string, error) {
	if b.Store == nil {
		return "", errNoStore
	}
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	at := b.Minter.now().Add(sweptLife - b.Minter.ttl())
	if f.token, err = b.mint(f, func(m *Minting) { m.At = at }); err != nil {
		return "", err
	}
	if v, err := b.honest(f); err != nil || v != Accepted {
		return "", fmt.Errorf("the first presentation: %s %w", v, err)
	}
	expires := at.Add(b.Minter.ttl())
	if v, err := b.keepsMark(f, expires.Add(-100*time.Millisecond)); v != "" || err != nil {
		return v, err
	}
	until := expires.Add(time.Second)
	if b.Mode.Once == foil.Settle {
		// An operation outlives its token, for whoever asks what became of it.
		until = b.Minter.now().Add(foil.DefaultOutcomeRetention + foil.DefaultFlowLimit)
	}
	forgotten, err := b.Store.Sweep(b.ctx, until)
	if err != nil {
		return "", fmt.Errorf("sweep: %w", err)
	}
	if forgotten == 0 && b.Mode.Once != foil.Off {
		return "", errors.New("the store forgot nothing: it is not that of the servers, or has been swept already")
	}
	// A token of the same millisecond as one that was forgotten is as old.
	if err := b.pause(5 * time.Millisecond); err != nil {
		return "", err
	}
	return b.again(f, 0)
}

// keepsMark checks that a store that forgets what has expired by then still knows a
// spent token that has not. It returns "" or a finding. An operation of a ledger has
// a time of its own, which is longer.
func (b *bout) keepsMark(f *flow, until time.Time) (string, error) {
	if b.Mode.Once == foil.Off || b.Mode.Once == foil.Settle {
		return "", nil
	}
	if _, err := b.Store.Sweep(b.ctx, until); err != nil {
		return "", fmt.Errorf("sweep: %w", err)
	}
	if v, err := b.again(f, 0); err != nil || v != Refused {
		return "spent, and forgotten before it expired: " + v, err
	}
	return "", nil
}

// recovery is how long replicas may take to find out that the store is back.
const recovery = 30 * time.Second

func runStoreDown(b *bout) (_ string, err error) {
	if b.Store == nil {
		return "", errNoStore
	}
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	expired, err := b.mint(f, func(m *Minting) { m.At = b.Minter.now().Add(-b.Minter.ttl() - time.Minute) })
	if err != nil {
		return "", err
	}
	forms := []struct {
		what string
		req  *Request
	}{
		{"the good token", f.retry()},
		{"no token at all", f.with("x")},
		{"a tampered token", f.with(f.token[:len(f.token)-1])},
		{"a token that is too long", f.with(strings.Repeat("A", 1<<17))},
		{"an expired token", f.with(expired)},
		{"another user", f.as(Bob)},
		{"the good token again", f.retry()},
	}

	restore, err := b.Store.Outage(b.ctx)
	if err != nil {
		return "", fmt.Errorf("take the store away: %w", err)
	}
	back := sync.OnceValue(restore)
	defer func() {
		if e := back(); e != nil && err == nil {
			err = fmt.Errorf("give the store back: %w", e)
		}
	}()
	if b.Mode.Once == foil.Off {
		o, err := b.send(f.retry())
		return b.verdict(o), err // it does not ask the store
	}
	if v, err := b.learn(f); v != Unavailable {
		return v, err
	}
	var first *Reply
	for r := 1; r <= b.Door.Replicas(); r++ {
		for _, x := range forms {
			req := *x.req
			req.Replica = r
			o, err := b.send(&req)
			if err != nil {
				return "", fmt.Errorf("%s: %w", x.what, err)
			}
			if v := b.verdict(o); v != Unavailable {
				b.note("with %s", x.what)
				return v, nil
			}
			if first == nil {
				first = o.reply
			}
			if what := differ(first, o.reply); what != "" {
				b.note("with %s", x.what)
				return "the replies differ in " + what, nil
			}
		}
	}
	decided := b.last
	if finding, err := b.did(f, 0); finding != "" || err != nil {
		return "unavailable, but " + finding, err
	}
	if err := back(); err != nil {
		return "", fmt.Errorf("give the store back: %w", err)
	}
	return b.recovers(f, decided)
}

// learn presents the good token to every replica at once, so that each knows
// that the store is away.
func (b *bout) learn(f *flow) (string, error) {
	n := b.Door.Replicas()
	kinds, errs := make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			req := f.retry()
			req.Replica = i + 1
			o, err := b.send(req)
			kinds[i], errs[i] = b.verdict(o), err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	for i, k := range kinds {
		if k != Unavailable {
			b.note("with the first state presented to replica %d", i+1)
			return k, nil
		}
	}
	return Unavailable, nil
}

// recovers checks that the token which was not looked at works, once.
func (b *bout) recovers(f *flow, decided *Reply) (string, error) {
	restored := time.Now()
	o, err := b.patient(f, restored, 0)
	if err != nil {
		return "", err
	}
	if v, err := b.finished(f, o); err != nil || v != Accepted {
		return "unavailable, but when the store is back: " + v, err
	}
	b.note("accepted %v after the store was back, and once", time.Since(restored).Round(100*time.Millisecond))
	want := Refused
	if b.Mode.Once == foil.Settle {
		want = Recorded
	}
	// To every replica, so that none still takes the store to be away later on.
	for r := 1; r <= b.Door.Replicas(); r++ {
		if o, err = b.patient(f, restored, r); err != nil {
			return "", err
		}
		if v := b.verdict(o); v != want {
			return "unavailable, but when the store is back, twice: " + v, nil
		}
	}
	if finding, err := b.did(f, 1); finding != "" || err != nil {
		return "unavailable, but when the store is back, " + finding, err
	}
	b.last = decided
	return Unavailable, nil
}

// patient presents the token until a replica, or the one named, takes the store to
// be back. It asks its store now and then, and nothing else tells.
func (b *bout) patient(f *flow, since time.Time, replica int) (outcome, error) {
	for {
		req := f.retry()
		req.Replica = replica
		o, err := b.send(req)
		if err != nil || b.verdict(o) != Unavailable || time.Since(since) > recovery {
			return o, err
		}
		if err := b.pause(100 * time.Millisecond); err != nil {
			return o, err
		}
	}
}

// pause waits, unless the battery is over before.
func (b *bout) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-b.ctx.Done():
		return b.ctx.Err()
	case <-timer.C:
		return nil
	}
}
