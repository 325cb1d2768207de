package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/keyring"
)

// A database, a schema or a prefix that is not the servers' has no store, and no
// command but migrate makes one there: an empty one would let a key be dropped, and
// a restore be recorded where nobody looks.
func TestCommandsFindTheServersStore(t *testing.T) {
	t.Setenv(storeVariable, "")
	servers := map[string]func(*testing.T) (store string, others []string){
		"postgres": func(t *testing.T) (string, []string) {
			db := pgtest.Start(t).Database(t)
			sep := "?"
			if strings.Contains(db, "?") {
				sep = "&"
			}
			return db + sep + "foil_schema=mine", []string{db, db + sep + "foil_schema=other", db + sep + "foil_schema=No", db + sep + "foil_prefix=mine"}
		},
		"redis": func(t *testing.T) (string, []string) {
			db := strings.TrimSuffix(redistest.Start(t, slices.Clone(redistest.Durable)...).URL(), "/")
			return db + "/3?foil_prefix=mine:", []string{db, db + "/7?foil_prefix=mine:", db + "/3", db + "/3?foil_prefix=other", db + "/3?foil_prefix=%7B", db + "/3?foil_schema=mine"}
		},
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			store, others := start(t)
			file, ring := storageRing(t)
			if err := seedStore(t.Context(), store, ring); err != nil {
				t.Fatal(err)
			}
			for _, other := range others {
				for _, args := range [][]string{{"store", "stats"}, {"store", "sweep"}, {"store", "fsck"}, {"store", "restored", "--yes"}, {"ops", "list"}} {
					if code, stdout, stderr := foilRun(append(args, "--store", other)...); code != exitSystem && code != exitUsage || stderr == "" {
						t.Errorf("%q in %s: exit code %d\n%s%s", args, other, code, stdout, stderr)
					}
				}
				key := ring.Keys()[0]
				c := newKeysDropCmd()
				c.SetContext(t.Context())
				if _, err := rowsUnder(c, other, kidAtRest(t, key)); err == nil {
					t.Errorf("%s was counted", other)
				}
			}
			code, stdout, stderr := foilRun("store", "stats", "--json", "--store", store, "--storage-ring", file)
			if code != exitOK || strings.Contains(stdout, `"rows":0`) || !strings.Contains(stdout, `"rows":`) && !strings.Contains(stdout, `"rows": `) {
				t.Errorf("the store itself: exit code %d\n%s%s", code, stdout, stderr)
			}
			if code, stdout, stderr := foilRun("store", "migrate", "--store", others[1]); code != exitOK {
				t.Errorf("migrate: exit code %d\n%s%s", code, stdout, stderr)
			}
			if code, stdout, stderr := foilRun("store", "stats", "--store", others[1]); code != exitOK {
				t.Errorf("after migrate: exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

func kidAtRest(t *testing.T, key *keyring.Key) string {
	t.Helper()
	kid, err := atrest.KeyIDOf(key)
	if err != nil {
		t.Fatal(err)
	}
	return kid
}
