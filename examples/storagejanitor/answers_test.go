package storagejanitor_test

import (
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/examples/storagejanitor"
)

func TestUnclearAnswersAskAgain(t *testing.T) {
	f := newFixture(t, &foil.Options{Once: foil.Off})
	a, cs := logs(t, f), f.manual(t)
	asked := purge(t, cs, a)
	for _, answer := range []*mcp.ElicitResult{
		nil,
		accept(nil),
		accept(args{"confirm": "true"}),
		accept(args{"confirm": 1}),
		accept(args{"Confirm": true}),
		accept(args{"count": 3}),
		{Action: "yes"},
		{Action: "Accept", Content: args{"confirm": true}},
		{Content: args{"confirm": true}},
	} {
		res := mustRetry(t, cs, a, asked, answer)
		if _, msg := question(t, res); msg != threeLogs {
			t.Errorf("after %+v asked %q", answer, msg)
		}
	}
	f.wasDeleted(t)
	if f.claims.issued != 1 || f.claims.redeems+f.claims.revokes != 0 {
		t.Errorf("%d claims issued, %d redeemed, %d revoked", f.claims.issued, f.claims.redeems, f.claims.revokes)
	}
	// The flow is as good as before.
	output(t, mustRetry(t, cs, a, mustRetry(t, cs, a, asked, nil), yes("")), storagejanitor.OutcomePurged)
}

func TestUnclearCountsAskAgain(t *testing.T) {
	f := newFixture(t, &foil.Options{Once: foil.Off})
	f.janitor.AskTwiceAbove = 2
	a, cs := logs(t, f), f.manual(t)
	second := mustRetry(t, cs, a, purge(t, cs, a), yes(""))
	for _, n := range []any{nil, "3", true, 3.5, 2, 4, -3, 0, []int{3}} {
		if key, _ := question(t, mustRetry(t, cs, a, second, accept(args{"count": n}))); key != "count" {
			t.Errorf("after %v asked %s", n, key)
		}
	}
	// The answer to the first question is none to the second.
	if key, _ := question(t, mustRetry(t, cs, a, second, yes(""))); key != "count" {
		t.Errorf("after a tick asked %s", key)
	}
	f.wasDeleted(t)
}

// A state whose question this release would word otherwise, as during a rolling
// update, or whose form it does not know, starts over.
func TestStateOfAnotherRelease(t *testing.T) {
	f := newFixture(t, nil)
	a, cs := logs(t, f), f.manual(t)
	claim, err := f.claims.Issue(t.Context(), []byte(`{"v":1,"objects":[{"n":"secrets/key","s":11,"t":0}]}`), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		state   string
		revokes int
	}{
		"reworded":     {`{"step":"confirm","claim":"` + claim + `","objects":1,"bytes":11,"first":["secrets/key"]}`, 1},
		"unknown step": {`{"step":"sure","claim":"` + claim + `","objects":1,"bytes":11,"first":[]}`, 0},
		"new field":    {`{"step":"confirm","claim":"` + claim + `","objects":1,"bytes":11,"first":[],"more":1}`, 0},
		"no state":     {``, 0},
		"no JSON":      {`plan 7`, 0},
	} {
		f.claims.revokes = 0
		token, err := f.guard.Seal(t.Context(), foil.Request{Method: foil.MethodToolsCall, Target: storagejanitor.PurgeTool, Arguments: []byte(`{"prefix":"logs/"}`), Principal: foil.Fixed("local")},
			foil.Outgoing{State: tc.state, Questions: []byte(`{"confirm":{"method":"elicitation/create","params":{"mode":"form","message":"OK?","requestedSchema":{"type":"object","properties":{}}}}}`)})
		if err != nil {
			t.Fatal(err)
		}
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: storagejanitor.PurgeTool, Arguments: a, RequestState: token, InputResponses: mcp.InputResponseMap{"confirm": yes("")}})
		if err != nil {
			t.Fatal(err)
		}
		if _, msg := question(t, res); msg != threeLogs {
			t.Errorf("%s: asked %q", name, msg)
		}
		if f.claims.revokes != tc.revokes {
			t.Errorf("%s: %d claims revoked", name, f.claims.revokes)
		}
	}
	f.wasDeleted(t)
}

// An answer that comes with the first call is about nothing, even on a server
// that lets such answers through.
func TestBareAnswer(t *testing.T) {
	for _, choice := range []foil.Choice{foil.Default, foil.Allow} {
		f := newFixture(t, nil)
		f.protect.BareAnswers = choice
		a, cs := logs(t, f), f.manual(t)
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: storagejanitor.PurgeTool, Arguments: a, InputResponses: mcp.InputResponseMap{"confirm": yes("")}})
		if err != nil {
			t.Fatal(err)
		}
		question(t, res)
		f.wasDeleted(t)
	}
}
