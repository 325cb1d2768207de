package openbao

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// roleTTL is how long a token of an AppRole lasts before it must be renewed, in
// seconds; roleMaxTTL is when it is replaced.
const (
	roleTTL    = 20 * 60
	roleMaxTTL = 24 * 60 * 60
)

// SetupOptions are the options of [Setup]; nil means the defaults.
type SetupOptions struct {
	// DryRun changes nothing: each step says what it would do.
	DryRun bool
	// AppRoles are more AppRoles than the one of each role, by name without the
	// prefix, such as {"janitor": {RingReader, Wrapper, Redeemer}} for a process that
	// does several jobs. A role that reads the ring does not go together with
	// TransitUser, nor Spender with SweeperRole.
	AppRoles map[string][]Role
}

// A Step is one thing that Setup has looked at.
type Step struct {
	// What is the thing, such as "policy foil-ring-reader".
	What string `json:"what"`
	// Did is "created", "changed" or "unchanged"; in a dry run "would create" and
	// "would change" stand for the first two.
	Did string `json:"did"`
}

// Setup makes what a [Layout] needs, and nothing else: the engines, the Transit key, the
// policies, the AppRole method and the AppRoles, each without the default policy, which
// would let it wrap. What is there and as it should be stays; what is there and of
// another kind is an error, and stays too. Running it again changes nothing.
//
// Its client needs an operator's token. It returns what it did up to an error. It makes
// no ring (foil keys new does) and no secret IDs.
func Setup(ctx context.Context, c *Client, l *Layout, opts *SetupOptions) ([]Step, error) {
	o, err := l.complete()
	if err != nil {
		return nil, err
	}
	s := &setup{c: c, l: o, roles: make(map[string][]Role)}
	if opts != nil {
		s.dry = opts.DryRun
		for name, roles := range opts.AppRoles {
			if err := checkRoles(roles); err != nil {
				return nil, fmt.Errorf("AppRole %s: %w", clean(name), err)
			}
			if !validPart(name) || slices.Contains(Roles(), Role(name)) {
				return nil, fmt.Errorf("openbao: %q is no name for an AppRole with several roles", clean(name))
			}
			s.roles[name] = roles
		}
	}
	for _, r := range Roles() {
		s.roles[string(r)] = []Role{r}
	}
	err = s.all(ctx)
	return s.steps, err
}

type setup struct {
	c     *Client
	l     layout
	dry   bool
	roles map[string][]Role
	steps []Step
}

func (s *setup) all(ctx context.Context) error {
	if err := s.engine(ctx, s.l.ringMount, "kv"); err != nil {
		return err
	}
	if err := s.engine(ctx, s.l.spent, "kv"); err != nil {
		return err
	}
	if err := s.oneVersion(ctx); err != nil {
		return err
	}
	if err := s.engine(ctx, s.l.transitMount, "transit"); err != nil {
		return err
	}
	if err := s.transitKey(ctx); err != nil {
		return err
	}
	for _, r := range Roles() {
		if err := s.policy(ctx, r); err != nil {
			return err
		}
	}
	if err := s.method(ctx); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		if err := s.appRole(ctx, name, s.roles[name]); err != nil {
			return err
		}
	}
	return nil
}

// step notes what was, or would be, done and does it.
func (s *setup) step(what string, there, good bool, do func() error) error {
	did, would := "created", "would create"
	if there {
		did, would = "changed", "would change"
	}
	switch {
	case good:
		did = "unchanged"
	case s.dry:
		did = would
	default:
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	s.steps = append(s.steps, Step{what, did})
	return nil
}

// get reads path into doc and reports whether something is there.
func (s *setup) get(ctx context.Context, op, path string, doc any) (bool, error) {
	a, err := s.c.do(ctx, &request{op: op, method: "GET", path: path, tell: true})
	if e := as(err); e != nil && (e.Status == http.StatusNotFound ||
		e.Status == http.StatusBadRequest && (e.said("No secret engine mount") || e.said("No auth engine"))) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(a.body, doc); err != nil {
		return false, errAnswer(op, a)
	}
	return true, nil
}

func (s *setup) post(ctx context.Context, op, path string, body any) error {
	_, err := s.c.do(ctx, &request{op: op, method: "POST", path: path, body: body, tell: true})
	return err
}

type mountInfo struct {
	Data struct {
		Type    string            `json:"type"`
		Options map[string]string `json:"options"`
	} `json:"data"`
}

// engine makes an engine of this kind at mount.
func (s *setup) engine(ctx context.Context, mount, kind string) error {
	var doc mountInfo
	there, err := s.get(ctx, "read mount", "sys/mounts/"+mount, &doc)
	if err != nil {
		return err
	}
	what := "engine " + mount + " (" + kind + ")"
	body := map[string]any{"type": kind, "description": "foil: see foil openbao setup"}
	if kind == "kv" {
		what = "engine " + mount + " (kv, version 2)"
		body["options"] = map[string]string{"version": "2"}
	}
	if there && (doc.Data.Type != kind || kind == "kv" && doc.Data.Options["version"] != "2") {
		return fmt.Errorf("openbao: %s: another engine is there (%s): choose another mount", what, clean(doc.Data.Type))
	}
	return s.step(what, there, there, func() error { return s.post(ctx, "make engine", "sys/mounts/"+mount, body) })
}

// oneVersion lets the engine of spent IDs keep one version of each entry.
func (s *setup) oneVersion(ctx context.Context) error {
	what := "engine " + s.l.spent + " keeps one version"
	var doc struct {
		Data struct {
			MaxVersions int `json:"max_versions"`
		} `json:"data"`
	}
	there, err := s.get(ctx, "read engine", s.l.spent+"/config", &doc)
	if err != nil && !(s.dry && s.made(s.l.spent)) && !s.fresh(err) {
		return err
	}
	return s.step(what, true, there && doc.Data.MaxVersions == 1, func() error {
		// A new engine is not ready for a moment.
		for try := 0; ; try++ {
			err := s.post(ctx, "configure engine", s.l.spent+"/config", map[string]any{"max_versions": 1})
			if err == nil || !s.fresh(err) || try == 50 || !pause(ctx, 100*time.Millisecond) {
				return err
			}
		}
	})
}

// fresh reports whether an engine has only just been made and is busy with itself.
func (s *setup) fresh(err error) bool {
	e := as(err)
	return e != nil && e.said("Upgrading from non-versioned to versioned")
}

// made reports whether a dry run would have made an engine at mount.
func (s *setup) made(mount string) bool {
	return slices.ContainsFunc(s.steps, func(st Step) bool {
		return strings.HasPrefix(st.What, "engine "+mount+" (") && st.Did == "would create"
	})
}

func (s *setup) transitKey(ctx context.Context) error {
	key := &TransitKey{s.c, s.l.transitMount, s.l.keyName}
	what := "key " + key.String() + " (aes256-gcm96, not exportable)"
	if s.dry && s.made(s.l.transitMount) {
		return s.step(what, false, false, nil)
	}
	status, err := key.Status(ctx)
	switch {
	case err == nil && (status.Type != "aes256-gcm96" && status.Type != "chacha20-poly1305" || status.derived || status.Exportable || status.PlaintextBackup):
		return fmt.Errorf("openbao: %s: another key is there, of type %s, or one that may leave the server: choose another name", what, clean(status.Type))
	case err != nil && as(err) != nil && as(err).Status != http.StatusNotFound:
		return err
	}
	return s.step(what, err == nil, err == nil, func() error {
		return s.post(ctx, "make Transit key", key.path(), map[string]any{"type": "aes256-gcm96"})
	})
}

func (s *setup) policy(ctx context.Context, r Role) error {
	text, err := s.l.policy(r)
	if err != nil {
		return err
	}
	var doc struct {
		Data struct {
			Policy string `json:"policy"`
		} `json:"data"`
	}
	path := "sys/policies/acl/" + s.l.name(r)
	there, err := s.get(ctx, "read policy", path, &doc)
	if err != nil {
		return err
	}
	return s.step("policy "+s.l.name(r), there, there && doc.Data.Policy == text, func() error {
		return s.post(ctx, "write policy", path, map[string]string{"policy": text})
	})
}

func (s *setup) method(ctx context.Context) error {
	var doc mountInfo
	there, err := s.get(ctx, "read auth method", "sys/auth/"+s.l.auth, &doc)
	if err != nil {
		return err
	}
	what := "auth method " + s.l.auth + " (approle)"
	if there && doc.Data.Type != "approle" {
		return fmt.Errorf("openbao: %s: another method is there (%s): choose another mount", what, clean(doc.Data.Type))
	}
	return s.step(what, there, there, func() error {
		return s.post(ctx, "enable auth method", "sys/auth/"+s.l.auth, map[string]string{"type": "approle"})
	})
}

func (s *setup) appRole(ctx context.Context, name string, roles []Role) error {
	var policies []string
	for _, r := range roles {
		policies = append(policies, s.l.name(r))
	}
	slices.Sort(policies)
	policies = slices.Compact(policies)
	type settings struct {
		Policies  []string `json:"token_policies"`
		NoDefault bool     `json:"token_no_default_policy"`
		TTL       int      `json:"token_ttl"`
		MaxTTL    int      `json:"token_max_ttl"`
		Type      string   `json:"token_type"`
		Bind      bool     `json:"bind_secret_id"`
	}
	want := settings{policies, true, roleTTL, roleMaxTTL, "service", true}
	var doc struct {
		Data settings `json:"data"`
	}
	full := s.l.prefix + "-" + name
	path := "auth/" + s.l.auth + "/role/" + full
	there, err := s.get(ctx, "read AppRole", path, &doc)
	if err != nil && !(s.dry && errors.Is(err, ErrDenied)) {
		return err
	}
	slices.Sort(doc.Data.Policies)
	got := doc.Data
	good := there && slices.Equal(got.Policies, want.Policies) && got.NoDefault && got.TTL == want.TTL && got.MaxTTL == want.MaxTTL && got.Type == want.Type && got.Bind
	return s.step("AppRole "+full, there, good, func() error { return s.post(ctx, "write AppRole", path, want) })
}
