package otel_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/observe/otel"
)

func TestRings(t *testing.T) {
	st := keyring.Status{Serial: 7, Ready: true, Age: 1500 * time.Millisecond, Propagation: 5 * time.Minute, Error: "secret-host"}
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { _ = provider.Shutdown(ctx) }()
	r, err := otel.Rings(&otel.RingsOptions{MeterProvider: provider}, otel.Ring{Name: "tokens", Status: func() keyring.Status { return st }})
	if err != nil {
		t.Fatal(err)
	}
	told := func() map[string]float64 {
		t.Helper()
		var rm metricdata.ResourceMetrics
		if err := reader.Collect(ctx, &rm); err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, scope := range rm.ScopeMetrics {
			for _, m := range scope.Metrics {
				switch data := m.Data.(type) {
				case metricdata.Gauge[int64]:
					for _, p := range data.DataPoints {
						name, _ := p.Attributes.Value("foil.ring.name")
						got[m.Name+" "+m.Unit+" "+name.AsString()] = float64(p.Value)
					}
				case metricdata.Gauge[float64]:
					for _, p := range data.DataPoints {
						name, _ := p.Attributes.Value("foil.ring.name")
						got[m.Name+" "+m.Unit+" "+name.AsString()] = p.Value
					}
				}
			}
		}
		return got
	}
	want := map[string]float64{
		"foil.ring.ready 1 tokens": 1, "foil.ring.usable 1 tokens": 1, "foil.ring.serial 1 tokens": 7,
		"foil.ring.age s tokens": 1.5, "foil.ring.propagation s tokens": 300,
	}
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Error(diff)
	}
	st.Ready, st.Stale = false, true
	want["foil.ring.ready 1 tokens"], want["foil.ring.usable 1 tokens"] = 0, 0
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Error(diff)
	}
	if err := r.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := told(); len(got) > 0 {
		t.Errorf("after it was unregistered %v", got)
	}
	good := otel.Ring{Name: "tokens", Status: func() keyring.Status { return st }}
	for name, rings := range map[string][]otel.Ring{"nothing": nil, "no name": {{Status: good.Status}}, "no status": {{Name: "a"}}, "a name twice": {good, good}} {
		if _, err := otel.Rings(nil, rings...); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
