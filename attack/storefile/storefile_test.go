package storefile_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/foilmcp/foil/attack/storefile"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/sqlite"
)

func open(t *testing.T) (*sqlite.Store, storefile.File) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "store.db")
	s, err := sqlite.Open(t.Context(), file, &sqlite.Options{PlainAtRest: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, storefile.File(file)
}

var id = []byte("0123456789abcdef")

func TestSweep(t *testing.T) {
	s, file := open(t)
	expires := time.Now().Add(time.Minute)
	if first, err := s.Replay().Use(t.Context(), id, expires); !first || err != nil {
		t.Fatal(first, err)
	}
	for _, test := range []struct {
		until time.Time
		want  int
	}{{expires.Add(-time.Second), 0}, {expires.Add(time.Second), 1}, {expires.Add(time.Second), 0}} {
		if n, err := file.Sweep(t.Context(), test.until); n != test.want || err != nil {
			t.Errorf("forgot %d, %v; want %d", n, err, test.want)
		}
	}
	if _, err := s.Replay().Use(t.Context(), id, expires); !errors.Is(err, replay.ErrSwept) {
		t.Errorf("a forgotten ID: %v", err)
	}
}

func TestSweepOperations(t *testing.T) {
	s, file := open(t)
	now := time.Now()
	start := &ledger.Start{
		ID: [ledger.IDLen]byte{1}, Flow: [ledger.IDLen]byte{2}, Round: 1, Method: "tools/call", Target: "act",
		Expires: now.Add(time.Minute), Lease: time.Minute, Keep: now.Add(time.Hour), Retention: 24 * time.Hour,
	}
	op, started, err := s.Ledger().Begin(t.Context(), start)
	if err != nil || !started {
		t.Fatal(started, err)
	}
	if err := s.Ledger().Finish(t.Context(), op.ID, op.Fence, ledger.Finish{State: ledger.Succeeded, Outcome: []byte("rx")}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		until time.Time
		want  int
	}{{now.Add(23 * time.Hour), 0}, {now.Add(25 * time.Hour), 1}, {now.Add(25 * time.Hour), 0}} {
		if n, err := file.Sweep(t.Context(), test.until); n != test.want || err != nil {
			t.Errorf("forgot %d, %v; want %d", n, err, test.want)
		}
	}
	if _, _, err := s.Ledger().Begin(t.Context(), start); !errors.Is(err, ledger.ErrSwept) {
		t.Errorf("a forgotten operation: %v", err)
	}
}

func TestOutage(t *testing.T) {
	s, file := open(t)
	restore, err := file.Outage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	use := func(d time.Duration) (bool, error) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return s.Replay().Use(ctx, id, time.Now().Add(time.Minute))
	}
	if first, err := use(200 * time.Millisecond); first || err == nil {
		t.Errorf("while it is away: %t, %v", first, err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if first, err := use(10 * time.Second); !first || err != nil {
		t.Errorf("when it is back: %t, %v", first, err)
	}
}
