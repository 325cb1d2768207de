package otel_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/observe/otel"
	"github.com/foilmcp/foil/store"
)

// full is what a store may tell, with what must not be told.
var full = store.Stats{
	Backend: "secret-backend", Schema: 3, Spent: 1, Claims: 2, Handles: 3, Executing: 4, Succeeded: 5, Failed: 6, Unknown: 7,
	ClaimBytes: 8, SizeBytes: 9, Keys: map[string]int64{"secret-key": 1},
}

func stores(t *testing.T, timeout time.Duration, all ...otel.Store) (sdkmetric.Reader, metric.Registration) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() { _ = provider.Shutdown(ctx) })
	r, err := otel.Stores(&otel.StoresOptions{MeterProvider: provider, Timeout: timeout, Logger: slog.New(slog.DiscardHandler)}, all...)
	if err != nil {
		t.Fatal(err)
	}
	return reader, r
}

func TestStores(t *testing.T) {
	var fails error
	reader, r := stores(t, time.Minute,
		otel.Store{Name: "main", Stats: func(context.Context) (store.Stats, error) { return full, fails }},
		otel.Store{Name: "runs", Counts: func(context.Context) (ledger.Counts, error) {
			return ledger.Counts{Executing: 1, Unknown: 2}, nil
		}},
	)
	runs := []string{
		"foil.store.operations {operation} foil.operation.state=executing foil.store.name=runs: 1",
		"foil.store.operations {operation} foil.operation.state=failed foil.store.name=runs: 0",
		"foil.store.operations {operation} foil.operation.state=succeeded foil.store.name=runs: 0",
		"foil.store.operations {operation} foil.operation.state=unknown foil.store.name=runs: 2",
	}
	up := []string{
		"foil.store.claim.size By foil.store.name=main: 8",
		"foil.store.claims {claim} foil.store.name=main: 2",
		"foil.store.handles {handle} foil.store.name=main: 3",
		"foil.store.operations {operation} foil.operation.state=executing foil.store.name=main: 4",
		runs[0],
		"foil.store.operations {operation} foil.operation.state=failed foil.store.name=main: 6",
		runs[1],
		"foil.store.operations {operation} foil.operation.state=succeeded foil.store.name=main: 5",
		runs[2],
		"foil.store.operations {operation} foil.operation.state=unknown foil.store.name=main: 7",
		runs[3],
		"foil.store.size By foil.store.name=main: 9",
		"foil.store.spent_ids {id} foil.store.name=main: 1",
		"foil.store.up 1 foil.store.name=main: 1",
		"foil.store.up 1 foil.store.name=runs: 1",
	}
	down := append(runs[:4:4], "foil.store.up 1 foil.store.name=main: 0", "foil.store.up 1 foil.store.name=runs: 1")
	for i, want := range [][]string{up, down, up} {
		fails = nil
		if i == 1 {
			fails = errors.New("dial tcp: secret@host")
		}
		if diff := cmp.Diff(want, figures(t, reader)); diff != "" {
			t.Errorf("%d: -want +got\n%s", i, diff)
		}
	}
	if err := r.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := figures(t, reader); got != nil {
		t.Errorf("after it was unregistered %q", got)
	}
}

// A store that hangs does not hang the collection.
func TestStoreThatHangs(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	reader, _ := stores(t, 50*time.Millisecond, otel.Store{Name: "a", Stats: func(context.Context) (store.Stats, error) {
		<-release
		return full, nil
	}})
	for range 3 {
		if diff := cmp.Diff([]string{"foil.store.up 1 foil.store.name=a: 0"}, figures(t, reader)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

func TestUnknownSize(t *testing.T) {
	reader, _ := stores(t, time.Minute, otel.Store{Name: "a", Stats: func(context.Context) (store.Stats, error) { return store.Stats{}, nil }})
	for _, line := range figures(t, reader) {
		if strings.HasPrefix(line, "foil.store.size") {
			t.Errorf("told %q", line)
		}
	}
}

func TestStoresRefuses(t *testing.T) {
	good := otel.Store{Name: "a", Stats: func(context.Context) (store.Stats, error) { return full, nil }}
	for name, all := range map[string][]otel.Store{"none": nil, "two of a name": {good, good}, "nothing to ask": {{Name: "a"}}} {
		if _, err := otel.Stores(nil, all...); err == nil || !strings.HasPrefix(err.Error(), "otel: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := otel.Stores(&otel.StoresOptions{MeterProvider: refusing{}}, good); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
}
