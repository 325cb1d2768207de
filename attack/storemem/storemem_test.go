package storemem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/attack/storemem"
	"github.com/foilmcp/foil/ledger"
)

func start(expires time.Time) *ledger.Start {
	return &ledger.Start{
		ID: [ledger.IDLen]byte{1}, Flow: [ledger.IDLen]byte{2}, Round: 1, Method: "tools/call", Target: "act",
		Expires: expires, Lease: time.Minute, Keep: expires.Add(time.Hour), Retention: 24 * time.Hour,
	}
}

func TestSweep(t *testing.T) {
	l := storemem.New()
	now := time.Now()
	s := start(now.Add(time.Minute))
	op, started, err := l.Begin(t.Context(), s)
	if err != nil || !started {
		t.Fatal(started, err)
	}
	if err := l.Finish(t.Context(), op.ID, op.Fence, ledger.Finish{State: ledger.Succeeded, Outcome: []byte("rx")}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		until time.Time
		want  int
	}{
		{now.Add(23 * time.Hour), 0},
		{now.Add(25 * time.Hour), 1},
		{now.Add(25 * time.Hour), 0},
	} {
		if n, err := l.Sweep(t.Context(), test.until); n != test.want || err != nil {
			t.Errorf("until %v: %d forgotten, %v; want %d", test.until.Sub(now), n, err, test.want)
		}
	}
	if _, _, err := l.Begin(t.Context(), s); !errors.Is(err, ledger.ErrSwept) {
		t.Errorf("what was forgotten begins: %v", err)
	}
	// The clock is as before: a lease of now has not run out.
	s.ID[0], s.Expires = 3, now.Add(time.Hour)
	if op, started, err := l.Begin(t.Context(), s); err != nil || !started || op.Started.Sub(now) > time.Hour {
		t.Errorf("after the sweep: %+v, %t, %v", op, started, err)
	}
}

func TestOutage(t *testing.T) {
	l := storemem.New()
	restore, err := l.Outage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Outage(t.Context()); err == nil {
		t.Error("it was taken away twice")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := start(time.Now().Add(time.Minute))
	if _, _, err := l.Begin(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("Begin: %v", err)
	}
	if _, err := l.Get(ctx, s.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v", err)
	}
	if err := l.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Ping: %v", err)
	}
	waited := make(chan error, 1)
	go func() { _, _, err := l.Begin(t.Context(), s); waited <- err }()
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("who waited: %v", err)
	}
	if err := l.Ping(t.Context()); err != nil {
		t.Errorf("Ping afterwards: %v", err)
	}
}
