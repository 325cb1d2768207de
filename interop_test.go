package foil_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/replay"
)

// pythonPayload is what a replica of the Python SDK mints: none of our claims.
func pythonPayload(iat time.Time) string {
	s := float64(iat.UnixMilli()) / 1000
	return fmt.Sprintf(`{"v":1,"iat":%f,"exp":%f,"m":"tools/call","t":"purge_objects","a":"RBNvo1WzZ4oRRq0W9-hkng","s":"s"}`, s, s+600)
}

func TestForeignTokensNeedAnInteropRing(t *testing.T) {
	b := newBench(t, nil)
	req := foil.Request{Method: foil.MethodToolsCall, Target: "purge_objects", Principal: foil.Anonymous(),
		Answers: []byte(`{"any":{"action":"accept"}}`)}
	token := forge(pythonPayload(epoch))
	open := func(interop bool, change func(*foil.Options)) (*foil.Opened, error) {
		g := b.guard(t, plain{foil.KeyLimits{Interop: interop}}, func(o *foil.Options) {
			o.Audience, o.NoAudience, o.Once = "", true, foil.Off
			if change != nil {
				change(o)
			}
		})
		return g.Open(ctx, req, token)
	}
	_, err := open(false, nil)
	wantReason(t, err, foil.ReasonMalformed)

	o, err := open(true, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := open(true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.Flow() != again.Flow() || o.Round() != 1 {
		t.Errorf("flow %s then %s, round %d", o.Flow(), again.Flow(), o.Round())
	}
	if want := epoch.Add(time.Hour); o.Deadline().Sub(want).Abs() > time.Millisecond {
		t.Errorf("deadline %v, want %v", o.Deadline(), want)
	}
	if _, status := o.Answer("any", []byte(askRoots)); status != foil.Answered {
		t.Errorf("its questions are not known, so an answer passes: %v", status)
	}
	// The exact digest is ours: without it, only the Python digest binds.
	req.Arguments = []byte(`{"a":1}`)
	_, err = open(true, nil)
	wantReason(t, err, foil.ReasonArguments)
}

// Where other replicas do not enforce single use, this one still does if told.
func TestAdoptedIdentityIsSpent(t *testing.T) {
	b := newBench(t, nil)
	g := b.guard(t, plain{foil.KeyLimits{Interop: true}}, func(o *foil.Options) {
		o.Audience, o.NoAudience, o.AcceptUnenforcedReplicas = "", true, true
	})
	req := foil.Request{Method: foil.MethodToolsCall, Target: "purge_objects", Principal: foil.Anonymous()}
	token := forge(pythonPayload(epoch))
	if _, err := g.Open(ctx, req, token); err != nil {
		t.Fatal(err)
	}
	_, err := g.Open(ctx, req, token)
	wantReason(t, err, foil.ReasonReplayed)
	if _, err := g.Open(ctx, req, forge(pythonPayload(epoch.Add(time.Millisecond)))); err != nil {
		t.Errorf("another token: %v", err)
	}
}

// A ring can turn into an interop ring while the Guard runs.
func TestRingTurnsInterop(t *testing.T) {
	b := newBench(t, nil)
	codec := &turning{}
	g := b.guard(t, codec, func(o *foil.Options) { o.Replay = durable{replay.NewMemory(nil)} })
	token, err := g.Seal(ctx, purge(), confirm())
	if err != nil {
		t.Fatal(err)
	}
	codec.limits.Interop = true
	if _, err := g.Open(ctx, purge(), token); !errors.Is(err, foil.ErrUnavailable) {
		t.Errorf("open: %v, want unavailable", err)
	}
	if _, err := g.Seal(ctx, purge(), confirm()); err == nil {
		t.Error("sealed")
	}
	if !bytes.Contains(b.log.Bytes(), []byte("AcceptUnenforcedReplicas")) {
		t.Error("the log does not name the option")
	}
}

type turning struct{ plain }

func (c *turning) KeyLimits() foil.KeyLimits { return c.limits }
