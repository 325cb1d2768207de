package otel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/observe/internal/figures"
)

const ringNameKey = attribute.Key("foil.ring.name")

// A Ring is a key ring that the process follows.
type Ring struct {
	// Name becomes the attribute foil.ring.name: a fixed text of the server's,
	// such as "tokens", of 1 to 64 bytes.
	Name string
	// Status is the method of a [keyring.Refresher].
	Status func() keyring.Status
}

// RingsOptions configure [Rings].
type RingsOptions struct {
	// MeterProvider is the global one if nil.
	MeterProvider metric.MeterProvider
}

// Rings registers gauges of the key rings that the process follows, as of the moment
// of the collection, each with foil.ring.name:
//
//	foil.ring.ready        1  1 if refreshed within the propagation time, else 0
//	foil.ring.usable       1  1 until the ring is older than max_stale: at 0 nothing is sealed or opened
//	foil.ring.age          s  time since the last good refresh began
//	foil.ring.propagation  s  of the ring
//	foil.ring.serial       1  version of the ring in use
//
// Alert on foil.ring.ready of 0: if the ring was rotated meanwhile, honest retries may
// be refused, a third of the propagation time after that at the earliest.
func Rings(opts *RingsOptions, rings ...Ring) (metric.Registration, error) {
	if len(rings) == 0 {
		return nil, errors.New("otel: there is no ring to tell of")
	}
	names := make(figures.Names)
	for _, r := range rings {
		if err := names.Add("ring", r.Name); err != nil {
			return nil, fmt.Errorf("otel: %w", err)
		}
		if r.Status == nil {
			return nil, fmt.Errorf("otel: ring %q has no Status: give it that of its keyring.Refresher", r.Name)
		}
	}
	rings = slices.Clone(rings)
	var provider metric.MeterProvider
	if opts != nil {
		provider = opts.MeterProvider
	}
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	b := builder{meter: provider.Meter(Scope)}
	ready := b.gauge("foil.ring.ready", "1", "Whether the key ring was refreshed within its propagation time.")
	usable := b.gauge("foil.ring.usable", "1", "Whether the key ring may be used: it is not older than max_stale.")
	serial := b.gauge("foil.ring.serial", "1", "Version of the key ring in use.")
	age := b.floats("foil.ring.age", "s", "Time since the last good refresh of the key ring began.")
	propagation := b.floats("foil.ring.propagation", "s", "Propagation time of the key ring.")
	if b.err != nil {
		return nil, fmt.Errorf("otel: make instruments: %w", b.err)
	}
	r, err := b.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, r := range rings {
			st := r.Status()
			about := metric.WithAttributeSet(attribute.NewSet(ringNameKey.String(r.Name)))
			to.ObserveInt64(ready, one(st.Ready), about)
			to.ObserveInt64(usable, one(!st.Stale), about)
			to.ObserveInt64(serial, st.Serial, about)
			to.ObserveFloat64(age, st.Age.Seconds(), about)
			to.ObserveFloat64(propagation, st.Propagation.Seconds(), about)
		}
		return nil
	}, ready, usable, serial, age, propagation)
	if err != nil {
		return nil, fmt.Errorf("otel: register gauges: %w", err)
	}
	return r, nil
}

func (b *builder) floats(name, unit, text string) metric.Float64ObservableGauge {
	g, err := b.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
	b.failed(err)
	return g
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
