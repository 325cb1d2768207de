package attack

import "github.com/foilmcp/foil"

// A variant is one form of an attack. It plays on a flow of its own.
type variant struct {
	what string
	make func() (*flow, *Request, error)
	// own: the server's own limits may stop this form before it gets to the
	// layer under attack, on the first call or on the retry.
	own bool
	// values: the arguments are of any JSON, which only tools take.
	values bool
}

// takes reports whether calls of the kind under attack can have this form. The
// arguments of a prompt are strings (MCP 2026-07-28, Prompts).
func (b *bout) takes(v variant) bool { return !v.values || b.Mode.kind() == foil.MethodToolsCall }

// anyValue marks a form that only a tool's arguments can have.
func (v variant) anyValue() variant {
	v.values = true
	return v
}

// ownLimit lets a server's own limit stop a form.
func (v variant) ownLimit() variant {
	v.own = true
	return v
}

// minted is a variant that presents a token minted with a change.
func (b *bout) minted(what string, change func(*Minting)) variant {
	return variant{what: what, make: func() (*flow, *Request, error) {
		f, err := b.begin()
		if err != nil {
			return nil, nil, err
		}
		token, err := b.mint(f, change)
		return f, f.with(token), err
	}}
}

// changed is a variant that presents the retry in a changed form.
func (b *bout) changed(what string, change func(*flow) *Request) variant {
	return variant{what: what, make: func() (*flow, *Request, error) {
		f, err := b.begin()
		if err != nil {
			return nil, nil, err
		}
		return f, change(f), nil
	}}
}
