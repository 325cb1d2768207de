package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/openbao"
)

// eachWritable runs test on each kind of source that can be written. ring makes a
// name of a ring that does not exist.
func eachWritable(t *testing.T, test func(t *testing.T, ring func(name string) string)) {
	t.Run("file", func(t *testing.T) {
		dir := t.TempDir()
		test(t, func(name string) string { return "file:" + filepath.Join(dir, name) })
	})
	eachBao(t, func(t *testing.T, srv *baotest.Server) {
		mount := srv.KV(t)
		test(t, func(name string) string { return "openbao:" + mount + "/fleet/" + name })
	})
}

// eachBao runs test on OpenBao servers that the environment names.
func eachBao(t *testing.T, test func(t *testing.T, srv *baotest.Server)) {
	for name, start := range map[string]func(testing.TB) *baotest.Server{"openbao stand-in": baotest.StandIn, "openbao": baotest.Start} {
		t.Run(name, func(t *testing.T) {
			srv := start(t)
			t.Setenv("BAO_ADDR", srv.Addr)
			t.Setenv("BAO_TOKEN", srv.Token)
			test(t, srv)
		})
	}
}

// keys runs a command under foil keys and fails unless it ends with the code. It
// returns what that printed, to both.
func keys(t *testing.T, want int, args ...string) string {
	t.Helper()
	code, out, errs := foilCommand(t, append([]string{"keys"}, args...)...)
	if code != want {
		t.Fatalf("foil keys %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
	}
	return out + errs
}

// says fails unless text contains all of parts.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in\n%s", p, text)
		}
	}
}

// Every command does the same on every source that can be written.
func TestKeysOnEverySource(t *testing.T) {
	eachWritable(t, func(t *testing.T, name func(string) string) {
		ring := name("ring")
		says(t, keys(t, exitSystem, "show", "--ring", ring), "no ring there: make one with foil keys new")
		says(t, keys(t, exitSystem, "rotate", "--ring", ring), "no ring there")
		says(t, keys(t, exitOK, "new", "--ring", ring), ring+", serial 1: created with key ")
		before := keys(t, exitOK, "export", "--format", "ring", "--ring", ring)
		says(t, keys(t, exitRefused, "new", "--ring", ring), "a ring exists already")
		if after := keys(t, exitOK, "export", "--format", "ring", "--ring", ring); after != before {
			t.Error("new overwrites a ring")
		}
		says(t, keys(t, exitOK, "rotate", "--every", "24h", "--ring", ring), "serial 1: not rotated")
		says(t, keys(t, exitOK, "rotate", "--ring", ring), "serial 2: rotated, key ")
		var shown shownRing
		if err := json.Unmarshal([]byte(keys(t, exitOK, "show", "--json", "--ring", ring)), &shown); err != nil || len(shown.Keys) != 2 {
			t.Fatalf("%+v, %v", shown, err)
		}
		says(t, keys(t, exitOK, "show", "--ring", ring), ring+", serial 2", "pending")
		says(t, keys(t, exitOK, "revoke", shown.Keys[0].ID, "--ring", ring), "serial 3: revoked key "+shown.Keys[0].ID, "seals from", "This costs at most")
		says(t, keys(t, exitOK, "status", "--ring", ring), ring+", serial 3", "seals since", "next is")
		says(t, keys(t, exitRefused, "drop", shown.Keys[0].ID, "--yes", "--ring", ring), "storage rings")
		says(t, keys(t, exitOK, "watch", "--for", "1ms", "--ring", ring))

		interop := name("interop")
		keys(t, exitOK, "new", "--interop", "--propagation", "1s", "--skew", "0s", "--max-ttl", "1s", "--ring", interop)
		says(t, keys(t, exitRefused, "rotate", "--ring", interop), "stage, activate and retire")
		says(t, keys(t, exitOK, "rotate", "stage", "--ring", interop), "staged key", "foil keys rotate activate --ring "+interop)
		says(t, keys(t, exitOK, "rotate", "activate", "--ring", interop), "activated key", "foil keys rotate retire --ring "+interop)
		says(t, keys(t, exitRefused, "rotate", "retire", "--ring", interop), "too early")
		says(t, keys(t, exitOK, "export", "--format", "python", "--ring", interop), "RequestStateSecurity(keys=[")

		rows := name("rows")
		keys(t, exitOK, "new", "--storage", "--ring", rows)
		says(t, keys(t, exitOK, "show", "--ring", rows), "storage")
		stdin := `{"method":"tools/call","params":{"name":"x"},"principal":null,"audience":null,"state":"s"}`
		var out strings.Builder
		if code := run([]string{"token", "seal", "--ring", ring}, strings.NewReader(stdin), &out, &out); code != exitOK {
			t.Errorf("foil token does not take %s: %s", ring, &out)
		}
	})
}

// Of many that rotate on a timer at the same moment one does, whatever the source.
func TestRotateEveryFromEverywhereAtOnce(t *testing.T) {
	eachWritable(t, func(t *testing.T, name func(string) string) {
		ring := name("ring")
		flag := &ringFlag{ring}
		old, err := keyring.NewRing(time.Now().Add(-48*time.Hour), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := flag.create(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		const replicas = 12
		outs := make([]string, replicas)
		var wg sync.WaitGroup
		for i := range replicas {
			wg.Go(func() {
				code, out, errs := foilCommand(t, "keys", "rotate", "--every", "24h", "--jitter", "20ms", "--ring", ring)
				if outs[i] = out; code != exitOK {
					t.Errorf("exit code %d: %s", code, errs)
				}
			})
		}
		wg.Wait()
		rotated := 0
		for _, out := range outs {
			if strings.Contains(out, "rotated, key") {
				rotated++
			} else if !strings.Contains(out, "not rotated, the newest key is younger than 24h0m0s") {
				t.Errorf("says %q", out)
			}
		}
		got, err := flag.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rotated != 1 || got.Serial() != 2 || len(got.Keys()) != 2 {
			t.Errorf("%d of %d rotated; %v; want 1, and serial 2 with 2 keys", rotated, replicas, got)
		}
		keys(t, exitUsage, "rotate", "--jitter", "1s", "--ring", ring)
		keys(t, exitUsage, "rotate", "--every", "1h", "--jitter", "-1s", "--ring", ring)
	})
}

// Where there is no engine it is said how to make one.
func TestNewWithoutAnEngine(t *testing.T) {
	srv := baotest.Start(t)
	t.Setenv("BAO_ADDR", srv.Addr)
	t.Setenv("BAO_TOKEN", srv.Token)
	says(t, keys(t, exitSystem, "new", "--ring", "openbao:none/ring"), "make it with foil openbao setup --ring none/ring")
}

// A source that can only be read says so, and what to do instead.
func TestKeysOfTheEnvironment(t *testing.T) {
	ring, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FOIL_TEST_RING", string(ring.Marshal()))
	id := ring.Keys()[0].ID()
	for _, args := range [][]string{{"new"}, {"rotate"}, {"rotate", "stage"}, {"revoke", id}, {"drop", id, "--yes"}} {
		says(t, keys(t, exitUsage, append(args, "--ring", "env:FOIL_TEST_RING")...), "can be read and not written", "restart what reads the variable")
	}
	// What is due is found out by reading.
	says(t, keys(t, exitOK, "rotate", "--every", "24h", "--ring", "env:FOIL_TEST_RING"), "not rotated")
	for _, args := range [][]string{{"show"}, {"status"}, {"export", "--format", "ring"}, {"watch", "--for", "1ms"}} {
		if out := keys(t, exitOK, append(args, "--ring", "env:FOIL_TEST_RING")...); args[0] != "watch" && !strings.Contains(out, id) {
			t.Errorf("%v: %s", args, out)
		}
	}
	for _, bad := range []string{"ftp:x", "openbao:", "openbao:ring", "openbao:a//b", "transit:key", "transit:a/b/c"} {
		t.Setenv("BAO_ADDR", "http://127.0.0.1:1")
		t.Setenv("BAO_TOKEN", "x")
		out := keys(t, exitUsage, "show", "--ring", bad)
		says(t, out, "MOUNT/")
	}
}

// A Transit key has versions in place of a schedule.
func TestKeysOfTransit(t *testing.T) {
	eachBao(t, func(t *testing.T, srv *baotest.Server) {
		mount, _, _ := strings.Cut(srv.Transit(t), "/")
		key := "transit:" + mount + "/mcp"
		do := func(want int, args ...string) string {
			t.Helper()
			return keys(t, want, append(args, "--ring", key)...)
		}
		says(t, do(exitSystem, "show"), "foil openbao setup")
		says(t, do(exitUsage, "new", "--keep", "1h"), "no schedule")
		says(t, do(exitOK, "new"), key+": created, version 1 seals")
		says(t, do(exitRefused, "new"), "exists already")
		says(t, do(exitOK, "rotate"), "version 2 seals from now on")
		says(t, do(exitOK, "rotate", "--json"), `{"ok":true,"changed":true,"key":"`+key+`","sealing":3,"min_opening":1,"auto_rotate_seconds":0}`)
		says(t, do(exitUsage, "rotate", "--every", "10m"), "once an hour at most")
		says(t, do(exitOK, "rotate", "--every", "24h"), "OpenBao rotates it by itself, every 24h0m0s")
		says(t, do(exitOK, "rotate", "--every", "24h", "--json"), `"changed":false`, `"auto_rotate_seconds":86400`)
		says(t, do(exitUsage, "revoke", "2026-11-30a"), "vault:v3")
		says(t, do(exitRefused, "revoke", "9"), "versions 1 to 3")
		says(t, do(exitOK, "revoke", "v2"), "revoked version 2 and all before it; version 3 seals", "begin again")
		says(t, do(exitOK, "revoke", "1"), "revoked before")
		says(t, do(exitRefused, "drop", "3", "--yes"), "still opens: revoke it first")
		says(t, do(exitUsage, "drop", "1"), "destroys versions 1 to 2 for good: add --yes")
		says(t, do(exitOK, "drop", "2", "--yes"), "destroyed versions 1 to 2")
		says(t, do(exitOK, "drop", "1", "--yes"), "destroyed before")
		says(t, do(exitOK, "revoke", "3"), "version 4 seals")
		out := do(exitOK, "show")
		for _, line := range []string{`1-2 +destroyed +-`, `3-3 +revoked +-`, `4 +sealing +20\d\d-`} {
			if !regexp.MustCompile(`(?m)^` + line).MatchString(out) {
				t.Errorf("%q is missing in\n%s", line, out)
			}
		}
		says(t, do(exitOK, "show", "--json"), `"sealing":4,"min_opening":4,"min_kept":3,"auto_rotate_seconds":86400,"versions":[{"version":4,"state":"sealing",`)
		says(t, do(exitOK, "status"), key+", version 4 seals, versions before 4 open nothing")
		says(t, do(exitOK, "watch", "--json", "--for", "1s"), `"event":"ring","serial":4`, `"event":"key","serial":4,"key":"4","state":"sealing"`)
		says(t, do(exitUsage, "export", "--format", "ring"), "never leaves OpenBao")
		says(t, do(exitUsage, "rotate", "stage"), "this wants a ring")
		says(t, do(exitUsage, "show", "--at", "0"), "no schedule")
		says(t, do(exitUsage, "revoke", "4", "--force"), "storage rings")
		var out2 strings.Builder
		stdin := `{"method":"tools/call","params":{"name":"x"},"principal":null,"audience":null,"state":"s"}`
		if code := run([]string{"token", "seal", "--ring", key}, strings.NewReader(stdin), &out2, &out2); code != exitUsage || !strings.Contains(out2.String(), "wants a ring") {
			t.Errorf("foil token with a Transit key: %d %s", code, &out2)
		}
		if !srv.Real { // the stand-in does not know of it
			return
		}
		// A key that may leave the server is found out.
		srv.Must(t, "POST", mount+"/keys/mcp/config", map[string]any{"exportable": true})
		says(t, do(exitRefused, "status"), "the key may leave OpenBao")
	})
}

// What the commands say about OpenBao being away or closed tells what to do, and no
// token.
func TestKeysWithoutOpenBao(t *testing.T) {
	for _, name := range []string{"BAO_ADDR", "BAO_TOKEN", "BAO_TOKEN_FILE", "BAO_ROLE_ID", "BAO_K8S_ROLE", "VAULT_ADDR", "VAULT_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	says(t, keys(t, exitUsage, "show", "--ring", "openbao:foil/ring"), "no way to log in: set BAO_ROLE_ID")
	t.Setenv("BAO_TOKEN", "s.secret-of-the-test")
	t.Setenv("BAO_ADDR", "http://bao.example.com:8200")
	says(t, keys(t, exitSystem, "show", "--ring", "openbao:foil/ring"), "use https://")
	t.Setenv("BAO_ADDR", "http://127.0.0.1:1")
	t.Setenv("BAO_CLIENT_TIMEOUT", "2s")
	for _, args := range [][]string{{"show"}, {"rotate"}, {"new"}, {"status"}, {"watch"}} {
		for _, source := range []string{"openbao:foil/ring", "transit:transit/state"} {
			out := keys(t, exitSystem, append(args, "--ring", source)...)
			if strings.Contains(out, "secret-of-the-test") || !strings.Contains(out, "no answer") {
				t.Errorf("%v: %s", args, out)
			}
		}
	}
}

// A command gives back the token that it logged in for.
func TestKeysGiveTheLoginBack(t *testing.T) {
	srv := baotest.Start(t)
	path := srv.KV(t) + "/ring"
	policy, err := openbao.Policy(&openbao.Layout{Ring: path}, openbao.RingWriter)
	if err != nil {
		t.Fatal(err)
	}
	srv.Must(t, "POST", "sys/policies/acl/writer", map[string]any{"policy": policy})
	role, secret := srv.AppRole(t, []string{"writer"}, nil)
	t.Setenv("BAO_ADDR", srv.Addr)
	t.Setenv("BAO_TOKEN", "")
	t.Setenv("BAO_ROLE_ID", role)
	t.Setenv("BAO_SECRET_ID", secret)
	accessors := func() []string {
		var list []string
		data, _ := srv.Must(t, "LIST", "auth/token/accessors", nil)["data"].(map[string]any)
		all, _ := data["keys"].([]any)
		for _, a := range all {
			list = append(list, fmt.Sprint(a))
		}
		slices.Sort(list)
		return list
	}
	before := accessors()
	for _, args := range [][]string{{"new"}, {"show"}, {"rotate"}, {"rotate", "--every", "1h"}, {"status"}, {"watch", "--for", "300ms"}, {"export", "--format", "ring"}} {
		keys(t, exitOK, append(args, "--ring", "openbao:"+path)...)
	}
	keys(t, exitRefused, "new", "--ring", "openbao:"+path)
	if after := accessors(); !slices.Equal(before, after) {
		t.Errorf("%d tokens before, %d after", len(before), len(after))
	}
}
