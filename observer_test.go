package foil_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
)

// A recorder writes down what it is told.
type recorder struct{ lines []string }

func (r *recorder) add(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *recorder) take() string {
	s := strings.Join(r.lines, "; ")
	r.lines = nil
	return s
}

func event(e foil.Event) string {
	return fmt.Sprintf("%s %s flow=%t round=%d kid=%t bytes=%t took=%t", e.Op, e.Target, e.Flow != "", e.Round, e.KeyID != "", e.Bytes > 0, e.Took > 0)
}

func (r *recorder) Sealed(_ context.Context, e foil.Event) { r.add("sealed %s", event(e)) }
func (r *recorder) Opened(_ context.Context, e foil.Event) { r.add("opened %s", event(e)) }
func (r *recorder) Rejected(_ context.Context, e foil.Event, reason foil.Reason) {
	r.add("rejected %s: %s", event(e), reason)
}
func (r *recorder) Failed(_ context.Context, e foil.Event, err error) {
	r.add("failed %s: unavailable=%t", event(e), errors.Is(err, foil.ErrUnavailable))
}
func (r *recorder) StoreCall(_ context.Context, c foil.StoreCall) {
	r.add("%s %s %v", c.Store, c.Op, c.Err)
}

func (r *recorder) Operation(_ context.Context, e foil.Event, status foil.OperationStatus) {
	r.add("operation %s %s flow=%v round=%d: %s", e.Op, e.Target, e.Flow != "", e.Round, status)
}

func TestObserver(t *testing.T) {
	r := new(recorder)
	down := false
	s := &scripted{
		use: func(context.Context, []byte, time.Time) (bool, error) {
			if down {
				return false, errDisk
			}
			return true, nil
		},
		ping: func(context.Context) error { return errDisk },
	}
	checks := claimcheck.NewMemory(nil)
	b := newBench(t, func(o *foil.Options) { o.Observer, o.Replay, o.Claims = r, s, checks })
	want := func(want string) {
		t.Helper()
		if got := r.take(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}

	token := b.seal(t, purge(), confirm())
	want("sealed seal purge_objects flow=true round=1 kid=true bytes=true took=true")
	o, err := b.Open(ctx, purge(), token)
	if err != nil {
		t.Fatal(err)
	}
	want("replay use <nil>; opened open purge_objects flow=true round=1 kid=true bytes=true took=true")
	other := purge()
	other.Target = "other"
	_, _ = b.Open(ctx, other, token)
	want("rejected open other flow=true round=1 kid=true bytes=true took=true: target")
	_, _ = b.Open(ctx, purge(), "v1.forged")
	want("rejected open purge_objects flow=false round=0 kid=false bytes=true took=true: malformed")
	bad := purge()
	bad.Arguments = []byte(`{"a":1,"a":2}`)
	_ = b.Check(ctx, bad)
	want("rejected check purge_objects flow=false round=0 kid=false bytes=false took=false: ambiguous_arguments")
	_, _ = b.Seal(ctx, purge(), foil.Outgoing{State: "\xff"})
	want("failed seal purge_objects flow=false round=0 kid=false bytes=false took=true: unavailable=false")

	claim, err := checks.Issue(ctx, []byte("x"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _ = o.Claims().Redeem(ctx, claim)
	}
	_ = o.Claims().Revoke(ctx, claim)
	_, _ = b.Claims().Redeem(ctx, claim)
	want("claimcheck redeem <nil>; claimcheck redeem <nil>; claimcheck revoke <nil>; claimcheck redeem <nil>")

	down = true
	_, _ = b.Open(ctx, purge(), token)
	want("replay use disk is gone; failed open purge_objects flow=true round=1 kid=true bytes=true took=true: unavailable=true")
	b.now = b.now.Add(time.Second)
	_, _ = b.Open(ctx, purge(), token)
	want("replay ping disk is gone; failed open purge_objects flow=false round=0 kid=true bytes=true took=true: unavailable=true")
}
