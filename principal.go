package foil

import (
	"fmt"
	"log/slog"

	"github.com/foilmcp/foil/internal/canonjson"
)

// A Principal is who a request comes from, as the server's own login found it
// out. A state is bound to it.
//
// The zero Principal means "not known": [Guard.Seal] and [Guard.Open] refuse
// it, so that a login that was forgotten cannot pass for a public server. A
// server that has no login says [Anonymous] by name.
//
// A Principal prints as [redacted].
type Principal struct {
	kind principalKind
	text string // of principalUnknown: what to do about it
}

type principalKind uint8

const (
	principalUnknown principalKind = iota
	principalAnonymous
	principalNamed
)

// OAuth returns the principal of an OAuth or OpenID Connect login: the issuer
// and subject of the validated token (RFC 7519), and the client it was issued
// to. An empty issuer or subject is recorded as absent. A client alone is
// shared by all of its users, so a login with users must give a subject.
//
// The principal must not change when the token is renewed; never build it from
// the token's bytes. If all three are empty, or one is not valid UTF-8, nobody is
// known: the result is the zero Principal, which is refused. So it is for the
// issuer "fixed", which belongs to [Fixed].
func OAuth(clientID, issuer, subject string) Principal {
	if issuer == fixedIssuer {
		return Principal{}
	}
	return principal(clientID, issuer, subject)
}

const fixedIssuer = "fixed"

func principal(clientID, issuer, subject string) Principal {
	if clientID+issuer+subject == "" || !canonjson.ValidWTF8(clientID) || !canonjson.ValidWTF8(issuer) || !canonjson.ValidWTF8(subject) {
		return Principal{}
	}
	b := make([]byte, 0, len(clientID)+len(issuer)+len(subject)+16)
	b = append(b, '[')
	b = canonjson.AppendString(b, clientID)
	for _, s := range [...]string{issuer, subject} {
		b = append(b, ',')
		if s == "" {
			b = append(b, "null"...)
		} else {
			b = canonjson.AppendString(b, s)
		}
	}
	return Principal{principalNamed, string(append(b, ']'))}
}

// Fixed returns the principal of a server with one user, such as a server on
// stdio: OAuth's form under the issuer "fixed", which OAuth refuses. An empty name
// is nobody.
func Fixed(name string) Principal {
	if name == "" {
		return Principal{}
	}
	return principal("", fixedIssuer, name)
}

// PrincipalString returns the principal with exactly this string, as other
// implementations write it. It may be empty; the empty principal differs from
// [Anonymous]. One that is not valid UTF-8 is nobody.
func PrincipalString(s string) Principal {
	if !canonjson.ValidWTF8(s) {
		return Principal{}
	}
	return Principal{principalNamed, s}
}

// Anonymous is the principal of every request of a server without a login.
// States are then bound to nobody: whoever holds one can present it.
func Anonymous() Principal { return Principal{kind: principalAnonymous} }

// Nobody is a zero Principal that tells the operator, in the log of the refusal,
// what to do so that somebody is known. The hint must hold nothing of the request.
func Nobody(hint string) Principal { return Principal{principalUnknown, hint} }

// hint is what to do when nobody is known.
func (p Principal) hint() string {
	if p.kind == principalUnknown && p.text != "" {
		return p.text
	}
	return "set Request.Principal from the server's login, or say Anonymous by name"
}

// IsZero reports whether nobody is known, which is refused.
func (p Principal) IsZero() bool { return p.kind == principalUnknown }

// Format prints the kind of principal and never who it is.
func (p Principal) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(p.String())) }

// String tells the kind of principal and never who it is.
func (p Principal) String() string {
	switch p.kind {
	case principalUnknown:
		return "[no principal]"
	case principalAnonymous:
		return "[anonymous]"
	}
	return redacted
}

// MarshalText gives what String gives.
func (p Principal) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// LogValue gives what String gives.
func (p Principal) LogValue() slog.Value { return slog.StringValue(p.String()) }

const redacted = "[redacted]"
