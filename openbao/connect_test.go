package openbao_test

import (
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/openbao"
)

func TestTLS(t *testing.T) {
	srv := baotest.StandIn(t)
	p := baotest.NewProxy(t, srv)
	https := httptest.NewTLSServer(p)
	t.Cleanup(https.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &openbao.Options{Address: https.URL, Auth: openbao.Token(srv.Token), Timeout: patient}
	o.Logger = slog.New(slog.DiscardHandler)
	if _, err := openbao.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Open of a server that nobody knows: %v", err)
	}
	if n := p.Seen(""); n != 0 {
		t.Errorf("%d requests reached it", n)
	}
	o.TLS.CACert = ca
	c := open(t, o)
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
	o.TLS.ServerName = "another.example"
	if _, err := openbao.Open(t.Context(), o); err == nil {
		t.Error("a certificate of another name is taken")
	}
}

func TestNamespace(t *testing.T) {
	srv := baotest.StandIn(t)
	p := baotest.NewProxy(t, srv)
	var without atomic.Int32
	p.SetFor(func(r *http.Request) baotest.Fault {
		if r.Header.Get("X-Vault-Namespace") != "team/tools" {
			without.Add(1)
		}
		return baotest.Fault{}
	})
	id, secret := role(t, srv, "", nil)
	c := open(t, &openbao.Options{Address: p.Addr, Namespace: "team/tools", Auth: openbao.AppRole(id, secret, nil), Timeout: patient})
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if n := without.Load(); n != 0 {
		t.Errorf("%d requests without the namespace", n)
	}
}

func TestKubernetesLogin(t *testing.T) {
	srv := baotest.StandIn(t)
	p := baotest.NewProxy(t, srv)
	id, secret := role(t, srv, "", nil)
	login := asJSON(t, srv.Must(t, "POST", "auth/approle/login", map[string]any{"role_id": id, "secret_id": secret}))
	p.SetFor(func(r *http.Request) baotest.Fault {
		if r.URL.Path == "/v1/auth/k8s/login" {
			return baotest.Fault{Status: 200, Body: login}
		}
		return baotest.Fault{}
	})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the.pod.token"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, &openbao.Options{Address: p.Addr, Auth: openbao.Kubernetes("janitor", file, &openbao.AuthOptions{Mount: "k8s"}), Timeout: patient})
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	var body map[string]string
	if err := json.Unmarshal([]byte(p.Last("auth/k8s/login")), &body); err != nil || body["role"] != "janitor" || body["jwt"] != "the.pod.token" {
		t.Errorf("login says %v, %v", body, err)
	}
}

// TestTokenFile: a token that an agent replaces is read again when the old one is gone.
func TestTokenFile(t *testing.T) {
	srv := baotest.StandIn(t)
	id, secret := role(t, srv, "", nil)
	fresh := func() string {
		doc := srv.Must(t, "POST", "auth/approle/login", map[string]any{"role_id": id, "secret_id": secret})
		return doc["auth"].(map[string]any)["client_token"].(string)
	}
	file := filepath.Join(t.TempDir(), "token")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := fresh()
	put(first + "\n")
	p := baotest.NewProxy(t, srv)
	c := open(t, &openbao.Options{Address: p.Addr, Auth: openbao.TokenFile(file), Timeout: patient})
	srv.Must(t, "POST", "auth/token/revoke", map[string]any{"token": first})
	put(fresh() + "\n")
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("Ping after the token was replaced: %v", err)
	}
	// A token that we were given is not ours to revoke.
	_ = c.Close()
	if n := p.Seen("revoke-self"); n != 0 {
		t.Errorf("%d revocations of a token that is not ours", n)
	}
	for _, bad := range []string{"", "two\nlines", strings.Repeat("x", 100_000)} {
		put(bad)
		if _, err := openbao.Open(t.Context(), &openbao.Options{Address: srv.Addr, Auth: openbao.TokenFile(file), Timeout: patient, Logger: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("a file of %d bytes is taken", len(bad))
		}
	}
}
