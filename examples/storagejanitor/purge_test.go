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
	if key, msg := question(t, first); key != "confirm" || !strings.HasPrefix(msg, "Purge 101 object(s) under 'tmp/'? "+strings.Join(all[:20], ", ")+", … and 81 more (") {
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

// A person who is asked about no more than 20 objects sees each of them.
func TestTwentyNamesAreShown(t *testing.T) {
	f := newFixture(t, nil)
	a, all := many(t, f, 20)
	cs := f.manual(t)
	if _, msg := question(t, purge(t, cs, a)); !strings.HasPrefix(msg, "Purge 20 object(s) under 'tmp/'? "+strings.Join(all, ", ")+" (") {
		t.Errorf("asked %s", msg)
	}
	f.write(t, "tmp/020")
	if _, msg := question(t, purge(t, cs, a)); !strings.HasPrefix(msg, "Purge 21 object(s) under 'tmp/'? "+strings.Join(all, ", ")+", … and 1 more (") {
		t.Errorf("asked %s", msg)
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
		"two plans": {Bucket: t.TempDir(), Claims: claims, PlanInState: true},
		"below 0":   {Bucket: t.TempDir(), PlanInState: true, MaxPlanBytes: -1},
		"negative":  {Bucket: t.TempDir(), Claims: claims, PlanTTL: -1},
		"a file":    {Bucket: filepath.Join(t.TempDir(), "missing"), Claims: claims},
	} {
		if j, err := storagejanitor.New(o); err == nil || j != nil {
			t.Errorf("%s: made a janitor", name)
		}
	}
}
