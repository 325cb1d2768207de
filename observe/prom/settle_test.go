package prom_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/observe/prom"
)

var event = foil.Event{Op: "seal", Method: foil.MethodToolsCall}

// A Guard that settles: each turn of an operation is counted, redemptions and
// replays can be told apart, and nothing that was said in confidence is told.
func TestSettlingGuard(t *testing.T) {
	reg, o := observer(t, nil)
	now := time.Now()
	runs := ledger.NewMemory(&ledger.MemoryOptions{Now: func() time.Time { return now }})
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{
		Audience: "secret-audience", Once: foil.Settle, Ledger: runs, Resumable: true, Observer: o, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prom.Stores(reg, quiet(), prom.Store{Name: "runs", Counts: runs.Counts}); err != nil {
		t.Fatal(err)
	}
	req := foil.Request{
		Method: foil.MethodToolsCall, Target: "secret-target", Arguments: []byte(`{"a":"secret-argument"}`),
		Principal: foil.PrincipalString("secret-principal"), Answers: []byte(`{"confirm":{"action":"secret-answer"}}`),
	}
	var tokens []string
	seal := func() string {
		t.Helper()
		token, err := guard.Seal(ctx, req, foil.Outgoing{State: "secret-state", Questions: []byte(`{"confirm":{"method":"elicitation/create","params":{"message":"secret-question"}}}`)})
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token, token[3:30])
		return token
	}
	open := func(token string) *foil.Opened {
		t.Helper()
		opened, err := guard.Open(ctx, req, token)
		if err != nil {
			t.Fatal(err)
		}
		return opened
	}
	conclude := func(opened *foil.Opened, end foil.Conclusion) {
		t.Helper()
		if err := opened.Conclude(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	done := seal()
	opened := open(done)
	_, _ = guard.Open(ctx, req, done) // in progress
	if _, err := opened.Execution().Step(ctx, "secret-step", func(context.Context) ([]byte, error) { return []byte("secret-part"), nil }); err != nil {
		t.Fatal(err)
	}
	conclude(opened, foil.Conclusion{Result: []byte(`"secret-result"`)})
	open(done) // recorded
	open(done)
	changed := req
	changed.Answers = []byte(`{"confirm":{"action":"secret-other-answer"}}`)
	_, _ = guard.Open(ctx, changed, done)

	conclude(open(seal()), foil.Conclusion{Err: ledger.NoEffect(errDisk), Result: []byte(`"secret-error"`)})
	lost := seal()
	conclude(open(lost), foil.Conclusion{Err: errors.New("secret-cause")})
	open(lost)                                     // resumed
	now = now.Add(foil.DefaultLease + time.Second) // and cut off

	text := all(t, reg)
	for _, want := range []string{
		`foil_opened_total{method="tools/call"} 6`,
		`foil_operations_total{method="tools/call",status="started"} 3`,
		`foil_operations_total{method="tools/call",status="resumed"} 1`,
		`foil_operations_total{method="tools/call",status="recorded"} 2`,
		`foil_operations_total{method="tools/call",status="in_progress"} 1`,
		`foil_operations_total{method="tools/call",status="unknown"} 0`,
		`foil_operations_total{method="tools/call",status="succeeded"} 1`,
		`foil_operations_total{method="tools/call",status="failed"} 1`,
		`foil_operations_total{method="tools/call",status="lost"} 1`,
		`foil_rejected_total{method="tools/call",reason="answers_changed"} 1`,
		`foil_store_duration_seconds_count{op="begin",store="ledger"} 8`,
		`foil_store_duration_seconds_count{op="step",store="ledger"} 2`,
		`foil_store_duration_seconds_count{op="finish",store="ledger"} 3`,
		`foil_store_duration_seconds_count{op="resume",store="ledger"} 1`,
		`foil_store_operations{name="runs",state="succeeded"} 1`,
		`foil_store_operations{name="runs",state="failed"} 1`,
		`foil_store_operations{name="runs",state="unknown"} 1`,
		`foil_store_operations{name="runs",state="executing"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	for _, secret := range append(tokens, "secret", opened.Flow(), errDisk.Error()) {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics hold %q", secret)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
