//go:build unix

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/redis"
)

func TestLedgerThatMayForget(t *testing.T) {
	srv := redistest.Start(t, "appendonly yes", "appendfsync everysec")
	s := open(t, srv, redis.Options{Durability: redis.Everysec})
	use(t, s, freshID(), true)
	if _, started, err := s.Ledger().Begin(t.Context(), start(freshID())); started || err == nil || !contains(err.Error(), "LedgerMayForget") {
		t.Errorf("Begin in a ledger that may forget: %v, %v", started, err)
	}
	if err := s.Ledger().Ping(t.Context()); err == nil {
		t.Error("Ping of a ledger that may forget: no error")
	}
	named := open(t, srv, redis.Options{Durability: redis.Everysec, LedgerMayForget: true})
	if _, started, err := named.Ledger().Begin(t.Context(), start(freshID())); !started || err != nil {
		t.Errorf("Begin where it was named: %v, %v", started, err)
	}
	none := open(t, srv, redis.Options{Durability: redis.None})
	for _, v := range []interface{ Ephemeral() bool }{none.Replay(), none.Claims(), none.Handles(), none.Ledger()} {
		if !v.Ephemeral() {
			t.Errorf("%T of Durability None does not say that it is ephemeral", v)
		}
	}
	for _, v := range []interface{ Ephemeral() bool }{s.Replay(), s.Claims(), s.Handles(), s.Ledger()} {
		if v.Ephemeral() {
			t.Errorf("%T of Durability Everysec says that it is ephemeral", v)
		}
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t)
	b := w.bench(t)
	ctx := t.Context()
	issue := func() error { _, err := b.s.Claims().Issue(ctx, []byte("plan"), time.Minute); return err }
	var n byte
	put := func() error {
		n++
		return b.s.Handles().Put(ctx, [32]byte{n}, []byte("plan"), b.now().Add(time.Minute))
	}
	begin := func() error {
		s := start(freshID())
		s.Keep, s.Lease = b.now(), time.Minute
		_, _, err := b.s.Ledger().Begin(ctx, s)
		return err
	}
	check := func(what string, fn func() error, want error) {
		t.Helper()
		for range 3 {
			if err := fn(); err != nil {
				t.Fatalf("%s with room: %v", what, err)
			}
		}
		for range 2 {
			if err := fn(); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s without room: %v", what, err)
			}
		}
	}
	for range 2 {
		b.s.SetLimits(3, 1<<20)
		check("Issue", issue, claimcheck.ErrFull)
		check("Put", put, nil)
		if err := b.s.Claims().Ping(ctx); !errors.Is(err, claimcheck.ErrFull) {
			t.Errorf("Ping without room for a claim: %v", err)
		}
		if err := b.s.Handles().Ping(ctx); err != nil {
			t.Errorf("Ping without room for a handle, which can be read: %v", err)
		}
		b.clock.Advance(time.Hour)
		b.s.SetLimits(100, 3*(4+1+32)) // bytes of three sealed payloads
		check("Issue", issue, claimcheck.ErrFull)
		check("Put", put, nil)
		b.clock.Advance(time.Hour) // what is due makes room
	}
	b.s.SetLimits(3, 1<<20)
	check("Begin", begin, ledger.ErrFull)
	if err := b.s.Ledger().Ping(ctx); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("Ping without room for an operation: %v", err)
	}
	page, _, err := b.s.Ledger().List(ctx, ledger.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range page {
		if err := b.s.Ledger().Finish(ctx, op.ID, op.Fence, ledger.Finish{State: ledger.Failed}); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Advance(time.Hour)
	if err := b.s.Ledger().Ping(ctx); err != nil {
		t.Errorf("Ping with operations that are due: %v", err)
	}
	if _, err := b.s.Claims().Issue(ctx, make([]byte, 1<<16+1), time.Minute); !errors.Is(err, claimcheck.ErrTooLarge) {
		t.Errorf("Issue of a long payload: %v", err)
	}
}

// TestLongListIsReadInSteps lists more than one script looks at.
func TestLongListIsReadInSteps(t *testing.T) {
	srv := redistest.Start(t, "appendonly no")
	s := open(t, srv, redis.Options{Durability: redis.None, LedgerMayForget: true})
	const n = 2500
	for i := range n {
		st := start(freshID())
		if i%1000 == 999 {
			st.Flow = [16]byte{1}
		}
		if _, _, err := s.Ledger().Begin(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	flow := [16]byte{1}
	page, next, err := s.Ledger().List(t.Context(), ledger.Query{Flow: flow[:], Limit: 10})
	if err != nil || len(page) != 2 || next != "" {
		t.Errorf("List of a flow = %d operations, %q, %v; want 2", len(page), next, err)
	}
	seen := make(map[[16]byte]bool)
	q := ledger.Query{Limit: 700}
	for range 10 {
		page, next, err := s.Ledger().List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range page {
			seen[op.ID] = true
		}
		if q.After = next; next == "" {
			break
		}
	}
	if len(seen) != n {
		t.Errorf("List shows %d operations, want %d", len(seen), n)
	}
}

func TestCallsShareTheWay(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	s := open(t, srv, redis.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if first, err := s.Replay().Use(ctx, freshID(), time.Now().Add(time.Hour)); first || !errors.Is(err, context.Canceled) {
		t.Fatalf("Use = %v, %v", first, err)
	}
	// Each caller gets its own answer.
	done := make(chan error, 500)
	for i := range cap(done) {
		go func() {
			claim, err := s.Claims().Issue(t.Context(), fmt.Append(nil, i), time.Hour)
			if err == nil {
				var got []byte
				if got, err = s.Claims().Redeem(t.Context(), claim, "me"); err == nil && string(got) != fmt.Sprint(i) {
					err = errors.New("got the payload of another")
				}
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
