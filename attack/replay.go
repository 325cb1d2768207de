package attack

import (
	"fmt"
	"sync"

	"github.com/foilmcp/foil"
)

const racers = 64

// replays present a good token more than once.
func replays() []Attack {
	const by = "single use"
	return []Attack{
		{
			Name: "replay-5", Does: "the same good request five times", StoppedBy: by,
			must: []string{"1 of 5"}, settle: []string{settledRow(5)}, off: "5 of 5",
			run: inRounds(func(b *bout) (string, error) {
				f, err := b.begin()
				if err != nil {
					return "", err
				}
				var kinds []string
				for range 5 {
					o, err := b.send(f.retry())
					if err != nil {
						return "", err
					}
					kinds = append(kinds, b.verdict(o))
				}
				return b.tally(f, kinds)
			}),
		},
		{
			Name: "replay-race", Does: fmt.Sprintf("%d at once, over all replicas", racers), StoppedBy: by,
			must: []string{fmt.Sprintf("1 of %d", racers)}, settle: []string{settledRow(racers)}, off: fmt.Sprintf("%[1]d of %[1]d", racers),
			run: runRace,
		},
		{
			Name: "replay-other-replica", Does: "the same token again on another replica", StoppedBy: "shared store",
			must: []string{Refused}, settle: []string{Recorded}, off: Accepted,
			run: inRounds(func(b *bout) (string, error) {
				if b.Door.Replicas() < 2 {
					return "", fmt.Errorf("there is one replica only")
				}
				f, err := b.spend(1)
				if err != nil {
					return "", err
				}
				return b.again(f, 2)
			}),
		},
		{
			Name: "replay-after-restart", Does: "the same token after the replica was killed and started again", StoppedBy: "durable store",
			must: []string{Refused}, settle: []string{Recorded}, off: Accepted,
			run: runRestart,
		},
		{
			Name: "replay-alias", Does: "the spent token again in another spelling", StoppedBy: "strict decode, ID inside the seal",
			must: []string{Refused}, run: runReplayAlias,
		},
		{
			Name: "decline-then-accept", Does: "declines, then presents the same token again accepting", StoppedBy: by,
			must: []string{Refused}, off: Accepted, run: inRounds(runDecline),
		},
		{
			Name: "fork", Does: "presents round 1 again after round 2 was minted", StoppedBy: by,
			must: []string{Refused}, settle: []string{Recorded}, off: Accepted, run: inRounds(runFork),
		},
	}
}

// tally counts the presentations that were accepted.
func (b *bout) tally(f *flow, kinds []string) (string, error) {
	accepted, recorded, other := 0, 0, ""
	for _, k := range kinds {
		switch {
		case k == Accepted:
			accepted++
		case k == Recorded:
			recorded++
		case k == Refused && b.Mode.Once != foil.Settle:
		default:
			other = k
		}
	}
	n, err := f.scene.Executed()
	if err != nil {
		return "", fmt.Errorf("count what was done: %w", err)
	}
	got := fmt.Sprintf("%d of %d", accepted, len(kinds))
	if other != "" {
		return got + ", and once " + other, nil
	}
	if b.Mode.Once == foil.Off {
		if b.note("the tool acted %s", times(n)); n < accepted {
			b.note("its own claim check stopped the rest")
		}
		return got, nil
	}
	if b.Mode.Once == foil.Settle {
		got = fmt.Sprintf("%s x%d", Recorded, recorded)
	}
	if n != accepted || n != 1 {
		return fmt.Sprintf("%s, acted %s", got, times(n)), nil
	}
	return got, nil
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func runRace(b *bout) (string, error) {
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	kinds, errs := make([]string, racers), make([]error, racers)
	replicas := make([]int, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			req := f.retry()
			req.Replica = i%b.Door.Replicas() + 1
			<-start
			r, err := b.Door.Send(b.ctx, req)
			if errs[i] = err; err != nil {
				return
			}
			kinds[i], replicas[i] = b.verdict(b.hear(req, r)), r.Replica
			if kinds[i] != Accepted {
				b.mu.Lock()
				b.last = r
				b.mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return "", err
		}
	}
	if b.Mode.Once == foil.Settle {
		if err := b.askLater(f, kinds); err != nil {
			return "", err
		}
	}
	for i, k := range kinds {
		if k == Accepted && b.Mode.Once != foil.Off && replicas[i] > 0 {
			b.note("replica %d won", replicas[i])
		}
	}
	return b.tally(f, kinds)
}

// spend finishes an honest flow on one replica.
func (b *bout) spend(replica int) (*flow, error) {
	f, err := b.begin()
	if err != nil {
		return nil, err
	}
	req := f.retry()
	req.Replica = replica
	o, err := b.send(req)
	if err != nil {
		return nil, err
	}
	if v, err := b.finished(f, o); err != nil || v != Accepted {
		return nil, fmt.Errorf("the first presentation: %s %w", v, err)
	}
	return f, nil
}

func runRestart(b *bout) (string, error) {
	crash, ok := b.Door.(Crasher)
	if !ok {
		return "", fmt.Errorf("this door has no replica that can be restarted")
	}
	var spent []*flow // of a later round, and of the first
	for _, b.round = range []int{2, 0} {
		f, err := b.spend(1)
		if err != nil {
			return "", err
		}
		spent = append(spent, f)
	}
	// All of them, so that no memory of a token is left in a process.
	for r := 1; r <= b.Door.Replicas(); r++ {
		if err := crash.Kill(b.ctx, r); err != nil {
			return "", err
		}
		if err := crash.Start(b.ctx, r); err != nil {
			return "", err
		}
	}
	if v, err := b.again(spent[0], 1); err != nil || !b.expected(v) {
		b.note("in round 2")
		return v, err
	}
	return b.again(spent[1], 1)
}

// again presents a spent token on a replica. It must not act again.
func (b *bout) again(f *flow, replica int) (string, error) {
	req := f.retry()
	req.Replica = replica
	o, err := b.send(req)
	if err != nil {
		return "", err
	}
	v := b.verdict(o)
	n, err := f.scene.Executed()
	if err != nil {
		return "", fmt.Errorf("count what was done: %w", err)
	}
	if (v == Refused || v == Recorded) && n != 1 {
		return fmt.Sprintf("%s, but acted %s", v, times(n)), nil
	}
	if v == Accepted {
		b.note("the tool acted %s", times(n))
	}
	return v, nil
}

func runReplayAlias(b *bout) (string, error) {
	f, err := b.spend(0)
	if err != nil {
		return "", err
	}
	n := 0
	for what, token := range aliases(f.token) {
		if token == f.token {
			continue
		}
		n++
		o, err := b.send(f.with(token))
		if err != nil {
			return "", err
		}
		if v := b.verdict(o); v != Refused {
			b.note("with %s", what)
			return v, nil
		}
	}
	b.note("%d forms", n)
	if finding, err := b.did(f, 1); finding != "" || err != nil {
		return "refused, but " + finding, err
	}
	return Refused, nil
}

func runDecline(b *bout) (string, error) {
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	no, err := declined(f.questions)
	if err != nil {
		return "", err
	}
	o, err := b.send(f.answering(no))
	if err != nil {
		return "", err
	}
	if v := b.verdict(o); v != Accepted {
		return "declining was answered: " + v, nil
	}
	if finding, err := b.did(f, 0); finding != "" || err != nil {
		return "declined, but " + finding, err
	}
	if o, err = b.send(f.retry()); err != nil {
		return "", err
	}
	v := b.verdict(o)
	n, err := f.scene.Executed()
	if err != nil {
		return "", fmt.Errorf("count what was done: %w", err)
	}
	switch {
	case v == Refused && n != 0:
		return fmt.Sprintf("refused, but acted %s", times(n)), nil
	case v == Accepted:
		b.note("the tool acted %s", times(n))
	}
	return v, nil
}

func runFork(b *bout) (string, error) {
	s, err := b.App.Stage(b.ctx, 2)
	if err != nil {
		return "", fmt.Errorf("stage: %w", err)
	}
	one, err := b.ask(s, Alice, nil)
	if err != nil {
		return "", err
	}
	o, err := b.send(one.retry())
	if err != nil {
		return "", err
	}
	two := *one
	if err := b.asked(&two, o); err != nil {
		return "", fmt.Errorf("round 2: %w", err)
	}
	if o, err = b.send(one.retry()); err != nil {
		return "", err
	}
	v := b.verdict(o)
	if v == Recorded {
		return b.copies(one, &two, o)
	}
	if v == AskedAgain {
		// The fork lives; its own round 2 shows how far it gets.
		branch := *one
		if err := b.asked(&branch, o); err != nil {
			return "", err
		}
		if o, err = b.send(branch.retry()); err != nil {
			return "", err
		}
		if v = b.verdict(o); v == Accepted {
			b.note("both branches of the flow reach their end")
		}
		return v, nil
	}
	if v != Refused {
		return v, nil
	}
	finding, err := b.unspent(&two)
	if finding != "" || err != nil {
		return finding, err
	}
	return Refused, nil
}
