package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/claimcheck/claimchecktest"
	"github.com/foilmcp/foil/handle"
	"github.com/foilmcp/foil/handle/handletest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/ledger/ledgertest"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/replay/replaytest"
	"github.com/foilmcp/foil/store/sqlite"
)

// sealer makes a Sealer with a key of its own.
func sealer(t testing.TB) *atrest.Sealer {
	t.Helper()
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := atrest.New(keyring.Fixed(ring))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func startClock() *replaytest.Clock {
	return replaytest.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 123_456_789, time.UTC))
}

// moveAway takes the file away, from who reads as well as from who writes.
func moveAway(t *testing.T, path string) (restore func()) {
	t.Helper()
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(path, path+".away")
	return func() { t.Helper(); move(path+".away", path) }
}

func restored(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if _, err := s.Restored(t.Context()); err != nil {
		t.Fatalf("Restored: %v", err)
	}
}

func sweep(s *sqlite.Store) func(ctx context.Context) error {
	return func(ctx context.Context) error { _, err := s.Sweep(ctx); return err }
}

func ledgerHarness(t *testing.T) *ledgertest.Harness {
	path := filepath.Join(t.TempDir(), "foil.db")
	clock := startClock()
	opts := &sqlite.Options{Now: clock.Now, AtRest: sealer(t), MaxOutcomeBytes: 1 << 16}
	s := open(t, path, opts)
	s.SetMaxSteps(50)
	another := func(t *testing.T) ledger.Store {
		peer := open(t, path, opts)
		peer.SetMaxSteps(50)
		return peer.Ledger()
	}
	t.Cleanup(func() {
		if _, err := os.Stat(path); err == nil && !t.Failed() {
			clock.Advance(500 * 24 * time.Hour) // no mark is in the future then
			wantSound(t, s)
		}
	})
	return &ledgertest.Harness{
		Store:      s.Ledger(),
		Skew:       sqlite.DefaultSkew,
		Now:        clock.Now,
		Advance:    clock.Advance,
		Sweep:      sweep(s),
		MaxOutcome: opts.MaxOutcomeBytes,
		MaxSteps:   50,
		Reopen:     another, // nobody closes the first one: the file must be good as it lies
		Peer:       another,
		Restored:   func(t *testing.T) { restored(t, s) },
		Full:       func(t *testing.T) { fill(t, s) },
		Break:      func(t *testing.T) func() { return moveAway(t, path) },
		NoSecret:   true,
	}
}

func TestLedgerConformance(t *testing.T) { ledgertest.Run(t, ledgerHarness) }
func TestLedgerModel(t *testing.T)       { ledgertest.Model(t, ledgerHarness) }

func replayHarness(t *testing.T) *replaytest.Harness {
	path := filepath.Join(t.TempDir(), "foil.db")
	clock := startClock()
	opts := &sqlite.Options{Now: clock.Now}
	s := open(t, path, opts)
	return &replaytest.Harness{
		Store: s.Replay(),
		Skew:  sqlite.DefaultSkew,
		Clock: clock,
		Sweep: sweep(s),
		// Nobody closes the first one: the file must be good as it lies.
		Reopen:   func(t *testing.T) replay.Store { return open(t, path, opts).Replay() },
		Peer:     func(t *testing.T) replay.Store { return open(t, path, opts).Replay() },
		Full:     func(t *testing.T) { fill(t, s) },
		Break:    func(t *testing.T) func() { return takeAway(t, s, path) },
		Restored: func(t *testing.T) { restored(t, s) },
		NoSecret: true,
	}
}

func TestReplayConformance(t *testing.T)   { replaytest.Run(t, replayHarness) }
func TestDeferrerConformance(t *testing.T) { replaytest.RunDeferred(t, replayHarness) }

// TestClaimLimitsConformance is the suite for claims that are not sealed.
func TestClaimsConformance(t *testing.T) {
	claimchecktest.Run(t, func(t *testing.T) *claimchecktest.Harness {
		path := filepath.Join(t.TempDir(), "foil.db")
		clock := replaytest.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
		opts := &sqlite.Options{Now: clock.Now, MaxClaimBytes: 1 << 16, AtRest: sealer(t)}
		s := open(t, path, opts)
		return &claimchecktest.Harness{
			Store:      s.Claims(),
			Advance:    clock.Advance,
			MaxPayload: 1 << 16,
			NoSecret:   true,
			Reopen:     func(t *testing.T) claimcheck.Store { return open(t, path, opts).Claims() },
			Peer:       func(t *testing.T) claimcheck.Store { return open(t, path, opts).Claims() },
			Full:       func(t *testing.T) { fill(t, s) },
			Break:      func(t *testing.T) func() { return takeAway(t, s, path) },
		}
	})
}

func TestHandlesConformance(t *testing.T) {
	handletest.Run(t, func(t *testing.T) *handletest.Harness {
		path := filepath.Join(t.TempDir(), "foil.db")
		clock := handletest.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 123_456_789, time.UTC))
		opts := &sqlite.Options{Now: clock.Now, AtRest: sealer(t)}
		s := open(t, path, opts)
		return &handletest.Harness{
			Store:    s.Handles(),
			Skew:     sqlite.DefaultSkew,
			Clock:    clock,
			Sweep:    sweep(s),
			Reopen:   func(t *testing.T) handle.Store { return open(t, path, opts).Handles() },
			Peer:     func(t *testing.T) handle.Store { return open(t, path, opts).Handles() },
			Full:     func(*testing.T) { s.SetMaxHandles(300) },
			Break:    func(t *testing.T) func() { return takeAway(t, s, path) },
			Raw:      func(t *testing.T) []byte { return rawFiles(t, path) },
			Swap:     func(t *testing.T, a, b [32]byte) { swapHandles(t, path, a, b) },
			NoSecret: true,
		}
	})
}

// rawFiles is all that lies on the disk.
func rawFiles(t *testing.T, path string) (all []byte) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// swapHandles exchanges what is kept under two keys.
func swapHandles(t *testing.T, path string, a, b [32]byte) {
	t.Helper()
	c := raw(t, path)
	execute(t, c, "PRAGMA busy_timeout = 60000")
	var none [32]byte
	for _, step := range [][2][32]byte{{a, none}, {b, a}, {none, b}} {
		if _, err := c.ExecContext(t.Context(), "UPDATE foil_handle SET key = ? WHERE key = ?", step[1][:], step[0][:]); err != nil {
			t.Fatal(err)
		}
	}
}
