package openbao_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/openbao"
)

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// logBuffer is a log that tests read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// ownPolicy is what every role may do with its own token.
const ownPolicy = `
path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/renew-self" { capabilities = ["update"] }
path "auth/token/revoke-self" { capabilities = ["update"] }`

// role makes an AppRole that may look after its token, and more.
func role(t *testing.T, srv *baotest.Server, policy string, more map[string]any) (roleID, secretID string) {
	t.Helper()
	name := srv.Name("policy")
	if srv.Real {
		srv.Must(t, "POST", "sys/policies/acl/"+name, map[string]any{"policy": ownPolicy + policy})
		t.Cleanup(func() { srv.Call(t, "DELETE", "sys/policies/acl/"+name, nil) })
	}
	return srv.AppRole(t, []string{name}, more)
}

// eventually waits, as long as a busy machine may need, until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patient)
		}
	}
}

func TestAppRoleRenewsAndLogsOut(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		p := baotest.NewProxy(t, srv)
		id, secret := role(t, srv, "", map[string]any{"token_ttl": "3s"})
		var log logBuffer
		c := open(t, &openbao.Options{Address: p.Addr, Auth: openbao.AppRole(id, secret, nil), Timeout: patient, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		eventually(t, "two renewals", func() bool { return p.Seen("renew-self") >= 2 })
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("Ping after renewals: %v", err)
		}
		if n := p.Seen("/login"); n != 1 {
			t.Errorf("%d logins, want 1", n)
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if n := p.Seen("revoke-self"); n != 1 {
			t.Errorf("%d revocations of the token, want 1", n)
		}
		if err := c.Ping(t.Context()); !errors.Is(err, openbao.ErrClosed) {
			t.Errorf("Ping of a closed client: %v", err)
		}
		if strings.Contains(log.String(), secret) {
			t.Error("the secret ID is in the log")
		}
	})
}

// TestEndOfLife: a token that cannot be renewed is replaced before it ends.
func TestEndOfLife(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		p := baotest.NewProxy(t, srv)
		id, secret := role(t, srv, "", map[string]any{"token_ttl": "4s"})
		// The stand-in has no maximum: let renewals be refused.
		p.SetFor(func(r *http.Request) baotest.Fault {
			if strings.HasSuffix(r.URL.Path, "renew-self") {
				return baotest.Fault{Status: 400, Body: `{"errors":["lease is not renewable"]}`}
			}
			return baotest.Fault{}
		})
		c := open(t, &openbao.Options{Address: p.Addr, Auth: openbao.AppRole(id, secret, nil), Timeout: patient, Logger: slog.New(slog.DiscardHandler)})
		eventually(t, "a second login", func() bool {
			if err := c.Ping(t.Context()); err != nil {
				t.Errorf("Ping: %v", err)
			}
			return p.Seen("/login") >= 2
		})
	})
}

// TestRevokedUnderUs: the next call logs in again and is done, without an error.
func TestRevokedUnderUs(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		p := baotest.NewProxy(t, srv)
		id, secret := role(t, srv, `
path "sys/wrapping/wrap" { capabilities = ["update"] }
path "sys/wrapping/unwrap" { capabilities = ["update"] }`, nil)
		var token string
		var mu sync.Mutex
		p.SetFor(func(r *http.Request) baotest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if x := r.Header.Get("X-Vault-Token"); x != "" {
				token = x
			}
			return baotest.Fault{}
		})
		c := open(t, &openbao.Options{Address: p.Addr, Auth: openbao.AppRole(id, secret, nil), Timeout: patient})
		claims := must(openbao.OpenClaims(c, nil))(t)
		revoke := func() {
			mu.Lock()
			defer mu.Unlock()
			srv.Must(t, "POST", "auth/token/revoke", map[string]any{"token": token})
		}
		claim := must(claims.Issue(t.Context(), []byte("plan"), time.Minute))(t)
		revoke()
		if got, err := claims.Redeem(t.Context(), claim, "op"); err != nil || string(got) != "plan" {
			t.Errorf("Redeem after our token was revoked = %q, %v", got, err)
		}
		revoke()
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("Ping after our token was revoked: %v", err)
		}
		if n := p.Seen("/login"); n != 3 {
			t.Errorf("%d logins, want 3", n)
		}
	})
}

// TestLackOfPolicyIsNoReasonToLogIn: a call that the role may not make costs a look at
// the token, and no login.
func TestLackOfPolicyIsNoReasonToLogIn(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		p := baotest.NewProxy(t, srv)
		id, secret := role(t, srv, "", nil)
		c := open(t, &openbao.Options{Address: p.Addr, Auth: openbao.AppRole(id, secret, nil), Timeout: patient})
		ring := must(openbao.OpenRing(c, "sys/mounts"))(t)
		for range 5 {
			if _, err := ring.Load(t.Context()); !errors.Is(err, openbao.ErrDenied) || errors.Is(err, openbao.ErrUnavailable) {
				t.Errorf("Load without the right: %v", err)
			}
		}
		if n := p.Seen("/login"); n != 1 {
			t.Errorf("%d logins, want 1", n)
		}
	})
}

// TestNoHotLoop: many callers of a client that cannot log in make few logins.
func TestNoHotLoop(t *testing.T) {
	srv := baotest.StandIn(t)
	p := baotest.NewProxy(t, srv)
	id, secret := role(t, srv, "", nil)
	c := open(t, &openbao.Options{Address: p.Addr, Auth: openbao.AppRole(id, secret, nil), Timeout: patient, Logger: slog.New(slog.DiscardHandler)})
	p.Set(baotest.Fault{Status: 403, Body: `{"errors":["permission denied"]}`})
	before := p.Seen("")
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		if err := c.Ping(t.Context()); err == nil {
			t.Fatal("Ping works")
		}
	}
	// 100 ms, 200 ms, 400 ms, 800 ms, less chance, and the first calls.
	if n := p.Seen("") - before; n > 20 {
		t.Errorf("%d requests in two seconds", n)
	}
	p.Mend()
	eventually(t, "recovery", func() bool { return c.Ping(t.Context()) == nil })
}

func TestOpenFindsWrongCredentials(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		id, secret := role(t, srv, "", nil)
		for name, auth := range map[string]openbao.Auth{
			"secret ID": openbao.AppRole(id, "0123-not-the-secret", nil),
			"token":     openbao.Token("s.0123-not-the-token"),
			"file":      openbao.AppRoleFile(id, filepath.Join(t.TempDir(), "none"), nil),
		} {
			_, err := openbao.Open(t.Context(), &openbao.Options{Address: srv.Addr, Auth: auth, Timeout: patient, Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				t.Errorf("wrong %s: no error", name)
			} else if name != "file" && !errors.Is(err, openbao.ErrDenied) {
				t.Errorf("wrong %s: %v, want ErrDenied", name, err)
			} else if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "0123") {
				t.Errorf("wrong %s: %s tells it", name, text)
			}
		}
		file := filepath.Join(t.TempDir(), "secret-id")
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		open(t, &openbao.Options{Address: srv.Addr, Auth: openbao.AppRoleFile(id, file, nil), Timeout: patient})
	})
}

func TestNothingIsPrinted(t *testing.T) {
	srv := baotest.StandIn(t)
	c := client(t, srv)
	const secret = "the-secret-of-the-test"
	o := &openbao.Options{Auth: openbao.AppRole("id", secret, nil)}
	for _, v := range []any{
		c, openbao.Token(secret), openbao.AppRole("id", secret, nil), o, *o,
		must(openbao.OpenRing(c, "a/b"))(t), must(openbao.OpenTransitKey(c, "a/b"))(t), must(openbao.OpenClaims(c, nil))(t),
		must(openbao.OpenReplay(c, "a", nil))(t), must(openbao.OpenSweeper(c, "a", nil))(t),
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, secret) || strings.Contains(text, srv.Token) {
				t.Errorf("%T prints a secret under %s: %s", v, verb, text)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	token := openbao.Token("t")
	for name, o := range map[string]*openbao.Options{
		"nil":               nil,
		"no auth":           {},
		"clear text":        {Address: "http://bao.example.com:8200", Auth: token},
		"password in URL":   {Address: "https://user:pw-of-the-test@bao.example.com", Auth: token},
		"no URL":            {Address: "bao.example.com:8200", Auth: token},
		"query":             {Address: "https://bao.example.com/?x=1", Auth: token},
		"negative timeout":  {Auth: token, Timeout: -1},
		"half a client key": {Auth: token, TLS: openbao.TLS{ClientCert: "x"}},
		"no such CA":        {Auth: token, TLS: openbao.TLS{CACert: "/nowhere/ca.pem"}},
	} {
		if _, err := openbao.Open(t.Context(), o); err == nil || errors.Is(err, openbao.ErrUnavailable) {
			t.Errorf("%s: %v; want an error before any call", name, err)
		} else if strings.Contains(err.Error(), "pw-of-the-test") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFromEnv(t *testing.T) {
	for _, name := range []string{"ADDR", "NAMESPACE", "CLIENT_TIMEOUT", "ROLE_ID", "SECRET_ID", "SECRET_ID_FILE", "K8S_ROLE", "TOKEN", "TOKEN_FILE", "SKIP_VERIFY", "CACERT"} {
		for _, prefix := range []string{"BAO_", "VAULT_"} {
			t.Setenv(prefix+name, "")
			os.Unsetenv(prefix + name)
		}
	}
	t.Setenv("HOME", t.TempDir())
	if _, err := openbao.FromEnv(); err == nil {
		t.Error("no way to log in: no error")
	}
	t.Setenv("VAULT_ADDR", "https://vault:8200")
	t.Setenv("VAULT_TOKEN", "v")
	o := must(openbao.FromEnv())(t)
	if o.Address != "https://vault:8200" || fmt.Sprint(o.Auth) != "openbao.Token" {
		t.Errorf("from VAULT_*: %s, %v", o.Address, o.Auth)
	}
	t.Setenv("BAO_ADDR", "https://bao:8200")
	t.Setenv("BAO_NAMESPACE", "team")
	t.Setenv("BAO_CLIENT_TIMEOUT", "7")
	t.Setenv("BAO_K8S_ROLE", "janitor")
	o = must(openbao.FromEnv())(t)
	if o.Address != "https://bao:8200" || o.Namespace != "team" || o.Timeout != 7*time.Second || fmt.Sprint(o.Auth) != "openbao.Kubernetes" {
		t.Errorf("from BAO_* and VAULT_*: %s, %s, %v, %v", o.Address, o.Namespace, o.Timeout, o.Auth)
	}
	t.Setenv("BAO_ROLE_ID", "id")
	if _, err := openbao.FromEnv(); err == nil {
		t.Error("a role ID without a secret ID: no error")
	}
	t.Setenv("BAO_SECRET_ID", "s")
	if o = must(openbao.FromEnv())(t); fmt.Sprint(o.Auth) != "openbao.AppRole" {
		t.Errorf("with a role ID: %v", o.Auth)
	}
	for name, bad := range map[string]string{"BAO_CLIENT_TIMEOUT": "soon", "BAO_SKIP_VERIFY": "perhaps"} {
		t.Setenv(name, bad)
		if _, err := openbao.FromEnv(); err == nil {
			t.Errorf("%s=%s: no error", name, bad)
		}
		os.Unsetenv(name)
	}
}
