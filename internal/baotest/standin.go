package baotest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A standIn does what package openbao asks of a server, as far as answers show it: KV
// engines of version 2, Transit, response wrapping, AppRole and its tokens. It knows no
// policies: any token may do anything, but for what only root may.
//
// Status, words and shape of each answer are a recorded one's; the stand-in fills in
// what differs from call to call.
type standIn struct {
	recorded map[string]Answer
	root     string
	sealed   atomic.Bool

	mu      sync.Mutex
	engines map[string]map[string]*kvEntry    // mount, path
	keys    map[string]map[string]*transitKey // mount, name
	roles   map[string]*approle
	tokens  map[string]*serviceToken
	wraps   map[string]*wrapping
}

type approle struct {
	id      string
	secrets map[string]bool
	ttl     time.Duration
}

type serviceToken struct {
	ttl   time.Duration
	until time.Time
}

type wrapping struct {
	data  any
	until time.Time
}

// StandIn starts a stand-in and ends it with the test.
func StandIn(t testing.TB) *Server {
	t.Helper()
	recorded, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	s := &standIn{
		recorded: recorded, root: "root-of-the-stand-in",
		engines: make(map[string]map[string]*kvEntry), keys: make(map[string]map[string]*transitKey),
		roles: make(map[string]*approle), tokens: make(map[string]*serviceToken), wraps: make(map[string]*wrapping),
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return &Server{Addr: h.URL, Token: s.root, standIn: s}
}

// A call is a request that has been read.
type call struct {
	method, path string
	token        string
	wrap         time.Duration
	body         map[string]any
}

// A reply is a recorded answer that is being filled in.
type reply struct {
	status int
	body   map[string]any
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{method: r.Method, path: strings.TrimPrefix(r.URL.Path, "/v1/"), token: r.Header.Get("X-Vault-Token")}
	if d := r.Header.Get("X-Vault-Wrap-TTL"); d != "" {
		c.wrap, _ = time.ParseDuration(d + "s")
	}
	if err := json.NewDecoder(r.Body).Decode(&c.body); err != nil {
		c.body = nil
	}
	if c.method == http.MethodPut {
		c.method = http.MethodPost
	}
	s.mu.Lock()
	a := s.answer(c)
	s.mu.Unlock()
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	if a.body["request_id"] == someText {
		a.body["request_id"] = randomText()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body)
}

func randomText() string { return strings.ToLower(rand.Text()) }

// as returns a copy of a recorded answer.
func (s *standIn) as(name string) *reply {
	a, ok := s.recorded[name]
	if !ok {
		panic("baotest: no answer is recorded as " + name)
	}
	doc, _ := json.Marshal(a.Body)
	r := &reply{status: a.Status}
	_ = json.Unmarshal(doc, &r.body)
	return r
}

// set puts a value where the recorded answer has one, and panics where it has none: the
// stand-in makes nothing up.
func (r *reply) set(value any, path ...string) *reply {
	at := r.body
	for _, name := range path[:len(path)-1] {
		at = at[name].(map[string]any)
	}
	last := path[len(path)-1]
	if _, ok := at[last]; !ok {
		panic(fmt.Sprintf("baotest: a recorded answer has no %v", path))
	}
	at[last] = value
	return r
}

func (s *standIn) none() *reply { return s.as("no content") }

func (s *standIn) answer(c *call) *reply {
	if s.sealed.Load() {
		return s.as("sealed")
	}
	switch {
	case c.path == "auth/approle/login":
		return s.login(c)
	case c.path == "sys/wrapping/unwrap":
		return s.unwrap(c) // looks at the wrapping token before the caller's
	}
	tok := s.tokens[c.token]
	if tok != nil && time.Now().After(tok.until) {
		delete(s.tokens, c.token)
		tok = nil
	}
	if tok == nil && c.token != s.root {
		return s.as("denied")
	}
	if r := s.self(c, tok); r != nil {
		return r
	}
	if c.path == "sys/wrapping/wrap" {
		return s.wrap(c)
	}
	mount, rest, _ := strings.Cut(c.path, "/")
	if engine, ok := s.engines[mount]; ok {
		return s.kv(c, engine, rest)
	}
	if keys, ok := s.keys[mount]; ok {
		return s.transit(c, keys, rest)
	}
	if c.token == s.root {
		if r := s.admin(c); r != nil {
			return r
		}
	}
	return s.as("denied")
}

// self answers what a token may ask about itself.
func (s *standIn) self(c *call, tok *serviceToken) *reply {
	switch c.path {
	case "auth/token/lookup-self":
		r := s.as("lookup self").set(c.token, "data", "id")
		if tok == nil {
			return r.set(0, "data", "ttl").set(false, "data", "renewable")
		}
		return r.set(int(time.Until(tok.until)/time.Second), "data", "ttl")
	case "auth/token/renew-self":
		if tok == nil {
			return s.as("denied")
		}
		tok.until = time.Now().Add(tok.ttl)
		return s.as("renew self").set(c.token, "auth", "client_token").set(int(tok.ttl/time.Second), "auth", "lease_duration")
	case "auth/token/revoke-self":
		delete(s.tokens, c.token)
		return s.none()
	}
	return nil
}

func (s *standIn) login(c *call) *reply {
	for _, role := range s.roles {
		if secret, _ := c.body["secret_id"].(string); role.id == c.body["role_id"] && role.secrets[secret] {
			token := "s." + rand.Text()[:24]
			s.tokens[token] = &serviceToken{role.ttl, time.Now().Add(role.ttl)}
			return s.as("login").set(token, "auth", "client_token").set(int(role.ttl/time.Second), "auth", "lease_duration")
		}
	}
	return s.as("login refused")
}

func (s *standIn) wrap(c *call) *reply {
	token := "s." + rand.Text()[:24]
	s.wraps[token] = &wrapping{c.body, time.Now().Add(c.wrap)}
	return s.as("wrap").set(token, "wrap_info", "token").set(int(c.wrap/time.Second), "wrap_info", "ttl")
}

func (s *standIn) unwrap(c *call) *reply {
	token, _ := c.body["token"].(string)
	wr := s.wraps[token]
	if wr == nil || time.Now().After(wr.until) {
		return s.as("unwrap spent")
	}
	if s.tokens[c.token] == nil && c.token != s.root {
		return s.as("denied")
	}
	delete(s.wraps, token)
	return s.as("unwrap").set(wr.data, "data")
}

// admin is what the tests themselves ask for. No code under test sees these answers.
func (s *standIn) admin(c *call) *reply {
	empty := &reply{status: 204}
	part := strings.Split(c.path, "/")
	switch {
	case part[0] == "sys" && part[1] == "mounts" && c.method == http.MethodPost:
		switch c.body["type"] {
		case "kv":
			s.engines[part[2]] = make(map[string]*kvEntry)
		case "transit":
			s.keys[part[2]] = make(map[string]*transitKey)
		}
	case part[0] == "sys" && part[1] == "mounts":
		delete(s.engines, part[2])
		delete(s.keys, part[2])
	case strings.HasPrefix(c.path, "sys/auth/"):
		return &reply{status: 200, body: map[string]any{}}
	case c.path == "auth/token/revoke":
		delete(s.tokens, fmt.Sprint(c.body["token"]))
	case strings.HasPrefix(c.path, "auth/approle/role/"):
		return s.adminRole(c, part[3:])
	default:
		return nil
	}
	return empty
}

func (s *standIn) adminRole(c *call, part []string) *reply {
	role := s.roles[part[0]]
	switch {
	case len(part) == 1 && c.method == http.MethodPost:
		ttl, err := time.ParseDuration(fmt.Sprint(c.body["token_ttl"]))
		if err != nil {
			return &reply{status: 400}
		}
		s.roles[part[0]] = &approle{id: randomText(), secrets: make(map[string]bool), ttl: ttl}
	case len(part) == 1:
		delete(s.roles, part[0])
	case role == nil:
		return &reply{status: 404}
	case part[1] == "role-id":
		return &reply{status: 200, body: map[string]any{"data": map[string]any{"role_id": role.id}}}
	case part[1] == "secret-id" && len(part) == 2:
		secret := randomText()
		role.secrets[secret] = true
		return &reply{status: 200, body: map[string]any{"data": map[string]any{"secret_id": secret}}}
	}
	return &reply{status: 204}
}
