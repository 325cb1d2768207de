// Package prom counts what a [foil.Guard] does, for Prometheus.
//
//	observer, err := prom.New(prometheus.DefaultRegisterer, nil)
//	guard, err := foil.New(codec, &foil.Options{Observer: observer, …})
//
// The metrics:
//
//	foil_sealed_total{method}              counter    states sealed
//	foil_opened_total{method}              counter    states opened: every check passed, and spent
//	foil_rejected_total{method,reason}     counter    refusals that a client could have caused
//	foil_failed_total{op,cause}            counter    failures of the server
//	foil_operations_total{method,status}   counter    turns in the life of an operation, under Once: Settle
//	foil_sealed_by_key_total{kid}          counter    states sealed under each key
//	foil_token_bytes                       histogram  length of the tokens handed out
//	foil_duration_seconds{op,outcome}      histogram  time of Seal and Open, stores included
//	foil_store_duration_seconds{store,op}  histogram  time of each call of a store
//	foil_store_errors_total{store,op}      counter    calls of a store that failed
//
// The labels:
//
//   - method: tools/call, prompts/get, resources/read; anything else is other.
//   - reason: the text of a [foil.Reason]; a codec's own reasons are other.
//   - op: seal, open, check or conclude; of a store use, attempt, ping, redeem,
//     revoke, begin, get, step, renew, resume or finish.
//   - cause: unavailable (a store or key source is away), canceled (the caller
//     hung up), internal (a mistake in a handler or an option).
//   - outcome: ok, rejected or failed.
//   - status: started, resumed, succeeded, failed and lost (its outcome is
//     unknown) of an operation itself; recorded, in_progress and unknown of
//     requests for one that there is.
//   - store: replay, claimcheck, ledger or codec.
//   - kid: the key's id as in tokens and logs; none for a codec that names no
//     keys; other beyond 256 keys in the life of a process.
//
// No label holds what a client sent: a target, a flow, or the key that a forged
// token names. The counters with known labels are there from the start, at zero,
// so that the first event counts as an increase.
//
// [Stores] adds gauges of what the stores hold, [Rings] of the key rings.
//
// Alert on any increase of foil_rejected_total with the reason tampered or
// replayed, on foil_operations_total with the status lost, on foil_failed_total
// with another cause than canceled, and on foil_store_errors_total: while the
// replay store or the ledger is away, nothing opens. What each of them means is in
// docs/metrics.md.
package prom

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/observe/internal/labels"
)

// Options set the buckets of the histograms. They must be in increasing order.
type Options struct {
	// DurationBuckets are upper bounds in seconds; none is 10 µs to 5 s, from
	// a seal in memory to a store at its timeout.
	DurationBuckets []float64
	// SizeBuckets are upper bounds in bytes; none is 256 B to 64 KiB.
	SizeBuckets []float64
}

var (
	defaultDurations = []float64{.00001, .000025, .0001, .00025, .001, .0025, .01, .025, .1, .25, 1, 2.5, 5}
	defaultSizes     = prometheus.ExponentialBuckets(256, 2, 9)
)

// An Observer keeps the metrics. Several Guards may share one. It is safe for
// concurrent use.
type Observer struct {
	foil.NoObserver // for events of later versions

	sealed, opened, rejected, failed, byKey, operations, storeErrors *prometheus.CounterVec
	duration, storeDuration                                          *prometheus.HistogramVec
	bytes                                                            prometheus.Histogram

	keys labels.Keys
}

var _ foil.Observer = (*Observer)(nil)

// New returns an Observer whose metrics are registered with reg. It fails if
// reg has metrics of these names already: let the Guards of a process share an
// Observer, or give each a label of its own by prometheus.WrapRegistererWith.
func New(reg prometheus.Registerer, opts *Options) (*Observer, error) {
	if reg == nil {
		return nil, errors.New("prom: the registerer is nil: use prometheus.DefaultRegisterer or a registry of your own")
	}
	var opt Options
	if opts != nil {
		opt = *opts
	}
	if len(opt.DurationBuckets) == 0 {
		opt.DurationBuckets = defaultDurations
	}
	if len(opt.SizeBuckets) == 0 {
		opt.SizeBuckets = defaultSizes
	}
	for _, b := range [][]float64{opt.DurationBuckets, opt.SizeBuckets} {
		if !increasing(b) {
			return nil, errors.New("prom: buckets must be in increasing order")
		}
	}
	o := &Observer{
		sealed:     counter("sealed_total", "Request states sealed.", "method"),
		opened:     counter("opened_total", "Request states opened: every check passed, and spent where single use is on.", "method"),
		rejected:   counter("rejected_total", "Refusals that a client could have caused.", "method", "reason"),
		failed:     counter("failed_total", "Failures of the server: a part that is away, a caller that hung up, or a mistake.", "op", "cause"),
		operations: counter("operations_total", "Turns in the life of an operation, and requests for one that there is.", "method", "status"),
		byKey:      counter("sealed_by_key_total", "Request states sealed under each key.", "kid"),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "token_bytes", Help: "Length of the tokens handed out.", Buckets: opt.SizeBuckets,
		}),
		duration:      durations("duration_seconds", "Time of Seal and Open, calls of stores included.", opt.DurationBuckets, "op", "outcome"),
		storeDuration: durations("store_duration_seconds", "Time of each call of a store.", opt.DurationBuckets, "store", "op"),
		storeErrors:   counter("store_errors_total", "Calls of a store that failed; a caller that hung up is none.", "store", "op"),
	}
	o.begin()
	all := metrics{o.sealed, o.opened, o.rejected, o.failed, o.byKey, o.operations, o.bytes, o.duration, o.storeDuration, o.storeErrors}
	if err := reg.Register(&all); err != nil {
		return nil, fmt.Errorf("prom: register metrics: %w", err)
	}
	return o, nil
}

// begin makes the counters of a known set appear at zero.
func (o *Observer) begin() {
	for _, m := range labels.Methods {
		o.sealed.WithLabelValues(m)
		o.opened.WithLabelValues(m)
		for _, r := range labels.Reasons {
			o.rejected.WithLabelValues(m, r)
		}
		for _, s := range labels.Statuses {
			o.operations.WithLabelValues(m, s)
		}
	}
	for _, op := range labels.Ops {
		for _, c := range labels.Causes {
			o.failed.WithLabelValues(op, c)
		}
	}
	for _, c := range labels.StoreCalls {
		o.storeErrors.WithLabelValues(c[0], c[1])
	}
}

// Sealed counts a sealed state.
func (o *Observer) Sealed(_ context.Context, e foil.Event) {
	o.sealed.WithLabelValues(labels.Method(e.Method)).Inc()
	o.byKey.WithLabelValues(o.keys.Label(e.KeyID)).Inc()
	o.bytes.Observe(float64(e.Bytes))
	o.took(e, "ok")
}

// Opened counts an opened state.
func (o *Observer) Opened(_ context.Context, e foil.Event) {
	o.opened.WithLabelValues(labels.Method(e.Method)).Inc()
	o.took(e, "ok")
}

// Rejected counts a refusal. The key that the token names is a client's word
// and not looked at.
func (o *Observer) Rejected(_ context.Context, e foil.Event, reason foil.Reason) {
	o.rejected.WithLabelValues(labels.Method(e.Method), labels.Reason(reason)).Inc()
	o.took(e, "rejected")
}

// Failed counts a failure.
func (o *Observer) Failed(_ context.Context, e foil.Event, err error) {
	o.failed.WithLabelValues(labels.Op(e.Op), labels.Cause(err)).Inc()
	o.took(e, "failed")
}

// Operation counts a turn in the life of an operation.
func (o *Observer) Operation(_ context.Context, e foil.Event, status foil.OperationStatus) {
	o.operations.WithLabelValues(labels.Method(e.Method), labels.Status(status)).Inc()
}

// StoreCall counts a call of a store.
func (o *Observer) StoreCall(_ context.Context, c foil.StoreCall) {
	store, op := labels.Store(c.Store), labels.StoreOp(c.Op)
	o.storeDuration.WithLabelValues(store, op).Observe(c.Took.Seconds())
	if labels.StoreFailed(c.Err) {
		o.storeErrors.WithLabelValues(store, op).Inc()
	}
}

func (o *Observer) took(e foil.Event, outcome string) {
	if e.Took > 0 { // a check alone is not timed
		o.duration.WithLabelValues(labels.Op(e.Op), outcome).Observe(e.Took.Seconds())
	}
}

const namespace = "foil"

func counter(name, help string, label ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, label)
}

func durations(name, help string, buckets []float64, label ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets,
	}, label)
}

// metrics are registered as one, so that a name that is taken leaves none
// behind.
type metrics []prometheus.Collector

func (m metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m {
		c.Describe(ch)
	}
}

func (m metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m {
		c.Collect(ch)
	}
}

func increasing(b []float64) bool {
	for i, v := range b {
		if math.IsNaN(v) || i > 0 && v <= b[i-1] {
			return false
		}
	}
	return true
}
