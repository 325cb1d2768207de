package mcpsdk

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/logtext"
	"github.com/foilmcp/foil/ledger"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Protect returns the receiving middleware that opens states before the handlers
// of tools/call, prompts/get and resources/read and seals them after. Every
// other method passes untouched.
//
// Install it once for each server. It changes neither the request nor the result
// it is given: handlers get copies, and so does the client. It is safe for
// concurrent use.
//
// It panics if guard is nil or opts contradict themselves, which is a mistake in
// the program and not in its input.
func Protect(guard *foil.Guard, opts *Options) mcp.Middleware {
	if guard == nil {
		panic("mcpsdk: Protect needs a guard: make one with foil.New")
	}
	p := &protector{guard: guard}
	if opts != nil {
		p.o = *opts
	}
	if err := p.o.check(); err != nil {
		panic(err.Error())
	}
	if p.o.Logger == nil {
		p.o.Logger = slog.Default()
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch method {
			case foil.MethodToolsCall, foil.MethodPromptsGet, foil.MethodResourcesRead:
				return p.handle(ctx, method, req, next)
			}
			return next(ctx, method, req)
		}
	}
}

type protector struct {
	guard *foil.Guard
	o     Options
}

// handle is one guarded call. Errors are returned bare: wrapped, the SDK would
// send the code without the data.
func (p *protector) handle(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	c, err := readCall(method, req)
	if err != nil {
		p.log(ctx, slog.LevelError, "request could not be checked for a state", method, "", err.Error())
		return nil, internal("the request cannot be handled")
	}
	who, err := p.who(ctx, req)
	if err != nil {
		p.log(ctx, slog.LevelError, "principal could not be found out", method, c.target, err.Error())
		return nil, wire(errors.New("principal"))
	}
	bound := foil.Request{Method: method, Target: c.target, Arguments: c.args, Principal: who}
	round := &Round{guard: p.guard, log: p.o.Logger, bridged: bridges(c.session)}
	inner, err := p.open(ctx, &bound, c, round, req)
	if err != nil {
		return nil, err
	}
	if round.opened == nil {
		res, err := next(context.WithValue(ctx, roundKey{}, round), method, inner)
		a := p.answer(ctx, bound, c, round, res, err)
		return a.res, a.err
	}
	if r, ok := round.opened.Recorded(); ok {
		return retell(method, r)
	}
	return p.execute(ctx, bound, c, round, inner, next)
}

var errPanicked = errors.New("the handler panicked")

// execute calls the handler of a state that was opened, and tells the Guard how
// it ended, whatever happened.
func (p *protector) execute(ctx context.Context, bound foil.Request, c *call, round *Round, inner mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	its, err := round.opened.Dispatch(context.WithValue(ctx, roundKey{}, round))
	if err != nil {
		return nil, wire(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = round.opened.Conclude(ctx, foil.Conclusion{Err: errPanicked})
		}
	}()
	res, err := next(its, bound.Method, inner)
	a := p.answer(ctx, bound, c, round, res, err)
	if round.opened.Execution() != nil {
		a = a.asBytes(bound.Method)
	}
	ended = true
	if err := round.opened.Conclude(ctx, a.end); err != nil {
		return nil, wire(err)
	}
	return a.res, a.err
}

// A reply is what the client gets for what the handler returned, and what the
// Guard is told of it.
type reply struct {
	res   mcp.Result
	err   error
	plain mcp.Result // res without its state; nil unless res is to be sent
	token string
	end   foil.Conclusion
}

// failed is a reply of an error after which it is not known what was done.
func failed(err error) reply { return reply{err: err, end: foil.Conclusion{Err: err}} }

// asBytes fixes what the client gets, now and when it asks again.
func (a reply) asBytes(method string) reply {
	switch {
	case a.err != nil && ledger.IsNoEffect(a.end.Err):
		w := onTheWire(a.err)
		raw, err := json.Marshal(w)
		if err != nil {
			return failed(a.err)
		}
		a.err, a.end.Result = w, raw
	case a.err == nil && a.end.Err == nil:
		raw, err := json.Marshal(a.plain)
		if err == nil {
			a.res, err = asBytes(method, raw, a.token)
		}
		if err != nil {
			return failed(internal("the result cannot be sent"))
		}
		a.end.Result = raw
	}
	return a
}

// answer makes of what the handler returned what may leave.
func (p *protector) answer(ctx context.Context, bound foil.Request, c *call, round *Round, res mcp.Result, err error) reply {
	method := bound.Method
	if err != nil {
		a := failed(err)
		if n, ok := errors.AsType[*jsonrpc.Error](err); ok && ledger.IsNoEffect(err) && err.Error() == n.Error() {
			a.err = n // bare: wrapped, the SDK would send the code without the data
		}
		return a
	}
	out, err := readResult(res)
	if err != nil {
		p.log(ctx, slog.LevelError, "result could not be checked for a state", method, c.target, err.Error())
		if errors.Is(err, errNoResult) {
			return failed(internal("the " + noun(method) + " returned no result"))
		}
		return failed(internal("the result cannot be sent"))
	}
	retry := c.state != "" || c.answers != nil
	if !out.asks && out.state == "" && !retry {
		return reply{res: res}
	}
	if out.uncached != nil {
		// A client must not cache what it got for a request with a state or
		// answers, and a question is good for one asking.
		if out.asks || retry {
			out.uncached()
		}
	}
	switch {
	case out.asks && round.bridged:
		// The SDK has asked this client once already and would now send it
		// questions, and the plain state, in a form that it does not know.
		p.log(ctx, slog.LevelError, "second question to a client that can be asked once", method, c.target,
			"protocol versions before "+roundTrips+" allow one round of input; ask everything at once, or need a newer client")
		return failed(internal("the " + noun(method) + " needs more than one round of input, which needs protocol version " + roundTrips))
	case out.asks:
		if key, ok := round.unread(); ok {
			p.log(ctx, slog.LevelWarn, "asked again with an answer at hand that was not read", method, c.target,
				"the answer is under the key "+strconv.Quote(logtext.Cut(key))+": is that the key that Answer was called with?")
		}
		return p.seal(ctx, bound, out, round)
	case out.state != "":
		p.log(ctx, slog.LevelError, "state on a result that asks nothing dropped", method, c.target,
			"set InputRequests too; to be called again without a question make it empty but not nil")
	}
	a := reply{res: out.with("")}
	a.plain = a.res
	if out.failure != nil && !ledger.IsNoEffect(out.failure) {
		a.end.Err = out.failure
	}
	a.end.Failed = out.failed
	return a
}

// open makes every check that comes before the handler, fills in round, and
// returns the request that the handler is to see.
func (p *protector) open(ctx context.Context, bound *foil.Request, c *call, round *Round, req mcp.Request) (mcp.Request, error) {
	if c.state != "" {
		if len(c.answers) > 0 {
			raw, err := encode(c.answers)
			if err != nil {
				p.log(ctx, slog.LevelError, "answers could not be read", bound.Method, c.target, err.Error())
				return nil, wire(err)
			}
			bound.Answers = raw
		}
		o, err := p.guard.Open(ctx, *bound, c.state)
		if err != nil {
			return nil, wire(err)
		}
		round.opened, round.given = o, kept(c.answers, o)
		return c.with(o.State(), round.given), nil
	}
	if err := p.guard.Check(ctx, *bound); err != nil {
		return nil, wire(err)
	}
	if len(c.answers) > 0 {
		switch p.o.BareAnswers {
		case foil.Allow:
			p.log(ctx, slog.LevelWarn, "answers without a state allowed", bound.Method, c.target, "")
			round.given = c.answers
			return req, nil
		case foil.Refuse:
			p.log(ctx, slog.LevelWarn, "answers without a state refused", bound.Method, c.target, "")
			return nil, wire(foil.ErrInvalid)
		}
		p.log(ctx, slog.LevelWarn, "answers without a state stripped", bound.Method, c.target, "")
	}
	if c.answers != nil {
		// An empty map goes too: a handler may ask whether it is nil.
		return c.with("", nil), nil
	}
	return req, nil
}

// seal returns the copy of an asking result that may leave.
func (p *protector) seal(ctx context.Context, bound foil.Request, out *outcome, round *Round) reply {
	questions, err := encode(out.questions)
	if err != nil {
		p.log(ctx, slog.LevelError, "questions could not be written", bound.Method, bound.Target, err.Error())
		return failed(wire(err))
	}
	token, err := p.guard.Seal(ctx, bound, foil.Outgoing{State: out.state, Questions: questions, Prev: round.opened})
	if err != nil {
		a := failed(wire(err))
		if errors.Is(err, foil.ErrInvalid) {
			// The flow's own end: the handler asked, and is not to.
			a.end.Err = ledger.NoEffect(a.err)
		}
		return a
	}
	a := reply{plain: out.with(""), token: token, end: foil.Conclusion{Asks: true}}
	a.res = out.with(token)
	return a
}

// wire is the frozen error for err.
func wire(err error) *jsonrpc.Error {
	w := foil.Wire(err)
	return &jsonrpc.Error{Code: int64(w.Code), Message: w.Message, Data: w.Data}
}

func internal(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}
}

func noun(method string) string {
	switch method {
	case foil.MethodToolsCall:
		return "tool"
	case foil.MethodPromptsGet:
		return "prompt"
	}
	return "resource"
}

func (p *protector) log(ctx context.Context, level slog.Level, msg, method, target, detail string) {
	attrs := []slog.Attr{slog.String("method", method), slog.String("target", logtext.Cut(target))}
	if detail != "" {
		attrs = append(attrs, slog.String("detail", detail))
	}
	p.o.Logger.LogAttrs(ctx, level, msg, attrs...)
}
