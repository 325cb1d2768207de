package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/foilmcp/foil/observe/prom"
)

// newDemoObserver counts what a replica's Guard does, and shows it to Prometheus.
// The figures are nobody's secret: they need no login.
func newDemoObserver() (*prom.Observer, http.Handler, error) {
	registry := prometheus.NewRegistry()
	observer, err := prom.New(registry, nil)
	if err != nil {
		return nil, nil, err
	}
	return observer, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
