package mcpsdk

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/foilmcp/foil"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// who asks the PrincipalFunc, or takes the login that the SDK found. Every error
// is a failure of the server.
func (p *protector) who(ctx context.Context, req mcp.Request) (who foil.Principal, err error) {
	if p.o.Principal == nil {
		return loginOf(req.GetExtra(), p.o.Issuer), nil
	}
	defer func() {
		if v := recover(); v != nil {
			// The value may hold anything, so only the runtime's own is told.
			what := fmt.Sprintf("panic of type %T", v)
			if r, ok := v.(runtime.Error); ok {
				what = "panic: " + r.Error()
			}
			who, err = foil.Principal{}, fmt.Errorf("%s\n%s", what, debug.Stack())
		}
	}()
	who, err = p.o.Principal(ctx, req)
	if err != nil {
		// Cut off from its cause: it must not pass for the client's fault.
		return foil.Principal{}, errors.New(err.Error())
	}
	if who == (foil.Principal{}) { // and not one that tells its own hint
		who = foil.Nobody("Options.Principal returned no principal: for a server without a login it is mcpsdk.Anonymous, or mcpsdk.Fixed on stdio")
	}
	return who, nil
}

// loginOf reads the login of auth.RequireBearerToken. It looks at the request's
// own Extra: in a stateful session the context still holds the token of the
// request that opened the session.
func loginOf(extra *mcp.RequestExtra, issuer string) foil.Principal {
	if extra == nil || extra.TokenInfo == nil {
		return foil.Nobody("the request has no login: put auth.RequireBearerToken in front, or set Options.Principal, to mcpsdk.Fixed on stdio or mcpsdk.Anonymous for a server without a login")
	}
	t := extra.TokenInfo
	if blank(t.UserID) {
		return foil.Nobody("the login has no TokenInfo.UserID: let the verifier set the subject, or set Options.Principal; a client or a token is not a person")
	}
	iss, ok := text(t.Extra, "iss")
	if !ok {
		return foil.Nobody(`the login's TokenInfo.Extra["iss"] is no string: let the verifier set the issuer, or set Options.Principal`)
	}
	if blank(iss) {
		iss = issuer
	}
	if iss == "" {
		return foil.Nobody(`the login has no TokenInfo.Extra["iss"]: let the verifier set it, or set Options.Issuer for a server with one issuer`)
	}
	client, ok := text(t.Extra, "client_id")
	if !ok {
		return foil.Nobody(`the login's TokenInfo.Extra["client_id"] is no string: let the verifier set it right, or set Options.Principal`)
	}
	return foil.OAuth(client, iss, t.UserID)
}

// text returns a string of m, "" if it is absent; ok is false for another type.
func text(m map[string]any, key string) (s string, ok bool) {
	v, present := m[key]
	if !present || v == nil {
		return "", true
	}
	s, ok = v.(string)
	return s, ok
}
