package prom

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/observe/internal/figures"
)

// A Ring is a key ring that the process follows.
type Ring struct {
	// Name becomes the label name: a fixed text of the server's, such as
	// "tokens", of 1 to 64 bytes.
	Name string
	// Status is the method of a [keyring.Refresher].
	Status func() keyring.Status
}

// Rings registers gauges of the key rings that the process follows with reg. They are
// as of the moment of the scrape:
//
//	foil_ring_ready{name}                1 if refreshed within the propagation time, else 0
//	foil_ring_usable{name}               1 until the ring is older than max_stale: at 0 nothing is sealed or opened
//	foil_ring_age_seconds{name}          time since the last good refresh began
//	foil_ring_propagation_seconds{name}  of the ring
//	foil_ring_serial{name}               version of the ring in use
//
// Alert on foil_ring_ready == 0: if the ring was rotated meanwhile, honest retries may
// be refused, a third of the propagation time after that at the earliest. The collector
// that is returned can be unregistered.
func Rings(reg prometheus.Registerer, rings ...Ring) (prometheus.Collector, error) {
	if reg == nil {
		return nil, errors.New("prom: the registerer is nil: use prometheus.DefaultRegisterer or a registry of your own")
	}
	if len(rings) == 0 {
		return nil, errors.New("prom: there is no ring to tell of")
	}
	names := make(figures.Names)
	for _, r := range rings {
		if err := names.Add("ring", r.Name); err != nil {
			return nil, fmt.Errorf("prom: %w", err)
		}
		if r.Status == nil {
			return nil, fmt.Errorf("prom: ring %q has no Status: give it that of its keyring.Refresher", r.Name)
		}
	}
	c := ringCollector(slices.Clone(rings))
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("prom: register metrics: %w", err)
	}
	return c, nil
}

func ringGauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "ring", name), help, []string{"name"}, nil)
}

var (
	ringReadyDesc       = ringGauge("ready", "Whether the key ring was refreshed within its propagation time.")
	ringUsableDesc      = ringGauge("usable", "Whether the key ring may be used: it is not older than max_stale.")
	ringAgeDesc         = ringGauge("age_seconds", "Time since the last good refresh of the key ring began.")
	ringPropagationDesc = ringGauge("propagation_seconds", "Propagation time of the key ring.")
	ringSerialDesc      = ringGauge("serial", "Version of the key ring in use.")
)

type ringCollector []Ring

// Describe implements [prometheus.Collector].
func (c ringCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ringReadyDesc, ringUsableDesc, ringAgeDesc, ringPropagationDesc, ringSerialDesc} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c ringCollector) Collect(ch chan<- prometheus.Metric) {
	for _, r := range c {
		st := r.Status()
		tell := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, r.Name)
		}
		tell(ringReadyDesc, one(st.Ready))
		tell(ringUsableDesc, one(!st.Stale))
		tell(ringAgeDesc, st.Age.Seconds())
		tell(ringPropagationDesc, st.Propagation.Seconds())
		tell(ringSerialDesc, float64(st.Serial))
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
