package prom_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/replay"
)

// A moody store works until it is down.
type moody struct {
	*replay.Memory
	down bool
}

func (m *moody) Use(ctx context.Context, id []byte, expires time.Time) (bool, error) {
	if m.down {
		return false, errDisk
	}
	return m.Memory.Use(ctx, id, expires)
}

// A Guard at work: the figures are right, and nothing that was said to it in
// confidence is among them.
func TestGuard(t *testing.T) {
	reg, o := observer(t, nil)
	store := &moody{Memory: replay.NewMemory(nil)}
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{
		Audience: "secret-audience", Replay: store, Observer: o, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	req := foil.Request{
		Method: foil.MethodToolsCall, Target: "secret-target", Arguments: []byte(`{"a":"secret-argument"}`),
		Principal: foil.PrincipalString("secret-principal"), Answers: []byte(`{"confirm":{"action":"secret-answer"}}`),
	}
	seal := func() string {
		t.Helper()
		token, err := guard.Seal(ctx, req, foil.Outgoing{State: "secret-state", Questions: []byte(`{"confirm":{"method":"elicitation/create","params":{"message":"secret-question"}}}`)})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	token := seal()
	opened, err := guard.Open(ctx, req, token)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = guard.Open(ctx, req, token)
	other := req
	other.Method = "secret-method"
	_, _ = guard.Open(ctx, other, token)
	_, _ = guard.Open(ctx, req, "v1.secret-forgery")
	ambiguous := req
	ambiguous.Arguments = []byte(`{"secret-key":1,"secret-key":2}`)
	_ = guard.Check(ctx, ambiguous)
	second := seal()
	store.down = true
	_, _ = guard.Open(ctx, req, second)

	text := all(t, reg)
	for _, want := range []string{
		`foil_sealed_total{method="tools/call"} 2`,
		`foil_opened_total{method="tools/call"} 1`,
		`foil_rejected_total{method="tools/call",reason="replayed"} 1`,
		`foil_rejected_total{method="other",reason="method"} 1`,
		`foil_rejected_total{method="tools/call",reason="malformed"} 1`,
		`foil_rejected_total{method="tools/call",reason="ambiguous_arguments"} 1`,
		`foil_failed_total{cause="unavailable",op="open"} 1`,
		`foil_store_errors_total{op="use",store="replay"} 1`,
		`foil_store_duration_seconds_count{op="use",store="replay"} 3`,
		`foil_duration_seconds_count{op="open",outcome="ok"} 1`,
		`foil_duration_seconds_count{op="open",outcome="rejected"} 3`,
		`foil_duration_seconds_count{op="open",outcome="failed"} 1`,
		`foil_token_bytes_count 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(text, `kid="none"`) || strings.Contains(text, `kid="other"`) {
		t.Error("the key is not named")
	}
	for _, secret := range []string{"secret", token, second, token[3:30], opened.Flow(), errDisk.Error()} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics hold %q", secret)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
