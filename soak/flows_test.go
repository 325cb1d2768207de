//go:build unix

package soak_test

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A queue holds what is to be opened, by the time when.
type queue struct {
	mu    sync.Mutex
	items dues
}

type due struct {
	at time.Time
	*flow
}

type dues []due

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, k int) bool { return d[i].at.Before(d[k].at) }
func (d dues) Swap(i, k int)      { d[i], d[k] = d[k], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	old := *d
	x := old[len(old)-1]
	*d = old[:len(old)-1]
	return x
}

func (q *queue) add(items ...due) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, x := range items {
		heap.Push(&q.items, x)
	}
}

// take returns up to n tokens that are due and that replica i did not seal.
func (q *queue) take(i, n int, now time.Time) []due {
	q.mu.Lock()
	defer q.mu.Unlock()
	var mine, others []due
	for len(q.items) > 0 && !q.items[0].at.After(now) && len(mine) < n && len(others) < 4*n {
		x := heap.Pop(&q.items).(due)
		if x.sealer == i {
			others = append(others, x)
		} else {
			mine = append(mine, x)
		}
	}
	for _, x := range others {
		heap.Push(&q.items, x)
	}
	return mine
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// A run is one soak.
type run struct {
	timing
	world world
	fleet *fleet
	judge *judge
	queue queue

	last    context.Context // ends when nothing more is to be sealed
	rotated atomic.Pointer[rotated]
}

// rotated is the last rotation.
type rotated struct {
	key string
	at  time.Time
}

// What a replica is asked for at a time, and how often.
const (
	sealsPerTurn = 2
	opensPerTurn = 24
	turnEvery    = 60 * time.Millisecond
)

// drive lets replica i seal, and open what others sealed, until nothing is left.
func (r *run) drive(i int) {
	for {
		time.Sleep(turnEvery - rand.N(turnEvery/3))
		t := turn{Seal: sealsPerTurn}
		if r.last.Err() != nil {
			if t.Seal = 0; r.queue.len() == 0 {
				return
			}
		}
		opens := r.queue.take(i, opensPerTurn, time.Now())
		for _, x := range opens {
			t.Open = append(t.Open, x.Token)
		}
		r.take(i, &t, opens)
	}
}

// take asks replica i for one turn and passes on what it answers.
func (r *run) take(i int, t *turn, opens []due) {
	var done turned
	err := r.fleet.ask(i, "/turn", t, &done)
	switch {
	case errors.Is(err, errGone):
		r.queue.add(opens...) // another opens them
		return
	case err != nil:
		r.judge.fault("replica %d: %v", i, err)
		return
	case len(done.Opened) != len(opens):
		r.judge.fault("replica %d answered %d of %d", i, len(done.Opened), len(opens))
		return
	}
	r.judge.held(done.Stall)
	for k, o := range done.Opened {
		r.judge.open(answer{opens[k].flow, i, o})
	}
	var flows []*flow
	for _, s := range done.Sealed {
		f := &flow{s, i}
		flows = append(flows, f)
		// At once, and just before it expires.
		r.queue.add(due{time.Now().Add(rand.N(100 * time.Millisecond)), f},
			due{s.Began.Add(r.ttl - r.margin - rand.N(r.ttl/10)), f})
	}
	r.judge.seal(i, flows, done.NotSealed)
}

// watchHalts notes when the machine holds this process up.
func (r *run) watchHalts(ctx context.Context) {
	const tick = 20 * time.Millisecond
	last := time.Now()
	for ctx.Err() == nil {
		time.Sleep(tick)
		now := time.Now()
		r.judge.held(now.Sub(last) - tick)
		last = now
	}
}
