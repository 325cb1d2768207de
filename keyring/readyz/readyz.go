// Package readyz tells over HTTP whether a process follows its key rings, for load
// balancers and for foil keys status:
//
//	ready, err := readyz.Handler(&readyz.Options{
//		Rings: []readyz.Ring{{Name: "tokens", Status: keys.Status, Seals: codec.SealsByKey}},
//	})
//	mux.Handle("/readyz", ready)
//
// The answer is 200 while every ring was refreshed within its propagation time, and
// every check passes; else 503. A process that is not ready works on, until a ring is
// older than its MaxStale; but it may not know the newest key, so it should get no new
// traffic, and whoever is on duty should hear of it. It ceases to be ready at least a
// third of the propagation time before the first key that it cannot know may seal: no
// honest retry has been refused by then.
//
// The answer holds no secret. It names keys by their id, and an error of a source may
// name files and hosts, so serve it where the probes are and not to the world.
package readyz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/foilmcp/foil/keyring"
)

// DefaultTimeout bounds all checks of one request.
const DefaultTimeout = 5 * time.Second

const (
	maxName  = 64
	maxError = 512
)

// Options say what the process depends on. There must be a ring or a check.
type Options struct {
	// Rings are the key rings that the process follows.
	Rings []Ring
	// Checks are other things that it cannot serve without, by name, such as the
	// Ping of a store. They run at once, at each request.
	Checks map[string]func(context.Context) error
	// Timeout bounds the checks of one request; 5 s if zero. A check that does not
	// keep to the end of its context delays the answer.
	Timeout time.Duration
	// Logger is told why a check failed, as the answer does not: its error may
	// hold what a store was opened with. Nil is slog.Default().
	Logger *slog.Logger
}

// A Ring is a key ring of the process.
type Ring struct {
	// Name tells the rings of a process apart, such as "tokens": 1 to 64 bytes.
	Name string
	// Status is the method of a [keyring.Refresher]. It is required.
	Status func() keyring.Status
	// Seals tells how many tokens were sealed under each key: the method SealsByKey
	// of a codec of package aesgcm. It is nil for codecs that count none.
	Seals func() map[string]uint64
}

// A Report is the JSON of the answer.
type Report struct {
	Ready  bool          `json:"ready"`
	Rings  []RingReport  `json:"rings"`
	Checks []CheckReport `json:"checks,omitempty"`
}

// A RingReport is the state of one ring in one process.
type RingReport struct {
	Name        string            `json:"name"`
	Ready       bool              `json:"ready"` // refreshed within Propagation
	Stale       bool              `json:"stale"` // neither seals nor opens
	Serial      int64             `json:"serial"`
	Interop     bool              `json:"interop"`
	Storage     bool              `json:"storage"`
	Refreshed   time.Time         `json:"refreshed"` // when the last good refresh began
	Age         float64           `json:"age_seconds"`
	Propagation float64           `json:"propagation_seconds"`
	MaxStale    float64           `json:"max_stale_seconds"`
	Sealing     string            `json:"sealing"`         // id of the key that seals now, or ""
	Seals       map[string]uint64 `json:"seals,omitempty"` // of this process, by the key's id
	Error       string            `json:"error,omitempty"` // why the last refresh failed
}

// A CheckReport is the result of one check.
type CheckReport struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
}

// Handler returns the handler, which is safe for concurrent use.
func Handler(opts *Options) (http.Handler, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case len(o.Rings) == 0 && len(o.Checks) == 0:
		return nil, errors.New("readyz: there is neither a ring nor a check: name what the process depends on in Options.Rings")
	case o.Timeout < 0:
		return nil, errors.New("readyz: Options.Timeout is negative")
	case o.Timeout == 0:
		o.Timeout = DefaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	h := &handler{rings: slices.Clone(o.Rings), timeout: o.Timeout, log: o.Logger}
	seen := make(map[string]bool)
	for _, r := range h.rings {
		if err := named(seen, r.Name); err != nil {
			return nil, err
		}
		if r.Status == nil {
			return nil, fmt.Errorf("readyz: ring %q has no Status: give it that of its keyring.Refresher", r.Name)
		}
	}
	for name, check := range o.Checks {
		if err := named(seen, name); err != nil {
			return nil, err
		}
		if check == nil {
			return nil, fmt.Errorf("readyz: check %q is nil", name)
		}
		h.checks = append(h.checks, namedCheck{name, check})
	}
	slices.SortFunc(h.checks, func(a, b namedCheck) int { return strings.Compare(a.name, b.name) })
	return h, nil
}

func named(seen map[string]bool, name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("readyz: the name of a ring or a check must be text of 1 to %d bytes", maxName)
	}
	if seen[name] {
		return fmt.Errorf("readyz: two are called %q", name)
	}
	seen[name] = true
	return nil
}

type handler struct {
	rings   []Ring
	checks  []namedCheck
	timeout time.Duration
	log     *slog.Logger
}

type namedCheck struct {
	name string
	run  func(context.Context) error
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	report := h.report(r.Context())
	body, err := json.Marshal(report)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !report.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(body, '\n')) // whoever asked is gone
}

func (h *handler) report(ctx context.Context) *Report {
	rep := &Report{Ready: true, Rings: make([]RingReport, 0, len(h.rings))}
	for _, r := range h.rings {
		st := r.Status()
		rr := RingReport{
			Name: r.Name, Ready: st.Ready, Stale: st.Stale, Serial: st.Serial, Interop: st.Interop, Storage: st.Storage,
			Refreshed: st.Refreshed.UTC(), Age: seconds(st.Age), Propagation: seconds(st.Propagation), MaxStale: seconds(st.MaxStale),
			Sealing: st.Sealing, Error: oneLine(st.Error),
		}
		if r.Seals != nil {
			rr.Seals = r.Seals()
		}
		rep.Ready = rep.Ready && st.Ready
		rep.Rings = append(rep.Rings, rr)
	}
	rep.Checks = h.check(ctx)
	for _, c := range rep.Checks {
		rep.Ready = rep.Ready && c.OK
	}
	return rep
}

// check runs all checks at once.
func (h *handler) check(ctx context.Context) []CheckReport {
	if len(h.checks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	results := make(chan CheckReport, len(h.checks))
	for _, c := range h.checks {
		go func() { // ends with its check
			err := c.run(ctx)
			if err != nil {
				h.log.Warn("not ready", "check", c.name, "error", err)
			}
			results <- CheckReport{c.name, err == nil}
		}()
	}
	all := make([]CheckReport, 0, len(h.checks))
	for range h.checks {
		all = append(all, <-results)
	}
	slices.SortFunc(all, func(a, b CheckReport) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// seconds is rounded to milliseconds, for people.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// oneLine makes an error fit for a line on a terminal.
func oneLine(s string) string {
	s = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s), "\uFFFD")
	if len(s) > maxError {
		s = strings.ToValidUTF8(s[:maxError], "") + "…"
	}
	return s
}
