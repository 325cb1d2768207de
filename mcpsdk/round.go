//lint:file-ignore SA1019 sampling and roots are deprecated and still part of the protocol

package mcpsdk

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/replay"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type roundKey struct{}

// Opened returns what [Protect] opened for the call that ctx belongs to. It is
// never nil: for a call without a state, and on a server without Protect, it is
// an empty Round whose methods say so.
func Opened(ctx context.Context) *Round {
	if r, ok := ctx.Value(roundKey{}).(*Round); ok {
		return r
	}
	return &Round{}
}

// Answer returns the answer under key, if it is an answer to question: the one
// that the handler would ask now. req is the request that the handler was given.
// For any status but Answered the answer is nil: ask. So a handler needs no more
// than
//
//	answer, status := mcpsdk.Answer(ctx, req, "confirm", question)
//	if status != foil.Answered {
//		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": question}, RequestState: state}, nil
//	}
//
// Answered says that somebody answered, not what: a decline is an answer too.
// The answer's type fits the question's: *mcp.ElicitResult for *mcp.ElicitParams,
// *mcp.CreateMessageWithToolsResult for sampling, *mcp.ListRootsResult for roots.
//
// Call it before asking, as above. For a client below protocol 2026-07-28 the
// SDK asks within the same process, and the question is compared with the one
// that Answer was called with the first time; without such a call the answer is
// reported as Reworded. Options.BareAnswers: Allow reports an answer without a
// state as Answered, with nothing to compare it with.
func Answer(ctx context.Context, req mcp.Request, key string, question mcp.InputRequest) (mcp.InputResponse, foil.AnswerStatus) {
	r := Opened(ctx)
	if !r.bridged {
		return r.Answer(key, question)
	}
	a := answersOf(req)[key]
	switch {
	case a == nil || !fits(question, a):
		r.remember(key, question)
		return nil, foil.Missing
	case a == r.given[key]: // it came with the request
		got, status := r.Answer(key, question)
		if status != foil.Answered {
			r.remember(key, question)
		}
		return got, status
	case !r.remembers(key, question): // the SDK fetched it within this call
		return nil, foil.Reworded
	}
	return a, foil.Answered
}

// A Round is one presentation of a state, or a call without one. It must not be
// kept beyond the call. It is safe for concurrent use.
type Round struct {
	guard   *foil.Guard
	log     *slog.Logger
	opened  *foil.Opened         // nil: the call carries no state
	given   mcp.InputResponseMap // the answers that were let through
	bridged bool                 // the SDK asks the client itself

	mu     sync.Mutex
	missed bool                         // Answer found nothing under a key
	read   map[string]bool              // the keys under which it found something
	asked  map[string][sha256.Size]byte // bridged: the questions, by key
	claims *foil.ClaimChecks
}

// Flow returns the identity of the chain of rounds, "" without a state. It is no
// secret: it joins log lines.
func (r *Round) Flow() string {
	if r.opened == nil {
		return ""
	}
	return r.opened.Flow()
}

// Round returns how many times the flow has asked, 0 without a state. Decide by
// [Answer] whether to ask, not by Round: it stays 0 for clients of protocols
// before 2026-07-28.
func (r *Round) Round() int {
	if r.opened == nil {
		return 0
	}
	return r.opened.Round()
}

// AsksOnce reports whether the client can be asked only once within this call,
// because it speaks a protocol before 2026-07-28: a second question would be an
// error.
func (r *Round) AsksOnce() bool { return r.bridged }

// Expires returns when the state that was opened ends to be presentable; the
// zero time without a state.
func (r *Round) Expires() time.Time {
	if r.opened == nil {
		return time.Time{}
	}
	return r.opened.Expires()
}

// Deadline returns when the whole flow ends; the zero time without a state.
func (r *Round) Deadline() time.Time {
	if r.opened == nil {
		return time.Time{}
	}
	return r.opened.Deadline()
}

// State returns the handler's state that was opened, "" without one. For every
// client, Params.RequestState has it too.
func (r *Round) State() string {
	if r.opened == nil {
		return ""
	}
	return r.opened.State()
}

// Claims returns the claim checks of the Guard's store for this call. It works
// with and without a state: one call is one presentation. Without Protect there
// is no store, and redeeming is an error.
func (r *Round) Claims() *foil.ClaimChecks {
	if r.opened != nil {
		return r.opened.Claims()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims == nil {
		if r.guard == nil {
			r.claims = &foil.ClaimChecks{}
		} else {
			r.claims = r.guard.Claims()
		}
	}
	return r.claims
}

// Execution returns the operation that this call carries out under Once: Settle.
// It is nil in every other case, and its methods may be called then.
func (r *Round) Execution() *foil.Execution {
	if r.opened == nil {
		return nil
	}
	return r.opened.Execution()
}

// Redeem spends the state under Once: Deferred; see [foil.Opened.Redeem]. Without
// a state it does nothing.
func (r *Round) Redeem(ctx context.Context, tx replay.Tx) error {
	if r.opened == nil {
		return nil
	}
	return r.opened.Redeem(ctx, tx)
}

// IdempotencyKey returns the key for one call of a provider; see
// [foil.Opened.IdempotencyKey]. Without a state, and so for clients of protocols
// before 2026-07-28, it is "": there is no flow that a retry could belong to.
func (r *Round) IdempotencyKey(step, provider string) string {
	if r.opened == nil {
		return ""
	}
	return r.opened.IdempotencyKey(step, provider)
}

// Answer is the function [Answer] for what came with the state. It does not see
// what the SDK asked on behalf of the handler, which a client of an older
// protocol needs: prefer the function.
func (r *Round) Answer(key string, question mcp.InputRequest) (mcp.InputResponse, foil.AnswerStatus) {
	a := r.given[key]
	r.note(key, a != nil)
	if a == nil || !fits(question, a) {
		return nil, foil.Missing
	}
	if r.opened == nil {
		return a, foil.Answered // allowed by name without a state
	}
	raw, err := onWire(question)
	if err != nil {
		return nil, foil.Reworded
	}
	if _, status := r.opened.Answer(key, raw); status != foil.Answered {
		return nil, status
	}
	return a, foil.Answered
}

// note remembers under which keys the handler looked for an answer; see unread.
func (r *Round) note(key string, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !found {
		r.missed = true
		return
	}
	if r.read == nil {
		r.read = make(map[string]bool)
	}
	r.read[key] = true
}

// unread returns the key of an answer that the handler did not look at, though
// it looked for one under another key and found none: most likely it asks under
// one key and reads under another.
func (r *Round) unread() (key string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.given {
		if r.missed && !r.read[key] {
			return key, true
		}
	}
	return "", false
}

// remember keeps the question that the handler is about to let the SDK ask.
func (r *Round) remember(key string, question mcp.InputRequest) {
	raw, err := onWire(question)
	if err != nil {
		return // then no answer fits it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = make(map[string][sha256.Size]byte)
	}
	r.asked[key] = sha256.Sum256(raw)
}

// remembers reports whether question is the one that remember was given.
func (r *Round) remembers(key string, question mcp.InputRequest) bool {
	raw, err := onWire(question)
	r.mu.Lock()
	asked, ok := r.asked[key]
	r.mu.Unlock()
	if !ok {
		r.log.Error("an answer cannot be compared with its question", "detail", "call mcpsdk.Answer before asking")
	}
	return ok && err == nil && sha256.Sum256(raw) == asked
}

// String tells the flow and the round.
func (r *Round) String() string { return fmt.Sprintf("flow %s round %d", r.Flow(), r.Round()) }

// Format prints the flow and the round, never the state or an answer.
func (r *Round) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(r.String())) }

// LogValue gives the flow and the round.
func (r *Round) LogValue() slog.Value {
	return slog.GroupValue(slog.String("flow", r.Flow()), slog.Int("round", r.Round()))
}

// onWire returns the request object as the SDK sends it inside inputRequests,
// with the mode of an elicitation filled in, since that is what gets digested.
func onWire(question mcp.InputRequest) ([]byte, error) {
	doc, err := json.Marshal(mcp.InputRequestMap{"q": question})
	if err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(doc, &m); err != nil {
		return nil, err
	}
	return m["q"], nil
}

// fits reports whether an answer is of the kind that a question asks for.
func fits(question mcp.InputRequest, answer mcp.InputResponse) bool {
	switch question.(type) {
	case *mcp.ElicitParams:
		_, ok := answer.(*mcp.ElicitResult)
		return ok
	case *mcp.CreateMessageParams, *mcp.CreateMessageWithToolsParams:
		switch answer.(type) {
		case *mcp.CreateMessageResult, *mcp.CreateMessageWithToolsResult:
			return true
		}
	case *mcp.ListRootsParams:
		_, ok := answer.(*mcp.ListRootsResult)
		return ok
	}
	return false
}
