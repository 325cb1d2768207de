package openbao_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/openbao"
)

// prepared is a server that was set up for one test.
type prepared struct {
	srv    *baotest.Server
	layout *openbao.Layout
}

func setUp(t *testing.T, opts *openbao.SetupOptions) (*prepared, []openbao.Step) {
	t.Helper()
	srv := baotest.Real(t)
	l := &openbao.Layout{
		Ring: srv.Name("foil") + "/mcp/ring", Transit: srv.Name("transit") + "/state", Spent: srv.Name("spent"),
		AppRole: srv.Name("approle"), Prefix: srv.Name("foil"),
	}
	p := &prepared{srv, l}
	t.Cleanup(func() { p.remove(t) })
	steps, err := openbao.Setup(t.Context(), client(t, srv), l, opts)
	if err != nil {
		t.Fatalf("Setup: %v", err)
	}
	return p, steps
}

func (p *prepared) remove(t *testing.T) {
	for _, mount := range []string{p.layout.Ring, p.layout.Transit, p.layout.Spent} {
		mount, _, _ = strings.Cut(mount, "/")
		p.srv.Call(t, "DELETE", "sys/mounts/"+mount, nil)
	}
	p.srv.Call(t, "DELETE", "sys/auth/"+p.layout.AppRole, nil)
	for _, r := range openbao.Roles() {
		p.srv.Call(t, "DELETE", "sys/policies/acl/"+p.layout.Prefix+"-"+string(r), nil)
	}
}

// as logs in as the AppRole of this name, without the prefix.
func (p *prepared) as(t *testing.T, name string) *openbao.Client {
	t.Helper()
	path := "auth/" + p.layout.AppRole + "/role/" + p.layout.Prefix + "-" + name
	id := p.srv.Must(t, "GET", path+"/role-id", nil)["data"].(map[string]any)["role_id"].(string)
	secret := p.srv.Must(t, "POST", path+"/secret-id", map[string]any{})["data"].(map[string]any)["secret_id"].(string)
	return open(t, &openbao.Options{
		Address: p.srv.Addr, Timeout: patient,
		Auth: openbao.AppRole(id, secret, &openbao.AuthOptions{Mount: p.layout.AppRole}),
	})
}

// token logs in likewise and returns the bare token.
func (p *prepared) token(t *testing.T, name string) string {
	t.Helper()
	path := "auth/" + p.layout.AppRole + "/role/" + p.layout.Prefix + "-" + name
	id := p.srv.Must(t, "GET", path+"/role-id", nil)["data"].(map[string]any)["role_id"].(string)
	secret := p.srv.Must(t, "POST", path+"/secret-id", map[string]any{})["data"].(map[string]any)["secret_id"].(string)
	doc := p.srv.Must(t, "POST", "auth/"+p.layout.AppRole+"/login", map[string]any{"role_id": id, "secret_id": secret})
	return doc["auth"].(map[string]any)["client_token"].(string)
}

func TestSetupIsIdempotent(t *testing.T) {
	more := &openbao.SetupOptions{AppRoles: map[string][]openbao.Role{"janitor": {openbao.RingReader, openbao.Wrapper, openbao.Redeemer, openbao.Spender}}}
	p, steps := setUp(t, more)
	c := client(t, p.srv)
	for _, st := range steps {
		if st.Did != "created" && !strings.Contains(st.What, "one version") {
			t.Errorf("first run: %s: %s", st.What, st.Did)
		}
	}
	again := func(want string, opts openbao.SetupOptions) {
		t.Helper()
		opts.AppRoles = more.AppRoles
		got, err := openbao.Setup(t.Context(), c, p.layout, &opts)
		if err != nil {
			t.Fatalf("Setup again: %v", err)
		}
		changed := ""
		for _, st := range got {
			if st.Did != "unchanged" {
				changed += st.What + ": " + st.Did + "\n"
			}
		}
		if len(got) != len(steps) || changed != want {
			t.Errorf("run again, with %d steps instead of %d:\n%swant:\n%s", len(got), len(steps), changed, want)
		}
	}
	again("", openbao.SetupOptions{})
	// What somebody has changed is put right, and a dry run only says so.
	name := p.layout.Prefix + "-"
	p.srv.Must(t, "POST", "sys/policies/acl/"+name+"wrapper", map[string]any{"policy": `path "sys/*" { capabilities = ["sudo", "read"] }`})
	p.srv.Must(t, "POST", "auth/"+p.layout.AppRole+"/role/"+name+"janitor", map[string]any{"token_no_default_policy": false})
	p.srv.Must(t, "DELETE", "auth/"+p.layout.AppRole+"/role/"+name+"spender", nil)
	for range 2 {
		again("policy "+name+"wrapper: would change\nAppRole "+name+"janitor: would change\nAppRole "+name+"spender: would create\n", openbao.SetupOptions{DryRun: true})
	}
	again("policy "+name+"wrapper: changed\nAppRole "+name+"janitor: changed\nAppRole "+name+"spender: created\n", openbao.SetupOptions{})
	again("", openbao.SetupOptions{})
}

func TestDryRunChangesNothing(t *testing.T) {
	srv := baotest.Real(t)
	l := &openbao.Layout{Ring: srv.Name("foil") + "/ring", Transit: srv.Name("transit") + "/state", Spent: srv.Name("spent"), AppRole: srv.Name("approle"), Prefix: srv.Name("foil")}
	before := asJSON(t, []any{srv.Must(t, "GET", "sys/mounts", nil)["data"], srv.Must(t, "GET", "sys/auth", nil)["data"], srv.Must(t, "LIST", "sys/policies/acl", nil)["data"]})
	steps, err := openbao.Setup(t.Context(), client(t, srv), l, &openbao.SetupOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range steps {
		if !strings.HasPrefix(st.Did, "would ") {
			t.Errorf("%s: %s", st.What, st.Did)
		}
	}
	after := asJSON(t, []any{srv.Must(t, "GET", "sys/mounts", nil)["data"], srv.Must(t, "GET", "sys/auth", nil)["data"], srv.Must(t, "LIST", "sys/policies/acl", nil)["data"]})
	if before != after {
		t.Error("a dry run has changed something")
	}
}

func TestSetupLeavesWhatIsOthers(t *testing.T) {
	srv := baotest.Real(t)
	c := client(t, srv)
	taken := srv.Name("taken")
	srv.Must(t, "POST", "sys/mounts/"+taken, map[string]any{"type": "kv", "options": map[string]string{"version": "1"}})
	t.Cleanup(func() { srv.Call(t, "DELETE", "sys/mounts/"+taken, nil) })
	for name, l := range map[string]*openbao.Layout{
		"ring in KV version 1":  {Ring: taken + "/ring"},
		"Transit in KV":         {Transit: taken + "/state"},
		"spent in KV version 1": {Spent: taken},
	} {
		steps, err := openbao.Setup(t.Context(), c, l, &openbao.SetupOptions{DryRun: true})
		if err == nil || !strings.Contains(err.Error(), "another engine is there") {
			t.Errorf("%s: %v, %v", name, steps, err)
		}
	}
	for name, roles := range map[string][]openbao.Role{
		"Transit and ring":   {openbao.TransitUser, openbao.RingReader},
		"Transit and writer": {openbao.TransitUser, openbao.RingWriter},
		"spends and forgets": {openbao.Spender, openbao.SweeperRole},
		"nothing":            {},
		"unknown":            {"root"},
	} {
		if _, err := openbao.Setup(t.Context(), c, nil, &openbao.SetupOptions{DryRun: true, AppRoles: map[string][]openbao.Role{"x": roles}}); err == nil {
			t.Errorf("an AppRole for %s is taken", name)
		}
	}
	for _, l := range []*openbao.Layout{{Ring: "a/b", Spent: "a"}, {Ring: "a/b", Transit: "a/c"}, {Prefix: "a*"}, {Transit: "a/b/c"}, {Spent: "a/b"}} {
		if _, err := openbao.Policy(l, openbao.RingReader); err == nil {
			t.Errorf("layout %+v is taken", *l)
		}
	}
	if _, err := openbao.Policy(nil, "root"); err == nil {
		t.Error("there is a role root")
	}
}

// TestRolesDoTheirJobs: each AppRole can do what it is for.
func TestRolesDoTheirJobs(t *testing.T) {
	p, _ := setUp(t, nil)
	ctx, l := t.Context(), p.layout

	writer := must(openbao.OpenRing(p.as(t, "ring-writer"), l.Ring))(t)
	if err := writer.Create(ctx, must(keyring.NewRing(time.Now(), nil))(t)); err != nil {
		t.Errorf("ring writer: %v", err)
	}
	must(writer.Update(ctx, rotate))(t)
	must(writer.Update(ctx, func(r *keyring.Ring) (*keyring.Ring, error) {
		ch, err := r.Revoke(time.Now(), r.Keys()[1].ID())
		return ch.Ring, err
	}))(t)
	if r := must(must(openbao.OpenRing(p.as(t, "ring-reader"), l.Ring))(t).Load(ctx))(t); r.Serial() != 3 {
		t.Errorf("ring reader reads %v", r)
	}

	codec := must(openbao.NewTransit(ctx, p.as(t, "transit-user"), l.Transit, nil))(t)
	token := must(codec.Seal(ctx, []byte("x"), later))(t)
	must(codec.Open(ctx, token))(t)
	if err := codec.Ping(ctx); err != nil {
		t.Errorf("Transit user: %v", err)
	}
	key := must(openbao.OpenTransitKey(p.as(t, "transit-manager"), l.Transit))(t)
	must(key.Rotate(ctx))(t)
	must(key.AutoRotate(ctx, time.Hour))(t)
	must(key.Revoke(ctx, 2))(t)
	must(key.Trim(ctx))(t)

	claim := must(must(openbao.OpenClaims(p.as(t, "wrapper"), nil))(t).Issue(ctx, []byte("plan"), time.Minute))(t)
	redeemer := must(openbao.OpenClaims(p.as(t, "redeemer"), nil))(t)
	must(redeemer.Redeem(ctx, claim, "op"))(t)
	if err := redeemer.Revoke(ctx, claim); err != nil {
		t.Errorf("redeemer: %v", err)
	}

	spender := must(openbao.OpenReplay(p.as(t, "spender"), l.Spent, nil))(t)
	now := time.Now()
	if first, err := spender.Use(ctx, []byte("id"), now.Add(time.Minute)); !first || err != nil {
		t.Errorf("spender: %v, %v", first, err)
	}
	for range 2 {
		if err := spender.Ping(ctx); err != nil {
			t.Errorf("spender: %v", err)
		}
	}
	sweeper := must(openbao.OpenSweeper(p.as(t, "sweeper"), l.Spent, &openbao.ReplayOptions{Now: func() time.Time { return now.Add(time.Hour) }}))(t)
	if n, err := sweeper.Sweep(ctx); n != 1 || err != nil {
		t.Errorf("sweeper: %d, %v", n, err)
	}
	if _, err := sweeper.Restored(ctx); err != nil {
		t.Errorf("sweeper: %v", err)
	}
}

// An attempt is something that somebody might try, and the roles that may.
type attempt struct {
	method, path string
	body         map[string]any
	may          []openbao.Role
}

// TestRolesDoNothingElse lets each role try what any of them may do, and more.
func TestRolesDoNothingElse(t *testing.T) {
	p, _ := setUp(t, nil)
	ringMount, ringPath, _ := strings.Cut(p.layout.Ring, "/")
	transit, _, _ := strings.Cut(p.layout.Transit, "/")
	spent := p.layout.Spent
	type m = map[string]any
	const (
		rr, rw, tu, tm, wr, re, sp, sw = openbao.RingReader, openbao.RingWriter, openbao.TransitUser, openbao.TransitManager, openbao.Wrapper, openbao.Redeemer, openbao.Spender, openbao.SweeperRole
	)
	of := func(r ...openbao.Role) []openbao.Role { return r }
	id := "/spent/ab/0123456789"
	p.srv.Must(t, "POST", ringMount+"/data/"+ringPath, m{"data": m{"ring": "x"}})
	p.srv.Must(t, "POST", ringMount+"/data/"+ringPath+"/below", m{"data": m{"ring": "x"}})
	p.srv.Must(t, "POST", spent+"/data"+id, m{"data": m{"attempt": "x", "expires": 1}})
	p.srv.Must(t, "POST", spent+"/data/mark", m{"data": m{"swept": 0, "restored": 0}})
	attempts := []attempt{
		{"GET", ringMount + "/data/" + ringPath, nil, of(rr, rw)},
		{"POST", ringMount + "/data/" + ringPath, m{"data": m{"ring": "x"}}, of(rw)},
		{"PATCH", ringMount + "/data/" + ringPath, m{"data": m{"ring": "x"}}, nil},
		{"DELETE", ringMount + "/data/" + ringPath, nil, nil},
		{"GET", ringMount + "/metadata/" + ringPath, nil, of(rw)},
		{"POST", ringMount + "/metadata/" + ringPath, m{"max_versions": 1}, nil},
		{"DELETE", ringMount + "/metadata/" + ringPath, nil, nil},
		{"POST", ringMount + "/destroy/" + ringPath, m{"versions": []int{99}}, of(rw)},
		{"POST", ringMount + "/undelete/" + ringPath, m{"versions": []int{99}}, nil},
		{"GET", ringMount + "/data/" + ringPath + "/below", nil, nil},
		{"POST", ringMount + "/data/other", m{"data": m{}}, nil},
		{"LIST", ringMount + "/metadata/", nil, nil},
		{"GET", ringMount + "/config", nil, nil},

		{"POST", transit + "/encrypt/state", m{"plaintext": "eA=="}, of(tu)},
		{"POST", transit + "/encrypt/new", m{"plaintext": "eA=="}, nil},
		{"POST", transit + "/decrypt/state", m{"ciphertext": "vault:v1:x"}, of(tu)},
		{"POST", transit + "/rewrap/state", m{"ciphertext": "vault:v1:x"}, nil},
		{"POST", transit + "/datakey/plaintext/state", m{}, nil},
		{"POST", transit + "/hmac/state", m{"input": "eA=="}, nil},
		{"GET", transit + "/keys/state", nil, of(tu, tm)},
		{"LIST", transit + "/keys", nil, nil},
		{"POST", transit + "/keys/state/rotate", m{}, of(tm)},
		{"POST", transit + "/keys/state/config", m{"min_decryption_version": 1}, of(tm)},
		{"POST", transit + "/keys/state/config", m{"exportable": true}, nil},
		{"POST", transit + "/keys/state/config", m{"deletion_allowed": true}, nil},
		{"POST", transit + "/keys/state/config", m{"min_decryption_version": 1, "allow_plaintext_backup": true}, nil},
		{"POST", transit + "/keys/state/trim", m{"min_available_version": 1}, of(tm)},
		{"GET", transit + "/export/encryption-key/state", nil, nil},
		{"GET", transit + "/backup/state", nil, nil},
		{"DELETE", transit + "/keys/state", nil, nil},
		{"POST", transit + "/keys/new", m{}, nil},

		{"POST", "sys/wrapping/wrap", m{"x": "y"}, of(wr)},
		{"POST", "sys/wrapping/unwrap", m{"token": "WRAPPED"}, of(re)},
		{"POST", "sys/wrapping/rewrap", m{"token": "WRAPPED"}, nil},

		{"POST", spent + "/data" + id, m{"options": m{"cas": 0}, "data": m{}}, of(sp)},
		{"GET", spent + "/data" + id, nil, of(sp, sw)},
		{"DELETE", spent + "/data" + id, nil, nil},
		{"POST", spent + "/destroy" + id, m{"versions": []int{99}}, nil},
		{"GET", spent + "/metadata" + id, nil, nil},
		{"POST", spent + "/metadata" + id, m{"delete_version_after": "1s"}, nil},
		{"LIST", spent + "/metadata/spent/", nil, of(sw)},
		{"LIST", spent + "/metadata/spent/ab/", nil, of(sw)},
		{"LIST", spent + "/metadata/", nil, nil},
		{"DELETE", spent + "/metadata" + id + "-other", nil, of(sw)},
		{"GET", spent + "/data/mark", nil, of(sp, sw)},
		{"POST", spent + "/data/mark", m{"data": m{"swept": 0, "restored": 0}}, of(sw)},
		{"DELETE", spent + "/data/mark", nil, nil},
		{"DELETE", spent + "/metadata/mark", nil, nil},
		{"POST", spent + "/data/ping", m{"data": m{}}, of(sp)},
		{"POST", spent + "/config", m{"max_versions": 5}, nil},

		{"GET", "auth/token/lookup-self", nil, openbao.Roles()},
		{"POST", "auth/token/renew-self", m{}, openbao.Roles()},
		{"POST", "auth/token/create", m{}, nil},
		{"POST", "auth/token/lookup", m{"token": "root"}, nil},
		{"POST", "auth/token/revoke", m{"token": "s.0123456789"}, nil},
		{"GET", "cubbyhole/x", nil, nil},
		{"POST", "cubbyhole/x", m{"x": "y"}, nil},
		{"POST", "sys/capabilities-self", m{"paths": []string{"x"}}, nil},
		{"POST", "sys/tools/random/8", m{}, nil},
		{"GET", "sys/mounts", nil, nil},
		{"GET", "sys/policies/acl/root", nil, nil},
		{"LIST", "sys/policies/acl", nil, nil},
		{"POST", "sys/seal", m{}, nil},
		{"LIST", "auth/" + p.layout.AppRole + "/role", nil, nil},
		{"POST", "auth/" + p.layout.AppRole + "/role/" + p.layout.Prefix + "-ring-reader/secret-id", m{}, nil},
		{"GET", "secret/data/other", nil, nil},
	}
	for _, r := range openbao.Roles() {
		token := p.token(t, string(r))
		for _, a := range attempts {
			body := a.body
			if body["token"] == "WRAPPED" {
				_, doc := p.srv.Request(t, p.srv.Token, "POST", "sys/wrapping/wrap", m{"x": "y"}, map[string]string{"X-Vault-Wrap-TTL": "60"})
				body = m{"token": doc["wrap_info"].(m)["token"]}
			}
			var header map[string]string
			if a.method == "PATCH" {
				header = map[string]string{"Content-Type": "application/merge-patch+json"}
			}
			code, _ := p.srv.Request(t, token, a.method, a.path, body, header)
			may := slices.Contains(a.may, r)
			if may == (code == 403) {
				t.Errorf("%s: %s %s %v: status %d, may %v", r, a.method, strings.ReplaceAll(a.path, p.layout.Prefix, "foil"), a.body, code, may)
			}
		}
	}
}

// TestTransitServerCannotReadTheRing is the promise of Transit: no key in memory, and
// none within reach.
func TestTransitServerCannotReadTheRing(t *testing.T) {
	p, _ := setUp(t, &openbao.SetupOptions{AppRoles: map[string][]openbao.Role{"server": {openbao.TransitUser, openbao.Wrapper, openbao.Redeemer, openbao.Spender}}})
	if err := must(openbao.OpenRing(client(t, p.srv), p.layout.Ring))(t).Create(t.Context(), must(keyring.NewRing(time.Now(), nil))(t)); err != nil {
		t.Fatal(err)
	}
	c := p.as(t, "server")
	if r, err := must(openbao.OpenRing(c, p.layout.Ring))(t).Load(t.Context()); err == nil {
		t.Errorf("a server that uses Transit reads the ring: %v", r)
	}
	codec := must(openbao.NewTransit(t.Context(), c, p.layout.Transit, nil))(t)
	must(codec.Open(t.Context(), must(codec.Seal(t.Context(), []byte("x"), later))(t)))(t)
}
