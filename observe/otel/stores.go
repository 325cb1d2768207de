package otel

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/observe/internal/figures"
	"github.com/foilmcp/foil/store"
)

const (
	storeNameKey = attribute.Key("foil.store.name")
	stateKey     = attribute.Key("foil.operation.state")
)

// A Store is asked at each collection how much it holds. One of Stats and Counts
// must be set.
type Store struct {
	// Name becomes the attribute foil.store.name: a fixed text of the
	// server's, such as "main", of at most 64 bytes.
	Name string
	// Stats is the method of a store: (*sqlite.Store).Stats or that of another
	// backend.
	Stats func(context.Context) (store.Stats, error)
	// Counts is the method of a [ledger.Counter], for a ledger alone.
	Counts func(context.Context) (ledger.Counts, error)
}

// StoresOptions configure [Stores]. The zero value is right for most.
type StoresOptions struct {
	// MeterProvider is the global one if nil.
	MeterProvider metric.MeterProvider
	// Timeout bounds what one collection waits for a store; 5 s if zero.
	Timeout time.Duration
	// Logger is told when a store begins to fail and when it is back. Nil is
	// slog.Default().
	Logger *slog.Logger
}

// Stores registers gauges of what stores hold, each with foil.store.name:
//
//	foil.store.up          1            1 if the store told its figures at this collection, else 0
//	foil.store.operations  {operation}  foil.operation.state: executing, succeeded, failed, unknown
//	foil.store.spent_ids   {id}         live IDs of spent states
//	foil.store.claims      {claim}      parked payloads
//	foil.store.claim.size  By           their length
//	foil.store.handles     {handle}     tokens kept in the store
//	foil.store.size        By           what the store takes, where it can tell
//
// Replicas that share a store tell the same figures: take their maximum, not
// their sum. While a store does not answer, nothing but foil.store.up is told of
// it, and no old figure. A store that does not even keep to the end of its context
// costs one goroutine and no collection more than Timeout; it is not asked again
// until it has answered.
//
// Unregister the registration before a store is closed for good.
func Stores(opts *StoresOptions, stores ...Store) (metric.Registration, error) {
	var o StoresOptions
	if opts != nil {
		o = *opts
	}
	var all []figures.Source
	for _, s := range stores {
		all = append(all, figures.Source(s))
	}
	sources, err := figures.New(o.Timeout, o.Logger, all)
	if err != nil {
		return nil, fmt.Errorf("otel: stores: %w", err)
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	b := builder{meter: o.MeterProvider.Meter(Scope)}
	g := &gauges{
		sources:    sources,
		up:         b.gauge("foil.store.up", "1", "Whether the store told its figures at this collection."),
		operations: b.gauge("foil.store.operations", "{operation}", "Operations that the store holds."),
		spent:      b.gauge("foil.store.spent_ids", "{id}", "Live IDs of spent states that the store holds."),
		claims:     b.gauge("foil.store.claims", "{claim}", "Parked payloads that the store holds."),
		claimBytes: b.gauge("foil.store.claim.size", "By", "Length of the parked payloads."),
		handles:    b.gauge("foil.store.handles", "{handle}", "Tokens that the store holds."),
		size:       b.gauge("foil.store.size", "By", "What the store takes on disk or in memory."),
	}
	if b.err != nil {
		return nil, fmt.Errorf("otel: make instruments: %w", b.err)
	}
	r, err := b.meter.RegisterCallback(g.observe, g.up, g.operations, g.spent, g.claims, g.claimBytes, g.handles, g.size)
	if err != nil {
		return nil, fmt.Errorf("otel: register gauges: %w", err)
	}
	return r, nil
}

func (b *builder) gauge(name, unit, text string) metric.Int64ObservableGauge {
	g, err := b.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
	b.failed(err)
	return g
}

type gauges struct {
	sources                                                  *figures.Sources
	up, operations, spent, claims, claimBytes, handles, size metric.Int64ObservableGauge
}

func (g *gauges) observe(ctx context.Context, to metric.Observer) error {
	for _, f := range g.sources.Ask(ctx) {
		name := storeNameKey.String(f.Name)
		about := metric.WithAttributeSet(attribute.NewSet(name))
		if !f.Up {
			to.ObserveInt64(g.up, 0, about)
			continue
		}
		to.ObserveInt64(g.up, 1, about)
		for i, n := range f.Operations() {
			to.ObserveInt64(g.operations, n, metric.WithAttributeSet(attribute.NewSet(name, stateKey.String(figures.States[i]))))
		}
		if !f.Whole {
			continue
		}
		to.ObserveInt64(g.spent, f.Stats.Spent, about)
		to.ObserveInt64(g.claims, f.Stats.Claims, about)
		to.ObserveInt64(g.claimBytes, f.Stats.ClaimBytes, about)
		to.ObserveInt64(g.handles, f.Stats.Handles, about)
		if f.Stats.SizeBytes > 0 { // else the store cannot tell
			to.ObserveInt64(g.size, f.Stats.SizeBytes, about)
		}
	}
	return nil
}
