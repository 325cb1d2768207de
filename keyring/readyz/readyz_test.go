package readyz_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/keyring/readyz"
)

// source gives a ring, or what the test says.
type source struct {
	ring *keyring.Ring
	mu   sync.Mutex
	err  error
}

func (s *source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *source) Load(context.Context) (*keyring.Ring, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	return s.ring, nil
}

func handler(t *testing.T, o *readyz.Options) http.Handler {
	t.Helper()
	h, err := readyz.Handler(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(t *testing.T, h http.Handler) (int, *readyz.Report) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	var rep readyz.Report
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&rep); err != nil {
		t.Fatal(err)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", w.Header())
	}
	return w.Code, &rep
}

// An outage is told when the propagation time is over: before the first key that this
// process cannot know seals anywhere.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring, err := keyring.NewRing(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		src := &source{ring: ring}
		keys, err := keyring.NewRefresher(t.Context(), src, &keyring.RefresherOptions{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer keys.Close()
		codec, err := aesgcm.New(keys, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := handler(t, &readyz.Options{Rings: []readyz.Ring{{Name: "tokens", Status: keys.Status, Seals: codec.SealsByKey}}})
		for range 3 {
			if _, err := codec.Seal(t.Context(), nil, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		id := ring.Keys()[0].ID()
		src.fail(errors.New("source away\n\x1b[31m"))
		change, err := ring.Rotate(began, 0) // just after the refresh
		if err != nil {
			t.Fatal(err)
		}
		code, rep := get(t, h)
		want := &readyz.Report{Ready: true, Rings: []readyz.RingReport{{
			Name: "tokens", Ready: true, Serial: 1, Refreshed: began.UTC(), Propagation: 300, MaxStale: 3600, Sealing: id, Seals: map[string]uint64{id: 3},
		}}}
		if diff := cmp.Diff(want, rep); diff != "" || code != 200 {
			t.Errorf("fresh: %d %s", code, diff)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if code, rep := get(t, h); code != 200 || !rep.Ready || rep.Rings[0].Error != "source away  [31m" {
			t.Errorf("at the propagation time: %d %+v", code, rep)
		}
		time.Sleep(time.Millisecond)
		if code, rep := get(t, h); code != 503 || rep.Ready || rep.Rings[0].Ready || rep.Rings[0].Stale || rep.Rings[0].Sealing != id {
			t.Errorf("after it: %d %+v", code, rep)
		}
		if until := time.Until(change.SealFrom); until < 2*time.Minute {
			t.Errorf("not ready only %v before the key that it cannot know seals", until)
		}
		time.Sleep(55 * time.Minute)
		if code, rep := get(t, h); code != 503 || !rep.Rings[0].Stale || rep.Rings[0].Sealing != "" || rep.Rings[0].Age != 3600.001 {
			t.Errorf("after max_stale: %d %+v", code, rep)
		}
		src.fail(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if code, rep := get(t, h); code != 200 || !rep.Ready || rep.Rings[0].Error != "" {
			t.Errorf("when the source is back: %d %+v", code, rep)
		}
	})
}

func fresh() keyring.Status { return keyring.Status{Ready: true, Serial: 1} }

// One ring or check that is not ready is enough, and the answer tells no check's error.
func TestAll(t *testing.T) {
	late := func() keyring.Status { return keyring.Status{Serial: 1} }
	fine := func(context.Context) error { return nil }
	away := func(context.Context) error { return errors.New("dial postgres://user:hunter2@host") }
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	ring := func(status func() keyring.Status) []readyz.Ring {
		return []readyz.Ring{{Name: "tokens", Status: fresh}, {Name: "rows", Status: status}}
	}
	type checks = map[string]func(context.Context) error
	for name, tc := range map[string]struct {
		o    readyz.Options
		want int
	}{
		"all":              {readyz.Options{Rings: ring(fresh), Checks: checks{"store": fine, "other": fine}}, 200},
		"a ring":           {readyz.Options{Rings: ring(late), Checks: checks{"store": fine}}, 503},
		"a check":          {readyz.Options{Rings: ring(fresh), Checks: checks{"store": fine, "other": away}}, 503},
		"a check alone":    {readyz.Options{Checks: checks{"store": fine}}, 200},
		"a check hangs":    {readyz.Options{Checks: checks{"store": hang}, Timeout: time.Millisecond}, 503},
		"a ring, no check": {readyz.Options{Rings: ring(late)}, 503},
	} {
		var log strings.Builder
		tc.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w := httptest.NewRecorder()
		handler(t, &tc.o).ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if w.Code != tc.want || strings.Contains(w.Body.String(), "hunter2") || strings.Contains(w.Body.String(), "true") != (name != "a check hangs") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if name == "a check" && !strings.Contains(log.String(), "hunter2") {
			t.Errorf("%s: the log does not say why: %s", name, log.String())
		}
	}
}

func TestMethods(t *testing.T) {
	h := handler(t, &readyz.Options{Rings: []readyz.Ring{{Name: "tokens", Status: fresh}}})
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/readyz", nil))
		if w.Code != want {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

func TestRefusesOptions(t *testing.T) {
	good := readyz.Ring{Name: "tokens", Status: fresh}
	check := func(context.Context) error { return nil }
	for name, o := range map[string]*readyz.Options{
		"nothing":             nil,
		"no name":             {Rings: []readyz.Ring{{Status: fresh}}},
		"a name that is long": {Rings: []readyz.Ring{{Name: strings.Repeat("x", 65), Status: fresh}}},
		"a name twice":        {Rings: []readyz.Ring{good, good}},
		"a check's name":      {Rings: []readyz.Ring{good}, Checks: map[string]func(context.Context) error{"tokens": check}},
		"no status":           {Rings: []readyz.Ring{{Name: "tokens"}}},
		"no check":            {Checks: map[string]func(context.Context) error{"store": nil}},
		"a negative timeout":  {Rings: []readyz.Ring{good}, Timeout: -1},
	} {
		if _, err := readyz.Handler(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestFetch(t *testing.T) {
	var isReady atomic.Bool
	status := func() keyring.Status {
		return keyring.Status{Ready: isReady.Load(), Serial: 7, Sealing: "2026-11-30a", Error: "away"}
	}
	mux := http.NewServeMux()
	mux.Handle("/readyz", handler(t, &readyz.Options{Rings: []readyz.Ring{{Name: "tokens", Status: status}}}))
	answer := func(path string, code int, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = io.WriteString(w, body) })
	}
	answer("/healthz", 200, "ok")
	answer("/liar", 200, `{"ready":false,"rings":[]}`)
	answer("/broken", 500, `{"ready":true,"rings":[]}`)
	answer("/other", 200, `{"status":"up"}`)
	answer("/large", 200, `{"ready":true,"rings":[],"x":"`+strings.Repeat("x", 1<<20)+`"}`)
	answer("/evil", 200, `{"ready":true,"rings":[{"name":"a\u001b[2J","sealing":"\n","error":"`+strings.Repeat("e", 1000)+`","seals":{"\u0007":1}}]}`)
	mux.Handle("/moved", http.RedirectHandler("/readyz", http.StatusFound))
	srv := httptest.NewServer(mux)
	defer srv.Close()

	for _, ready := range []bool{true, false} {
		isReady.Store(ready)
		for _, path := range []string{"", "/", "/readyz"} {
			rep, err := readyz.Fetch(t.Context(), nil, srv.URL+path)
			if err != nil || rep.Ready != ready || len(rep.Rings) != 1 || rep.Rings[0].Serial != 7 || rep.Rings[0].Error != "away" {
				t.Errorf("%q: %+v, %v", path, rep, err)
			}
		}
	}
	for _, path := range []string{"/healthz", "/liar", "/broken", "/other", "/large", "/moved", "/none"} {
		if rep, err := readyz.Fetch(t.Context(), srv.Client(), srv.URL+path); err == nil {
			t.Errorf("%s: %+v", path, rep)
		}
	}
	rep, err := readyz.Fetch(t.Context(), nil, srv.URL+"/evil")
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(rep); strings.Contains(string(text), `\u00`) || strings.Contains(string(text), `\n`) || len(text) > 900 {
		t.Errorf("what a replica says is passed on as it is: %s", text)
	}
	for _, bad := range []string{"", "10.0.0.1:80", "ftp://host/x", "http://", "/readyz"} {
		if _, err := readyz.Fetch(t.Context(), nil, bad); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
	if _, err := readyz.Fetch(t.Context(), nil, "http://user:hunter2@127.0.0.1:1/"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
	if a, err := readyz.Address("http://user:hunter2@host"); err != nil || a != "http://host/readyz" {
		t.Errorf("%q, %v", a, err)
	}
}
