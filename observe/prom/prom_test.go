package prom_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/observe/prom"
)

var (
	ctx     = context.Background()
	errDisk = errors.New("disk is gone")
)

func observer(t *testing.T, opts *prom.Options) (*prometheus.Registry, *prom.Observer) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	o, err := prom.New(reg, opts)
	if err != nil {
		t.Fatal(err)
	}
	return reg, o
}

// exposition is what a scrape gets, without the series at zero.
func exposition(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	text := all(t, reg)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && !strings.HasSuffix(line, " 0\n") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func all(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	page := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	if page.Code != 200 {
		t.Fatalf("%d: %s", page.Code, page.Body)
	}
	return page.Body.String()
}

// Each event moves its own figures and no others.
func TestEvents(t *testing.T) {
	event := func(op, method string) foil.Event {
		return foil.Event{Op: op, Method: method, Target: "purge", KeyID: "9f1c", Flow: "f", Round: 1, Bytes: 300, Took: 2 * time.Millisecond}
	}
	took := func(op, outcome string) string {
		return fmt.Sprintf(`foil_duration_seconds_bucket{op="%[1]s",outcome="%[2]s",le="1"} 1
foil_duration_seconds_bucket{op="%[1]s",outcome="%[2]s",le="+Inf"} 1
foil_duration_seconds_sum{op="%[1]s",outcome="%[2]s"} 0.002
foil_duration_seconds_count{op="%[1]s",outcome="%[2]s"} 1
`, op, outcome)
	}
	store := func(store, op string) string {
		return fmt.Sprintf(`foil_store_duration_seconds_bucket{op="%[2]s",store="%[1]s",le="1"} 1
foil_store_duration_seconds_bucket{op="%[2]s",store="%[1]s",le="+Inf"} 1
foil_store_duration_seconds_sum{op="%[2]s",store="%[1]s"} 0.5
foil_store_duration_seconds_count{op="%[2]s",store="%[1]s"} 1
`, store, op)
	}
	tests := []struct {
		name string
		do   func(o *prom.Observer)
		want string
	}{
		{"nothing", func(*prom.Observer) {}, ""},
		{"sealed", func(o *prom.Observer) { o.Sealed(ctx, event("seal", "tools/call")) },
			took("seal", "ok") + `foil_sealed_by_key_total{kid="9f1c"} 1
foil_sealed_total{method="tools/call"} 1
foil_token_bytes_bucket{le="1000"} 1
foil_token_bytes_bucket{le="+Inf"} 1
foil_token_bytes_sum 300
foil_token_bytes_count 1
`},
		{"opened", func(o *prom.Observer) { o.Opened(ctx, event("open", "prompts/get")) },
			took("open", "ok") + `foil_opened_total{method="prompts/get"} 1
`},
		{"rejected", func(o *prom.Observer) { o.Rejected(ctx, event("open", "resources/read"), foil.ReasonReplayed) },
			took("open", "rejected") + `foil_rejected_total{method="resources/read",reason="replayed"} 1
`},
		{"rejected without a time", func(o *prom.Observer) {
			o.Rejected(ctx, foil.Event{Op: "check", Method: "tools/call"}, foil.ReasonAmbiguous)
		}, `foil_rejected_total{method="tools/call",reason="ambiguous_arguments"} 1
`},
		{"failed", func(o *prom.Observer) {
			o.Failed(ctx, event("open", "tools/call"), fmt.Errorf("x: %w", foil.ErrUnavailable))
		}, took("open", "failed") + `foil_failed_total{cause="unavailable",op="open"} 1
`},
		{"canceled", func(o *prom.Observer) {
			o.Failed(ctx, event("open", "tools/call"), errors.Join(foil.ErrUnavailable, context.Canceled))
		}, took("open", "failed") + `foil_failed_total{cause="canceled",op="open"} 1
`},
		{"mistake", func(o *prom.Observer) { o.Failed(ctx, event("seal", "tools/call"), errDisk) },
			took("seal", "failed") + `foil_failed_total{cause="internal",op="seal"} 1
`},
		{"operation", func(o *prom.Observer) { o.Operation(ctx, event("open", "tools/call"), foil.OperationRecorded) },
			`foil_operations_total{method="tools/call",status="recorded"} 1
`},
		{"ledger call", func(o *prom.Observer) {
			o.StoreCall(ctx, foil.StoreCall{Store: "ledger", Op: "finish", Took: time.Second / 2})
		}, store("ledger", "finish")},
		{"store call", func(o *prom.Observer) {
			o.StoreCall(ctx, foil.StoreCall{Store: "replay", Op: "use", Took: time.Second / 2})
		}, store("replay", "use")},
		{"store error", func(o *prom.Observer) {
			o.StoreCall(ctx, foil.StoreCall{Store: "claimcheck", Op: "redeem", Took: time.Second / 2, Err: errDisk})
		}, store("claimcheck", "redeem") + `foil_store_errors_total{op="redeem",store="claimcheck"} 1
`},
		{"store canceled", func(o *prom.Observer) {
			o.StoreCall(ctx, foil.StoreCall{Store: "replay", Op: "use", Took: time.Second / 2, Err: context.Canceled})
		}, store("replay", "use")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reg, o := observer(t, &prom.Options{DurationBuckets: []float64{.001, 1}, SizeBuckets: []float64{100, 1000}})
			tt.do(o)
			if got := exposition(t, reg); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// A counter with known labels is there before its first event: else an alert on
// its increase would sleep through that.
func TestZeroes(t *testing.T) {
	reg, _ := observer(t, nil)
	text := all(t, reg)
	for _, want := range []string{
		`foil_sealed_total{method="tools/call"} 0`,
		`foil_opened_total{method="resources/read"} 0`,
		`foil_rejected_total{method="prompts/get",reason="replayed"} 0`,
		`foil_failed_total{cause="unavailable",op="open"} 0`,
		`foil_store_errors_total{op="use",store="replay"} 0`,
		`foil_store_errors_total{op="attempt",store="replay"} 0`,
		`foil_store_errors_total{op="begin",store="ledger"} 0`,
		`foil_operations_total{method="tools/call",status="lost"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestLint(t *testing.T) {
	reg, _ := observer(t, nil)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// What a client sends never becomes a label, however much of it there is.
func TestCardinality(t *testing.T) {
	reg, o := observer(t, nil)
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
	text := all(t, reg)
	if strings.Contains(text, "hostile") || strings.Contains(text, "forged") {
		t.Error("a client's text became a label")
	}
	if n := strings.Count(text, "\n"); n > 500 {
		t.Errorf("%d lines of metrics", n)
	}
	if n := strings.Count(text, "foil_sealed_by_key_total{"); n != 257 {
		t.Errorf("%d keys, want 256 and the others", n)
	}
}

func TestConcurrent(t *testing.T) {
	reg, o := observer(t, nil)
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
				if i%100 == 0 {
					if _, err := reg.Gather(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	text := all(t, reg)
	for _, name := range []string{
		`foil_sealed_total{method="tools/call"}`, `foil_opened_total{method="tools/call"}`,
		`foil_rejected_total{method="tools/call",reason="expired"}`, `foil_failed_total{cause="internal",op="seal"}`,
		`foil_store_errors_total{op="use",store="replay"}`, `foil_operations_total{method="tools/call",status="started"}`,
	} {
		if want := fmt.Sprintf("%s %d\n", name, callers*each); !strings.Contains(text, want) {
			t.Errorf("want %s", want)
		}
	}
}

func TestNew(t *testing.T) {
	if _, err := prom.New(nil, nil); err == nil {
		t.Error("no registerer, and no error")
	}
	for _, b := range [][]float64{{1, 1}, {2, 1}, {math.NaN()}, {1, math.NaN(), 2}} {
		for _, opts := range []*prom.Options{{DurationBuckets: b}, {SizeBuckets: b}} {
			if _, err := prom.New(prometheus.NewRegistry(), opts); err == nil {
				t.Errorf("buckets %v passed", b)
			}
		}
	}
	reg, _ := observer(t, nil)
	var taken prometheus.AlreadyRegisteredError
	if _, err := prom.New(reg, nil); !errors.As(err, &taken) {
		t.Errorf("a second observer: %v", err)
	}
	two := prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		if _, err := prom.New(prometheus.WrapRegistererWith(prometheus.Labels{"guard": name}, two), nil); err != nil {
			t.Errorf("an observer with a label of its own: %v", err)
		}
	}
}

// Where one name is taken, none of the others stays behind.
func TestNewLeavesNothingBehind(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "foil_store_errors_total", Help: "x"}))
	if _, err := prom.New(reg, nil); err == nil {
		t.Fatal("no error")
	}
	if n, err := testutil.GatherAndCount(reg); n != 1 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
}
