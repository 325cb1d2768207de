package otel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	global "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/observe/otel"
)

var (
	ctx     = context.Background()
	errDisk = errors.New("disk is gone")
)

func observer(t testing.TB) (sdkmetric.Reader, *otel.Observer) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	// Without the SDK's own limit, which would hide ours.
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0))
	t.Cleanup(func() { _ = provider.Shutdown(ctx) })
	o, err := otel.New(&otel.Options{MeterProvider: provider})
	if err != nil {
		t.Fatal(err)
	}
	return reader, o
}

// figures are one line for each series: name, unit, attributes, and the value or
// the count and sum.
func figures(t *testing.T, reader sdkmetric.Reader) []string {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &data); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, scope := range data.ScopeMetrics {
		if scope.Scope.Name != otel.Scope {
			t.Errorf("scope %q", scope.Scope.Name)
		}
		for _, m := range scope.Metrics {
			if m.Description == "" {
				t.Errorf("%s is not described", m.Name)
			}
			add := func(attrs attribute.Set, format string, args ...any) {
				line := m.Name + " " + m.Unit
				for _, kv := range attrs.ToSlice() {
					line += fmt.Sprintf(" %s=%s", kv.Key, kv.Value.String())
				}
				lines = append(lines, line+": "+fmt.Sprintf(format, args...))
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, "%d", p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, "%d", p.Value)
				}
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, "%d in %d", p.Sum, p.Count)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, "%v in %d", p.Sum, p.Count)
				}
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// Each event moves its own figures and no others.
func TestEvents(t *testing.T) {
	event := func(op, method string) foil.Event {
		return foil.Event{Op: op, Method: method, Target: "purge", KeyID: "9f1c", Flow: "f", Round: 1, Bytes: 300, Took: time.Second / 2}
	}
	tests := []struct {
		name string
		do   func(o *otel.Observer)
		want []string
	}{
		{"nothing", func(*otel.Observer) {}, nil},
		{"sealed", func(o *otel.Observer) { o.Sealed(ctx, event("seal", "tools/call")) }, []string{
			"foil.duration s foil.op=seal foil.outcome=ok: 0.5 in 1",
			"foil.sealed {state} mcp.method.name=tools/call: 1",
			"foil.sealed_by_key {state} foil.key.id=9f1c: 1",
			"foil.token.size By: 300 in 1",
		}},
		{"opened", func(o *otel.Observer) { o.Opened(ctx, event("open", "prompts/get")) }, []string{
			"foil.duration s foil.op=open foil.outcome=ok: 0.5 in 1",
			"foil.opened {state} mcp.method.name=prompts/get: 1",
		}},
		{"rejected", func(o *otel.Observer) { o.Rejected(ctx, event("open", "resources/read"), foil.ReasonReplayed) }, []string{
			"foil.duration s foil.op=open foil.outcome=rejected: 0.5 in 1",
			"foil.rejected {refusal} foil.reason=replayed mcp.method.name=resources/read: 1",
		}},
		{"rejected without a time", func(o *otel.Observer) {
			o.Rejected(ctx, foil.Event{Op: "check", Method: "tools/call"}, foil.ReasonAmbiguous)
		}, []string{"foil.rejected {refusal} foil.reason=ambiguous_arguments mcp.method.name=tools/call: 1"}},
		{"failed", func(o *otel.Observer) {
			o.Failed(ctx, event("open", "tools/call"), fmt.Errorf("x: %w", foil.ErrUnavailable))
		}, []string{
			"foil.duration s foil.op=open foil.outcome=failed: 0.5 in 1",
			"foil.failed {failure} foil.cause=unavailable foil.op=open: 1",
		}},
		{"canceled", func(o *otel.Observer) {
			o.Failed(ctx, foil.Event{Op: "open"}, errors.Join(foil.ErrUnavailable, context.Canceled))
		}, []string{"foil.failed {failure} foil.cause=canceled foil.op=open: 1"}},
		{"mistake", func(o *otel.Observer) { o.Failed(ctx, foil.Event{Op: "seal"}, errDisk) },
			[]string{"foil.failed {failure} foil.cause=internal foil.op=seal: 1"}},
		{"operation", func(o *otel.Observer) { o.Operation(ctx, event("open", "tools/call"), foil.OperationRecorded) },
			[]string{"foil.operations {turn} foil.operation.status=recorded mcp.method.name=tools/call: 1"}},
		{"store call", func(o *otel.Observer) {
			o.StoreCall(ctx, foil.StoreCall{Store: "replay", Op: "use", Took: time.Second})
		}, []string{"foil.store.duration s foil.store=replay foil.store.op=use: 1 in 1"}},
		{"store error", func(o *otel.Observer) {
			o.StoreCall(ctx, foil.StoreCall{Store: "claimcheck", Op: "redeem", Took: time.Second, Err: errDisk})
		}, []string{
			"foil.store.duration s foil.store=claimcheck foil.store.op=redeem: 1 in 1",
			"foil.store.errors {call} foil.store=claimcheck foil.store.op=redeem: 1",
		}},
		{"store canceled", func(o *otel.Observer) {
			o.StoreCall(ctx, foil.StoreCall{Store: "replay", Op: "use", Took: time.Second, Err: context.Canceled})
		}, []string{"foil.store.duration s foil.store=replay foil.store.op=use: 1 in 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reader, o := observer(t)
			tt.do(o)
			if diff := cmp.Diff(tt.want, figures(t, reader)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// What a client sends never becomes an attribute of a metric, however much of it
// there is.
func TestCardinality(t *testing.T) {
	reader, o := observer(t)
	for i := range 10_000 {
		s := fmt.Sprintf("hostile-%d-\xff\"\n", i)
		e := foil.Event{Op: s, Method: s, Target: s, KeyID: s, Flow: s, Round: i, Bytes: i, Took: time.Millisecond}
		o.Opened(ctx, e)
		o.Rejected(ctx, e, foil.Reason(s))
		o.Failed(ctx, e, errors.New(s))
		o.StoreCall(ctx, foil.StoreCall{Store: s, Op: s, Err: errors.New(s)})
		o.Operation(ctx, e, foil.OperationStatus(s))
		// Of a codec that names its keys without end.
		e.KeyID = fmt.Sprint(i)
		o.Sealed(ctx, e)
		e.KeyID = s
		o.Sealed(ctx, e)
		// A client names keys in tokens that are refused.
		e.KeyID = fmt.Sprintf("forged%d", i)
		o.Rejected(ctx, e, foil.ReasonUnknownKey)
	}
	lines := figures(t, reader)
	if text := strings.Join(lines, "\n"); strings.Contains(text, "hostile") || strings.Contains(text, "forged") {
		t.Error("a client's text became an attribute")
	}
	keys := 0
	for _, l := range lines {
		if strings.HasPrefix(l, "foil.sealed_by_key ") {
			keys++
		}
	}
	if keys != 257 || len(lines)-keys > 20 {
		t.Errorf("%d keys, want 256 and the others; %d other series", keys, len(lines)-keys)
	}
}

func TestConcurrent(t *testing.T) {
	reader, o := observer(t)
	const callers, each = 16, 200
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				e := foil.Event{Op: "seal", Method: foil.MethodToolsCall, KeyID: fmt.Sprint((c + i) % 7), Bytes: 1, Took: 1}
				o.Sealed(ctx, e)
				o.Opened(ctx, e)
				o.Rejected(ctx, e, foil.ReasonExpired)
				o.Failed(ctx, e, errDisk)
				o.StoreCall(ctx, foil.StoreCall{Store: "replay", Op: "use", Took: 1, Err: errDisk})
				o.Operation(ctx, e, foil.OperationStarted)
			}
		})
	}
	wg.Wait()
	got := figures(t, reader)
	for _, name := range []string{
		"foil.sealed {state} mcp.method.name=tools/call", "foil.opened {state} mcp.method.name=tools/call",
		"foil.rejected {refusal} foil.reason=expired mcp.method.name=tools/call",
		"foil.failed {failure} foil.cause=internal foil.op=seal",
		"foil.store.errors {call} foil.store=replay foil.store.op=use",
		"foil.operations {turn} foil.operation.status=started mcp.method.name=tools/call",
	} {
		if want := fmt.Sprintf("%s: %d", name, callers*each); !slices.Contains(got, want) {
			t.Errorf("want %s", want)
		}
	}
}

// Without options, what is counted goes to the global provider, even to one that
// is set later.
func TestGlobalProvider(t *testing.T) {
	before := global.GetMeterProvider()
	t.Cleanup(func() { global.SetMeterProvider(before) })
	o, err := otel.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	reader := sdkmetric.NewManualReader()
	global.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	o.Opened(ctx, foil.Event{Op: "open", Method: foil.MethodToolsCall})
	if diff := cmp.Diff([]string{"foil.opened {state} mcp.method.name=tools/call: 1"}, figures(t, reader)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

type refusing struct{ noop.MeterProvider }

type refusingMeter struct{ noop.Meter }

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

func (refusingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errDisk
}

func (refusingMeter) Int64ObservableGauge(string, ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return nil, errDisk
}

func TestNewFails(t *testing.T) {
	if _, err := otel.New(&otel.Options{MeterProvider: refusing{}}); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
}
