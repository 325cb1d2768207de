package openbao_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/openbao"
)

// newRing creates a ring and returns its store and the path of its entry.
func newRing(t *testing.T, srv *baotest.Server, c *openbao.Client) (*openbao.Ring, string) {
	t.Helper()
	mount := srv.KV(t)
	store := must(openbao.OpenRing(c, mount+"/mcp/ring"))(t)
	if err := store.Create(t.Context(), must(keyring.NewRing(time.Now(), nil))(t)); err != nil {
		t.Fatal(err)
	}
	return store, mount + "/data/mcp/ring"
}

func rotate(r *keyring.Ring) (*keyring.Ring, error) {
	c, err := r.Rotate(time.Now(), 0)
	if err != nil {
		return nil, err
	}
	return c.Ring, nil
}

// versions returns how many versions of the ring are kept, and how many of them still
// have their content.
func versions(t *testing.T, srv *baotest.Server, data string) (all, whole int) {
	t.Helper()
	doc := srv.Must(t, "GET", strings.Replace(data, "/data/", "/metadata/", 1), nil)
	for _, v := range doc["data"].(map[string]any)["versions"].(map[string]any) {
		all++
		if v.(map[string]any)["destroyed"] == false {
			whole++
		}
	}
	return all, whole
}

func TestRevocationDestroysOldVersions(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		c, p := behind(t, srv, patient)
		store, data := newRing(t, srv, c)
		for range 3 {
			must(store.Update(t.Context(), rotate))(t)
		}
		if all, whole := versions(t, srv, data); all != 4 || whole != 4 {
			t.Errorf("after rotations %d of %d versions have their content, want 4 of 4", whole, all)
		}
		revoke := func(r *keyring.Ring) (*keyring.Ring, error) {
			ch, err := r.Revoke(time.Now(), r.Keys()[0].ID())
			if err != nil {
				return nil, err
			}
			return ch.Ring, nil
		}
		// The write works and the destruction does not: the error says so.
		p.SetFor(func(r *http.Request) baotest.Fault {
			if strings.Contains(r.URL.Path, "/destroy/") {
				return baotest.Fault{Status: 403, Body: `{"errors":["permission denied"]}`}
			}
			return baotest.Fault{}
		})
		if _, err := store.Update(t.Context(), revoke); !errors.Is(err, openbao.ErrDenied) || !strings.Contains(err.Error(), "the ring is written") {
			t.Errorf("revocation whose old versions stay: %v", err)
		}
		p.Mend()
		if all, whole := versions(t, srv, data); all != 5 || whole != 5 {
			t.Errorf("%d of %d versions have their content, want 5 of 5", whole, all)
		}
		// Running the same again changes nothing and destroys what is left.
		must(store.Update(t.Context(), revoke))(t)
		if all, whole := versions(t, srv, data); all != 5 || whole != 1 {
			t.Errorf("after a revocation %d of %d versions have their content, want 1 of 5", whole, all)
		}
		must(store.Load(t.Context()))(t)
	})
}

// TestLostAnswers: a write whose answer gets lost is found out about, and is not made
// twice.
func TestLostAnswers(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		c, p := behind(t, srv, patient)
		store, data := newRing(t, srv, c)
		lose := func() {
			done := false
			p.SetFor(func(r *http.Request) baotest.Fault {
				if !done && r.Method != http.MethodGet {
					done = true
					return baotest.Fault{Lose: true}
				}
				return baotest.Fault{}
			})
		}
		lose()
		r := must(store.Update(t.Context(), rotate))(t)
		if r.Serial() != 2 || len(r.Keys()) != 2 {
			t.Errorf("after an update whose answer was lost: %v", r)
		}
		if all, _ := versions(t, srv, data); all != 2 {
			t.Errorf("%d versions after one update, want 2", all)
		}
		lose()
		other := must(openbao.OpenRing(c, strings.TrimSuffix(data, "/data/mcp/ring")+"/other"))(t)
		if err := other.Create(t.Context(), must(keyring.NewRing(time.Now(), nil))(t)); err != nil {
			t.Errorf("Create whose answer was lost: %v", err)
		}
	})
}

// TestStandbyWithOlderRing: a standby that lags behind must neither take a fleet back
// nor be built upon.
func TestStandbyWithOlderRing(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		c, p := behind(t, srv, patient)
		store, data := newRing(t, srv, c)
		_, old := srv.Call(t, "GET", data, nil)
		ring := must(store.Update(t.Context(), rotate))(t)
		fresh := must(keyring.NewRefresher(t.Context(), store, nil))(t)
		defer fresh.Close()
		body := asJSON(t, old)
		stale := 0
		p.SetFor(func(r *http.Request) baotest.Fault {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/ring") {
				stale++
				if stale <= 3 {
					return baotest.Fault{Status: 200, Body: body}
				}
			}
			return baotest.Fault{}
		})
		if err := fresh.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "went back") {
			t.Errorf("refresh from a standby with an older ring: %v", err)
		}
		if r, err := fresh.Ring(); err != nil || r.Serial() != ring.Serial() {
			t.Errorf("ring in use: %v, %v; want serial %d", r, err, ring.Serial())
		}
		// Two more stale reads: the checks of the writes built on them fail.
		if r, err := store.Update(t.Context(), rotate); err != nil || r.Serial() != ring.Serial()+1 {
			t.Errorf("update over a standby with an older ring: %v, %v; want serial %d", r, err, ring.Serial()+1)
		}
		if err := fresh.Refresh(t.Context()); err != nil {
			t.Errorf("refresh when the standby has caught up: %v", err)
		}
	})
}

// TestNoCallForEachToken: with a ring from OpenBao the codec is local.
func TestNoCallForEachToken(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		c := client(t, srv)
		store, _ := newRing(t, srv, c)
		ring := must(keyring.NewRefresher(t.Context(), store, nil))(t)
		defer ring.Close()
		codec := must(aesgcm.New(ring, nil))(t)
		before := c.Calls()
		for range 1000 {
			token := must(codec.Seal(t.Context(), []byte("payload"), later))(t)
			must(codec.Open(t.Context(), token))(t)
		}
		if n := c.Calls() - before; n != 0 {
			t.Errorf("%d calls for 1000 tokens", n)
		}
	})
}

func TestRingPaths(t *testing.T) {
	c := client(t, baotest.StandIn(t))
	for _, bad := range []string{"", "secret", "secret/", "/ring", "secret//ring", "secret/../ring", "secret/./ring", "secret/a b", "secret/a?b", "secret/a#b", "secret/a%2fb", "secret/a*", "secret/+/b", "secret/a\nb"} {
		if _, err := openbao.OpenRing(c, bad); err == nil {
			t.Errorf("OpenRing(%q) works", bad)
		}
	}
	r := must(openbao.OpenRing(c, "secret/mcp/ring"))(t)
	if r.String() != "openbao:secret/mcp/ring" {
		t.Errorf("String = %q", r)
	}
	if _, err := openbao.OpenTransitKey(c, "transit/a/b"); err == nil {
		t.Error("a Transit key with two slashes is taken")
	}
}

func TestOddEntries(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		c := client(t, srv)
		store, data := newRing(t, srv, c)
		put := func(fields map[string]any) {
			srv.Must(t, "POST", data, map[string]any{"data": fields})
		}
		_, doc := srv.Call(t, "GET", data, nil)
		text := doc["data"].(map[string]any)["data"].(map[string]any)["ring"].(string)
		for name, fields := range map[string]map[string]any{
			"no field":      {},
			"another field": {"document": text},
			"two fields":    {"ring": text, "note": "x"},
			"no text":       {"ring": map[string]any{"version": 1}},
		} {
			put(fields)
			if r, err := store.Load(t.Context()); err == nil || strings.Contains(err.Error(), text[40:60]) {
				t.Errorf("%s: Load = %v, %v", name, r, err)
			}
		}
		put(map[string]any{"ring": text})
		must(store.Load(t.Context()))(t)
		srv.Must(t, "DELETE", data, nil)
		if _, err := store.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "undelete") {
			t.Errorf("Load of a deleted ring: %v", err)
		}
		if err := store.Create(t.Context(), must(keyring.NewRing(time.Now(), nil))(t)); !errors.Is(err, keyring.ErrExists) {
			t.Errorf("Create over a deleted ring: %v", err)
		}
		if _, err := store.Update(context.Background(), rotate); err == nil {
			t.Error("Update of a deleted ring works")
		}
	})
}
