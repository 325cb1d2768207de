package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/claimcheck/claimchecktest"
	"github.com/foilmcp/foil/replay/replaytest"
	"github.com/foilmcp/foil/store/sqlite"
)

// The suite once more, with each limit being what fills the store.
func TestClaimLimitsConformance(t *testing.T) {
	for name, limits := range map[string]sqlite.Options{
		"claims": {MaxClaims: 300},
		"bytes":  {MaxClaimTotalBytes: 300 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			claimchecktest.Run(t, func(t *testing.T) *claimchecktest.Harness {
				path := filepath.Join(t.TempDir(), "foil.db")
				clock := replaytest.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
				opts := limits
				opts.Now, opts.MaxClaimBytes = clock.Now, 1<<16
				s := open(t, path, &opts)
				return &claimchecktest.Harness{
					Store:      s.Claims(),
					Advance:    clock.Advance,
					MaxPayload: 1 << 16,
					NoSecret:   true,
					Reopen:     func(t *testing.T) claimcheck.Store { return open(t, path, &opts).Claims() },
					Peer:       func(t *testing.T) claimcheck.Store { return open(t, path, &opts).Claims() },
					Full:       func(*testing.T) {}, // it is small as it is
					Break:      func(t *testing.T) func() { return takeAway(t, s, path) },
				}
			})
		})
	}
}

// wantTotals compares what the file says the claims come to with what they do.
func wantTotals(t *testing.T, path string, claims, bytes int) {
	t.Helper()
	var got [4]int
	err := raw(t, path).QueryRowContext(t.Context(), `SELECT claims, bytes, (SELECT count(*) FROM claim),
		(SELECT coalesce(sum(length(payload)), 0) FROM claim) FROM claim_total`).Scan(&got[0], &got[1], &got[2], &got[3])
	if want := [4]int{claims, bytes, claims, bytes}; err != nil || got != want {
		t.Fatalf("totals and claims are %v (%v), want %v", got, err, want)
	}
}

func TestClaimLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	clock := replaytest.NewClock(time.Unix(1_800_000_000, 0))
	s := open(t, path, &sqlite.Options{Now: clock.Now, MaxClaimBytes: 60, MaxClaimTotalBytes: 100, MaxClaims: 3})
	other := open(t, path, &sqlite.Options{Now: clock.Now, MaxClaimBytes: 60, MaxClaimTotalBytes: 100, MaxClaims: 3})
	issue := func(bytes int, ttl time.Duration, want error) string {
		t.Helper()
		claim, err := s.Claims().Issue(t.Context(), make([]byte, bytes), ttl)
		s, other = other, s // the limits are those of the file
		if !errors.Is(err, want) || (claim == "") != (want != nil) {
			t.Fatalf("Issue of %d bytes: %v, want %v", bytes, err, want)
		}
		return claim
	}
	ping := func(want error) {
		t.Helper()
		if err := s.Claims().Ping(t.Context()); !errors.Is(err, want) {
			t.Fatalf("Ping: %v, want %v", err, want)
		}
	}
	redeem := func(claim string) {
		t.Helper()
		if _, err := s.Claims().Redeem(t.Context(), claim, "op"); err != nil {
			t.Fatalf("Redeem: %v", err)
		}
	}
	issue(61, time.Minute, claimcheck.ErrTooLarge)
	first := issue(60, time.Minute, nil)
	issue(41, time.Minute, claimcheck.ErrFull) // one too many
	second := issue(40, 2*time.Minute, nil)    // exactly all
	issue(1, time.Minute, claimcheck.ErrFull)
	ping(claimcheck.ErrFull)
	issue(0, 2*time.Minute, nil) // needs no bytes
	issue(0, time.Minute, claimcheck.ErrFull)
	wantTotals(t, path, 3, 100)
	redeem(first) // it still has to be there, and makes no room
	issue(0, time.Minute, claimcheck.ErrFull)
	clock.Advance(time.Minute) // what is due makes room, and nothing else does
	third := issue(60, time.Minute, nil)
	wantTotals(t, path, 3, 100)
	ping(claimcheck.ErrFull)
	redeem(second)
	if err := s.Claims().Revoke(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	wantTotals(t, path, 2, 60)
	ping(nil)
	redeem(third)
	clock.Advance(time.Hour)
	ping(nil)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantTotals(t, path, 0, 0)
}

// More is due than one deletion takes, and the last of it is needed.
func TestClaimLimitDeletesAllThatIsDue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	clock := replaytest.NewClock(time.Unix(1_800_000_000, 0))
	s := open(t, path, &sqlite.Options{Now: clock.Now, MaxClaimTotalBytes: 700})
	for range 700 {
		if _, err := s.Claims().Issue(t.Context(), []byte("x"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(time.Minute)
	if _, err := s.Claims().Issue(t.Context(), make([]byte, 700), time.Minute); err != nil {
		t.Fatalf("Issue when all before is due: %v", err)
	}
	wantTotals(t, path, 1, 700)
}

func TestClaimLimitIsExactUnderConcurrency(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	opts := &sqlite.Options{MaxClaims: 50}
	stores := []*sqlite.Store{open(t, path, opts), open(t, path, opts)}
	var issued atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			_, err := stores[i%2].Claims().Issue(context.Background(), []byte("plan"), time.Hour)
			switch {
			case err == nil:
				issued.Add(1)
			case !errors.Is(err, claimcheck.ErrFull):
				t.Errorf("Issue: %v, want ErrFull", err)
			}
		})
	}
	wg.Wait()
	if n := issued.Load(); n != 50 {
		t.Errorf("%d claims were issued, want 50", n)
	}
	wantTotals(t, path, 50, 200)
}

func TestMissingTotalsFailClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	execute(t, raw(t, path), "DELETE FROM claim_total", "DELETE FROM ping")
	if claim, err := s.Claims().Issue(t.Context(), nil, time.Minute); claim != "" || err == nil || errors.Is(err, claimcheck.ErrFull) {
		t.Errorf("Issue without totals: %v, want an error", err)
	}
	if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "lacks the row") {
		t.Errorf("Ping without its row: %v, want an error", err)
	}
}
