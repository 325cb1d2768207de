// Package otel tells OpenTelemetry what a [foil.Guard] does: metrics, and events
// on the span that is in the context. It uses the API alone; the SDK is the
// server's choice.
//
//	observer, err := otel.New(nil) // the global MeterProvider
//	guard, err := foil.New(codec, &foil.Options{Observer: observer, …})
//
// The metrics:
//
//	foil.sealed          {state}    counter    mcp.method.name
//	foil.opened          {state}    counter    mcp.method.name
//	foil.rejected        {refusal}  counter    mcp.method.name, foil.reason
//	foil.failed          {failure}  counter    foil.op, foil.cause
//	foil.operations      {turn}     counter    mcp.method.name, foil.operation.status
//	foil.sealed_by_key   {state}    counter    foil.key.id
//	foil.token.size      By         histogram
//	foil.duration        s          histogram  foil.op, foil.outcome
//	foil.store.duration  s          histogram  foil.store, foil.store.op
//	foil.store.errors    {call}     counter    foil.store, foil.store.op
//
// The attributes:
//
//   - mcp.method.name: tools/call, prompts/get, resources/read; anything else is other.
//   - foil.reason: the text of a [foil.Reason]; a codec's own reasons are other.
//   - foil.op: seal, open, check or conclude.
//   - foil.cause: unavailable (a store or key source is away), canceled (the
//     caller hung up), internal (a mistake in a handler or an option).
//   - foil.outcome: ok, rejected or failed.
//   - foil.operation.status: started, resumed, succeeded, failed and lost (its
//     outcome is unknown) of an operation itself; recorded, in_progress and
//     unknown of requests for one that there is. Only under Once: Settle.
//   - foil.store: replay, claimcheck, ledger or codec; foil.store.op: use, attempt, ping,
//     redeem, revoke, begin, get, step, renew, resume, finish.
//   - foil.key.id: the key's id as in tokens and logs; none for a codec that
//     names no keys; other beyond 256 keys in the life of a process.
//
// [Stores] adds gauges of what the stores hold, [Rings] of the key rings.
//
// No attribute of a metric holds what a client sent. What each figure means and
// what to alert on is in docs/metrics.md.
//
// The events are foil.sealed, foil.opened, foil.rejected, foil.failed and
// foil.operation, with foil.op, mcp.method.name, foil.flow and foil.round where
// the token could be read, and foil.reason, foil.cause or foil.operation.status. foil.flow is the same in every round of a
// flow and in the log, so that the traces of its requests can be found together.
// The events are added to the span in the context, if it is recording; none is
// started and no status is set, since the span is the server's own.
package otel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/observe/internal/labels"
)

// Scope is the name of the meter.
const Scope = "github.com/foilmcp/foil/observe/otel"

// The attributes.
const (
	methodKey  = attribute.Key("mcp.method.name")
	reasonKey  = attribute.Key("foil.reason")
	opKey      = attribute.Key("foil.op")
	causeKey   = attribute.Key("foil.cause")
	outcomeKey = attribute.Key("foil.outcome")
	storeKey   = attribute.Key("foil.store")
	storeOpKey = attribute.Key("foil.store.op")
	keyIDKey   = attribute.Key("foil.key.id")
	statusKey  = attribute.Key("foil.operation.status")
	flowKey    = attribute.Key("foil.flow")
	roundKey   = attribute.Key("foil.round")
)

// Options choose where the metrics go.
type Options struct {
	// MeterProvider is the global one if nil.
	MeterProvider metric.MeterProvider
}

// An Observer keeps the metrics and adds the events. Several Guards may share
// one. It is safe for concurrent use.
type Observer struct {
	foil.NoObserver // for events of later versions

	sealed, opened, rejected, failed, byKey, operations, storeErrors metric.Int64Counter
	size                                                             metric.Int64Histogram
	duration, storeDuration                                          metric.Float64Histogram

	keys labels.Keys
	sets sets
}

var _ foil.Observer = (*Observer)(nil)

// New returns an Observer. It fails if the MeterProvider refuses an instrument.
func New(opts *Options) (*Observer, error) {
	var provider metric.MeterProvider
	if opts != nil {
		provider = opts.MeterProvider
	}
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	b := builder{meter: provider.Meter(Scope)}
	o := &Observer{
		sealed:      b.counter("foil.sealed", "{state}", "Request states sealed."),
		opened:      b.counter("foil.opened", "{state}", "Request states opened: every check passed, and spent where single use is on."),
		rejected:    b.counter("foil.rejected", "{refusal}", "Refusals that a client could have caused."),
		failed:      b.counter("foil.failed", "{failure}", "Failures of the server: a part that is away, a caller that hung up, or a mistake."),
		operations:  b.counter("foil.operations", "{turn}", "Turns in the life of an operation, and requests for one that there is."),
		byKey:       b.counter("foil.sealed_by_key", "{state}", "Request states sealed under each key."),
		storeErrors: b.counter("foil.store.errors", "{call}", "Calls of a store that failed; a caller that hung up is none."),

		size:          b.sizes("foil.token.size", "Length of the tokens handed out."),
		duration:      b.durations("foil.duration", "Time of Seal and Open, calls of stores included."),
		storeDuration: b.durations("foil.store.duration", "Time of each call of a store."),
	}
	if b.err != nil {
		return nil, fmt.Errorf("otel: make instruments: %w", b.err)
	}
	return o, nil
}

// A builder keeps the first error.
type builder struct {
	meter metric.Meter
	err   error
}

func (b *builder) failed(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) counter(name, unit, text string) metric.Int64Counter {
	c, err := b.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
	b.failed(err)
	return c
}

func (b *builder) sizes(name, text string) metric.Int64Histogram {
	h, err := b.meter.Int64Histogram(name, metric.WithUnit("By"), metric.WithDescription(text),
		metric.WithExplicitBucketBoundaries(256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536))
	b.failed(err)
	return h
}

func (b *builder) durations(name, text string) metric.Float64Histogram {
	h, err := b.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text),
		metric.WithExplicitBucketBoundaries(.00001, .000025, .0001, .00025, .001, .0025, .01, .025, .1, .25, 1, 2.5, 5))
	b.failed(err)
	return h
}

// Sealed counts a sealed state.
func (o *Observer) Sealed(ctx context.Context, e foil.Event) {
	method := methodKey.String(labels.Method(e.Method))
	o.sealed.Add(ctx, 1, o.sets.of(method, none))
	o.byKey.Add(ctx, 1, o.sets.of(keyIDKey.String(o.keys.Label(e.KeyID)), none))
	o.size.Record(ctx, int64(e.Bytes))
	o.took(ctx, e, "ok")
	onSpan(ctx, "foil.sealed", e, method)
}

// Opened counts an opened state.
func (o *Observer) Opened(ctx context.Context, e foil.Event) {
	method := methodKey.String(labels.Method(e.Method))
	o.opened.Add(ctx, 1, o.sets.of(method, none))
	o.took(ctx, e, "ok")
	onSpan(ctx, "foil.opened", e, method)
}

// Rejected counts a refusal. The key that the token names is a client's word
// and not looked at.
func (o *Observer) Rejected(ctx context.Context, e foil.Event, reason foil.Reason) {
	method, why := methodKey.String(labels.Method(e.Method)), reasonKey.String(labels.Reason(reason))
	o.rejected.Add(ctx, 1, o.sets.of(method, why))
	o.took(ctx, e, "rejected")
	onSpan(ctx, "foil.rejected", e, method, why)
}

// Failed counts a failure. The text of err is for the log: it may name hosts.
func (o *Observer) Failed(ctx context.Context, e foil.Event, err error) {
	method, why := methodKey.String(labels.Method(e.Method)), causeKey.String(labels.Cause(err))
	o.failed.Add(ctx, 1, o.sets.of(opKey.String(labels.Op(e.Op)), why))
	o.took(ctx, e, "failed")
	onSpan(ctx, "foil.failed", e, method, why)
}

// Operation counts a turn in the life of an operation.
func (o *Observer) Operation(ctx context.Context, e foil.Event, status foil.OperationStatus) {
	method, turn := methodKey.String(labels.Method(e.Method)), statusKey.String(labels.Status(status))
	o.operations.Add(ctx, 1, o.sets.of(method, turn))
	onSpan(ctx, "foil.operation", e, method, turn)
}

// StoreCall counts a call of a store.
func (o *Observer) StoreCall(ctx context.Context, c foil.StoreCall) {
	about := o.sets.of(storeKey.String(labels.Store(c.Store)), storeOpKey.String(labels.StoreOp(c.Op)))
	o.storeDuration.Record(ctx, c.Took.Seconds(), about)
	if labels.StoreFailed(c.Err) {
		o.storeErrors.Add(ctx, 1, about)
	}
}

func (o *Observer) took(ctx context.Context, e foil.Event, outcome string) {
	if e.Took > 0 { // a check alone is not timed
		o.duration.Record(ctx, e.Took.Seconds(), o.sets.of(opKey.String(labels.Op(e.Op)), outcomeKey.String(outcome)))
	}
}

func onSpan(ctx context.Context, name string, e foil.Event, more ...attribute.KeyValue) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attrs := append(more, opKey.String(labels.Op(e.Op)))
	if e.Flow != "" {
		attrs = append(attrs, flowKey.String(e.Flow), roundKey.Int(e.Round))
	}
	span.AddEvent(name, trace.WithAttributes(attrs...))
}
