package prom_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/observe/prom"
	"github.com/foilmcp/foil/store"
)

// full is what a store may tell, with what must not be told.
var full = store.Stats{
	Backend: "secret-backend", Schema: 3, Spent: 1, Claims: 2, Handles: 3, Executing: 4, Succeeded: 5, Failed: 6, Unknown: 7,
	ClaimBytes: 8, SizeBytes: 9, Keys: map[string]int64{"secret-key": 1},
}

func quiet() *prom.StoresOptions {
	return &prom.StoresOptions{Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}
}

func TestStores(t *testing.T) {
	var fails error
	reg := prometheus.NewPedanticRegistry()
	c, err := prom.Stores(reg, quiet(),
		prom.Store{Name: "main", Stats: func(context.Context) (store.Stats, error) { return full, fails }},
		prom.Store{Name: "runs", Counts: func(context.Context) (ledger.Counts, error) {
			return ledger.Counts{Executing: 1, Unknown: 2}, nil
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	const runs = `foil_store_operations{name="runs",state="executing"} 1
foil_store_operations{name="runs",state="failed"} 0
foil_store_operations{name="runs",state="succeeded"} 0
foil_store_operations{name="runs",state="unknown"} 2
`
	const up = `foil_store_claim_bytes{name="main"} 8
foil_store_claims{name="main"} 2
foil_store_handles{name="main"} 3
foil_store_operations{name="main",state="executing"} 4
foil_store_operations{name="main",state="failed"} 6
foil_store_operations{name="main",state="succeeded"} 5
foil_store_operations{name="main",state="unknown"} 7
` + runs + `foil_store_size_bytes{name="main"} 9
foil_store_spent_ids{name="main"} 1
foil_store_up{name="main"} 1
foil_store_up{name="runs"} 1
`
	const down = runs + `foil_store_up{name="main"} 0
foil_store_up{name="runs"} 1
`
	for i, want := range []string{up, down, up} {
		fails = nil
		if want == down {
			fails = errors.New("dial tcp: secret@host")
		}
		var b strings.Builder
		for line := range strings.Lines(all(t, reg)) {
			if !strings.HasPrefix(line, "#") {
				b.WriteString(line)
			}
		}
		if b.String() != want {
			t.Errorf("%d: got\n%s\nwant\n%s", i, b.String(), want)
		}
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	reg.Unregister(c)
	if text := all(t, reg); text != "" {
		t.Errorf("after it was unregistered\n%s", text)
	}
}

// A size that the store cannot tell is not told as nothing.
func TestUnknownSize(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	if _, err := prom.Stores(reg, quiet(), prom.Store{Name: "a", Stats: func(context.Context) (store.Stats, error) { return store.Stats{}, nil }}); err != nil {
		t.Fatal(err)
	}
	if text := all(t, reg); strings.Contains(text, "size") || !strings.Contains(text, `foil_store_spent_ids{name="a"} 0`) {
		t.Error(text)
	}
}

// A store that hangs does not hang the scrape, and what else is counted is told.
func TestStoreThatHangs(t *testing.T) {
	reg, o := observer(t, nil)
	release := make(chan struct{})
	defer close(release)
	opts := quiet()
	opts.Timeout = 50 * time.Millisecond
	if _, err := prom.Stores(reg, opts, prom.Store{Name: "a", Stats: func(context.Context) (store.Stats, error) {
		<-release
		return full, nil
	}}); err != nil {
		t.Fatal(err)
	}
	o.Sealed(ctx, event)
	for range 3 {
		if text := all(t, reg); !strings.Contains(text, "foil_store_up{name=\"a\"} 0\n") || strings.Contains(text, "foil_store_operations") || !strings.Contains(text, `foil_sealed_total{method="tools/call"} 1`) {
			t.Error(text)
		}
	}
}

func TestStoresRefuses(t *testing.T) {
	good := prom.Store{Name: "a", Stats: func(context.Context) (store.Stats, error) { return full, nil }}
	if _, err := prom.Stores(nil, nil, good); err == nil {
		t.Error("no registerer, and no error")
	}
	reg := prometheus.NewRegistry()
	for name, stores := range map[string][]prom.Store{"none": nil, "two of a name": {good, good}, "nothing to ask": {{Name: "a"}}} {
		if _, err := prom.Stores(reg, nil, stores...); err == nil || !strings.HasPrefix(err.Error(), "prom: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := prom.Stores(reg, &prom.StoresOptions{Timeout: -1}, good); err == nil {
		t.Error("a negative timeout passed")
	}
	if _, err := prom.Stores(reg, quiet(), good); err != nil {
		t.Fatal(err)
	}
	var taken prometheus.AlreadyRegisteredError
	if _, err := prom.Stores(reg, quiet(), good); !errors.As(err, &taken) {
		t.Errorf("a second time: %v", err)
	}
}
