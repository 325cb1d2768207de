// Package figures asks stores how much they hold, for whoever collects metrics:
// each within a bounded time, whatever the store does, and never with an answer
// from an earlier collection.
package figures

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store"
)

// DefaultTimeout bounds one question: below the ten seconds that Prometheus gives
// a scrape.
const DefaultTimeout = 5 * time.Second

// States are the states of operations, a closed set of labels.
var States = []string{"executing", "succeeded", "failed", "unknown"}

// A Source is a store. One of Stats and Counts is set.
type Source struct {
	Name   string
	Stats  func(context.Context) (store.Stats, error)
	Counts func(context.Context) (ledger.Counts, error)
}

// A Figure is what one store has answered.
type Figure struct {
	Name  string
	Up    bool
	Whole bool        // Stats holds more than the operations
	Stats store.Stats // zero unless Up
}

// Operations are the numbers of operations in the order of States.
func (f *Figure) Operations() []int64 {
	return []int64{f.Stats.Executing, f.Stats.Succeeded, f.Stats.Failed, f.Stats.Unknown}
}

// Sources are the stores of a process. They are safe for concurrent use.
type Sources struct {
	timeout time.Duration
	log     *slog.Logger
	all     []*asker
}

// New checks the sources. A timeout of zero is DefaultTimeout, a nil log the
// default one.
func New(timeout time.Duration, log *slog.Logger, sources []Source) (*Sources, error) {
	if timeout < 0 {
		return nil, errors.New("the timeout must not be negative")
	}
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	if log == nil {
		log = slog.Default()
	}
	if len(sources) == 0 {
		return nil, errors.New("there is no store to ask")
	}
	s := &Sources{timeout: timeout, log: log}
	names := make(Names)
	for _, src := range sources {
		if err := names.Add("store", src.Name); err != nil {
			return nil, err
		}
		if (src.Stats == nil) == (src.Counts == nil) {
			return nil, fmt.Errorf("store %q needs Stats or Counts, and not both", src.Name)
		}
		s.all = append(s.all, &asker{Source: src})
	}
	return s, nil
}

// Ask asks all stores at once. It takes no longer than the timeout, or until ctx
// ends.
func (s *Sources) Ask(ctx context.Context) []Figure {
	figures := make([]Figure, len(s.all))
	var wg sync.WaitGroup
	for i, a := range s.all {
		wg.Go(func() { figures[i] = a.figure(ctx, s) })
	}
	wg.Wait()
	return figures
}

// An asker has at most one question under way: one that its store does not answer
// is not asked a second time.
type asker struct {
	Source

	mu   sync.Mutex
	call *call // nil if none is under way
	down bool  // as logged
}

type call struct {
	until time.Time
	done  chan struct{}
	stats store.Stats
	err   error
}

var (
	errSilent   = errors.New("no answer within the timeout")
	errPanicked = errors.New("the store panicked")
)

func (a *asker) figure(ctx context.Context, s *Sources) Figure {
	f := Figure{Name: a.Name, Whole: a.Stats != nil}
	stats, err := a.ask(ctx, s.timeout)
	if err == nil {
		f.Up, f.Stats = true, stats
	}
	if ctx.Err() == nil {
		a.report(ctx, s.log, err)
	}
	return f
}

// ask asks, or waits for the answer to a question that another collection has
// asked and that is not overdue.
func (a *asker) ask(ctx context.Context, timeout time.Duration) (store.Stats, error) {
	a.mu.Lock()
	c := a.call
	if c == nil {
		c = &call{until: time.Now().Add(timeout), done: make(chan struct{})}
		a.call = c
		go a.run(c)
	}
	a.mu.Unlock()
	overdue := time.NewTimer(time.Until(c.until))
	defer overdue.Stop()
	select {
	case <-c.done:
		return c.stats, c.err
	case <-overdue.C:
		return store.Stats{}, errSilent
	case <-ctx.Done():
		return store.Stats{}, ctx.Err()
	}
}

// run ends with its context, if the store keeps to it. The answer is for whoever
// waits by then, so it does not depend on the patience of who asked first.
func (a *asker) run(c *call) {
	ctx, cancel := context.WithDeadline(context.Background(), c.until)
	defer cancel()
	c.err = errPanicked
	defer func() {
		_ = recover() // a store's mistake must not end the server
		a.mu.Lock()
		a.call = nil
		a.mu.Unlock()
		close(c.done)
	}()
	stats, err := a.stats(ctx)
	c.stats, c.err = stats, err
}

func (a *asker) stats(ctx context.Context) (store.Stats, error) {
	if a.Stats != nil {
		return a.Stats(ctx)
	}
	n, err := a.Counts(ctx)
	return store.Stats{Executing: n.Executing, Succeeded: n.Succeeded, Failed: n.Failed, Unknown: n.Unknown}, err
}

// report logs when a store begins to fail and when it is back, and not at every
// collection.
func (a *asker) report(ctx context.Context, log *slog.Logger, err error) {
	a.mu.Lock()
	changed := a.down != (err != nil)
	a.down = err != nil
	a.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		log.LogAttrs(ctx, slog.LevelWarn, "store tells no figures", slog.String("name", a.Name), slog.String("error", err.Error()))
	default:
		log.LogAttrs(ctx, slog.LevelInfo, "store tells figures again", slog.String("name", a.Name))
	}
}
