package foil

import (
	"bytes"
	"fmt"
	"log/slog"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/logtext"
)

// The methods that may carry a request state (MCP 2026-07-28, Multi Round-Trip
// Requests).
const (
	MethodToolsCall     = "tools/call"
	MethodPromptsGet    = "prompts/get"
	MethodResourcesRead = "resources/read"
)

// A Request is what a state is bound to.
type Request struct {
	// Method is the JSON-RPC method.
	Method string
	// Target is what is called: params.uri for resources/read, else params.name.
	Target string
	// Arguments is the raw JSON of params.arguments, as received. Nil and
	// null are {}. For resources/read it is not looked at.
	Arguments []byte
	// Principal is who asks. The zero value is refused.
	Principal Principal
	// Answers is the raw JSON of params.inputResponses; nil if there are
	// none. Seal does not look at it.
	Answers []byte
}

// String tells the method and the target.
func (r Request) String() string { return "request " + r.Method + " " + logtext.Cut(r.Target) }

// Format prints the method and the target, never arguments or answers.
func (r Request) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(r.String())) }

// MarshalText gives what String gives.
func (r Request) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// LogValue gives the method and the target.
func (r Request) LogValue() slog.Value {
	return slog.GroupValue(slog.String("method", logtext.Cut(r.Method)), slog.String("target", logtext.Cut(r.Target)))
}

// Outgoing is what a handler's result asks to be sealed.
type Outgoing struct {
	// State is the handler's own state, valid UTF-8; it may be empty.
	State string
	// Questions is the raw JSON of the result's inputRequests: an object of
	// key to {"method","params"}. Nil and {} ask nothing.
	Questions []byte
	// Prev is what the request itself opened: the round before this one. Nil
	// starts a flow.
	Prev *Opened
}

// String tells the sizes.
func (o Outgoing) String() string {
	return fmt.Sprintf("outgoing state of %d bytes, questions of %d bytes", len(o.State), len(o.Questions))
}

// Format prints the sizes, never the state.
func (o Outgoing) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(o.String())) }

// MarshalText gives what String gives.
func (o Outgoing) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// LogValue gives what String gives.
func (o Outgoing) LogValue() slog.Value { return slog.StringValue(o.String()) }

// sums digests the arguments. Every failure is a refusal of the request: the
// document cannot be read in one way only.
func (g *Guard) sums(req *Request) (canonjson.Sums, error) {
	args := req.Arguments
	if n := len(args); n > 0 && (args[0] <= ' ' || args[n-1] <= ' ') {
		args = bytes.Trim(args, " \t\r\n")
	}
	if req.Method == MethodResourcesRead || len(args) == 0 || string(args) == "null" {
		return emptySums, nil
	}
	if args[0] != '{' {
		return canonjson.Sums{}, Reject(ReasonAmbiguous)
	}
	s, err := canonjson.Sum(args, &g.limits)
	if err != nil {
		return canonjson.Sums{}, Reject(ReasonAmbiguous)
	}
	if s.Ambiguous && g.o.AmbiguousArguments != Allow {
		return canonjson.Sums{}, Reject(ReasonAmbiguous)
	}
	return s, nil
}

var emptySums = func() canonjson.Sums {
	s, err := canonjson.Sum([]byte("{}"), nil)
	if err != nil {
		panic(err)
	}
	return s
}()
