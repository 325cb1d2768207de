package prom_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/observe/prom"
	"github.com/foilmcp/foil/replay"
)

// A Guard that counts, and the handler that Prometheus scrapes.
func Example() {
	registry := prometheus.NewRegistry()
	observer, err := prom.New(registry, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{
		Audience: "storage", Replay: replay.NewMemory(nil), Observer: observer,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // mux.Handle("/metrics", metrics)

	ctx := context.Background()
	req := foil.Request{Method: foil.MethodToolsCall, Target: "purge", Principal: foil.Fixed("local")}
	token, err := guard.Seal(ctx, req, foil.Outgoing{State: "asked"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := guard.Open(ctx, req, token); err != nil {
		fmt.Println(err)
		return
	}

	page := httptest.NewRecorder()
	metrics.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "foil_sealed_total") || strings.HasPrefix(line, "foil_opened_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// foil_opened_total{method="prompts/get"} 0
	// foil_opened_total{method="resources/read"} 0
	// foil_opened_total{method="tools/call"} 1
	// foil_sealed_total{method="prompts/get"} 0
	// foil_sealed_total{method="resources/read"} 0
	// foil_sealed_total{method="tools/call"} 1
}
