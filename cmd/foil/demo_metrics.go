package main

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/foilmcp/foil/observe/prom"
	"github.com/foilmcp/foil/store/dsn"
)

// newDemoObserver counts what a replica's Guard does and what the store holds,
// and shows both to Prometheus. The figures are nobody's secret: they need no
// login.
func newDemoObserver(store dsn.Store, log *slog.Logger) (*prom.Observer, http.Handler, error) {
	registry := prometheus.NewRegistry()
	observer, err := prom.New(registry, nil)
	if err != nil {
		return nil, nil, err
	}
	opts := &prom.StoresOptions{Timeout: demoStoreTimeout, Logger: log}
	if _, err := prom.Stores(registry, opts, prom.Store{Name: "demo", Stats: store.Stats}); err != nil {
		return nil, nil, err
	}
	return observer, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
