package otel_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/observe/otel"
	"github.com/foilmcp/foil/replay"
)

// A Guard that counts. A server sets its MeterProvider with an exporter; here a
// reader shows what would be exported.
func Example() {
	ctx := context.Background()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer provider.Shutdown(ctx)

	observer, err := otel.New(&otel.Options{MeterProvider: provider})
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

	var data metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &data); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		fmt.Println(m.Name, m.Unit)
	}
	// Unordered output:
	// foil.sealed {state}
	// foil.sealed_by_key {state}
	// foil.token.size By
	// foil.duration s
	// foil.store.duration s
	// foil.opened {state}
}
