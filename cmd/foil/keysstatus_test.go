package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/keyring/readyz"
)

// replica serves the report of a ring whose status is st.
func replica(t *testing.T, st keyring.Status, seals map[string]uint64) string {
	t.Helper()
	h, err := readyz.Handler(&readyz.Options{Rings: []readyz.Ring{{
		Name: "tokens", Status: func() keyring.Status { return st }, Seals: func() map[string]uint64 { return seals },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// statusRing makes a ring file that was rotated; the second key seals.
func statusRing(t *testing.T) (path string, ring *keyring.Ring) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ring.json")
	r, err := keyring.NewRing(time.Now().Add(-time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Rotate(time.Now().Add(-30*time.Minute), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyring.OpenFile(path).Create(t.Context(), c.Ring); err != nil {
		t.Fatal(err)
	}
	return path, c.Ring
}

// Each thing that is wrong is found, said with what to do, and exit code 1.
func TestKeysStatusFindsWhatIsWrong(t *testing.T) {
	path, ring := statusRing(t)
	first, second := ring.Keys()[0].ID(), ring.Keys()[1].ID()
	good := keyring.Status{
		Serial: 2, Ready: true, Refreshed: time.Now(), Age: 12 * time.Second, Propagation: 5 * time.Minute, MaxStale: time.Hour, Sealing: second,
	}
	with := func(change func(*keyring.Status)) keyring.Status { st := good; change(&st); return st }
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	failing, err := readyz.Handler(&readyz.Options{
		Rings:  []readyz.Ring{{Name: "tokens", Status: func() keyring.Status { return good }}},
		Checks: map[string]func(context.Context) error{"store": func(context.Context) error { return http.ErrServerClosed }},
		Logger: quietly,
	})
	if err != nil {
		t.Fatal(err)
	}
	unwell := httptest.NewServer(failing)
	defer unwell.Close()
	for name, tc := range map[string]struct {
		url, says string // says is "" if all is well
	}{
		"well":               {replica(t, good, map[string]uint64{second: 1 << 20}), ""},
		"behind, ready":      {replica(t, with(func(s *keyring.Status) { s.Serial = 1; s.Sealing = first }), nil), ""},
		"retrying, ready":    {replica(t, with(func(s *keyring.Status) { s.Error = "connection refused" }), nil), ""},
		"not ready":          {replica(t, with(func(s *keyring.Status) { s.Ready, s.Age, s.Error = false, 6*time.Minute, "connection refused" }), nil), "not ready: its ring was not refreshed for 6m0s, and the propagation time is 5m0s: connection refused"},
		"stale":              {replica(t, with(func(s *keyring.Status) { s.Ready, s.Stale, s.Age, s.Sealing = false, true, 61*time.Minute, "" }), nil), "neither seals nor opens: its ring was not refreshed for 1h1m0s"},
		"newer":              {replica(t, with(func(s *keyring.Status) { s.Serial = 9 }), nil), "serial 9 is newer than the ring's, 2"},
		"clock behind":       {replica(t, with(func(s *keyring.Status) { s.Sealing = first }), nil), "seals under " + first + ", which is off by"},
		"no key":             {replica(t, with(func(s *keyring.Status) { s.Sealing = "" }), nil), "no key to seal with"},
		"many seals":         {replica(t, good, map[string]uint64{second: aesgcm.MaxSeals / 2}), "rotate the ring"},
		"another kind":       {replica(t, with(func(s *keyring.Status) { s.Storage = true }), nil), "no ring of this kind"},
		"no report":          {other.URL, "look at the URL"},
		"no server":          {gone.URL, "no answer"},
		"a check that fails": {unwell.URL, `its check "store" fails`},
	} {
		t.Run(name, func(t *testing.T) {
			want := exitOK
			if tc.says != "" {
				want = exitRefused
			}
			says(t, keys(t, want, "status", "--ring", path, "--replica", tc.url), "key "+second+" seals since", tc.says, tc.url)
			var st keysStatus
			d := json.NewDecoder(strings.NewReader(keys(t, want, "status", "--json", "--ring", path, "--replica", tc.url)))
			if err := d.Decode(&st); err != nil {
				t.Fatal(err)
			}
			if len(st.Replicas) != 1 || st.OK != (tc.says == "") || st.Replicas[0].OK != st.OK || len(st.Problems) != want {
				t.Errorf("%+v", st)
			}
		})
	}
}

// What the ring itself shows.
func TestKeysStatusOfTheRing(t *testing.T) {
	path, ring := statusRing(t)
	second := ring.Keys()[1].ID()
	says(t, keys(t, exitOK, "status", "--ring", path, "--max-age", "31m"), "newest of 2 made ", "seals since")
	says(t, keys(t, exitRefused, "status", "--ring", path, "--max-age", "29m"), "more than 29m0s: does a timer run foil keys rotate --every?")
	file := keyring.OpenFile(path)
	if _, err := file.Update(t.Context(), func(r *keyring.Ring) (*keyring.Ring, error) {
		c, err := r.Rotate(time.Now(), 0)
		return c.Ring, err
	}); err != nil {
		t.Fatal(err)
	}
	says(t, keys(t, exitOK, "status", "--ring", path), "key "+second+" seals since", "; next is ")
	for _, args := range [][]string{
		{"--replica", "10.0.0.1:80"}, {"--replica", ""}, {"--timeout", "0s"}, {"--max-age", "-1h"}, {"x"},
	} {
		keys(t, exitUsage, append([]string{"status", "--ring", path}, args...)...)
	}

	// A ring that nothing can be sealed with.
	future := filepath.Join(t.TempDir(), "future.json")
	r, err := keyring.NewRing(time.Now().Add(time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyring.OpenFile(future).Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	says(t, keys(t, exitRefused, "status", "--ring", future), "no key of the ring seals now")
}

// When the source is away is when one wants to know how the replicas are.
func TestKeysStatusWithoutTheRing(t *testing.T) {
	st := keyring.Status{Serial: 2, Age: 6 * time.Minute, Propagation: 5 * time.Minute, Refreshed: time.Now(), Sealing: "2026-11-30a"}
	out := keys(t, exitSystem, "status", "--ring", filepath.Join(t.TempDir(), "none"), "--replica", replica(t, st, nil))
	says(t, out, "which cannot be read", "6m0s ago", "not ready", "no ring there")
}

// The JSON is a contract.
func TestKeysStatusJSON(t *testing.T) {
	path, ring := statusRing(t)
	first, second := ring.Keys()[0].ID(), ring.Keys()[1].ID()
	st := keyring.Status{
		Serial: 2, Ready: true, Refreshed: time.Now(), Age: 12 * time.Second, Propagation: 5 * time.Minute, MaxStale: time.Hour, Sealing: second,
	}
	url := replica(t, st, map[string]uint64{first: 7, second: 5})
	u := strings.Replace(url, "http://", "http://user:hunter2@", 1)
	out := keys(t, exitOK, "status", "--json", "--ring", path, "--replica", u)
	if strings.Contains(out, "hunter2") {
		t.Errorf("a password is printed: %s", out)
	}
	out = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]+Z"`).ReplaceAllString(out, `"TIME"`)
	out = regexp.MustCompile(`"newest_age_seconds":\d+`).ReplaceAllString(out, `"newest_age_seconds":N`)
	out = strings.NewReplacer(path, "PATH", url, "URL", first, "FIRST", second, "SECOND").Replace(out)
	const want = `{"ok":true,"source":"file:PATH","ring":{"serial":2,"interop":false,"storage":false,"keys":2,"sealing":"SECOND","sealing_since":"TIME",` +
		`"newest_made":"TIME","newest_age_seconds":N},"transit":null,"replicas":[{"url":"URL/readyz","ok":true,"ready":true,"stale":false,"serial":2,` +
		`"refreshed":"TIME","age_seconds":12,"sealing":"SECOND","seals":{"FIRST":7,"SECOND":5}}],"problems":[]}` + "\n"
	if out != want {
		t.Errorf("got  %swant %s", out, want)
	}
}

// More replicas than are asked at a time all get their line, in order.
func TestKeysStatusOfManyReplicas(t *testing.T) {
	path, ring := statusRing(t)
	args := []string{"status", "--ring", path, "--json"}
	var urls []string
	for range 2*maxAsked + 1 {
		urls = append(urls, replica(t, keyring.Status{Serial: 2, Ready: true, Sealing: ring.Keys()[1].ID()}, nil))
		args = append(args, "--replica", urls[len(urls)-1])
	}
	var st keysStatus
	if err := json.Unmarshal([]byte(keys(t, exitOK, args...)), &st); err != nil {
		t.Fatal(err)
	}
	for i, r := range st.Replicas {
		if r.URL != urls[i]+"/readyz" {
			t.Fatalf("replica %d is %s", i+1, r.URL)
		}
	}
	if len(st.Replicas) != len(urls) {
		t.Errorf("%d replicas", len(st.Replicas))
	}
}
