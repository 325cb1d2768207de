package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/keyring/readyz"
	"github.com/foilmcp/foil/openbao"
)

// maxAsked is how many replicas are asked at a time.
const maxAsked = 16

func newKeysStatusCmd() *cobra.Command {
	var ring ringFlag
	var f statusFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how the keys are, and whether every replica follows them",
		Long: `Show which key seals and which is next, and, with --replica for each of them, what
the replicas say: whether they are ready, how old their ring is, which key they seal
under, and how many tokens each has sealed under each key.

A replica is asked at its /readyz, where package keyring/readyz serves the report. One
that has an older serial than the ring is no problem while it is ready: it knows the
next key before that seals.

What is wrong is listed, with what to do: a replica that does not answer, is not ready,
follows another ring or whose clock is off; a key that nears its number of seals; a
newest key older than --max-age; nothing that seals.

Exit codes: 0 all is well, 1 something is wrong, 2 usage, 3 the ring cannot be read;
what the replicas say is shown all the same.`,
		Example: `  foil keys status --ring file:ring.json
  foil keys status --ring openbao:foil/ring --max-age 25h --replica http://10.0.0.7:8080 --replica http://10.0.0.8:8080
  foil keys status --ring transit:transit/state --replica https://janitor-0.tools.svc/readyz --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.maxAge < 0 || f.timeout <= 0 {
				return usagef("--max-age must not be negative, and --timeout be more than zero")
			}
			for i, u := range f.replicas {
				if _, err := readyz.Address(u); err != nil {
					return usagef("--replica number %d: %w", i+1, err)
				}
			}
			return f.run(c, &ring)
		},
	}
	ring.add(c)
	fl := c.Flags()
	fl.StringArrayVar(&f.replicas, "replica", nil, "URL of a replica; without a path its /readyz is asked (repeatable)")
	fl.DurationVar(&f.timeout, "timeout", 5*time.Second, "how long to wait for a replica")
	fl.DurationVar(&f.maxAge, "max-age", 0, "it is wrong if the newest key is older than this, such as 25h for a daily rotation (default: any age)")
	addJSON(c, &f.json)
	return c
}

type statusFlags struct {
	replicas []string
	timeout  time.Duration
	maxAge   time.Duration
	json     bool
}

// keysStatus is what the command prints as JSON.
type keysStatus struct {
	OK       bool            `json:"ok"`
	Source   string          `json:"source"`
	Ring     *ringStatus     `json:"ring"`    // null: it cannot be read, or the source is a Transit key
	Transit  *shownTransit   `json:"transit"` // null: the source is a ring, or cannot be read
	Replicas []replicaStatus `json:"replicas"`
	Problems []string        `json:"problems"`
}

type ringStatus struct {
	Serial       int64   `json:"serial"`
	Interop      bool    `json:"interop"`
	Storage      bool    `json:"storage"`
	Keys         int     `json:"keys"`
	Sealing      *string `json:"sealing"` // null: nothing seals
	SealingSince string  `json:"sealing_since,omitempty"`
	Next         string  `json:"next,omitempty"`
	NextFrom     string  `json:"next_seal_from,omitempty"`
	NewestMade   string  `json:"newest_made"`
	NewestAge    int64   `json:"newest_age_seconds"`
}

type replicaStatus struct {
	URL       string            `json:"url"`
	OK        bool              `json:"ok"` // it answered and nothing is wrong with it
	Ready     bool              `json:"ready"`
	Stale     bool              `json:"stale"`
	Serial    int64             `json:"serial"`
	Refreshed string            `json:"refreshed,omitempty"`
	Age       float64           `json:"age_seconds"`
	Sealing   string            `json:"sealing"`
	Seals     map[string]uint64 `json:"seals"`
	Source    string            `json:"source_error,omitempty"` // why its last refresh failed
	Error     string            `json:"error,omitempty"`        // why there is no report
}

func (f *statusFlags) run(c *cobra.Command, ring *ringFlag) error {
	st := keysStatus{Source: ring.name(), Replicas: []replicaStatus{}, Problems: []string{}}
	var r *keyring.Ring
	var failed error // to read the source
	path, transit := ring.transitPath()
	if transit {
		failed = withTransit(c.Context(), path, func(ctx context.Context, key *openbao.TransitKey) error {
			s, err := key.Status(ctx)
			if err == nil {
				st.Transit = describeTransit(key, s)
				st.Problems = append(st.Problems, st.Transit.problems()...)
			}
			return err
		})
	} else if r, failed = ring.load(c.Context()); failed == nil {
		st.Ring = f.ringStatus(r, time.Now(), &st.Problems)
	}
	if _, ok := errors.AsType[*exitError](failed); ok {
		return failed // the flag is wrong, not the source
	}
	reports := f.ask(c.Context())
	now := time.Now()
	for i, a := range reports {
		rs, wrong := judgeReplica(a, f.replicas[i], r, transit, now)
		rs.OK = len(wrong) == 0
		st.Replicas = append(st.Replicas, rs)
		st.Problems = append(st.Problems, wrong...)
	}
	st.OK = failed == nil && len(st.Problems) == 0
	if f.json {
		if err := printJSON(c.OutOrStdout(), st); err != nil {
			return err
		}
	} else if err := st.print(c); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return failed
	case !st.OK:
		return errRefused
	}
	return nil
}

// ringStatus describes a ring and adds what is wrong with it.
func (f *statusFlags) ringStatus(r *keyring.Ring, now time.Time, problems *[]string) *ringStatus {
	made := r.NewestMade()
	s := &ringStatus{
		Serial: r.Serial(), Interop: r.Interop(), Storage: r.Storage(), Keys: len(r.Keys()),
		NewestMade: utcTime(made), NewestAge: int64(max(0, now.Sub(made)) / time.Second),
	}
	if k, err := r.Sealing(now); err == nil {
		id := k.ID()
		s.Sealing, s.SealingSince = &id, utcTime(k.SealFrom())
	} else {
		*problems = append(*problems, "no key of the ring seals now: foil keys rotate")
	}
	if k := pending(r, now); k != nil {
		s.Next, s.NextFrom = k.ID(), utcTime(k.SealFrom())
	}
	if age := now.Sub(made); f.maxAge > 0 && age > f.maxAge {
		*problems = append(*problems, fmt.Sprintf("the newest key is %v old, more than %v: does a timer run foil keys rotate --every?", age.Round(time.Second), f.maxAge))
	}
	return s
}

// pending returns the key that seals next, or nil.
func pending(r *keyring.Ring, now time.Time) *keyring.Key {
	var next *keyring.Key
	for _, k := range r.Keys() {
		if !k.Revoked() && k.SealFrom().After(now) && (next == nil || k.SealFrom().Before(next.SealFrom())) {
			next = k
		}
	}
	return next
}

// An asked replica has answered or not.
type askedReplica struct {
	report *readyz.Report
	err    error
}

// ask asks all replicas, in the order of the flags.
func (f *statusFlags) ask(ctx context.Context) []askedReplica {
	all := make([]askedReplica, len(f.replicas))
	slots := make(chan struct{}, maxAsked)
	var wg sync.WaitGroup
	for i, u := range f.replicas {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, f.timeout)
			defer cancel()
			all[i].report, all[i].err = readyz.Fetch(ctx, nil, u)
		})
	}
	wg.Wait()
	return all
}

// judgeReplica says how a replica is and what is wrong with it. ring is nil if it
// could not be read, and for Transit, where a replica follows none.
func judgeReplica(a askedReplica, name string, ring *keyring.Ring, transit bool, now time.Time) (replicaStatus, []string) {
	url, err := readyz.Address(name) // without credentials
	if err != nil {
		url = "?" // run has looked
	}
	s := replicaStatus{URL: url}
	if a.err != nil {
		s.Error = a.err.Error()
		return s, []string{fmt.Sprintf("%s: %s", url, s.Error)}
	}
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, url+": "+fmt.Sprintf(format, args...)) }
	s.Ready = a.report.Ready
	for _, c := range a.report.Checks {
		if !c.OK {
			say("its check %q fails: its log says why", c.Name)
		}
	}
	at := slices.IndexFunc(a.report.Rings, func(r readyz.RingReport) bool {
		return ring == nil || r.Storage == ring.Storage() && r.Interop == ring.Interop()
	})
	switch {
	case at < 0 && !transit:
		say("it follows no ring of this kind")
		return s, wrong
	case at < 0:
		if !s.Ready && len(wrong) == 0 {
			say("not ready")
		}
		return s, wrong
	}
	r := a.report.Rings[at]
	s.Stale, s.Serial, s.Refreshed, s.Age = r.Stale, r.Serial, utcTime(r.Refreshed), r.Age
	s.Sealing, s.Seals, s.Source = r.Sealing, r.Seals, r.Error
	because := ""
	if r.Error != "" {
		because = ": " + r.Error
	}
	age := time.Duration(r.Age * float64(time.Second)).Round(time.Second)
	switch {
	case r.Stale:
		say("neither seals nor opens: its ring was not refreshed for %v%s", age, because)
	case !r.Ready:
		say("not ready: its ring was not refreshed for %v, and the propagation time is %v%s", age, time.Duration(r.Propagation*float64(time.Second)), because)
	case !s.Ready && len(wrong) == 0:
		say("not ready, for another ring that it follows")
	}
	if !r.Stale && r.Sealing == "" {
		say("it has no key to seal with")
	}
	for id, n := range r.Seals {
		if n >= aesgcm.MaxSeals/2 {
			say("it has sealed %d tokens under %s, and seals no more than %d: rotate the ring", n, id, aesgcm.MaxSeals)
		}
	}
	if ring == nil {
		return s, wrong
	}
	if r.Serial > ring.Serial() {
		say("its serial %d is newer than the ring's, %d: it follows another ring, or this one was set back; replicas take no older one, so write the newest again", r.Serial, ring.Serial())
	}
	if off := clockOff(ring, &r, now); off > 0 {
		say("it seals under %s, which is off by %v: look at its clock", r.Sealing, off.Round(time.Second))
	}
	return s, wrong
}

// clockOff is by how much a replica that has the same ring is late, or early, with the
// key that seals, if that is more than the clocks may differ.
func clockOff(ring *keyring.Ring, r *readyz.RingReport, now time.Time) time.Duration {
	ours, err := ring.Sealing(now)
	theirs := ring.Key(r.Sealing)
	if err != nil || theirs == nil || r.Serial != ring.Serial() || ours == theirs {
		return 0
	}
	off := now.Sub(ours.SealFrom()) // it still has an earlier key
	if theirs.SealFrom().After(now) {
		off = theirs.SealFrom().Sub(now)
	}
	if off <= ring.Skew() {
		return 0
	}
	return off
}
