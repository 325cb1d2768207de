package sdkdoor_test

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/httpdoor"
	"github.com/foilmcp/foil/attack/sdkdoor"
	"github.com/foilmcp/foil/attack/storefile"
	"github.com/foilmcp/foil/attack/storemem"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/store/sqlite"
)

const service = "sdk-test"

type door interface {
	attack.Door
	attack.App
	io.Closer
}

// site makes what two replicas share, and opens a door to them.
func site(t *testing.T, mode attack.Mode, open func(*sdkdoor.Options) (door, error)) *attack.Config {
	t.Helper()
	doc, minter, err := attack.NewRing(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	minter.Audience = service
	ring, err := keyring.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	if mode.Once == foil.Settle {
		return settleSite(t, mode, open, minter, ring)
	}
	file := filepath.Join(t.TempDir(), "store.db")
	journal := &attack.Journal{}
	d, err := open(&sdkdoor.Options{Logger: journal.Logger(), Open: func() (*foil.Guard, io.Closer, error) {
		store, err := sqlite.Open(context.Background(), file, nil)
		if err != nil {
			return nil, nil, err
		}
		codec, err := aesgcm.New(keyring.Fixed(ring), nil)
		if err != nil {
			return nil, store, err
		}
		g, err := foil.New(codec, &foil.Options{
			Audience: service, Replay: store.Replay(), Once: mode.Once, Without: mode.Without,
			StoreTimeout: 2 * time.Second, Logger: journal.Logger(),
		})
		return g, store, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &attack.Config{Door: d, App: d, Minter: minter, Logs: journal, Store: storefile.File(file), Mode: mode}
}

// settleSite is that for a fleet that shares a ledger.
func settleSite(t *testing.T, mode attack.Mode, open func(*sdkdoor.Options) (door, error), minter *attack.Minter, ring *keyring.Ring) *attack.Config {
	t.Helper()
	operations := storemem.New()
	journal := &attack.Journal{}
	d, err := open(&sdkdoor.Options{Logger: journal.Logger(), Open: func() (*foil.Guard, io.Closer, error) {
		codec, err := aesgcm.New(keyring.Fixed(ring), nil)
		if err != nil {
			return nil, nil, err
		}
		g, err := foil.New(codec, &foil.Options{
			Audience: service, Ledger: operations, Once: mode.Once, Without: mode.Without,
			SettleAnonymous: true, // nobody is one of the cast
			StoreTimeout:    time.Second, Logger: journal.Logger(),
		})
		return g, nil, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &attack.Config{Door: d, App: d, Minter: minter, Logs: journal, Store: operations, Mode: mode}
}

func overHTTP(o *sdkdoor.Options) (door, error) { return sdkdoor.NewHTTP(2, o) }

func overPipes(version string) func(*sdkdoor.Options) (door, error) {
	return func(o *sdkdoor.Options) (door, error) { return sdkdoor.NewPipe(2, version, o) }
}

// What a door cannot show is said here once more, row by row, so that nothing
// can go out of sight.
var (
	noArguments = []string{
		"changed-argument", "added-argument", "removed-argument", "null-for-absent", "number-games", "lone-surrogate",
		"duplicate-key", "deep", "long-number",
	}
	prompts       = []string{"number-games", "lone-surrogate", "duplicate-key"}
	onStdio       = []string{"token-refresh"}
	askedByTheSDK = []string{"fork", "pre-answered", "reworded-question", "other-kind", "no-state"}
	// What the server was found not to see.
	notRead = []string{"two-states", "ambiguous-answers"}
)

// TestBattery runs every attack on every kind of call through every door of the
// SDK. Each row is there by its name, and what is not visible is as listed.
func TestBattery(t *testing.T) {
	const latest = "2025-11-25"
	kinds := map[string][]string{foil.MethodToolsCall: nil, foil.MethodPromptsGet: prompts, foil.MethodResourcesRead: append(noArguments, "case-twin")}
	for _, test := range []struct {
		name   string
		open   func(*sdkdoor.Options) (door, error)
		hidden []string
	}{
		{"http", overHTTP, notRead},
		{"pipe", overPipes(httpdoor.Protocol), slices.Concat(notRead, onStdio)},
		{"pipe " + latest, overPipes(latest), slices.Concat(notRead, onStdio, askedByTheSDK)},
	} {
		for kind, hidden := range kinds {
			t.Run(test.name+" "+kind, func(t *testing.T) {
				t.Parallel()
				mode := attack.Mode{Once: foil.Redeem, Kind: kind}
				check(t, site(t, mode, test.open), attack.Battery(), slices.Concat(test.hidden, hidden))
			})
			t.Run("settle "+test.name+" "+kind, func(t *testing.T) {
				t.Parallel()
				mode := attack.Mode{Once: foil.Settle, Kind: kind}
				attacks := light()
				if test.name == "http" {
					attacks = append(attacks, attack.Named("store-down")...)
				}
				check(t, site(t, mode, test.open), attacks, slices.Concat(test.hidden, hidden))
			})
		}
	}
}

// light is the battery without the attacks of very many or very large requests,
// none of which gets as far as single use, and without the one that waits.
func light() []attack.Attack {
	return slices.DeleteFunc(attack.Battery(), func(a attack.Attack) bool {
		return slices.Contains([]string{"tamper-each-part", "truncate", "oversize", "deep", "store-down"}, a.Name)
	})
}

// TestOlderVersions presents states in sessions of every older version.
func TestOlderVersions(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		if version >= "2025-11-25" {
			continue
		}
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			cfg := site(t, attack.Mode{Once: foil.Redeem}, overPipes(version))
			check(t, cfg, light(), slices.Concat(notRead, onStdio, askedByTheSDK))
		})
	}
}

// check runs the attacks. All must be as expected, and just those hidden not
// visible, each for a reason.
func check(t *testing.T, cfg *attack.Config, attacks []attack.Attack, hidden []string) {
	t.Helper()
	results, err := attack.Run(t.Context(), cfg, attacks)
	if err != nil {
		t.Fatal(err)
	}
	var want, got, unseen []string
	for _, a := range attacks {
		want = append(want, a.Name)
	}
	for _, r := range results {
		got = append(got, r.Name)
		if !r.OK {
			t.Errorf("%s: got %q, want %q\nnote: %s\nwire: %s", r.Name, r.Got, r.Expected, r.Note, r.Wire)
		}
		if r.Got == attack.NotVisible {
			unseen = append(unseen, r.Name)
			if r.Reason == "" {
				t.Errorf("%s is not visible, and nobody says why", r.Name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	hidden = slices.DeleteFunc(hidden, func(name string) bool { return !slices.Contains(want, name) })
	slices.Sort(unseen)
	slices.Sort(hidden)
	if diff := cmp.Diff(slices.Compact(hidden), unseen); diff != "" {
		t.Errorf("not visible (-want +got):\n%s", diff)
	}
}
