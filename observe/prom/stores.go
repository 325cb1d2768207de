package prom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/observe/internal/figures"
	"github.com/foilmcp/foil/store"
)

// A Store is asked at each scrape how much it holds. One of Stats and Counts must
// be set.
type Store struct {
	// Name becomes the label name: a fixed text of the server's, such as
	// "main", of at most 64 bytes.
	Name string
	// Stats is the method of a store: (*sqlite.Store).Stats or that of another
	// backend.
	Stats func(context.Context) (store.Stats, error)
	// Counts is the method of a [ledger.Counter], for a ledger alone.
	Counts func(context.Context) (ledger.Counts, error)
}

// StoresOptions configure [Stores]. The zero value is right for most.
type StoresOptions struct {
	// Timeout bounds what one scrape waits for a store. It should be less than
	// the scrape's own; 5 s if zero.
	Timeout time.Duration
	// Logger is told when a store begins to fail and when it is back. Nil is
	// slog.Default().
	Logger *slog.Logger
}

// Stores registers gauges of what stores hold with reg:
//
//	foil_store_up{name}                1 if the store told its figures at this scrape, else 0
//	foil_store_operations{name,state}  operations: executing, succeeded, failed, unknown
//	foil_store_spent_ids{name}         live IDs of spent states
//	foil_store_claims{name}            parked payloads
//	foil_store_claim_bytes{name}       their length
//	foil_store_handles{name}           tokens kept in the store
//	foil_store_size_bytes{name}        what the store takes, where it can tell
//
// Replicas that share a store tell the same figures: take their maximum, not
// their sum. While a store does not answer, all of its gauges but foil_store_up
// are absent: no old figure is told. A store that does not even keep to the end
// of its context costs one goroutine and no scrape more than Timeout; it is not
// asked again until it has answered.
//
// A store that counts rows takes a while: in a large one let Prometheus scrape
// less often, or let one replica do it. The collector that is returned can be
// unregistered.
func Stores(reg prometheus.Registerer, opts *StoresOptions, stores ...Store) (prometheus.Collector, error) {
	if reg == nil {
		return nil, errors.New("prom: the registerer is nil: use prometheus.DefaultRegisterer or a registry of your own")
	}
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
		return nil, fmt.Errorf("prom: stores: %w", err)
	}
	c := &collector{sources}
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("prom: register metrics: %w", err)
	}
	return c, nil
}

func gauge(name, help string, label ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "store", name), help, append([]string{"name"}, label...), nil)
}

var (
	upDesc         = gauge("up", "Whether the store told its figures at this scrape.")
	operationsDesc = gauge("operations", "Operations that the store holds.", "state")
	spentDesc      = gauge("spent_ids", "Live IDs of spent states that the store holds.")
	claimsDesc     = gauge("claims", "Parked payloads that the store holds.")
	claimBytesDesc = gauge("claim_bytes", "Length of the parked payloads.")
	handlesDesc    = gauge("handles", "Tokens that the store holds.")
	sizeDesc       = gauge("size_bytes", "What the store takes on disk or in memory.")
)

type collector struct{ sources *figures.Sources }

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, operationsDesc, spentDesc, claimsDesc, claimBytesDesc, handlesDesc, sizeDesc} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, f := range c.sources.Ask(context.Background()) {
		tell := func(d *prometheus.Desc, n int64, label ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), append([]string{f.Name}, label...)...)
		}
		if !f.Up {
			tell(upDesc, 0)
			continue
		}
		tell(upDesc, 1)
		for i, n := range f.Operations() {
			tell(operationsDesc, n, figures.States[i])
		}
		if !f.Whole {
			continue
		}
		tell(spentDesc, f.Stats.Spent)
		tell(claimsDesc, f.Stats.Claims)
		tell(claimBytesDesc, f.Stats.ClaimBytes)
		tell(handlesDesc, f.Stats.Handles)
		if f.Stats.SizeBytes > 0 { // else the store cannot tell
			tell(sizeDesc, f.Stats.SizeBytes)
		}
	}
}
