package otel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/observe/otel"
	"github.com/foilmcp/foil/replay"
)

// spanned runs do within a span and returns the span's events, one line each.
func spanned(t *testing.T, do func(context.Context)) []string {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = provider.Shutdown(ctx) })
	in, span := provider.Tracer("test").Start(ctx, "tools/call purge")
	do(in)
	span.End()
	ended := spans.Ended()
	if len(ended) != 1 || len(ended[0].Attributes()) != 0 || ended[0].Status() != (sdktrace.Status{}) {
		t.Errorf("%d spans, attributes and status not left alone", len(ended))
	}
	var lines []string
	for _, e := range ended[0].Events() {
		line := e.Name
		for _, kv := range e.Attributes {
			line += fmt.Sprintf(" %s=%s", kv.Key, kv.Value.String())
		}
		lines = append(lines, line)
	}
	return lines
}

func TestSpanEvents(t *testing.T) {
	_, o := observer(t)
	got := spanned(t, func(ctx context.Context) {
		e := foil.Event{Op: "seal", Method: "tools/call", Target: "purge", KeyID: "9f1c", Flow: "Zm9p", Round: 2, Bytes: 300, Took: 1}
		o.Sealed(ctx, e)
		e.Op = "open"
		o.Opened(ctx, e)
		o.Rejected(ctx, e, foil.ReasonReplayed)
		o.Rejected(ctx, foil.Event{Op: "open", Method: "x"}, "y")
		o.Failed(ctx, e, fmt.Errorf("%w: %w", foil.ErrUnavailable, errDisk))
		o.StoreCall(ctx, foil.StoreCall{Store: "replay", Op: "use", Err: errDisk})
		e.Op = "conclude"
		o.Operation(ctx, e, foil.OperationSucceeded)
	})
	want := []string{
		"foil.sealed mcp.method.name=tools/call foil.op=seal foil.flow=Zm9p foil.round=2",
		"foil.opened mcp.method.name=tools/call foil.op=open foil.flow=Zm9p foil.round=2",
		"foil.rejected mcp.method.name=tools/call foil.reason=replayed foil.op=open foil.flow=Zm9p foil.round=2",
		"foil.rejected mcp.method.name=other foil.reason=other foil.op=open",
		"foil.failed mcp.method.name=tools/call foil.cause=unavailable foil.op=open foil.flow=Zm9p foil.round=2",
		"foil.operation mcp.method.name=tools/call foil.operation.status=succeeded foil.op=conclude foil.flow=Zm9p foil.round=2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A Guard at work: the rounds of a flow have its id in common, and nothing that
// was said to the Guard in confidence is in metrics or events.
func TestGuard(t *testing.T) {
	reader, o := observer(t)
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{
		Audience: "secret-audience", Replay: replay.NewMemory(nil), Observer: o, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	req := foil.Request{
		Method: foil.MethodToolsCall, Target: "secret-target", Arguments: []byte(`{"a":"secret-argument"}`),
		Principal: foil.PrincipalString("secret-principal"),
	}
	var token, flow string
	events := spanned(t, func(ctx context.Context) {
		if token, err = guard.Seal(ctx, req, foil.Outgoing{State: "secret-state"}); err != nil {
			t.Fatal(err)
		}
		opened, err := guard.Open(ctx, req, token)
		if err != nil {
			t.Fatal(err)
		}
		flow = opened.Flow()
		_, _ = guard.Open(ctx, req, token)
		other := req
		other.Method = "secret-method"
		_, _ = guard.Open(ctx, other, token)
		_, _ = guard.Open(ctx, req, "v1.secret-forgery")
	})
	about := " foil.op=open foil.flow=" + flow + " foil.round=1"
	want := []string{
		"foil.sealed mcp.method.name=tools/call foil.op=seal foil.flow=" + flow + " foil.round=1",
		"foil.opened mcp.method.name=tools/call" + about,
		"foil.rejected mcp.method.name=tools/call foil.reason=replayed" + about,
		"foil.rejected mcp.method.name=other foil.reason=method" + about,
		"foil.rejected mcp.method.name=tools/call foil.reason=malformed foil.op=open",
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	metrics := strings.Join(figures(t, reader), "\n")
	if strings.Contains(metrics, flow) {
		t.Error("the metrics hold a flow")
	}
	text := metrics + strings.Join(events, "\n")
	for _, secret := range []string{"secret", token, token[3:30]} {
		if strings.Contains(text, secret) {
			t.Errorf("found %q in\n%s", secret, text)
		}
	}
}

// A store's error may name hosts and users: it stays out.
func TestErrorTextStaysOut(t *testing.T) {
	reader, o := observer(t)
	leaky := errors.New("dial tcp: secret@host")
	events := spanned(t, func(ctx context.Context) {
		o.Failed(ctx, foil.Event{Op: "open"}, fmt.Errorf("%w: %w", foil.ErrUnavailable, leaky))
		o.StoreCall(ctx, foil.StoreCall{Store: "replay", Op: "use", Err: leaky})
	})
	if text := strings.Join(append(events, figures(t, reader)...), "\n"); strings.Contains(text, "secret") {
		t.Error(text)
	}
}

// Without a span that records, nothing is put together.
func TestNoSpan(t *testing.T) {
	o, err := otel.New(&otel.Options{MeterProvider: noop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	o.Opened(ctx, foil.Event{Op: "open", Method: foil.MethodToolsCall, Flow: "f", Round: 1})
}
