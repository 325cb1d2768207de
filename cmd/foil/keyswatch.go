package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/keyring"
)

func newKeysWatchCmd() *cobra.Command {
	var ring ringFlag
	var w watcher
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show changes of the keys as they come",
		Long: `Show how the keys are, and then each change as it comes: keys that are added, begin to
seal, are superseded, close, are revoked or leave, and a source that goes away and
comes back. What the clock does is shown when it does it. Ctrl-C ends it.

With --json each line is an object: "time", "event" and what belongs to it. The events
are ring (a serial), key (with "state" and the state before, "was"; gone when it has
left), older (a serial lower than before, which replicas do not take), away (with
"error") and back.`,
		Example: `  foil keys watch --ring file:ring.json
  foil keys watch --ring openbao:foil/ring --json | jq -r 'select(.event=="away")'
  foil keys watch --ring transit:transit/state --interval 10s --for 1h`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if w.interval <= 0 || w.last < 0 {
				return usagef("--interval must be more than zero, and --for not negative")
			}
			w.out = c
			return w.run(c.Context(), &ring)
		},
	}
	ring.add(c)
	f := c.Flags()
	f.DurationVar(&w.interval, "interval", 2*time.Second, "how often to look")
	f.DurationVar(&w.last, "for", 0, "end after so long (default: never)")
	addJSON(c, &w.json)
	return c
}

// A watchEvent is a line of the command's JSON.
type watchEvent struct {
	Time      string `json:"time"`
	Event     string `json:"event"`
	Serial    int64  `json:"serial,omitempty"` // of the ring; of a Transit key the version that seals
	Key       string `json:"key,omitempty"`
	State     string `json:"state,omitempty"`
	Was       string `json:"was,omitempty"`
	SealFrom  string `json:"seal_from,omitempty"`
	OpenUntil string `json:"open_until,omitempty"`
	Error     string `json:"error,omitempty"`
}

// A watcher compares what it sees with what it saw.
type watcher struct {
	interval, last time.Duration
	json           bool
	out            *cobra.Command

	seen   *seenKeys
	failed bool
}

// seenKeys is what there was to see at one moment.
type seenKeys struct {
	serial int64
	order  []string
	keys   map[string]watchEvent // by id: state and times
	next   time.Time             // when the clock changes something; zero for never
}

func (w *watcher) run(ctx context.Context, ring *ringFlag) error {
	opening, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	look, done, err := openWatched(opening, ring)
	if err != nil {
		return err
	}
	defer done()
	if w.last > 0 {
		ctx, cancel = context.WithTimeout(ctx, w.last)
		defer cancel()
	}
	for {
		now, err := w.look(ctx, look)
		switch {
		case ctx.Err() != nil:
			return nil // its time is over
		case err != nil && w.seen == nil:
			return err // it never was there: a mistake in the name, most likely
		case err != nil:
			if err := w.fails(err); err != nil {
				return err
			}
		default:
			if err := w.sees(now); err != nil {
				return err
			}
		}
		wait := w.interval
		if s := w.seen; !s.next.IsZero() {
			wait = min(wait, max(time.Until(s.next), time.Millisecond))
		}
		if sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// look looks once, and not for too long.
func (w *watcher) look(ctx context.Context, look func(context.Context) (*seenKeys, error)) (*seenKeys, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	return look(ctx)
}

// openWatched returns what looks at the keys.
func openWatched(ctx context.Context, ring *ringFlag) (look func(context.Context) (*seenKeys, error), done func(), err error) {
	if path, ok := ring.transitPath(); ok {
		key, done, err := openTransit(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) (*seenKeys, error) {
			s, err := key.Status(ctx)
			if err != nil {
				return nil, err
			}
			return seeTransit(describeTransit(key, s)), nil
		}, done, nil
	}
	source, done, err := ring.source(ctx)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (*seenKeys, error) {
		r, err := source.Load(ctx)
		if err != nil {
			return nil, ring.explain(source, err)
		}
		return seeRing(r, time.Now()), nil
	}, done, nil
}

func seeRing(r *keyring.Ring, now time.Time) *seenKeys {
	s := &seenKeys{serial: r.Serial(), keys: make(map[string]watchEvent)}
	soon := func(t time.Time) {
		if t.After(now) && (s.next.IsZero() || t.Before(s.next)) {
			s.next = t
		}
	}
	for _, k := range r.Keys() {
		e := watchEvent{Key: k.ID(), State: keyState(r, k, now), SealFrom: utcTime(k.SealFrom())}
		soon(k.SealFrom())
		if until, ok := k.OpenUntil(); ok && !k.Revoked() {
			e.OpenUntil = utcTime(until)
			soon(until)
		}
		s.order = append(s.order, k.ID())
		s.keys[k.ID()] = e
	}
	return s
}

func seeTransit(d *shownTransit) *seenKeys {
	s := &seenKeys{serial: int64(d.Sealing), keys: make(map[string]watchEvent)}
	for _, v := range d.Versions {
		id := fmt.Sprint(v.Version)
		s.order = append(s.order, id)
		s.keys[id] = watchEvent{Key: id, State: v.State, SealFrom: v.Created}
	}
	return s
}

// sees tells what is other than before.
func (w *watcher) sees(now *seenKeys) error {
	was := w.seen
	if w.failed {
		w.failed = false
		if err := w.tell(watchEvent{Event: "back", Serial: now.serial}); err != nil {
			return err
		}
	}
	if was != nil && now.serial < was.serial {
		if err := w.tell(watchEvent{Event: "older", Serial: now.serial}); err != nil {
			return err
		}
	} else if was == nil || now.serial > was.serial {
		if err := w.tell(watchEvent{Event: "ring", Serial: now.serial}); err != nil {
			return err
		}
	}
	if was == nil {
		was = &seenKeys{}
	}
	for _, id := range was.order {
		if _, still := now.keys[id]; !still {
			if err := w.tell(watchEvent{Event: "key", Serial: now.serial, Key: id, State: "gone", Was: was.keys[id].State}); err != nil {
				return err
			}
		}
	}
	for _, id := range now.order {
		e, old := now.keys[id], was.keys[id]
		if e == old {
			continue
		}
		e.Event, e.Serial, e.Was = "key", now.serial, old.State
		if err := w.tell(e); err != nil {
			return err
		}
	}
	w.seen = now
	return nil
}

// fails tells once that the source is away.
func (w *watcher) fails(err error) error {
	if w.failed {
		return nil
	}
	w.failed = true
	return w.tell(watchEvent{Event: "away", Error: err.Error()})
}

func (w *watcher) tell(e watchEvent) error {
	e.Time = utcTime(time.Now())
	if w.json {
		return printJSON(w.out.OutOrStdout(), e)
	}
	_, err := fmt.Fprintln(w.out.OutOrStdout(), e.String())
	return err
}

// String is a line for people.
func (e *watchEvent) String() string {
	s := e.Time + "  "
	switch e.Event {
	case "ring":
		return s + fmt.Sprintf("serial %d", e.Serial)
	case "older":
		return s + fmt.Sprintf("serial went back to %d: replicas keep the newer ring; write that again", e.Serial)
	case "away":
		return s + "the source is away: " + e.Error
	case "back":
		return s + "the source is back"
	}
	s += fmt.Sprintf("key %s: %s", e.Key, e.State)
	if e.Was != "" && e.Was != e.State {
		s += ", was " + e.Was
	}
	if e.State == "pending" {
		s += ", seals from " + e.SealFrom
	}
	if e.OpenUntil != "" && e.State != "closed" {
		s += ", opens until " + e.OpenUntil
	}
	return s
}
