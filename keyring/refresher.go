package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults and limits of [RefresherOptions].
const (
	DefaultMaxStale    = time.Hour
	maxMaxStale        = 7 * 24 * time.Hour
	defaultLoadTimeout = 10 * time.Second
)

// RefresherOptions configures a Refresher; nil and zero values mean the defaults.
type RefresherOptions struct {
	// MaxStale is how long a ring that cannot be refreshed is used, at most a week.
	// It bounds how long a replica that lost its source goes on honouring a key
	// that was revoked. Default one hour, and never less than the ring's
	// Propagation.
	MaxStale time.Duration
	// LoadTimeout bounds one call of the source. Default 10 s; after the first load
	// not more than Propagation/30, or one second if that is longer.
	LoadTimeout time.Duration
	// Logger gets ring changes, failed refreshes and recoveries; nil is
	// slog.Default().
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// A Refresher keeps a ring up to date with its source. It is a [Current].
//
// It refreshes a little more often than every Propagation/3, and after a failure
// every Propagation/30, at random, so that a fleet does not ask in step. A document
// that cannot be read, has a lower serial, or changes what no schedule changes
// (Interop, Storage, the bytes of a key, a revocation taken back, content without a new
// serial) counts as a failed refresh: it is logged and the ring in use stays. Without a good refresh within Propagation the Refresher
// reports not ready ([Refresher.Ready]) and goes on; after MaxStale, Ring fails
// with [ErrStale]. It recovers by itself.
//
// A Refresher runs one goroutine until Close. It is safe for concurrent use.
type Refresher struct {
	src      Source
	maxStale time.Duration
	timeout  time.Duration
	log      *slog.Logger
	read     func() reading

	state  atomic.Pointer[state]
	turn   chan struct{} // holds one token while a refresh runs
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

// state is immutable.
type state struct {
	ring *Ring
	at   reading // when the last good load began
	err  error   // of the last load
}

// NewRefresher loads the ring and keeps it fresh. It fails if the first load does;
// ctx bounds that load only. The caller must call Close.
func NewRefresher(ctx context.Context, src Source, o *RefresherOptions) (*Refresher, error) {
	var opt RefresherOptions
	if o != nil {
		opt = *o
	}
	if opt.MaxStale < 0 || opt.MaxStale > maxMaxStale || opt.LoadTimeout < 0 {
		return nil, fmt.Errorf("keyring: MaxStale must be between 0 and %v, LoadTimeout not negative", maxMaxStale)
	}
	r := &Refresher{
		src:      src,
		maxStale: orDefault(opt.MaxStale, DefaultMaxStale),
		timeout:  orDefault(opt.LoadTimeout, defaultLoadTimeout),
		log:      opt.Logger,
		turn:     make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
	if r.log == nil {
		r.log = slog.Default()
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	r.read = readings(opt.Now)
	if err := r.Refresh(ctx); err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.loop(run)
	return r, nil
}

// Ring returns the ring in use, or [ErrStale].
func (r *Refresher) Ring() (*Ring, error) {
	s := r.state.Load()
	if r.age(s) > r.staleAfter(s) {
		return nil, ErrStale
	}
	return s.ring, nil
}

// Ready returns nil if the last good refresh is at most Propagation ago, else an
// error that says since when and why. A replica that is not ready works on, but
// should get no new traffic: it may not know the newest key.
func (r *Refresher) Ready() error {
	s := r.state.Load()
	age := r.age(s)
	if age <= s.ring.propagation {
		return nil
	}
	err := fmt.Errorf("keyring: ring serial %d not refreshed for %v", s.ring.serial, age.Round(time.Second))
	if s.err != nil {
		err = fmt.Errorf("%w: %w", err, s.err)
	}
	if age > r.staleAfter(s) {
		err = fmt.Errorf("%w: %w", ErrStale, err)
	}
	return err
}

// Status is what a Refresher knows about itself, for health pages, metrics and logs.
type Status struct {
	Serial    int64         `json:"serial"`
	Refreshed time.Time     `json:"refreshed"` // when the last good refresh began
	Age       time.Duration `json:"age"`       // how long ago that is
	Ready     bool          `json:"ready"`     // Age is at most Propagation
	Stale     bool          `json:"stale"`     // Ring fails, as Age is over MaxStale

	Propagation time.Duration `json:"propagation"` // of the ring
	MaxStale    time.Duration `json:"max_stale"`   // at which Ring fails
	Interop     bool          `json:"interop"`
	Storage     bool          `json:"storage"`
	// Sealing is the id of the key that seals now; "" if none does, or the ring is stale.
	Sealing string `json:"sealing"`
	// Error says why the last refresh failed, without secrets; "" if it did not. It
	// may name files and hosts.
	Error string `json:"error,omitempty"`
}

// Status returns the state of the moment.
func (r *Refresher) Status() Status {
	s := r.state.Load()
	now := r.read()
	since := age(s.at, now)
	st := Status{
		Serial: s.ring.serial, Refreshed: s.at.wall, Age: since, Ready: since <= s.ring.propagation, Stale: since > r.staleAfter(s),
		Propagation: s.ring.propagation, MaxStale: r.staleAfter(s), Interop: s.ring.interop, Storage: s.ring.storage,
	}
	if key, err := s.ring.Sealing(now.wall); err == nil && !st.Stale {
		st.Sealing = key.id
	}
	if s.err != nil {
		st.Error = s.err.Error()
	}
	return st
}

// Refresh loads the ring now. Calls, and the Refresher's own, run one at a time.
func (r *Refresher) Refresh(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return fmt.Errorf("keyring: refresh: %w", ctx.Err())
	}
	old := r.state.Load()
	began := r.read()
	loadCtx, cancel := context.WithTimeout(ctx, r.loadTimeout(old))
	defer cancel()
	ring, err := r.src.Load(loadCtx)
	if err == nil && ring == nil {
		err = errors.New("keyring: source returned no ring")
	}
	switch {
	case old == nil:
		if err != nil {
			return err
		}
		r.state.Store(&state{ring: ring, at: began})
		return nil
	case err == nil:
		err = acceptable(old.ring, ring)
	}
	if err != nil {
		if ctx.Err() == nil { // else it is the caller, or Close, who gave up
			r.log.Warn("key ring refresh failed", "serial", old.ring.serial, "age", r.age(old).Round(time.Second), "error", err)
			r.state.Store(&state{ring: old.ring, at: old.at, err: err})
		}
		return err
	}
	if ring.serial == old.ring.serial {
		ring = old.ring // so that what codecs derived from its keys stays good
	} else {
		r.log.Info("key ring changed", "serial", ring.serial, "from", old.ring.serial)
	}
	if old.err != nil {
		r.log.Info("key ring refreshed again", "serial", ring.serial, "after", r.age(old).Round(time.Second))
	}
	r.state.Store(&state{ring: ring, at: began})
	return nil
}

// acceptable says why a document must not take the place of the one in use. A
// process that starts with the new document does not see the difference: these are
// alarms, not a defence against whoever can write the source.
func acceptable(old, got *Ring) error {
	switch {
	case got.serial < old.serial:
		return fmt.Errorf("keyring: source went back from serial %d to %d", old.serial, got.serial)
	case got.serial == old.serial && !bytes.Equal(got.Marshal(), old.Marshal()):
		return fmt.Errorf("keyring: document changed without a new serial (%d)", old.serial)
	case got.interop != old.interop:
		return errors.New("keyring: document became or ceased to be an interop ring; restart to accept that")
	case got.storage != old.storage:
		return errors.New("keyring: document became or ceased to be a storage ring; restart to accept that")
	}
	for _, id := range old.revoked {
		if !slices.Contains(got.revoked, id) {
			return fmt.Errorf("keyring: revocation of key %q was taken back; restart to accept that", id)
		}
	}
	for _, k := range got.keys {
		if was := old.Key(k.id); was != nil && !was.secret.Equal(k.secret) {
			return fmt.Errorf("keyring: key %q has other bytes than before", k.id)
		}
		for _, was := range old.keys {
			if was.revoked && !k.revoked && was.secret.Equal(k.secret) {
				return fmt.Errorf("keyring: key %q has the bytes of the revoked key %q; restart to accept that", k.id, was.id)
			}
		}
	}
	return nil
}

// Close ends the refreshes and waits for one that runs. The ring in use stays until
// MaxStale. Close may be called more than once and returns nil.
func (r *Refresher) Close() error {
	r.once.Do(r.cancel)
	<-r.done
	return nil
}

func (r *Refresher) loop(ctx context.Context) {
	defer close(r.done)
	ready := true
	timer := time.NewTimer(r.interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		_ = r.Refresh(ctx) // logged, and kept for Ready and Status
		if s := r.Status(); s.Ready != ready && ctx.Err() == nil {
			if ready = s.Ready; !ready {
				r.log.Error("key ring not ready", "serial", s.Serial, "age", s.Age.Round(time.Second), "error", s.Error)
			}
		}
		// Start to start, so that a slow source does not stretch the period; but
		// never a hot loop.
		next := r.interval()
		timer.Reset(max(next-time.Since(began), next/10))
	}
}

// refreshEvery and retryEvery are the longest time from one refresh to the next and
// from a failed one to the next. A key may be written just after a refresh; the
// source may then fail, for just under Propagation, from the next refresh on, and
// come back just after a retry. The sum of the three is Propagation +
// Propagation/3, which is what Rotate allows for.
func refreshEvery(propagation time.Duration) time.Duration { return propagation * 3 / 10 }
func retryEvery(propagation time.Duration) time.Duration   { return propagation / 30 }

// interval is the time to the next refresh, at random up to a fifth less than the
// longest.
func (r *Refresher) interval() time.Duration {
	s := r.state.Load()
	d := refreshEvery(s.ring.propagation)
	if s.err != nil {
		d = retryEvery(s.ring.propagation)
	}
	return d - rand.N(d/5)
}

// loadTimeout bounds a load so that one that hangs is no longer than a retry.
func (r *Refresher) loadTimeout(s *state) time.Duration {
	if s == nil {
		return r.timeout
	}
	return min(r.timeout, max(time.Second, retryEvery(s.ring.propagation)))
}

func (r *Refresher) staleAfter(s *state) time.Duration { return max(r.maxStale, s.ring.propagation) }

func (r *Refresher) age(s *state) time.Duration { return age(s.at, r.read()) }

// A reading is what both clocks of a machine show at one moment. They come apart:
// the monotonic clock may stop while the machine sleeps, the wall clock can be set.
type reading struct {
	wall time.Time     // without a monotonic part
	mono time.Duration // since a moment that is the same for all readings
}

// readings takes apart what now returns. If that has no monotonic part, mono goes
// by the wall clock.
func readings(now func() time.Time) func() reading {
	first := now()
	return func() reading {
		t := now()
		return reading{wall: t.Round(0), mono: t.Sub(first)}
	}
}

// age is how long after then now is: the greater of what the two clocks say, so
// that a ring is rather refused too early than used too long, and never negative.
func age(then, now reading) time.Duration {
	return max(0, now.wall.Sub(then.wall), now.mono-then.mono)
}
