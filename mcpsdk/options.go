package mcpsdk

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/foilmcp/foil"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options configure [Protect]. The zero value suits a server behind
// auth.RequireBearerToken whose verifier sets TokenInfo.UserID and
// TokenInfo.Extra["iss"].
type Options struct {
	// Principal says who is asking. Nil takes the login that the SDK found:
	// subject TokenInfo.UserID, issuer TokenInfo.Extra["iss"] or else
	// Issuer, client TokenInfo.Extra["client_id"]. A server without a login
	// sets Fixed or Anonymous.
	Principal PrincipalFunc
	// Issuer is the issuer of all logins, for a server that has one and whose
	// verifier does not put it into TokenInfo.Extra. It excludes Principal.
	Issuer string
	// BareAnswers is what to do with answers that come without a state. By
	// default they are stripped and the call runs as the first round, so that
	// it asks again. Refuse sends the frozen refusal. Allow lets them reach
	// the handler as they came: nothing then ties an answer to a question, a
	// person or a time.
	BareAnswers foil.Choice
	// Logger gets a line for what is dropped, stripped or refused here; the
	// Guard has a logger of its own. Never a token, a state, an argument, an
	// answer or a principal. Nil is slog.Default().
	Logger *slog.Logger
}

// A PrincipalFunc finds out who a request comes from. It must not derive it from
// the bearer token, which changes when it is renewed, nor from anything that the
// client may choose.
//
// The zero Principal means that nobody is known: results that ask and requests
// with a state are then refused. An error, or a panic, is a failure of the
// server: the call is refused before the handler, with an internal error. The
// text of the error goes to the log, so it must hold no token and no name.
//
// It is called once for each tools/call, prompts/get and resources/read.
type PrincipalFunc func(ctx context.Context, req mcp.Request) (foil.Principal, error)

// Fixed is the PrincipalFunc of a server with one user, such as a server on
// stdio: every request comes from name. It panics on a blank name.
func Fixed(name string) PrincipalFunc {
	if blank(name) {
		panic("mcpsdk: Fixed needs a name that is not blank")
	}
	p := foil.Fixed(name)
	return func(context.Context, mcp.Request) (foil.Principal, error) { return p, nil }
}

// Anonymous is the PrincipalFunc of a server without a login. States are then
// bound to nobody: whoever holds one can present it.
func Anonymous(context.Context, mcp.Request) (foil.Principal, error) {
	return foil.Anonymous(), nil
}

var _ PrincipalFunc = Anonymous

// check says what contradicts itself in o.
func (o *Options) check() error {
	switch {
	case o.Principal != nil && o.Issuer != "":
		return fmt.Errorf("mcpsdk: Options.Principal and Options.Issuer exclude each other: the issuer is for the login that the SDK finds")
	case o.Issuer != "" && blank(o.Issuer):
		return fmt.Errorf("mcpsdk: Options.Issuer is blank")
	case o.BareAnswers > foil.Refuse:
		return fmt.Errorf("mcpsdk: unknown Options.BareAnswers %d", o.BareAnswers)
	}
	return nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
