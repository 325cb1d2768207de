package attack

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/foilmcp/foil"
)

// A Door is a way to send requests to the server under attack. It must send the
// members of a [Request] as they are, in their order: duplicate keys and odd
// spellings are what many attacks consist of.
//
// A Door must be safe for concurrent use.
type Door interface {
	// Send sends one request and returns whatever came back. An error means
	// that there was no reply, or none that could be read.
	Send(ctx context.Context, req *Request) (*Reply, error)
	// Replicas is the number of replicas, at least 1.
	Replicas() int
}

// A Crasher is a [Door] to replicas that can die and come back. Kill gives the
// replica no chance to finish anything; Start returns when it serves again.
type Crasher interface {
	Kill(ctx context.Context, replica int) error
	Start(ctx context.Context, replica int) error
}

// A Blind door, or [Store], says of an attack on one kind of call why it cannot see it, or "".
// The row is then not-visible, and that is as expected: what a door may hide is
// for its own tests to say.
type Blind interface {
	Blind(attack, kind string) (reason string)
}

// Logs is what the servers under attack write for their operators. They must
// write everything that they can: logs at the debug level, metrics.
type Logs interface {
	// Written returns all that was written since the servers first started,
	// by each of them, whether it is still up or not.
	Written(ctx context.Context) ([]Writing, error)
}

// A Writing is one log, or one page of metrics.
type Writing struct {
	Name string
	Text []byte
}

// A Store is the store of spent tokens, or under Settle of operations, that the
// replicas share.
type Store interface {
	// Sweep does what a replica does whose clock has passed until: it makes
	// the store forget every ID that expired by then, and every operation whose
	// outcome need not be kept any longer, and returns how many.
	Sweep(ctx context.Context, until time.Time) (forgotten int, err error)
	// Outage takes the store away from all replicas until restore is called.
	// Their calls must find no answer until they give up.
	Outage(ctx context.Context) (restore func() error, err error)
}

// A Request is a JSON-RPC request as text.
type Request struct {
	// Method and Target are what the request says outside its params: the
	// JSON-RPC method, and the name or uri that HTTP repeats in a header.
	Method, Target string
	// Params are the members of params, without _meta.
	Params Members
	// Meta are members of _meta beyond those that the door has to send.
	Meta Members
	// ID is the raw JSON-RPC id; 1 if empty.
	ID string
	// Login is who sends it.
	Login Login
	// Replica is the replica to send it to, from 1. 0 is the next in turn.
	Replica int
	// Prelude says that the request only leads up to an attack, and what it gets
	// is nothing to judge: a door for older clients may send it as a newer one.
	Prelude bool
}

// A Reply is what came back.
type Reply struct {
	Status  int         // HTTP status; 0 if the door has none
	Header  http.Header // nil if the door has none
	Body    []byte      // the JSON-RPC response
	Replica int         // who answered, from 1; 0 if the door cannot tell
	HungUp  bool        // instead of an answer the server ended the connection
}

// A Member is one member of a JSON object, both parts as raw JSON text.
type Member struct{ Name, Value string }

// Members are the members of a JSON object in their order.
type Members []Member

// M returns a member with a name that is quoted for the caller and a raw value.
func M(name, value string) Member { return Member{quote(name), value} }

// JSON writes the object.
func (m Members) JSON() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, x := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(x.Name + ":" + x.Value)
	}
	b.WriteByte('}')
	return b.String()
}

// Get returns the raw value of the last member with this name.
func (m Members) Get(name string) (value string, ok bool) {
	for _, x := range m {
		if x.Name == quote(name) {
			value, ok = x.Value, true
		}
	}
	return value, ok
}

// Set returns a copy in which the member has this raw value; it is added at the
// end if there was none.
func (m Members) Set(name, value string) Members {
	c := append(Members(nil), m...)
	for i, x := range c {
		if x.Name == quote(name) {
			c[i].Value = value
			return c
		}
	}
	return append(c, M(name, value))
}

// Without returns a copy that lacks the members with this name.
func (m Members) Without(name string) Members {
	var c Members
	for _, x := range m {
		if x.Name != quote(name) {
			c = append(c, x)
		}
	}
	return c
}

// Before returns a copy with more members in front.
func (m Members) Before(more ...Member) Members { return append(append(Members(nil), more...), m...) }

// After returns a copy with more members at the end.
func (m Members) After(more ...Member) Members {
	return append(append(Members(nil), m...), more...)
}

// quote writes s as a JSON string without escaping more than JSON demands.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// A Call is what a client calls: a tool, a prompt or a resource.
type Call struct {
	Method, Target string
	Arguments      Members // none for resources/read
}

// Params are the members that make the call.
func (c Call) Params() Members {
	if c.Method == foil.MethodResourcesRead {
		return Members{M("uri", quote(c.Target))}
	}
	return Members{M("name", quote(c.Target)), M("arguments", c.Arguments.JSON())}
}

// Request is the call as the Guard sees it.
func (c Call) Request(by Login) foil.Request {
	r := foil.Request{Method: c.Method, Target: c.Target, Principal: by.Principal}
	if c.Method != foil.MethodResourcesRead {
		r.Arguments = []byte(c.Arguments.JSON())
	}
	return r
}

// With returns the call with one argument set to a raw value.
func (c Call) With(name, value string) Call {
	c.Arguments = c.Arguments.Set(name, value)
	return c
}

// An App sets up what the battery acts on. It stands beside the server: it
// knows the calls that the server offers and sees what they really did.
type App interface {
	// Stage makes something new to act on, which no other scene has. An
	// honest flow on the scene's own call of the kind under attack asks
	// rounds times before it acts.
	Stage(ctx context.Context, rounds int) (*Scene, error)
}

// A Scene is one thing to act on and the calls to do it. Every call asks before
// it acts. A prompt and a second tool stand beside the first, so that a token on
// the wrong one is refused by its binding and not because there is nothing to ask.
type Scene struct {
	// Tool acts on the scene; all of its arguments are strings. Decoy is the
	// value of its argument named Changed that would act on something else.
	Tool           Call
	Changed, Decoy string
	// Free is another tool, which takes arguments of any form.
	Free Call
	// Prompt has the name of Tool and takes its arguments. Where prompts are
	// attacked it acts on the scene, and OtherPrompt takes further arguments.
	Prompt, OtherPrompt Call
	// Resource acts on the scene where resources are attacked.
	Resource, OtherResource Call

	// Accept answers questions, the raw inputRequests, as a person does who
	// agrees; it returns the raw inputResponses.
	Accept func(questions json.RawMessage) (answers string, err error)
	// Executed is how often the scene's own call of the kind under attack has
	// acted on the scene.
	Executed func() (int, error)
}

// own is the call of a kind that acts on the scene.
func (s *Scene) own(kind string) Call {
	switch kind {
	case foil.MethodPromptsGet:
		return s.Prompt
	case foil.MethodResourcesRead:
		return s.Resource
	}
	return s.Tool
}

// free is another call of a kind, which takes further arguments.
func (s *Scene) free(kind string) Call {
	switch kind {
	case foil.MethodPromptsGet:
		return s.OtherPrompt
	case foil.MethodResourcesRead:
		return s.OtherResource
	}
	return s.Free
}
