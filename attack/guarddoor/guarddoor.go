// Package guarddoor runs the battery against a bare foil.Guard: a server of a
// few lines that asks before it acts, without an MCP SDK or a network. It shows
// what the Guard alone stops, and it is the shortest server that the battery
// accepts.
package guarddoor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/ledger"
)

// A Door is replicas of the little server, each with a Guard of its own. It is
// the battery's Door and App.
type Door struct {
	open func() (*foil.Guard, io.Closer, error)

	mu       sync.Mutex
	replicas []replica
	next     int            // replica in turn
	staged   int            // scenes so far
	acted    map[string]int // how often, by what was acted on
}

type replica struct {
	guard *foil.Guard // nil while it is down
	store io.Closer
}

var (
	_ attack.Door    = (*Door)(nil)
	_ attack.App     = (*Door)(nil)
	_ attack.Crasher = (*Door)(nil)
)

// New starts n replicas. open makes a Guard and whatever is to be closed when
// its replica dies; it may be nil.
func New(n int, open func() (*foil.Guard, io.Closer, error)) (*Door, error) {
	d := &Door{open: open, replicas: make([]replica, n), acted: map[string]int{}}
	for i := range n {
		if err := d.Start(context.Background(), i+1); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// Close ends all replicas.
func (d *Door) Close() error {
	var errs []error
	for i := range d.replicas {
		errs = append(errs, d.Kill(context.Background(), i+1))
	}
	return errors.Join(errs...)
}

// Replicas returns their number.
func (d *Door) Replicas() int { return len(d.replicas) }

// Kill ends a replica.
func (d *Door) Kill(_ context.Context, n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.replicas[n-1]
	d.replicas[n-1] = replica{}
	if r.store == nil {
		return nil
	}
	return r.store.Close()
}

// Start starts a replica again.
func (d *Door) Start(_ context.Context, n int) error {
	g, store, err := d.open()
	if err != nil {
		return fmt.Errorf("guarddoor: start replica %d: %w", n, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replicas[n-1] = replica{g, store}
	return nil
}

// Send answers a request.
func (d *Door) Send(ctx context.Context, req *attack.Request) (*attack.Reply, error) {
	n := req.Replica
	d.mu.Lock()
	if n == 0 {
		n = d.next%len(d.replicas) + 1
		d.next++
	}
	g := d.replicas[n-1].guard
	d.mu.Unlock()
	if g == nil {
		return nil, fmt.Errorf("guarddoor: replica %d is down", n)
	}
	login, ok := attack.LoginFor(req.Login.Bearer)
	if !ok {
		return nil, errors.New("guarddoor: unknown login")
	}
	r, err := d.call(ctx, g, req.Method, []byte(req.Params.JSON()), login)
	id := req.ID
	if id == "" {
		id = "1"
	}
	msg := map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id)}
	if err != nil {
		msg["error"] = wireOf(err)
	} else {
		msg["result"] = r.text()
	}
	body, err := json.Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("guarddoor: %w", err)
	}
	return &attack.Reply{Body: body, Replica: n}, nil
}

// params are read strictly: a member twice, or beside one that differs in case
// only, is refused like a state that is no string.
func params(text []byte) (map[string][]byte, error) {
	p, folded := map[string][]byte{}, map[string]bool{}
	twice := false
	err := canonjson.Object(text, &canonjson.Limits{MaxDepth: 20_000, MaxIntDigits: 100_000, MaxExponentDigits: 9}, func(key string, value []byte) bool {
		fold := strings.ToLower(key)
		twice = twice || folded[fold]
		folded[fold] = true
		p[key] = bytes.Clone(value)
		return true
	})
	if err != nil || twice {
		return nil, foil.Reject(foil.ReasonAmbiguous)
	}
	return p, nil
}

// text reads a member that must be a string; absent and null are "".
func text(raw []byte) (string, error) {
	var s string
	if len(raw) > 0 && json.Unmarshal(raw, &s) != nil {
		return "", foil.Reject(foil.ReasonMalformed)
	}
	return s, nil
}

// state is what the server keeps with the client between the rounds.
type state struct{ Step int }

// call is the server: it asks, and acts when it was told to.
func (d *Door) call(ctx context.Context, g *foil.Guard, method string, raw []byte, who attack.Login) (*reply, error) {
	p, err := params(raw)
	if err != nil {
		return nil, err
	}
	name := "name"
	if method == foil.MethodResourcesRead {
		name = "uri"
	}
	target, err := text(p[name])
	if err != nil {
		return nil, err
	}
	token, err := text(p["requestState"])
	if err != nil {
		return nil, err
	}
	req := foil.Request{Method: method, Target: target, Arguments: p["arguments"], Principal: who.Principal, Answers: p["inputResponses"]}
	if token == "" {
		if err := g.Check(ctx, req); err != nil {
			return nil, err
		}
		return ask(ctx, g, req, state{Step: 1}, nil)
	}
	o, err := g.Open(ctx, req, token)
	if err != nil {
		return nil, err
	}
	if r, ok := o.Recorded(); ok {
		return retell(r)
	}
	return d.execute(ctx, g, req, o)
}

// execute calls the handler and tells the Guard how it ended.
func (d *Door) execute(ctx context.Context, g *foil.Guard, req foil.Request, o *foil.Opened) (*reply, error) {
	its, err := o.Dispatch(ctx)
	if err != nil {
		return nil, err
	}
	r, err := d.answered(its, g, req, o)
	var end foil.Conclusion
	if err != nil {
		// The handler acts last of all, so none of its errors comes after it.
		end.Err = ledger.NoEffect(err)
		if end.Result, err = json.Marshal(foil.Wire(err)); err != nil {
			return nil, err
		}
		err = end.Err
	} else {
		end.Result, end.Asks = r.result, r.token != ""
	}
	if e := o.Conclude(ctx, end); e != nil {
		return nil, e
	}
	return r, err
}

func (d *Door) answered(ctx context.Context, g *foil.Guard, req foil.Request, o *foil.Opened) (*reply, error) {
	var s state
	if err := json.Unmarshal([]byte(o.State()), &s); err != nil {
		return nil, fmt.Errorf("guarddoor: own state: %w", err)
	}
	if err := o.Redeem(ctx, nil); err != nil {
		return nil, err
	}
	what, acts := subject(&req)
	for last := rounds(what); ; s.Step++ {
		key, q := question(s.Step)
		raw, status := o.Answer(key, q)
		if status != foil.Answered {
			return ask(ctx, g, req, s, o)
		}
		var answer struct{ Action string }
		if err := json.Unmarshal(raw, &answer); err != nil || answer.Action != "accept" {
			return complete("nothing was done")
		}
		if s.Step >= last {
			break
		}
	}
	if acts {
		d.mu.Lock()
		d.acted[what]++
		d.mu.Unlock()
	}
	return complete("done")
}

// question is what the server asks at a step.
func question(step int) (key string, request []byte) {
	key = fmt.Sprintf("confirm-%d", step)
	return key, fmt.Appendf(nil, `{"method":"elicitation/create","params":{"mode":"form","message":"Do it? (%d)","requestedSchema":{"type":"object","properties":{}}}}`, step)
}

func ask(ctx context.Context, g *foil.Guard, req foil.Request, s state, prev *foil.Opened) (*reply, error) {
	key, q := question(s.Step)
	questions, err := json.Marshal(map[string]json.RawMessage{key: q})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	token, err := g.Seal(ctx, req, foil.Outgoing{State: string(text), Questions: questions, Prev: prev})
	if err != nil {
		return nil, err
	}
	result, err := json.Marshal(map[string]any{"resultType": "input_required", "inputRequests": json.RawMessage(questions), "content": nil})
	return &reply{result, token}, err
}
