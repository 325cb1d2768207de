package openbao

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/openbao/openbao/api/v2"
)

// Defaults of [Options].
const (
	DefaultAddress = "https://127.0.0.1:8200"
	DefaultTimeout = 5 * time.Second
)

// Options say where the server is and who we are.
type Options struct {
	// Address is the server's URL, https://host:port, or unix:///path of an agent.
	// Empty means DefaultAddress. http:// is accepted for the loopback alone,
	// unless Plaintext is set: every call carries a bearer token.
	Address   string
	Plaintext bool

	// Namespace is the namespace of all mounts; empty means the root.
	Namespace string

	// Auth is how to log in. It is required.
	Auth Auth

	// TLS is for a server whose certificate the system does not trust, and for
	// client certificates. The zero value uses the system's roots. TLS 1.2 is the
	// least version.
	TLS TLS

	// Timeout bounds each call, with its login, waiting and repetition. Zero means
	// DefaultTimeout. Keep it at or below the Guard's StoreTimeout.
	Timeout time.Duration

	// Logger gets a line when a login or a renewal fails, and when it works again.
	// Nil is slog.Default().
	Logger *slog.Logger
}

// TLS names files, all of them PEM; empty means none.
type TLS struct {
	CACert     string // file with the roots to trust, instead of the system's
	CAPath     string // directory with such files
	ClientCert string // certificate and key by which the server knows us
	ClientKey  string
	ServerName string // name in the server's certificate, if not the address
	// SkipVerify accepts any certificate: whoever is in the way can then read the
	// token and all keys.
	SkipVerify bool
}

// complete checks the options and fills in the defaults.
func (opts *Options) complete() (Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Auth == nil {
		return o, errors.New("openbao: Options.Auth is nil: use AppRole, Kubernetes, TokenFile or Token")
	}
	if o.Timeout < 0 {
		return o, errors.New("openbao: Options.Timeout is negative")
	}
	if (o.TLS.ClientCert == "") != (o.TLS.ClientKey == "") {
		return o, errors.New("openbao: TLS.ClientCert and TLS.ClientKey need each other")
	}
	u, err := url.Parse(o.Address)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return o, errors.New("openbao: Options.Address is not a URL like https://host:8200") // not quoted: it may hold a password
	}
	switch {
	case u.Scheme == "unix" && u.Path != "":
	case u.Scheme == "https" && u.Host != "":
	case u.Scheme == "http" && u.Host != "":
		if !o.Plaintext && !loopback(u.Hostname()) {
			return o, fmt.Errorf("openbao: address %s would send the token in the clear: use https://, or set Options.Plaintext", o.Address)
		}
	default:
		return o, errors.New("openbao: Options.Address is not a URL like https://host:8200")
	}
	return o, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// FromEnv returns options from the environment variables that bao itself reads, and a
// few for logging in. Each name may begin with VAULT_ instead of BAO_; BAO_ goes first.
//
//	BAO_ADDR BAO_NAMESPACE BAO_CLIENT_TIMEOUT (seconds, or a duration like 5s)
//	BAO_CACERT BAO_CAPATH BAO_CLIENT_CERT BAO_CLIENT_KEY BAO_TLS_SERVER_NAME BAO_SKIP_VERIFY
//	BAO_ROLE_ID with BAO_SECRET_ID_FILE or BAO_SECRET_ID, BAO_APPROLE_MOUNT (approle)
//	BAO_K8S_ROLE, BAO_K8S_MOUNT (kubernetes), BAO_K8S_TOKEN_FILE
//	BAO_TOKEN_FILE, BAO_TOKEN, and what `bao login` left in ~/.vault-token
//
// The first of the last three lines that is set is used. FOIL_OPENBAO_PLAINTEXT=true
// sets Options.Plaintext.
func FromEnv() (*Options, error) {
	get := api.ReadBaoVariable
	o := &Options{
		Address:   get("BAO_ADDR"),
		Namespace: get("BAO_NAMESPACE"),
		TLS: TLS{
			CACert: get("BAO_CACERT"), CAPath: get("BAO_CAPATH"),
			ClientCert: get("BAO_CLIENT_CERT"), ClientKey: get("BAO_CLIENT_KEY"),
			ServerName: get("BAO_TLS_SERVER_NAME"),
		},
	}
	for name, to := range map[string]*bool{"BAO_SKIP_VERIFY": &o.TLS.SkipVerify, "FOIL_OPENBAO_PLAINTEXT": &o.Plaintext} {
		if v := get(name); v != "" {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return nil, fmt.Errorf("openbao: %s must be true or false", name)
			}
			*to = b
		}
	}
	if v := get("BAO_CLIENT_TIMEOUT"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			d, err = time.ParseDuration(v + "s")
		}
		if err != nil || d <= 0 {
			return nil, errors.New("openbao: BAO_CLIENT_TIMEOUT must be seconds or a duration like 5s")
		}
		o.Timeout = d
	}
	auth, err := authFromEnv(get)
	o.Auth = auth
	return o, err
}

func authFromEnv(get func(string) string) (Auth, error) {
	if id := get("BAO_ROLE_ID"); id != "" {
		mount := &AuthOptions{Mount: get("BAO_APPROLE_MOUNT")}
		if file := get("BAO_SECRET_ID_FILE"); file != "" {
			return AppRoleFile(id, file, mount), nil
		}
		secret := get("BAO_SECRET_ID")
		if secret == "" {
			return nil, errors.New("openbao: BAO_ROLE_ID is set: set BAO_SECRET_ID_FILE or BAO_SECRET_ID too")
		}
		return AppRole(id, secret, mount), nil
	}
	if role := get("BAO_K8S_ROLE"); role != "" {
		return Kubernetes(role, get("BAO_K8S_TOKEN_FILE"), &AuthOptions{Mount: get("BAO_K8S_MOUNT")}), nil
	}
	if file := get("BAO_TOKEN_FILE"); file != "" {
		return TokenFile(file), nil
	}
	if token := strings.TrimSpace(get("BAO_TOKEN")); token != "" {
		return Token(token), nil
	}
	if home, err := os.UserHomeDir(); err == nil {
		file := filepath.Join(home, ".vault-token")
		if _, err := os.Stat(file); err == nil {
			return TokenFile(file), nil
		}
	}
	return nil, errors.New("openbao: no way to log in: set BAO_ROLE_ID and BAO_SECRET_ID_FILE, BAO_K8S_ROLE, BAO_TOKEN_FILE or BAO_TOKEN, or run bao login")
}
