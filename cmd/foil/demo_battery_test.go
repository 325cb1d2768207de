package main

import (
	"context"
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
	attack.Journal
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
	site, err := newDemoSite(ctx, f.setup, f.Logger())
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
func newTestFleet(t *testing.T, mode attack.Mode) *attack.Config {
	t.Helper()
	return newTestFleetOf(t, tokenFormats[0], mode)
}

func newTestFleetOf(t *testing.T, format *tokenFormat, mode attack.Mode) *attack.Config {
	t.Helper()
	return newTestFleetOn(t, "sqlite:"+filepath.Join(t.TempDir(), "store.db"), format, mode)
}

func newTestFleetOn(t *testing.T, store string, format *tokenFormat, mode attack.Mode) *attack.Config {
	t.Helper()
	dir := t.TempDir()
	doc, minter, err := attack.NewRingFor(time.Now(), format.attack)
	if err != nil {
		t.Fatal(err)
	}
	minter.Audience = demoAudience
	f := &testFleet{t: t, setup: &demoSetup{
		Ring: filepath.Join(dir, "ring.json"), Storage: filepath.Join(dir, "storage.json"), Store: store, Bucket: filepath.Join(dir, "bucket"),
		Once: mode.Once.String(), Without: mode.Without.String(),
		Codec: format.name,
	}, up: make([]*httptest.Server, 2), sites: make([]*demoSite, 2)}
	if err := os.WriteFile(f.setup.Ring, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.setup.Bucket, 0o700); err != nil {
		t.Fatal(err)
	}
	storage, err := f.setup.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	minter.Secrets = append(minter.Secrets, storage)
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
	return &attack.Config{Door: f, App: &demoBucket{dir: f.setup.Bucket}, Minter: minter, Logs: f, Store: f.setup.seam(), Mode: mode}
}

// TestWithout switches off one binding after the other, and all of them: then
// what that binding alone stops gets through.
func TestWithout(t *testing.T) {
	const all = foil.BindPrincipal | foil.BindExpiry | foil.BindRequest | foil.BindAudience | foil.BindQuestions
	for _, without := range []foil.Binding{foil.BindPrincipal, foil.BindExpiry, foil.BindRequest, foil.BindAudience, foil.BindQuestions, all} {
		t.Run(without.String(), func(t *testing.T) {
			on, off := attack.Mode{Once: foil.Redeem}, attack.Mode{Once: foil.Redeem, Without: without}
			attacks := slices.DeleteFunc(attack.Battery(), func(a attack.Attack) bool {
				if slices.Contains([]string{"honest", "key-order", "duplicate-key", "fork", "oracle", "leak"}, a.Name) {
					return false
				}
				return slices.Equal(a.Expect(on), a.Expect(off))
			})
			results, err := attack.Run(t.Context(), newTestFleet(t, off), attacks)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if !r.OK {
					t.Errorf("%s: got %q, want %q\nnote: %s\nwire: %s", r.Name, r.Got, r.Expected, r.Note, r.Wire)
				}
			}
		})
	}
}

// TestBattery runs every attack against the demo's own server: the janitor on
// two replicas, behind the Go SDK and HTTP.
func TestBattery(t *testing.T) {
	for _, format := range tokenFormats {
		for _, once := range []foil.Once{foil.Redeem, foil.Settle} {
			t.Run(format.name+" "+once.String(), func(t *testing.T) { testBattery(t, format, once) })
		}
	}
}

func testBattery(t *testing.T, format *tokenFormat, once foil.Once) {
	t.Parallel()
	attacks := attack.Battery()
	if once == foil.Settle && format != tokenFormats[0] {
		attacks = attack.Named(storeRows...) // a ledger sees no token
	}
	results, err := attack.Run(t.Context(), newTestFleetOf(t, format, attack.Mode{Once: once}), attacks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if unseen := []string{"two-states", "ambiguous-answers"}; r.OK && (r.Got == attack.NotVisible) != slices.Contains(unseen, r.Name) {
				t.Errorf("got %q: %s", r.Got, r.Reason)
			}
			if !r.OK {
				t.Errorf("got %q, want %q\nnote: %s\nwire: %s", r.Got, r.Expected, r.Note, r.Wire)
			}
		})
	}
}

var onceRows = []string{
	"replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "decline-then-accept", "fork",
	"answers-changed", "lost-answer", "replay-swept",
}

// TestBatteryNamesSingleUse takes single use away and tells the battery that it
// is there: its rows, and no others, must turn red.
func TestBatteryNamesSingleUse(t *testing.T) {
	cfg := newTestFleet(t, attack.Mode{Once: foil.Off})
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
