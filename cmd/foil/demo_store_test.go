package main

import (
	"bytes"
	"net/url"
	"slices"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/internal/redistest"
)

// storeRows are the rows in which the store has a say.
var storeRows = []string{
	"honest", "replica-killed", "late", "replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "decline-then-accept", "fork",
	"answers-changed", "lost-answer", "too-many-rounds", "oracle", "replay-swept", "store-down", "leak",
}

// TestStores runs what a store has a say in on the servers of databases. They go
// by their own clocks, so one row is out of sight.
func TestStores(t *testing.T) {
	stores := map[string]func(*testing.T) string{
		"postgres": func(t *testing.T) string { return pgtest.Start(t).Database(t) },
		"redis": func(t *testing.T) string {
			return redistest.Start(t, append(slices.Clone(redistest.Durable), "requirepass a-password-of-redis")...).URL()
		},
	}
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := start(t)
			u, err := url.Parse(store)
			if err != nil {
				t.Fatal(err)
			}
			password, _ := u.User.Password()
			if password == "" {
				t.Fatal("the server has no password that could get out")
			}
			for _, once := range []foil.Once{foil.Redeem, foil.Settle} {
				t.Run(once.String(), func(t *testing.T) {
					cfg := newTestFleetOn(t, store, tokenFormats[0], attack.Mode{Once: once})
					results, err := attack.Run(t.Context(), cfg, attack.Named(storeRows...))
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range results {
						if !r.OK || (r.Got == attack.NotVisible) != (r.Name == "replay-swept") {
							t.Errorf("%s: got %q, want %q\nnote: %s\nwire: %s", r.Name, r.Got, r.Expected, r.Note, r.Wire)
						}
						if r.Name == "replay-swept" && r.Reason == "" {
							t.Errorf("%s is not visible, and nobody says why", r.Name)
						}
					}
					written, err := cfg.Logs.Written(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					for _, w := range written {
						if bytes.Contains(w.Text, []byte(password)) {
							t.Errorf("the store's password is in %s", w.Name)
						}
					}
				})
			}
		})
	}
}
