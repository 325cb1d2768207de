package openbao

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/foilmcp/foil/internal/secret"
)

// DefaultKubernetesTokenFile is where Kubernetes puts a pod's own token.
const DefaultKubernetesTokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// Auth is a way to log in: [AppRole], [AppRoleFile], [Kubernetes], [TokenFile] or
// [Token]. It prints as its kind alone.
type Auth interface {
	// login returns a new token; own says that it is ours to revoke.
	login(ctx context.Context, c *Client) (*grant, error)
	fmt.Formatter
}

// AuthOptions are the rarer options of the ways to log in; nil means the defaults.
type AuthOptions struct {
	// Mount is where the auth method is mounted, "approle" or "kubernetes" if
	// empty.
	Mount string
}

// A grant is a token that the server gave, and for how long.
type grant struct {
	token     secret.Bytes
	lease     time.Duration // 0: without an end
	renewable bool
	own       bool // a login of ours made it, so that Close may revoke it
	at        time.Time
}

func (g *grant) value() string {
	if g == nil {
		return ""
	}
	return string(g.token.Reveal())
}

type auth struct {
	kind string
	do   func(ctx context.Context, c *Client) (*grant, error)
}

func (a *auth) login(ctx context.Context, c *Client) (*grant, error) { return a.do(ctx, c) }
func (a *auth) Format(f fmt.State, _ rune)                           { _, _ = f.Write([]byte("openbao." + a.kind)) }

// Token logs in with a token as it is. It is renewed while the server lets it; a token
// that ends cannot be replaced, so this is for tools and tests.
func Token(token string) Auth {
	s := secret.New([]byte(token))
	return &auth{"Token", func(ctx context.Context, c *Client) (*grant, error) { return c.given(ctx, string(s.Reveal())) }}
}

// TokenFile logs in with the token in a file, such as one that an agent keeps fresh.
// The file is read again at every login.
func TokenFile(path string) Auth {
	return &auth{"TokenFile", func(ctx context.Context, c *Client) (*grant, error) {
		token, err := readSecret("token", path)
		if err != nil {
			return nil, err
		}
		return c.given(ctx, token)
	}}
}

// AppRole logs in with a role ID and its secret ID.
func AppRole(roleID, secretID string, opts *AuthOptions) Auth {
	s := secret.New([]byte(secretID))
	return appRole(roleID, opts, func() (string, error) { return string(s.Reveal()), nil })
}

// AppRoleFile logs in with a role ID and the secret ID in a file, which is read again
// at every login.
func AppRoleFile(roleID, path string, opts *AuthOptions) Auth {
	return appRole(roleID, opts, func() (string, error) { return readSecret("secret ID", path) })
}

func appRole(roleID string, opts *AuthOptions, secretID func() (string, error)) Auth {
	mount := mountOr(opts, "approle")
	return &auth{"AppRole", func(ctx context.Context, c *Client) (*grant, error) {
		id, err := secretID()
		if err != nil {
			return nil, err
		}
		return c.authenticate(ctx, "log in by AppRole", mount, map[string]string{"role_id": roleID, "secret_id": id})
	}}
}

// Kubernetes logs in as a role of the Kubernetes method with a pod's token, which is
// read from file at every login; empty means [DefaultKubernetesTokenFile].
func Kubernetes(role, file string, opts *AuthOptions) Auth {
	mount := mountOr(opts, "kubernetes")
	if file == "" {
		file = DefaultKubernetesTokenFile
	}
	return &auth{"Kubernetes", func(ctx context.Context, c *Client) (*grant, error) {
		jwt, err := readSecret("service account token", file)
		if err != nil {
			return nil, err
		}
		return c.authenticate(ctx, "log in by Kubernetes", mount, map[string]string{"role": role, "jwt": jwt})
	}}
}

func mountOr(opts *AuthOptions, mount string) string {
	if opts != nil && opts.Mount != "" {
		mount = strings.Trim(opts.Mount, "/")
	}
	return mount
}

// readSecret reads one line. Its errors do not hold what it read.
func readSecret(what, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("openbao: read %s: %w", what, err)
	}
	defer f.Close()
	const most = 64 << 10
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", fmt.Errorf("openbao: read %s: %w", what, err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" || len(b) > most || strings.ContainsAny(text, "\r\n\x00") {
		return "", fmt.Errorf("openbao: %s must hold a %s and nothing else", path, what)
	}
	return text, nil
}

// authenticate logs in at a mount.
func (c *Client) authenticate(ctx context.Context, op, mount string, body map[string]string) (*grant, error) {
	a, err := c.attempt(ctx, &request{op: op, method: "POST", path: "auth/" + mount + "/login", body: body}, "")
	if err != nil {
		if e := as(err); e != nil && (e.Status == 400 || e.Status == 403) {
			e.cause, e.hint = ErrDenied, "the server refuses the credentials: the role or its secret ID is wrong, was used up or was revoked"
		}
		return nil, err
	}
	var doc struct {
		Auth *struct {
			ClientToken   string `json:"client_token"`
			LeaseDuration int64  `json:"lease_duration"`
			Renewable     bool   `json:"renewable"`
		} `json:"auth"`
	}
	if json.Unmarshal(a.body, &doc) != nil || doc.Auth == nil || doc.Auth.ClientToken == "" {
		return nil, &Error{Op: op, Status: a.status, hint: "the answer holds no token"}
	}
	return &grant{
		token: secret.New([]byte(doc.Auth.ClientToken)), lease: time.Duration(doc.Auth.LeaseDuration) * time.Second,
		renewable: doc.Auth.Renewable, own: true, at: time.Now(),
	}, nil
}

// given finds out how long a token that we were given lasts.
func (c *Client) given(ctx context.Context, token string) (*grant, error) {
	g := &grant{token: secret.New([]byte(token)), at: time.Now()}
	a, err := c.attempt(ctx, &request{op: "look up the token", method: "GET", path: "auth/token/lookup-self"}, token)
	if err != nil {
		if errors.Is(err, ErrDenied) {
			as(err).hint = "the server refuses the token: it has ended, was revoked, or may not look itself up"
		}
		return nil, err
	}
	var doc struct {
		Data struct {
			TTL       int64 `json:"ttl"`
			Renewable bool  `json:"renewable"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.body, &doc); err != nil {
		return nil, &Error{Op: "look up the token", Status: a.status, hint: "the answer is none"}
	}
	g.lease, g.renewable = time.Duration(doc.Data.TTL)*time.Second, doc.Data.Renewable
	return g, nil
}

// leaseOf returns the lease in an answer that renewed a token.
func leaseOf(body []byte) (time.Duration, bool) {
	var doc struct {
		Auth *struct {
			LeaseDuration int64 `json:"lease_duration"`
		} `json:"auth"`
	}
	if json.Unmarshal(body, &doc) != nil || doc.Auth == nil {
		return 0, false
	}
	return time.Duration(doc.Auth.LeaseDuration) * time.Second, true
}
