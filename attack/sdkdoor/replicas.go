package sdkdoor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
)

// Options say what to serve.
type Options struct {
	// Open makes the Guard of a replica that starts, and what is to be closed
	// when it dies; that may be nil.
	Open func() (*foil.Guard, io.Closer, error)
	// Logger is that of the servers.
	Logger *slog.Logger
}

// replicas are the Guards of the replicas that are up.
type replicas struct {
	*world
	o Options

	mu   sync.Mutex
	up   []replica
	next int // in turn
}

type replica struct {
	guard *foil.Guard // nil while it is down
	store io.Closer
}

func newReplicas(n int, o *Options) *replicas {
	return &replicas{world: newWorld(), o: *o, up: make([]replica, n)}
}

// Replicas returns their number.
func (r *replicas) Replicas() int { return len(r.up) }

func (r *replicas) start(n int) (*foil.Guard, error) {
	g, store, err := r.o.Open()
	if err != nil {
		return nil, fmt.Errorf("sdkdoor: start replica %d: %w", n, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up[n-1] = replica{g, store}
	return g, nil
}

func (r *replicas) kill(n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.up[n-1]
	r.up[n-1] = replica{}
	if was.store == nil {
		return nil
	}
	return was.store.Close()
}

// pick returns a replica, or the next in turn.
func (r *replicas) pick(n int) (int, *foil.Guard, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n == 0 {
		n = r.next%len(r.up) + 1
		r.next++
	}
	g := r.up[n-1].guard
	if g == nil {
		return n, nil, fmt.Errorf("sdkdoor: replica %d is down", n)
	}
	return n, g, nil
}

// startAll starts every replica of a door, and ends them if one fails.
func startAll(d interface {
	attack.Crasher
	io.Closer
}, n int) error {
	for i := range n {
		if err := d.Start(context.Background(), i+1); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	return nil
}

func killAll(d attack.Crasher, n int) error {
	errs := make([]error, n)
	for i := range n {
		errs[i] = d.Kill(context.Background(), i+1)
	}
	return errors.Join(errs...)
}

// blindPrompts says what no client of this SDK can show with prompts.
func blindPrompts(name string) string {
	switch name {
	case "lone-surrogate":
		return "the SDK reads the arguments of a prompt as Go strings, and puts U+FFFD in the place of any lone surrogate"
	case "duplicate-key":
		return "the SDK reads the arguments of a prompt into a map: handler and token see the one reading, no gain"
	}
	return ""
}
