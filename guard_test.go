package foil_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/replay"
)

var ctx = context.Background()

// A bench is one Guard with a clock that a test moves, on keys and a store that
// other Guards may share.
type bench struct {
	*foil.Guard
	codec *aesgcm.Codec
	now   time.Time
	log   bytes.Buffer
}

var epoch = time.Unix(1_790_000_000, 250_000_000)

// newBench makes a Guard on a ring that lives as long as the test.
func newBench(t *testing.T, change func(*foil.Options)) *bench {
	t.Helper()
	b := &bench{now: epoch}
	ring, err := keyring.NewRing(epoch, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.codec, err = aesgcm.New(keyring.Fixed(ring), &aesgcm.Options{Now: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.Guard = b.guard(t, b.codec, change)
	return b
}

func (b *bench) clock() time.Time { return b.now }

// guard makes another Guard with the bench's clock and log.
func (b *bench) guard(t *testing.T, codec foil.Codec, change func(*foil.Options)) *foil.Guard {
	t.Helper()
	o := &foil.Options{
		Audience: "storage",
		Replay:   durable{replay.NewMemory(&replay.MemoryOptions{Now: b.clock})},
		Logger:   slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:      b.clock,
	}
	if change != nil {
		change(o)
	}
	g, err := foil.New(codec, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// durable hides that a memory store dies with the process: so does the test.
type durable struct{ replay.Store }

var alice = foil.OAuth("app", "https://issuer.example", "alice")

func purge() foil.Request {
	return foil.Request{
		Method:    foil.MethodToolsCall,
		Target:    "purge_objects",
		Arguments: []byte(`{"prefix":"logs/","max_bytes":9007199254740992}`),
		Principal: alice,
	}
}

const confirmQuestion = `{"method":"elicitation/create","params":{"mode":"form","message":"Purge 3?","requestedSchema":{"type":"object"}}}`

func confirm() foil.Outgoing {
	return foil.Outgoing{State: `{"step":"confirm"}`, Questions: []byte(`{"confirm":` + confirmQuestion + `}`)}
}

const accepted = `{"confirm":{"action":"accept","content":{"ok":true}}}`

func (b *bench) seal(t *testing.T, req foil.Request, out foil.Outgoing) string {
	t.Helper()
	token, err := b.Seal(ctx, req, out)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func wantReason(t *testing.T, err error, want foil.Reason) {
	t.Helper()
	if foil.ReasonOf(err) != want || !errors.Is(err, foil.ErrInvalid) {
		t.Errorf("got %v, want reason %s", err, want)
	}
}

func TestRoundTrip(t *testing.T) {
	b := newBench(t, nil)
	token := b.seal(t, purge(), confirm())
	req := purge()
	req.Answers = []byte(accepted)
	b.now = epoch.Add(time.Minute)
	o, err := b.Open(ctx, req, token)
	if err != nil {
		t.Fatal(err)
	}
	if o.State() != `{"step":"confirm"}` || o.Round() != 1 || len(o.Flow()) != 22 {
		t.Errorf("state %q, round %d, flow %q", o.State(), o.Round(), o.Flow())
	}
	if want := epoch.Add(10 * time.Minute); o.Expires().Sub(want).Abs() > time.Microsecond {
		t.Errorf("expires %v, want %v", o.Expires(), want)
	}
	if want := epoch.Add(time.Hour); o.Deadline().Sub(want).Abs() > time.Microsecond {
		t.Errorf("deadline %v, want %v", o.Deadline(), want)
	}
	answer, status := o.Answer("confirm", []byte(confirmQuestion))
	if status != foil.Answered || string(answer) != `{"action":"accept","content":{"ok":true}}` {
		t.Errorf("answer %s, %v", answer, status)
	}
	_, err = b.Open(ctx, req, token)
	wantReason(t, err, foil.ReasonReplayed)
}

func TestNewRefusesWhatIsUnsafe(t *testing.T) {
	ring, err := keyring.NewRing(epoch, nil)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	python, err := keyring.FromSecrets(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	interop, err := aesgcm.New(keyring.Fixed(python), nil)
	if err != nil {
		t.Fatal(err)
	}
	memory := replay.NewMemory(nil)
	tests := []struct {
		name  string
		codec foil.Codec
		opts  *foil.Options
		want  string // in the error; "" if it must work
	}{
		{"nil options", shared, nil, "Audience"},
		{"no codec", nil, &foil.Options{Audience: "a", Once: foil.Off}, "codec"},
		{"no audience", shared, &foil.Options{Once: foil.Off}, "NoAudience"},
		{"audience and none", shared, &foil.Options{Audience: "a", NoAudience: true, Once: foil.Off}, "exclude"},
		{"audience is not UTF-8", shared, &foil.Options{Audience: "\xff", Once: foil.Off}, "UTF-8"},
		{"no store", shared, &foil.Options{Audience: "a"}, "Replay"},
		{"memory with a key that outlives it", shared, &foil.Options{Audience: "a", Replay: memory}, "Ephemeral"},
		{"memory with an ephemeral key", aesgcm.Ephemeral(), &foil.Options{Audience: "a", Replay: memory}, ""},
		{"durable store", shared, &foil.Options{Audience: "a", Replay: durable{memory}}, ""},
		{"off", shared, &foil.Options{Audience: "a", Once: foil.Off}, ""},
		{"no audience by name", shared, &foil.Options{NoAudience: true, Once: foil.Off}, ""},
		{"interop and single use", interop, &foil.Options{Audience: "a", Replay: durable{memory}}, "AcceptUnenforcedReplicas"},
		{"interop accepted", interop, &foil.Options{Audience: "a", Replay: durable{memory}, AcceptUnenforcedReplicas: true}, ""},
		{"interop off", interop, &foil.Options{Audience: "a", Once: foil.Off}, ""},
		{"TTL above the ring's", shared, &foil.Options{Audience: "a", Once: foil.Off, TTL: 11 * time.Minute}, "max_ttl"},
		{"negative TTL", shared, &foil.Options{Audience: "a", Once: foil.Off, TTL: -1}, "negative"},
		{"negative skew", shared, &foil.Options{Audience: "a", Once: foil.Off, Skew: -1}, "negative"},
		{"unknown once", shared, &foil.Options{Audience: "a", Once: 99}, "Once"},
		{"unknown choice", shared, &foil.Options{Audience: "a", Once: foil.Off, AmbiguousArguments: 9}, "AmbiguousArguments"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := foil.New(tt.codec, tt.opts)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || g != nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestOptionsAreCopied(t *testing.T) {
	b := newBench(t, nil)
	var opts *foil.Options
	g := b.guard(t, b.codec, func(o *foil.Options) { opts = o })
	opts.Audience, opts.Replay = "another", nil
	token, err := g.Seal(ctx, purge(), confirm())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(ctx, purge(), token); err != nil {
		t.Errorf("the audience changed: %v", err)
	}
}

func TestPolicyForEachTool(t *testing.T) {
	var asked atomic.Int32
	b := newBench(t, func(o *foil.Options) {
		o.PolicyFor = func(method, target string) foil.Policy {
			asked.Add(1)
			switch target {
			case "cheap":
				return foil.Policy{Once: foil.Off, TTL: time.Minute}
			case "wrong":
				return foil.Policy{TTL: time.Hour}
			}
			return foil.Policy{}
		}
	})
	cheap := purge()
	cheap.Target = "cheap"
	token := b.seal(t, cheap, confirm())
	for range 3 {
		if _, err := b.Open(ctx, cheap, token); err != nil {
			t.Fatal(err)
		}
	}
	b.now = epoch.Add(time.Minute)
	_, err := b.Open(ctx, cheap, token)
	wantReason(t, err, foil.ReasonExpired)

	b.now = epoch
	wrong := purge()
	wrong.Target = "wrong"
	if _, err := b.Seal(ctx, wrong, confirm()); err == nil || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("a TTL above the ring's: %v", err)
	}
	if _, err := b.Open(ctx, wrong, "v1.x"); !errors.Is(err, foil.ErrUnavailable) {
		t.Errorf("open under a wrong policy: %v", err)
	}
	token = b.seal(t, purge(), confirm())
	if _, err := b.Open(ctx, purge(), token); err != nil {
		t.Fatal(err)
	}
	_, err = b.Open(ctx, purge(), token)
	wantReason(t, err, foil.ReasonReplayed)
	if asked.Load() == 0 {
		t.Error("PolicyFor was never asked")
	}
}

// plain is a codec that protects nothing: tests write payloads with it.
type plain struct{ limits foil.KeyLimits }

func (plain) Seal(_ context.Context, payload []byte, _ time.Time) (string, error) {
	return "p." + base64.RawURLEncoding.EncodeToString(payload), nil
}

func (plain) Open(_ context.Context, token string) ([]byte, error) {
	body, ok := strings.CutPrefix(token, "p.")
	b, err := base64.RawURLEncoding.DecodeString(body)
	if !ok || err != nil {
		return nil, foil.Reject(foil.ReasonMalformed)
	}
	return b, nil
}

func (p plain) KeyLimits() foil.KeyLimits { return p.limits }

func forge(payload string) string {
	return "p." + base64.RawURLEncoding.EncodeToString([]byte(payload))
}
