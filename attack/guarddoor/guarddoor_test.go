package guarddoor_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/guarddoor"
	"github.com/foilmcp/foil/attack/plain"
	"github.com/foilmcp/foil/attack/storefile"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/signed"
	"github.com/foilmcp/foil/store/sqlite"
)

const (
	service = "guard-test"
	// storeTimeout is how long an outage must last to be seen, and far more
	// than a commit takes.
	storeTimeout = 2 * time.Second
)

// site starts two replicas on one SQLite file.
func site(t *testing.T, mode attack.Mode, wrap func(foil.Codec) foil.Codec) *attack.Config {
	t.Helper()
	return siteOf(t, attack.AESGCM, mode, wrap)
}

func siteOf(t *testing.T, format attack.Format, mode attack.Mode, wrap func(foil.Codec) foil.Codec, stores ...func(replay.Store) replay.Store) *attack.Config {
	t.Helper()
	if mode.Once == foil.Settle {
		return settleSite(t, format, mode, wrap, nil)
	}
	doc, minter, err := attack.NewRingFor(time.Now(), format)
	if err != nil {
		t.Fatal(err)
	}
	minter.Audience = service
	ring, err := keyring.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "store.db")
	journal := &attack.Journal{}
	door, err := guarddoor.New(2, func() (*foil.Guard, io.Closer, error) {
		store, err := sqlite.Open(context.Background(), file, nil)
		if err != nil {
			return nil, nil, err
		}
		var codec foil.Codec
		codec, err = aesgcm.New(keyring.Fixed(ring), nil)
		if format == attack.Signed {
			codec, err = signed.New(keyring.Fixed(ring), nil)
		}
		if err != nil {
			return nil, store, err
		}
		if wrap != nil {
			codec = wrap(codec)
		}
		var spent replay.Store = store.Replay()
		for _, w := range stores {
			spent = w(spent)
		}
		g, err := foil.New(codec, &foil.Options{
			Audience: service, Replay: spent, Once: mode.Once, Without: mode.Without,
			Logger: journal.Logger(), StoreTimeout: storeTimeout,
		})
		return g, store, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := door.Close(); err != nil {
			t.Error(err)
		}
	})
	return &attack.Config{Door: door, App: door, Minter: minter, Logs: journal, Store: storefile.File(file), Mode: mode}
}

func run(t *testing.T, cfg *attack.Config, attacks []attack.Attack) []attack.Result {
	t.Helper()
	results, err := attack.Run(t.Context(), cfg, attacks)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// light is the battery without the attacks of very many or very large requests,
// none of which gets as far as a binding, and without the one that waits.
func light() []attack.Attack {
	return slices.DeleteFunc(attack.Battery(), func(a attack.Attack) bool {
		return slices.Contains([]string{"tamper-each-part", "truncate", "oversize", "deep", "store-down"}, a.Name)
	})
}

// hidden are the attacks that a kind of call cannot show.
var hidden = map[string][]string{
	foil.MethodPromptsGet: {"number-games"},
	foil.MethodResourcesRead: {
		"changed-argument", "added-argument", "removed-argument", "null-for-absent", "number-games", "lone-surrogate",
		"duplicate-key", "deep", "long-number",
	},
}

// TestBattery runs every attack against a Guard with everything on, and with one
// layer after the other switched off by name: then just what that layer alone
// stops must get through.
func TestBattery(t *testing.T) {
	modes := []attack.Mode{
		{Once: foil.Redeem}, {Once: foil.Off}, {Once: foil.Settle},
		{Once: foil.Redeem, Kind: foil.MethodPromptsGet}, {Once: foil.Redeem, Kind: foil.MethodResourcesRead},
		{Once: foil.Settle, Kind: foil.MethodPromptsGet}, {Once: foil.Settle, Kind: foil.MethodResourcesRead},
	}
	for _, b := range []foil.Binding{foil.BindPrincipal, foil.BindExpiry, foil.BindRequest, foil.BindAudience, foil.BindQuestions} {
		modes = append(modes, attack.Mode{Once: foil.Redeem, Without: b}, attack.Mode{Once: foil.Settle, Without: b})
	}
	for _, mode := range modes {
		t.Run(fmt.Sprintf("once=%v,without=%v,kind=%v", mode.Once, mode.Without, mode.Kind), func(t *testing.T) {
			t.Parallel()
			attacks := attack.Battery()
			if mode.Without != 0 {
				attacks = light()
			}
			results := run(t, site(t, mode, nil), attacks)
			if len(results) != len(attacks) {
				t.Errorf("%d rows of %d", len(results), len(attacks))
			}
			for i, r := range results {
				if r.Name != attacks[i].Name {
					t.Errorf("row %d is %s, want %s", i, r.Name, attacks[i].Name)
				}
				// What is not visible is said here once more.
				hides := slices.Contains(hidden[mode.Kind], r.Name) || r.Name == "replay-swept" && mode.Once == foil.Settle && mode.Without == foil.BindExpiry
				if unseen := r.Got == attack.NotVisible; unseen != hides || unseen != (r.Reason != "") {
					t.Errorf("%s: not visible is %t, for the reason %q", r.Name, unseen, r.Reason)
				}
				t.Run(r.Name, func(t *testing.T) {
					if !r.OK {
						t.Errorf("got %q, want %q\nnote: %s\nwire: %s", r.Got, r.Expected, r.Note, r.Wire)
					}
				})
			}
		})
	}
}

// TestSigned runs the attacks that take tokens apart against tokens that anyone
// can read.
func TestSigned(t *testing.T) {
	t.Parallel()
	attacks := attack.Named("honest", "tamper-each-part", "truncate", "extend", "tampered-suffix", "alias-spelling", "version-swap", "kid-swap",
		"forge-unkeyed", "cross-format", "retired-key", "unknown-key", "revoked-key", "replay-alias", "claim-theft", "leak")
	for _, r := range run(t, siteOf(t, attack.Signed, attack.Mode{Once: foil.Redeem}, nil), attacks) {
		if !r.OK {
			t.Errorf("%s: got %q, want %q\nnote: %s\nwire: %s", r.Name, r.Got, r.Expected, r.Note, r.Wire)
		}
	}
}

// TestNamesLayer shows that a missing layer turns its rows red: the server has
// the layer off, and the battery is told that everything is on.
func TestNamesLayer(t *testing.T) {
	for _, test := range []struct {
		name string
		mode attack.Mode
		want []string
	}{
		{"single use", attack.Mode{Once: foil.Off}, []string{
			"replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "decline-then-accept", "fork",
			"answers-changed", "lost-answer", "second-round", "replay-swept"}},
		{"principal", attack.Mode{Without: foil.BindPrincipal}, []string{
			"other-user", "same-client-other-user", "other-issuer", "dropped-login", "added-login", "second-round"}},
		{"expiry", attack.Mode{Without: foil.BindExpiry}, []string{
			"late", "from-the-future", "too-many-rounds", "past-deadline", "second-round"}},
		{"request", attack.Mode{Without: foil.BindRequest}, []string{
			"other-method", "other-target", "changed-argument", "added-argument", "removed-argument", "null-for-absent", "number-games", "lone-surrogate", "second-round"}},
		{"audience", attack.Mode{Without: foil.BindAudience}, []string{"other-service", "second-round"}},
		{"questions", attack.Mode{Without: foil.BindQuestions}, []string{"pre-answered", "reworded-question", "other-kind"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := site(t, test.mode, nil)
			cfg.Mode = attack.Mode{Once: foil.Redeem}
			var red []string
			for _, r := range run(t, cfg, light()) {
				if !r.OK {
					red = append(red, r.Name)
				}
			}
			if !slices.Equal(red, test.want) {
				t.Errorf("red rows %q, want %q", red, test.want)
			}
		})
	}
}

// liar is a codec in clear that says it encrypts.
type liar struct{ plain.Codec }

func (liar) Encrypts() bool { return true }

// TestNamesCodec does so for integrity, strict decoding and the key ring, with a
// codec that has none of them.
func TestNamesCodec(t *testing.T) {
	t.Parallel()
	cfg := site(t, attack.Mode{}, func(foil.Codec) foil.Codec { return liar{} })
	cfg.Mode = attack.Mode{Once: foil.Redeem}
	for k := range cfg.Minter.Codecs {
		cfg.Minter.Codecs[k] = liar{}
	}
	var red []string
	for _, r := range run(t, cfg, attack.Battery()) {
		if !r.OK {
			red = append(red, r.Name)
		}
	}
	want := []string{
		"tamper-each-part", "truncate", "extend", "tampered-suffix", "alias-spelling", "version-swap", "kid-swap", "forge-unkeyed",
		"retired-key", "unknown-key", "revoked-key", "second-round", "claim-theft",
	}
	if !slices.Equal(red, want) {
		t.Errorf("red rows %q, want %q", red, want)
	}
}
