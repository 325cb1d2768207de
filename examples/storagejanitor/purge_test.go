package storagejanitor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/examples/storagejanitor"
)

const threeLogs = "Purge 3 object(s) under 'logs/'? logs/a.log, logs/b.log, logs/c.log (30 bytes in all)"

func logs(t testing.TB, f *fixture) args {
	f.write(t, "logs/a.log", "logs/b.log", "logs/c.log", "logs-old/a.log", "secrets/key")
	return args{"prefix": "logs/"}
}

// Every kind of client that can ask gets the same question and the same purge.
func TestHonestFlow(t *testing.T) {
	for _, tc := range []struct {
		name string
		open func(t *testing.T, f *fixture, a *asker) *mcp.ClientSession
	}{
		{"in memory", func(t *testing.T, f *fixture, a *asker) *mcp.ClientSession {
			return connect(t, f.server(t), newClient(a, false), modern)
		}},
		{"in memory, old protocol", func(t *testing.T, f *fixture, a *asker) *mcp.ClientSession {
			return connect(t, f.server(t), newClient(a, false), legacy)
		}},
		{"HTTP", func(t *testing.T, f *fixture, a *asker) *mcp.ClientSession {
			f.protect.Principal = nil
			return dial(t, newClient(a, false), serve(t, f.server(t), true), "alice", modern)
		}},
		{"HTTP, old protocol, stateful", func(t *testing.T, f *fixture, a *asker) *mcp.ClientSession {
			f.protect.Principal = nil
			return dial(t, newClient(a, false), serve(t, f.server(t), false), "alice", legacy)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, nil)
			a := &asker{answer: yes}
			res := purge(t, tc.open(t, f, a), logs(t, f))
			if !slices.Equal(a.questions, []string{threeLogs}) {
				t.Errorf("asked %q", a.questions)
			}
			if want := "Purged 3 object(s): logs/a.log, logs/b.log, logs/c.log."; textOf(res) != want || res.IsError {
				t.Errorf("answered %q, want %q", textOf(res), want)
			}
			if out := output(t, res, storagejanitor.OutcomePurged); out.Deleted.Count != 3 || out.Bytes != 30 {
				t.Errorf("output %+v", out)
			}
			f.wasDeleted(t, "logs/a.log", "logs/b.log", "logs/c.log")
			f.keeps(t, "logs-old/a.log", "secrets/key")
		})
	}
}

func TestOtherReplicaOfOnePerson(t *testing.T) {
	f := newFixture(t, nil)
	f.protect.Principal = nil
	a := logs(t, f)
	one, two := serve(t, f.server(t), true), serve(t, f.server(t), true)
	asked := purge(t, dial(t, newClient(&asker{}, true), one, "alice", modern), a)
	if strings.Contains(asked.RequestState, claimcheck.Prefix) || strings.Contains(asked.RequestState, "confirm") {
		t.Error("the client can read the state")
	}
	_, err := retry(t, dial(t, newClient(&asker{}, true), two, "mallory", modern), a, asked, yes(""))
	frozen(t, err)
	_, err = retry(t, dial(t, newClient(&asker{}, true), two, "alice", modern), args{"prefix": "secrets/"}, asked, yes(""))
	frozen(t, err)
	f.wasDeleted(t)
	output(t, mustRetry(t, dial(t, newClient(&asker{}, true), two, "alice", modern), a, asked, yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, "logs/a.log", "logs/b.log", "logs/c.log")
}

func TestNoWithdrawsThePlan(t *testing.T) {
	for name, answer := range map[string]*mcp.ElicitResult{
		"decline":       {Action: "decline"},
		"cancel":        {Action: "cancel"},
		"left unticked": accept(args{"confirm": false}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, &foil.Options{Once: foil.Off})
			a, cs := logs(t, f), f.manual(t)
			asked := purge(t, cs, a)
			res := mustRetry(t, cs, a, asked, answer)
			output(t, res, storagejanitor.OutcomeDeclined)
			if res.IsError || f.claims.revokes != 1 {
				t.Errorf("isError %v, %d claims revoked", res.IsError, f.claims.revokes)
			}
			// Nothing but the claim stands between the same state and the purge.
			res = mustRetry(t, cs, a, asked, yes(""))
			output(t, res, storagejanitor.OutcomeRefused)
			f.wasDeleted(t)
		})
	}
}

func TestOldClientDeclines(t *testing.T) {
	f := newFixture(t, nil)
	cs := connect(t, f.server(t), newClient(&asker{answer: func(string) *mcp.ElicitResult { return &mcp.ElicitResult{Action: "decline"} }}, false), legacy)
	output(t, purge(t, cs, logs(t, f)), storagejanitor.OutcomeDeclined)
	if f.claims.revokes != 1 {
		t.Errorf("%d claims revoked", f.claims.revokes)
	}
	f.wasDeleted(t)
}

func many(t testing.TB, f *fixture, n int) (args, []string) {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("tmp/%03d", i))
	}
	f.write(t, all...)
	return args{"prefix": "tmp/"}, all
}

func TestAsksTwiceAbove100(t *testing.T) {
	f := newFixture(t, nil)
	a, all := many(t, f, 101)
	cs := f.manual(t)
	first := purge(t, cs, a)
	if key, msg := question(t, first); key != "confirm" || !strings.HasPrefix(msg, "Purge 101 object(s) under 'tmp/'? tmp/000, tmp/001, tmp/002, tmp/003, tmp/004, … and 96 more (") {
		t.Errorf("first asked %s: %s", key, msg)
	}
	second := mustRetry(t, cs, a, first, yes(""))
	if key, msg := question(t, second); key != "count" || !strings.Contains(msg, "Purge 101 object(s)") || !strings.Contains(msg, "Type the number") {
		t.Errorf("then asked %s: %s", key, msg)
	}
	wrong := mustRetry(t, cs, a, second, accept(args{"count": 100}))
	if key, _ := question(t, wrong); key != "count" {
		t.Errorf("after a wrong number asked %s", key)
	}
	f.wasDeleted(t)
	if f.claims.redeems != 0 {
		t.Error("the claim was redeemed before the last answer")
	}
	output(t, mustRetry(t, cs, a, wrong, accept(args{"count": 101})), storagejanitor.OutcomePurged)
	f.wasDeleted(t, all...)
	if f.claims.issued != 1 || f.claims.redeems != 1 {
		t.Errorf("%d claims issued, %d redeemed", f.claims.issued, f.claims.redeems)
	}
}

func TestAsksOnceUpTo100(t *testing.T) {
	f := newFixture(t, nil)
	a, all := many(t, f, 100)
	cs := f.manual(t)
	output(t, mustRetry(t, cs, a, purge(t, cs, a), yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, all...)
}

func TestSecondNoWithdrawsThePlan(t *testing.T) {
	f := newFixture(t, &foil.Options{Once: foil.Off})
	a, _ := many(t, f, 101)
	cs := f.manual(t)
	second := mustRetry(t, cs, a, purge(t, cs, a), yes(""))
	output(t, mustRetry(t, cs, a, second, &mcp.ElicitResult{Action: "decline"}), storagejanitor.OutcomeDeclined)
	output(t, mustRetry(t, cs, a, second, accept(args{"count": 101})), storagejanitor.OutcomeRefused)
	f.wasDeleted(t)
}

// A client of an older protocol can be asked once, and gets the stricter question.
func TestOldClientAbove100(t *testing.T) {
	for _, tc := range []struct {
		typed   int
		outcome string
	}{{101, storagejanitor.OutcomePurged}, {10, storagejanitor.OutcomeDeclined}} {
		f := newFixture(t, nil)
		a, all := many(t, f, 101)
		who := &asker{answer: func(string) *mcp.ElicitResult { return accept(args{"count": tc.typed}) }}
		output(t, purge(t, connect(t, f.server(t), newClient(who, false), legacy), a), tc.outcome)
		if len(who.questions) != 1 || !strings.Contains(who.questions[0], "tmp/000") || !strings.Contains(who.questions[0], "Type the number") {
			t.Errorf("asked %q", who.questions)
		}
		if tc.outcome == storagejanitor.OutcomePurged {
			f.wasDeleted(t, all...)
		} else {
			f.wasDeleted(t)
		}
	}
}

func TestDeletesWhatWasShown(t *testing.T) {
	f := newFixture(t, nil)
	a, cs := logs(t, f), f.manual(t)
	asked := purge(t, cs, a)
	f.write(t, "logs/new.log", "logs/0/new.log")
	write(t, f.dir, "logs/b.log", "somebody needs this")
	if err := os.Remove(filepath.Join(f.dir, "logs", "c.log")); err != nil {
		t.Fatal(err)
	}
	res := mustRetry(t, cs, a, asked, yes(""))
	out := output(t, res, storagejanitor.OutcomePurged)
	if out.Deleted.Count != 1 || out.Missing.Count != 1 || !slices.Equal(out.Changed.Names, []string{"logs/b.log"}) || out.Failed.Count != 0 {
		t.Errorf("output %+v", out)
	}
	if want := "Purged 1 object(s): logs/a.log. 1 were already gone: logs/c.log. 1 changed since they were shown and were kept: logs/b.log."; textOf(res) != want {
		t.Errorf("answered %q, want %q", textOf(res), want)
	}
	f.wasDeleted(t, "logs/a.log")
	f.keeps(t, "logs/b.log", "logs/new.log", "logs/0/new.log")
}

func TestDirectorySwappedForLink(t *testing.T) {
	f := newFixture(t, nil)
	f.write(t, "logs/a", "secrets/a")
	same := time.Now().Add(-time.Hour)
	write(t, f.dir, "secrets/a", "logs/a")
	for _, n := range []string{"logs/a", "secrets/a"} {
		if err := os.Chtimes(filepath.Join(f.dir, n), same, same); err != nil {
			t.Fatal(err)
		}
	}
	a, cs := args{"prefix": "logs/"}, f.manual(t)
	asked := purge(t, cs, a)
	if err := os.RemoveAll(filepath.Join(f.dir, "logs")); err != nil {
		t.Fatal(err)
	}
	link(t, "secrets", f.dir, "logs")
	if out := output(t, mustRetry(t, cs, a, asked, yes("")), storagejanitor.OutcomePurged); out.Missing.Count != 1 {
		t.Errorf("output %+v", out)
	}
	f.wasDeleted(t)
	f.keeps(t, "secrets/a")
}

func TestReplay(t *testing.T) {
	t.Run("once redeem", func(t *testing.T) {
		f := newFixture(t, nil)
		a, cs := logs(t, f), f.manual(t)
		asked := purge(t, cs, a)
		output(t, mustRetry(t, cs, a, asked, yes("")), storagejanitor.OutcomePurged)
		f.write(t, "logs/a.log")
		for range 5 {
			_, err := retry(t, cs, a, asked, yes(""))
			frozen(t, err)
		}
		f.keeps(t, "logs/a.log")
	})
	t.Run("once off", func(t *testing.T) {
		f := newFixture(t, &foil.Options{Once: foil.Off})
		a, cs := logs(t, f), f.manual(t)
		asked := purge(t, cs, a)
		output(t, mustRetry(t, cs, a, asked, yes("")), storagejanitor.OutcomePurged)
		f.write(t, "logs/a.log")
		for range 5 {
			res := mustRetry(t, cs, a, asked, yes(""))
			output(t, res, storagejanitor.OutcomeRefused)
			if !res.IsError || !strings.HasPrefix(textOf(res), "REFUSED: this confirmation was already used or has expired.") || !strings.Contains(textOf(res), "start over") {
				t.Errorf("isError %v, %q", res.IsError, textOf(res))
			}
		}
		f.keeps(t, "logs/a.log")
	})
}

// Many presentations at one time, with nothing but the claim between them.
func TestOnePurgeOfManyAtOnce(t *testing.T) {
	f := newFixture(t, &foil.Options{Once: foil.Off})
	a, cs := logs(t, f), f.manual(t)
	asked := purge(t, cs, a)
	texts := make([]string, 16)
	var wg sync.WaitGroup
	for i := range texts {
		wg.Go(func() {
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: storagejanitor.PurgeTool, Arguments: a, RequestState: asked.RequestState,
				InputResponses: mcp.InputResponseMap{"confirm": yes("")}})
			if err != nil {
				t.Error(err)
				return
			}
			texts[i] = textOf(res)
		})
	}
	wg.Wait()
	purged := 0
	for _, text := range texts {
		switch {
		case strings.HasPrefix(text, "Purged 3"):
			purged++
		case !strings.HasPrefix(text, "REFUSED"):
			t.Errorf("answered %q", text)
		}
	}
	if purged != 1 {
		t.Errorf("%d calls purged", purged)
	}
	f.wasDeleted(t, "logs/a.log", "logs/b.log", "logs/c.log")
}

func TestExpiredPlan(t *testing.T) {
	now := time.Now()
	f := newFixture(t, nil)
	f.claims.Store = claimcheck.NewMemory(&claimcheck.MemoryOptions{Now: func() time.Time { return now }})
	f.janitor.PlanTTL = time.Minute
	a, cs := logs(t, f), f.manual(t)
	asked := purge(t, cs, a)
	now = now.Add(time.Minute)
	output(t, mustRetry(t, cs, a, asked, yes("")), storagejanitor.OutcomeRefused)
	f.wasDeleted(t)
}

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

func TestClientThatCannotAsk(t *testing.T) {
	for _, version := range []string{modern, legacy} {
		for name, caps := range map[string]*mcp.ClientCapabilities{
			"nothing":  {},
			"URL mode": {Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		} {
			f := newFixture(t, nil)
			c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "test"}, &mcp.ClientOptions{Capabilities: caps})
			res := purge(t, connect(t, f.server(t), c, version), logs(t, f))
			output(t, res, storagejanitor.OutcomeRefused)
			if !res.IsError || !strings.Contains(textOf(res), "elicitation") || f.claims.issued != 0 {
				t.Errorf("%s, %s: isError %v, %q, %d plans parked", version, name, res.IsError, textOf(res), f.claims.issued)
			}
			f.wasDeleted(t)
		}
	}
	t.Run("old protocol, stateless HTTP", func(t *testing.T) {
		f := newFixture(t, nil)
		f.protect.Principal = nil
		cs := dial(t, newClient(&asker{answer: yes}, false), serve(t, f.server(t), true), "alice", legacy)
		output(t, purge(t, cs, logs(t, f)), storagejanitor.OutcomeRefused)
		f.wasDeleted(t)
	})
}

func TestClaimStoreDown(t *testing.T) {
	told := func(t *testing.T, f *fixture, res *mcp.CallToolResult) {
		t.Helper()
		text := textOf(res)
		if !res.IsError || !strings.Contains(text, "nothing was deleted") || strings.Contains(text, "urged") || strings.Contains(text, "10.1.2.3") {
			t.Errorf("isError %v, %q", res.IsError, text)
		}
		f.wasDeleted(t)
	}
	t.Run("issue", func(t *testing.T) {
		f := newFixture(t, nil)
		f.claims.downIssue = true
		told(t, f, purge(t, f.manual(t), logs(t, f)))
	})
	t.Run("redeem", func(t *testing.T) {
		f := newFixture(t, nil)
		a, cs := logs(t, f), f.manual(t)
		asked := purge(t, cs, a)
		f.claims.downRedeem = true
		told(t, f, mustRetry(t, cs, a, asked, yes("")))
	})
	t.Run("revoke", func(t *testing.T) {
		f := newFixture(t, nil)
		a, cs := logs(t, f), f.manual(t)
		asked := purge(t, cs, a)
		f.claims.downRevoke = true
		told(t, f, mustRetry(t, cs, a, asked, &mcp.ElicitResult{Action: "decline"}))
	})
	t.Run("full", func(t *testing.T) {
		f := newFixture(t, nil)
		f.claims.Store = claimcheck.NewMemory(&claimcheck.MemoryOptions{MaxClaims: 1})
		a, cs := logs(t, f), f.manual(t)
		question(t, purge(t, cs, a))
		told(t, f, purge(t, cs, a))
	})
	t.Run("plan too large", func(t *testing.T) {
		f := newFixture(t, nil)
		f.claims.Store = claimcheck.NewMemory(&claimcheck.MemoryOptions{MaxPayloadBytes: 10})
		output(t, purge(t, f.manual(t), logs(t, f)), storagejanitor.OutcomeRefused)
	})
	t.Run("other plan", func(t *testing.T) {
		f := newFixture(t, nil)
		a, cs := logs(t, f), f.manual(t)
		asked := purge(t, cs, a)
		f.claims.Store = swapped{f.claims.Store}
		told(t, f, mustRetry(t, cs, a, asked, yes("")))
	})
}

// swapped gives out another payload than was parked.
type swapped struct{ claimcheck.Store }

func (s swapped) Redeem(ctx context.Context, claim, by string) ([]byte, error) {
	_, err := s.Store.Redeem(ctx, claim, by)
	return []byte(`{"v":1,"objects":[{"n":"secrets/key","s":11,"t":0}]}`), err
}

func TestPurgeArguments(t *testing.T) {
	f := newFixture(t, nil)
	logs(t, f)
	cs := f.manual(t)
	for _, a := range []args{
		{"prefix": "../"},
		{"prefix": "/"},
		{"prefix": "logs/../secrets/"},
		{"prefix": "logs/", "max_bytes": -1},
		{"prefix": "logs/", "max_bytes": "10"},
		{"prefix": "logs/", "max_bytes": 1.5},
		{"prefix": "logs/", "older_than": "a while"},
		{"prefix": "logs/", "older_than": 720},
		{"prefix": "logs/", "older_than": "2999-01-01T00:00:00Z"},
		{"prefix": 7},
		{"prefix": "logs/", "force": true},
		{},
	} {
		if res := purge(t, cs, a); !res.IsError || res.InputRequests != nil || textOf(res) == "" {
			t.Errorf("%v: isError %v, %q", a, res.IsError, textOf(res))
		}
	}
	if f.claims.issued != 0 {
		t.Errorf("%d plans parked", f.claims.issued)
	}
	for prefix, want := range map[string]string{
		"":       "Purge 5 object(s) in the whole bucket? logs-old/a.log, ",
		"logs":   "Purge 4 object(s) under 'logs'? logs-old/a.log, logs/a.log, ",
		"logs/a": "Purge 1 object(s) under 'logs/a'? logs/a.log (10 bytes in all)",
	} {
		if _, msg := question(t, purge(t, cs, args{"prefix": prefix})); !strings.HasPrefix(msg, want) {
			t.Errorf("%q: asked %q", prefix, msg)
		}
	}
}

func TestPurgeFilters(t *testing.T) {
	f := newFixture(t, nil)
	now := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	f.janitor.Now = func() time.Time { return now }
	for name, age := range map[string]time.Duration{"old": 721 * time.Hour, "new": time.Hour, "old-and-large": 1000 * time.Hour} {
		write(t, f.dir, name, name)
		if err := os.Chtimes(filepath.Join(f.dir, name), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	a, cs := args{"prefix": "", "older_than": "720h", "max_bytes": 3}, f.manual(t)
	output(t, mustRetry(t, cs, a, purge(t, cs, a), yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, "old")
	a = args{"prefix": "", "older_than": "2026-09-01T00:00:00Z", "max_bytes": 3}
	output(t, mustRetry(t, cs, a, purge(t, cs, a), yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, "old", "new")
	output(t, purge(t, cs, a), storagejanitor.OutcomeNothing)
	f.keeps(t, "old-and-large")
}

func TestTooManyObjects(t *testing.T) {
	f := newFixture(t, nil)
	f.janitor.MaxObjects = 2
	res := purge(t, f.manual(t), logs(t, f))
	output(t, res, storagejanitor.OutcomeRefused)
	if !strings.Contains(textOf(res), "More than 2 objects") || f.claims.issued != 0 {
		t.Errorf("%q, %d plans parked", textOf(res), f.claims.issued)
	}
}

func TestQuestionShowsHostileNames(t *testing.T) {
	f := newFixture(t, nil)
	f.write(t, "x/a\n\nPurge 0 objects? y", "x/\u202egpj.exe", "x/, x/b")
	_, msg := question(t, purge(t, f.manual(t), args{"prefix": "x/"}))
	if want := `Purge 3 object(s) under 'x/'? "x/, x/b", "x/a\n\nPurge 0 objects? y", x/\u202egpj.exe (`; !strings.HasPrefix(msg, want) {
		t.Errorf("asked %q, want %q", msg, want)
	}
}

func TestCancelledPurgeStops(t *testing.T) {
	f := newFixture(t, nil)
	a := logs(t, f)
	var stop context.CancelFunc
	f.janitor.OnDelete = func(name string) { f.deleted = append(f.deleted, name); stop() }
	s := f.server(t)
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stop = cancel
			return next(ctx, method, req)
		}
	})
	cs := connect(t, s, newClient(&asker{}, true), modern)
	res := mustRetry(t, cs, a, purge(t, cs, a), yes(""))
	if out := output(t, res, storagejanitor.OutcomePurged); out.Left != 2 || !res.IsError {
		t.Errorf("output %+v", out)
	}
	f.wasDeleted(t, "logs/a.log")
}

// Without the middleware a client can write any state, and no claim is redeemed.
func TestWithoutProtectNothingIsDeleted(t *testing.T) {
	f := newFixture(t, nil)
	a := logs(t, f)
	j, err := storagejanitor.New(&f.janitor)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "test"}, nil)
	j.Register(s)
	cs := connect(t, s, newClient(&asker{}, true), modern)
	res := mustRetry(t, cs, a, purge(t, cs, a), yes(""))
	if !res.IsError && res.InputRequests == nil {
		t.Errorf("answered %q", textOf(res))
	}
	f.wasDeleted(t)
}

func TestNewRefuses(t *testing.T) {
	claims := claimcheck.NewMemory(nil)
	for name, o := range map[string]*storagejanitor.Options{
		"nil":       nil,
		"no bucket": {Claims: claims},
		"no claims": {Bucket: t.TempDir()},
		"negative":  {Bucket: t.TempDir(), Claims: claims, PlanTTL: -1},
		"a file":    {Bucket: filepath.Join(t.TempDir(), "missing"), Claims: claims},
	} {
		if j, err := storagejanitor.New(o); err == nil || j != nil {
			t.Errorf("%s: made a janitor", name)
		}
	}
}
