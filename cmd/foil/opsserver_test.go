package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/keyring"
)

// foilRun runs the command in this process.
func foilRun(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func storageRing(t *testing.T) (file string, ring *keyring.Ring) {
	t.Helper()
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "rows.json")
	if err := os.WriteFile(file, ring.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, ring
}

// TestOpsAndStoreOnServers is the story of the scripts, on databases.
func TestOpsAndStoreOnServers(t *testing.T) {
	servers := map[string]func(*testing.T) string{
		"postgres": func(t *testing.T) string { return pgtest.Start(t).Database(t) },
		"redis": func(t *testing.T) string {
			return redistest.Start(t, append(slices.Clone(redistest.Durable), "requirepass a-password-of-redis")...).URL()
		},
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			store := start(t)
			u, err := url.Parse(store)
			if err != nil {
				t.Fatal(err)
			}
			password, _ := u.User.Password()
			if password == "" {
				t.Fatal("the server has no password that could get out")
			}
			t.Setenv(storeVariable, store)
			file, ring := storageRing(t)
			must := func(want int, args ...string) (stdout, stderr string) {
				t.Helper()
				code, stdout, stderr := foilRun(args...)
				if code != want {
					t.Fatalf("foil %q: exit code %d, want %d\n%s%s", args, code, want, stdout, stderr)
				}
				if strings.Contains(stdout+stderr, password) {
					t.Errorf("foil %q prints the password:\n%s%s", args, stdout, stderr)
				}
				return stdout, stderr
			}
			if name == "postgres" {
				if _, stderr := must(exitSystem, "ops", "list"); !strings.Contains(stderr, "foil store migrate") {
					t.Errorf("nobody is told to migrate: %s", stderr)
				}
			}
			if out, _ := must(exitOK, "store", "migrate"); !strings.HasPrefix(out, name+", schema version ") {
				t.Errorf("migrated: %s", out)
			}
			if err := seedStore(t.Context(), store, ring); err != nil {
				t.Fatal(err)
			}
			var list struct {
				Operations []struct{ ID, State, Target string }
			}
			ids := func(args ...string) (all []string) {
				t.Helper()
				out, _ := must(exitOK, append([]string{"ops", "list", "--json"}, args...)...)
				list.Operations = nil
				if err := json.Unmarshal([]byte(out), &list); err != nil {
					t.Fatalf("%v in %s", err, out)
				}
				for _, op := range list.Operations {
					all = append(all, op.ID)
				}
				return all
			}
			two, three, four := idText(seededID(2)), idText(seededID(3)), idText(seededID(4))
			if got := ids(); !slices.Equal(got, []string{two, three}) {
				t.Errorf("unknown are %q", got)
			}
			if got := ids("--state", "all", "--target", badTarget); len(got) != 1 || list.Operations[0].Target != badTarget {
				t.Errorf("of a target: %q", got)
			}
			if got := ids("--state", "all", "--principal", "null"); !slices.Equal(got, []string{four}) {
				t.Errorf("anonymous are %q", got)
			}
			out, _ := must(exitOK, "ops", "show", two, "--storage-ring", file)
			if !strings.Contains(out, "delete 0  done ") || !strings.Contains(out, "delete 1  interrupted ") || strings.Contains(out, stepMade) {
				t.Errorf("shown: %s", out)
			}
			if out, errs := must(exitOK, "ops", "show", two); strings.Contains(out, "delete 0") || !strings.Contains(errs, "give --storage-ring") {
				t.Errorf("shown without the ring: %s%s", out, errs)
			}
			must(exitRefused, "ops", "resolve", four, "--as", "failed", "--by", "ann", "--note", "n", "--storage-ring", file)
			must(exitOK, "ops", "resolve", two, "--as", "succeeded", "--by", "ann", "--note", "looked", "--storage-ring", file)
			if out, _ := must(exitOK, "ops", "show", two, "--outcome", "--storage-ring", file); !strings.Contains(out, "by ann: looked") || !strings.Contains(out, "An operator has looked into it") {
				t.Errorf("resolved: %s", out)
			}
			if out, _ := must(exitOK, "ops", "export", "--outcomes", "--storage-ring", file); strings.Count(out, "\n") != 5 || !strings.Contains(out, "sure-about-logs?") {
				t.Errorf("exported: %s", out)
			}
			must(exitOK, "store", "stats", "--storage-ring", file, "--json")
			must(exitOK, "store", "sweep")
			must(exitOK, "store", "fsck", "--storage-ring", file)
			other, _ := storageRing(t)
			if out, _ := must(exitRefused, "store", "fsck", "--storage-ring", other); !strings.Contains(out, "operation ") {
				t.Errorf("fsck with another ring: %s", out)
			}
			must(exitUsage, "store", "restored")
			must(exitOK, "store", "restored", "--yes")
			if got := ids(); !slices.Equal(got, []string{three, four}) {
				t.Errorf("unknown after a restore: %q", got)
			}
			if _, stderr := must(exitOK, "store", "stats"); strings.Contains(stderr, "warning") {
				t.Errorf("the environment is warned of: %s", stderr)
			}
			if _, stderr := must(exitOK, "store", "stats", "--store", store); !strings.Contains(stderr, "--store shows the store's password") {
				t.Errorf("no warning of a password among the arguments: %s", stderr)
			}
		})
	}
}

// No error holds a password, however wrong the name of the store is.
func TestStoreErrorsHoldNoPassword(t *testing.T) {
	ring, _ := storageRing(t)
	commands := [][]string{
		{"ops", "list"}, {"ops", "show", idText(seededID(1))}, {"ops", "export"},
		{"ops", "resolve", idText(seededID(1)), "--as", "failed", "--by", "ann", "--note", "n", "--storage-ring", ring},
		{"store", "migrate"}, {"store", "stats"}, {"store", "sweep"}, {"store", "fsck"}, {"store", "restored", "--yes"},
	}
	for _, name := range []string{
		"postgres://u:hunter2@127.0.0.1:1/d?connect_timeout=1&sslmode=disable", "redis://u:hunter2@127.0.0.1:1",
		"postgres://127.0.0.1:1/d?user=u&password=hunter2&sslmode=disable", "postgres://u:hunter2@127.0.0.1:port/d", "postgres://u:hunter2#x@127.0.0.1/d",
		"redis://u:hunter2@[::1/0", "rediss://u:hunter2@127.0.0.1:1/%zz", "mysql://u:hunter2@h/d", "memory:hunter2", "u:hunter2@h", "sqlite:postgres://u:hunter2@h/d",
	} {
		for i, args := range commands {
			if i > 1 && strings.Contains(name, "127.0.0.1:1") && !strings.Contains(name, "port") && i != len(commands)-1 {
				continue // the same way through the code, and it takes a while
			}
			t.Setenv(storeVariable, name)
			code, stdout, stderr := foilRun(args...)
			if code != exitUsage && code != exitSystem || stderr == "" || strings.Contains(stdout+stderr, "hunter2") {
				t.Errorf("%d %q in the environment: exit code %d\n%s%s", i, args, code, stdout, stderr)
			}
			t.Setenv(storeVariable, "")
			code, stdout, stderr = foilRun(append(args[:len(args):len(args)], "--store", name)...)
			if code != exitUsage && code != exitSystem || strings.Contains(stdout+stderr, "hunter2") {
				t.Errorf("%d %q as an argument: exit code %d\n%s%s", i, args, code, stdout, stderr)
			}
		}
	}
}

func TestHasPassword(t *testing.T) {
	for name, want := range map[string]bool{
		"sqlite:a:b@c": false, "postgres://u@h/d": false, "postgres://u:@h/d": false, "redis://h": false,
		"postgres://u:p@h/d": true, "postgres://h/d?password=p": true, "postgres://h/d?sslpassword=p": true, "redis://:p@h": true, "redis://u:p@[h": true,
	} {
		if got := hasPassword(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
