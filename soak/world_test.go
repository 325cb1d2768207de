//go:build unix

package soak_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/openbao"
)

// A world is where the ring is kept, and the way of each replica to it.
type world interface {
	// ring is the way of who manages the keys, which is never cut.
	ring() keyring.Store
	// orders are what the replica with that number is told.
	orders(i int) orders
	// cut takes the source away from one replica, in the given way; mend gives it
	// back. ways is how many ways there are.
	cut(t *testing.T, i, way int)
	mend(t *testing.T, i int)
	ways() int
}

// fileWorld is a ring in a file that each replica reaches by a link of its own.
type fileWorld struct {
	dir string
}

func newFileWorld(t *testing.T, replicas int) world {
	w := &fileWorld{t.TempDir()}
	for i := range replicas {
		w.link(t, i, "ring.json")
	}
	// As an editor leaves it that died while it wrote.
	if err := os.WriteFile(filepath.Join(w.dir, "half.json"), []byte(`{"version":1,"serial":2,"keys":[{"id":"a","sec`), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *fileWorld) name(i int) string {
	return filepath.Join(w.dir, "ring-of-"+string(rune('a'+i))+".json")
}

// link lets the link of a replica lead there, in one step.
func (w *fileWorld) link(t *testing.T, i int, target string) {
	tmp := w.name(i) + ".new"
	if err := os.Symlink(target, tmp); err != nil {
		t.Error(err)
	}
	if err := os.Rename(tmp, w.name(i)); err != nil {
		t.Error(err)
	}
}

func (w *fileWorld) ring() keyring.Store { return keyring.OpenFile(filepath.Join(w.dir, "ring.json")) }
func (w *fileWorld) orders(i int) orders { return orders{File: w.name(i)} }
func (w *fileWorld) ways() int           { return 2 }

func (w *fileWorld) cut(t *testing.T, i, way int) {
	w.link(t, i, []string{"missing.json", "half.json"}[way])
}

func (w *fileWorld) mend(t *testing.T, i int) { w.link(t, i, "ring.json") }

// baoWorld is a ring in OpenBao; each replica logs in with an AppRole, by way of a
// proxy of its own.
type baoWorld struct {
	store        keyring.Store
	path         string
	role, secret string
	proxies      []*baotest.Proxy
}

func newBaoWorld(t *testing.T, replicas int) world {
	srv := baotest.Real(t)
	w := &baoWorld{path: srv.KV(t) + "/fleet/ring"}
	policy, err := openbao.Policy(&openbao.Layout{Ring: w.path}, openbao.RingWriter)
	if err != nil {
		t.Fatal(err)
	}
	name := srv.Name("ring-writer")
	srv.Must(t, "POST", "sys/policies/acl/"+name, map[string]any{"policy": policy})
	w.role, w.secret = srv.AppRole(t, []string{name}, nil)
	c, err := openbao.Open(t.Context(), &openbao.Options{Address: srv.Addr, Auth: openbao.Token(srv.Token), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if w.store, err = openbao.OpenRing(c, w.path); err != nil {
		t.Fatal(err)
	}
	for range replicas {
		w.proxies = append(w.proxies, baotest.NewProxy(t, srv))
	}
	return w
}

func (w *baoWorld) ring() keyring.Store { return w.store }

func (w *baoWorld) orders(i int) orders {
	return orders{Addr: w.proxies[i].Addr, RoleID: w.role, SecretID: w.secret, Path: w.path}
}

func (w *baoWorld) ways() int { return len(baoFaults) }

// baoFaults are ways in which a server is away. One that does not answer at all holds
// up each refresh until its deadline, a second here, so an outage by it is longer than
// it looks; it is not among them.
var baoFaults = []baotest.Fault{
	{Cut: true},
	{Status: http.StatusServiceUnavailable, Body: `{"errors":["Vault is sealed"]}`},
	{Status: http.StatusTooManyRequests, Body: `{"errors":[]}`},
	{Status: http.StatusInternalServerError, Body: `{"errors":["internal error"]}`},
	{Status: http.StatusOK, Body: `{"data":`},
}

func (w *baoWorld) cut(_ *testing.T, i, way int) { w.proxies[i].Set(baoFaults[way]) }
func (w *baoWorld) mend(_ *testing.T, i int)     { w.proxies[i].Mend() }
