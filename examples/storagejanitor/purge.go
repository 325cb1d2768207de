package storagejanitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/mcpsdk"
)

// PurgeInput are the arguments of purge_objects.
type PurgeInput struct {
	Prefix    string `json:"prefix" jsonschema:"what the names begin with, compared as text: \"logs/\" means what is in logs, \"logs\" also means logs-old; the empty string means the whole bucket"`
	MaxBytes  *int64 `json:"max_bytes,omitempty" jsonschema:"only objects of at most this many bytes each"`
	OlderThan string `json:"older_than,omitempty" jsonschema:"only objects last modified before this: an age such as \"720h\" or a time in RFC 3339 such as \"2026-08-01T00:00:00Z\""`
}

// purge is the tool. It runs once for each round, and every round may be on
// another replica: all that it knows of the rounds before is in the state.
//
// The middleware has opened req.Params.RequestState before: it is what ask put
// there, for the same person, tool and arguments, or empty on a first call.
func (j *Janitor) purge(ctx context.Context, req *mcp.CallToolRequest, in PurgeInput) (*mcp.CallToolResult, *PurgeOutput, error) {
	s, ok := parseState(req.Params.RequestState, j.o.PlanInState)
	if begun(mcpsdk.Opened(ctx).Execution()) {
		// An earlier call found the answer good and was cut off while it
		// deleted. Whatever this release would ask now, or this client could be
		// asked, the rest of the plan is to be carried out.
		if !ok {
			return nil, nil, j.broken(ctx, errRest, errors.New("the state is of another release"))
		}
		return j.carryOut(ctx, s)
	}
	filter, err := newFilter(in.Prefix, in.MaxBytes, in.OlderThan, j.o.Now())
	if err != nil {
		return refused(err.Error())
	}
	if unreachable(ctx, req) {
		return refused("purge_objects deletes only what a person has confirmed, and over HTTP this server can ask only clients of protocol 2026-07-28 or later; this one speaks an older one. Connect with a newer client, or start the server on stdio. Nothing was deleted.")
	}
	if !canAsk(req.ClientCapabilities()) {
		return refused("purge_objects deletes only what a person has confirmed, and this client cannot ask: it does not declare elicitation in form mode. Nothing was deleted.")
	}
	if !ok {
		return j.plan(ctx, req, filter)
	}

	// The same code makes the question again, so that an answer counts only
	// for what this release would ask.
	answer, status := mcpsdk.Answer(ctx, req, s.Step, s.question(in.Prefix))
	switch status {
	case foil.Missing:
		return s.ask(ctx, req, in.Prefix)
	case foil.Reworded:
		if err := revoke(ctx, s); err != nil {
			return nil, nil, j.undone(ctx, errClaims, err)
		}
		return j.plan(ctx, req, filter)
	}
	switch v := s.verdict(answer); {
	case v == unclear && !mcpsdk.Opened(ctx).AsksOnce():
		return s.ask(ctx, req, in.Prefix)
	case v != yes:
		return j.withdraw(ctx, s)
	}
	if s.Step == stepConfirm && s.Objects > j.o.AskTwiceAbove {
		s.Step = stepCount
		return s.ask(ctx, req, in.Prefix)
	}
	return j.carryOut(ctx, s)
}

// plan finds the objects, keeps their list and asks, whatever answers came with
// the call: they cannot be about this plan.
func (j *Janitor) plan(ctx context.Context, req *mcp.CallToolRequest, filter Filter) (*mcp.CallToolResult, *PurgeOutput, error) {
	objects, err := j.bucket.List(ctx, filter, j.o.MaxObjects)
	unread, err := j.unread(ctx, err)
	switch {
	case errors.Is(err, ErrTooMany):
		return refused(fmt.Sprintf("More than %d objects match, and one purge takes no more: use a longer prefix. Nothing was deleted.", j.o.MaxObjects))
	case err != nil:
		return nil, nil, j.undone(ctx, errBucket, err)
	case len(objects) == 0:
		return finished(&PurgeOutput{Outcome: OutcomeNothing, Unread: unread}, "Nothing to purge: no object matches."+unread.text())
	}
	s := newState(objects)
	s.Unread = unread
	switch err := j.keep(ctx, s, newPlan(objects)); {
	case errors.Is(err, claimcheck.ErrTooLarge):
		return refused("The list of the objects is too long to keep for one confirmation: use a longer prefix. Nothing was deleted.")
	case err != nil:
		return nil, nil, j.undone(ctx, errClaims, err)
	}
	if s.Objects > j.o.AskTwiceAbove && mcpsdk.Opened(ctx).AsksOnce() {
		s.Step = stepCount // the stricter of the two questions
	}
	return s.ask(ctx, req, filter.Prefix)
}

// keep puts the plan where the retry finds it: into the claim store, or into the
// state.
func (j *Janitor) keep(ctx context.Context, s *state, p *plan) error {
	if j.o.PlanInState {
		s.Plan = p
		n, err := s.carried()
		if err == nil && n > j.o.MaxPlanBytes {
			err = claimcheck.ErrTooLarge
		}
		return err
	}
	list, err := json.Marshal(p)
	if err != nil {
		return err
	}
	s.Claim, err = j.o.Claims.Issue(ctx, list, j.o.PlanTTL)
	return err
}

// planned returns the plan, spending its claim if it has one.
func planned(ctx context.Context, s *state) ([]Object, error) {
	if s.Plan != nil {
		return s.Plan.objects()
	}
	list, err := mcpsdk.Opened(ctx).Claims().Redeem(ctx, s.Claim)
	if err != nil {
		return nil, err
	}
	return decodePlan(list)
}

// revoke makes sure that a plan is not carried out. A plan in the state has
// nothing to revoke: the Guard has spent the state.
func revoke(ctx context.Context, s *state) error {
	if s.Plan != nil {
		return nil
	}
	return mcpsdk.Opened(ctx).Claims().Revoke(ctx, s.Claim)
}

// withdraw ends the plan of a person who said no.
func (j *Janitor) withdraw(ctx context.Context, s *state) (*mcp.CallToolResult, *PurgeOutput, error) {
	if err := revoke(ctx, s); err != nil {
		return nil, nil, j.undone(ctx, errors.New("not confirmed, and nothing was deleted; but the plan could not be withdrawn, and ends only when it expires"), err)
	}
	j.o.Logger.InfoContext(ctx, "purge declined", "objects", s.Objects)
	return finished(&PurgeOutput{Outcome: OutcomeDeclined}, "Not confirmed: nothing was deleted, and the plan is withdrawn.")
}

// canAsk reports whether the client can show a form. A client that names no mode
// has the first one there was, the form.
func canAsk(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// unreachable reports whether the call is of an older protocol over stateless HTTP.
// The SDK cannot ask such a client anything, and hides what it declared: each call is
// a session without the capabilities that every initialize request has.
func unreachable(ctx context.Context, req *mcp.CallToolRequest) bool {
	return mcpsdk.Opened(ctx).AsksOnce() && req.Extra != nil && req.Extra.Header != nil && req.ClientCapabilities() == nil
}
