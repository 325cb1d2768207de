package mcpsdk

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/foilmcp/foil"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A call is what the three guarded requests have in common.
type call struct {
	session *mcp.ServerSession
	target  string
	args    []byte // raw JSON
	state   string
	answers mcp.InputResponseMap
	// with returns a new request of the same type, which the SDK's dispatch
	// insists on, with copied params.
	with func(state string, answers mcp.InputResponseMap) mcp.Request
}

// readCall reads a request of one of the guarded methods. It never changes it.
func readCall(method string, req mcp.Request) (*call, error) {
	c, its := &call{}, ""
	switch r := req.(type) {
	case *mcp.CallToolRequest:
		if r == nil || r.Params == nil {
			return nil, errNoParams
		}
		p := *r.Params
		its = foil.MethodToolsCall
		c.session, c.target, c.args, c.state, c.answers = r.Session, p.Name, p.Arguments, p.RequestState, p.InputResponses
		c.with = func(state string, answers mcp.InputResponseMap) mcp.Request {
			p.RequestState, p.InputResponses = state, answers
			return &mcp.CallToolRequest{Session: r.Session, Params: &p, Extra: r.Extra}
		}
	case *mcp.GetPromptRequest:
		if r == nil || r.Params == nil {
			return nil, errNoParams
		}
		p := *r.Params
		args, err := encode(p.Arguments)
		if err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		its = foil.MethodPromptsGet
		c.session, c.target, c.args, c.state, c.answers = r.Session, p.Name, args, p.RequestState, p.InputResponses
		c.with = func(state string, answers mcp.InputResponseMap) mcp.Request {
			p.RequestState, p.InputResponses = state, answers
			return &mcp.GetPromptRequest{Session: r.Session, Params: &p, Extra: r.Extra}
		}
	case *mcp.ReadResourceRequest:
		if r == nil || r.Params == nil {
			return nil, errNoParams
		}
		p := *r.Params
		its = foil.MethodResourcesRead
		c.session, c.target, c.state, c.answers = r.Session, p.URI, p.RequestState, p.InputResponses
		c.with = func(state string, answers mcp.InputResponseMap) mcp.Request {
			p.RequestState, p.InputResponses = state, answers
			return &mcp.ReadResourceRequest{Session: r.Session, Params: &p, Extra: r.Extra}
		}
	}
	if its != method {
		return nil, fmt.Errorf("a %s request of type %T: Protect is receiving middleware of a server", method, req)
	}
	return c, nil
}

var errNoParams = fmt.Errorf("the request has no params")

// encode writes what the guard is to read. It leaves out the escapes meant for
// HTML, with which an honest text could grow past the guard's limit.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// kept returns the answers that passed the guard; nil if none did.
func kept(answers mcp.InputResponseMap, o *foil.Opened) mcp.InputResponseMap {
	var m mcp.InputResponseMap
	for key, a := range answers {
		if !o.Has(key) {
			continue
		}
		if m == nil {
			m = make(mcp.InputResponseMap, len(answers))
		}
		m[key] = a
	}
	return m
}

// answersOf reads the answers of a request of any of the guarded methods.
func answersOf(req mcp.Request) mcp.InputResponseMap {
	switch r := req.(type) {
	case *mcp.CallToolRequest:
		if r != nil && r.Params != nil {
			return r.Params.InputResponses
		}
	case *mcp.GetPromptRequest:
		if r != nil && r.Params != nil {
			return r.Params.InputResponses
		}
	case *mcp.ReadResourceRequest:
		if r != nil && r.Params != nil {
			return r.Params.InputResponses
		}
	}
	return nil
}

// roundTrips is the protocol version from which clients carry states.
const roundTrips = "2026-07-28"

// bridges reports whether the SDK asks this session's client itself and calls
// the handler again, instead of sending the questions out. It decides as the SDK
// does: by the version that the client asked for, which in an initialize
// handshake is not always the one that was agreed on.
func bridges(s *mcp.ServerSession) bool {
	if s == nil {
		return false
	}
	p := s.InitializeParams()
	return p != nil && p.ProtocolVersion < roundTrips
}
