package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/httpdoor"
)

// A fleet in this process: replicas that share files, each behind a server.
type testFleet struct {
	*httpdoor.Door
	t     *testing.T
	setup *demoSetup

	mu    sync.Mutex
	up    []*httptest.Server
	sites []*demoSite
}

func (f *testFleet) Kill(_ context.Context, n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[n-1].CloseClientConnections()
	f.up[n-1].Close()
	return f.sites[n-1].Close()
}

func (f *testFleet) Start(ctx context.Context, n int) error {
	site, err := newDemoSite(ctx, f.setup, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sites[n-1], f.up[n-1] = site, httptest.NewServer(site)
	f.Move(n, f.up[n-1].URL+demoPath)
	return nil
}

// newTestFleet starts two replicas and returns what the battery needs.
func newTestFleet(t *testing.T, once foil.Once) *attack.Config {
	t.Helper()
	dir := t.TempDir()
	doc, minter, err := attack.NewRing(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	minter.Audience = demoAudience
	f := &testFleet{t: t, setup: &demoSetup{
		Ring: filepath.Join(dir, "ring.json"), Store: filepath.Join(dir, "store.db"), Bucket: filepath.Join(dir, "bucket"), Once: once.String(),
	}, up: make([]*httptest.Server, 2), sites: make([]*demoSite, 2)}
	if err := os.WriteFile(f.setup.Ring, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.setup.Bucket, 0o700); err != nil {
		t.Fatal(err)
	}
	if f.Door, err = httpdoor.New("", ""); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		if err := f.Start(context.Background(), n); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		f.Close()
		for n := 1; n <= 2; n++ {
			if err := f.Kill(context.Background(), n); err != nil {
				t.Error(err)
			}
		}
	})
	return &attack.Config{Door: f, App: &demoBucket{dir: f.setup.Bucket}, Minter: minter, Mode: attack.Mode{Once: once}}
}

// TestBattery runs every attack against the demo's own server: the janitor on
// two replicas, behind the Go SDK and HTTP.
func TestBattery(t *testing.T) {
	results, err := attack.Run(t.Context(), newTestFleet(t, foil.Redeem), attack.Battery())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if !r.OK {
				t.Errorf("got %q, want %q\nnote: %s\nwire: %s", r.Got, r.Expected, r.Note, r.Wire)
			}
		})
	}
}

var onceRows = []string{
	"replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "decline-then-accept", "fork",
}

// TestBatteryNamesSingleUse takes single use away and tells the battery that it
// is there: its rows, and no others, must turn red.
func TestBatteryNamesSingleUse(t *testing.T) {
	cfg := newTestFleet(t, foil.Off)
	cfg.Mode.Once = foil.Redeem
	rows := append([]string{"honest", "other-user", "changed-argument", "late"}, onceRows...)
	results, err := attack.Run(t.Context(), cfg, attack.Named(rows...))
	if err != nil {
		t.Fatal(err)
	}
	var red []string
	for _, r := range results {
		if !r.OK {
			red = append(red, r.Name)
		}
	}
	if !slices.Equal(red, onceRows) {
		t.Errorf("red rows %q, want %q", red, onceRows)
	}
}
