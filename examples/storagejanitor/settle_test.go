package storagejanitor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/mcpsdk"
)

// A settled is what the replicas of a server that settles share.
type settled struct {
	*fixture
	codec  foil.Codec
	memory *ledger.Memory

	mu    sync.Mutex
	ahead time.Duration // of the ledger's clock
}

func newSettled(t testing.TB) *settled {
	t.Helper()
	f := &settled{fixture: newFixture(t, nil), codec: aesgcm.Ephemeral()}
	f.memory = ledger.NewMemory(&ledger.MemoryOptions{Now: f.now})
	f.replica(t, f.memory)
	return f
}

func (f *settled) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Add(f.ahead)
}

// leaseEnds lets the lease of whoever executes run out.
func (f *settled) leaseEnds() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead += foil.DefaultLease + time.Second
}

// replica makes the next server one that sees the ledger as store.
func (f *settled) replica(t testing.TB, store ledger.Store) {
	t.Helper()
	var err error
	f.guard, err = foil.New(f.codec, &foil.Options{
		Audience: "storage-janitor", Once: foil.Settle, Ledger: store, PolicyFor: storagejanitor.SettlePolicy,
		Claims: f.claims, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// operation returns the one operation whose handler was called last.
func (f *settled) operation(t testing.TB) *ledger.Operation {
	t.Helper()
	page, _, err := f.memory.List(t.Context(), ledger.Query{})
	if err != nil || len(page) == 0 {
		t.Fatalf("%d operations, %v", len(page), err)
	}
	op, err := f.memory.Get(t.Context(), page[len(page)-1].ID)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// A dying ledger is that of a process that dies at the first call that begins
// with at: nothing is heard of it afterwards.
type dying struct {
	ledger.Store
	at   string
	dead bool
}

func (d *dying) dies(call string) error {
	if d.dead = d.dead || strings.HasPrefix(call, d.at); d.dead {
		return errDown
	}
	return nil
}

func (d *dying) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	if err := d.dies("begin " + name); err != nil {
		return ledger.Step{}, err
	}
	return d.Store.BeginStep(ctx, id, fence, name, lease)
}

func (d *dying) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	if err := d.dies("end " + name); err != nil {
		return err
	}
	return d.Store.EndStep(ctx, id, fence, name, result, lease)
}

func (d *dying) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	if err := d.dies("finish"); err != nil {
		return ledger.ErrFenced // after which the Guard does not try again
	}
	return d.Store.Finish(ctx, id, fence, f)
}

// noOutcome checks that err is the error for an operation without an outcome.
func noOutcome(t testing.TB, err error, reason string) {
	t.Helper()
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != -32000 || !strings.Contains(string(e.Data), `"reason":"`+reason+`"`) {
		t.Errorf("error %v, want %s", err, reason)
	}
}

func bytesOf(t testing.TB, res *mcp.CallToolResult) string {
	t.Helper()
	raw, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func five(t testing.TB, f *fixture) (args, []string) {
	var all []string
	for i := range 5 {
		all = append(all, fmt.Sprintf("tmp/%d", i))
	}
	f.write(t, all...)
	return args{"prefix": "tmp/"}, all
}

// Under settle every kind of question gets the same purge, and the same state with
// the same answers the same result.
func TestSettle(t *testing.T) {
	f := newSettled(t)
	f.janitor.AskTwiceAbove = 4
	a, all := five(t, f.fixture)
	asked := purge(t, f.manual(t), a)
	count := mustRetry(t, f.manual(t), a, asked, yes(""))
	if key, _ := question(t, count); key != "count" {
		t.Fatalf("asked for %s", key)
	}
	copied := mustRetry(t, f.manual(t), a, asked, yes(""))
	first := mustRetry(t, f.manual(t), a, count, accept(args{"count": 5}))
	if out := output(t, first, storagejanitor.OutcomePurged); out.Deleted.Count != 5 || out.Interrupted != nil || strings.Contains(textOf(first), "interrupted") {
		t.Errorf("output %+v, %q", out, textOf(first))
	}
	f.wasDeleted(t, all...)
	f.write(t, all[0])
	for _, state := range []*mcp.CallToolResult{count, copied} {
		if again := mustRetry(t, f.manual(t), a, state, accept(args{"count": 5})); bytesOf(t, again) != bytesOf(t, first) {
			t.Errorf("again %s\nfirst %s", bytesOf(t, again), bytesOf(t, first))
		}
		_, err := retry(t, f.manual(t), a, state, &mcp.ElicitResult{Action: "decline"})
		frozen(t, err)
	}
	f.keeps(t, all[0])
	if f.claims.redeems != 1 {
		t.Errorf("%d redemptions", f.claims.redeems)
	}
	if op := f.operation(t); op.State != ledger.Succeeded {
		t.Errorf("the operation is %v", op.State)
	}
}

// Wherever a process dies, the same person's retry on another replica finishes just
// what was planned, says what was done when, and is told the same ever after.
func TestResume(t *testing.T) {
	for _, tc := range []struct {
		at                    string
		before, probably, now int
		told                  string
	}{
		{at: "end input", now: 5, told: "Purged 5 object(s): tmp/0, tmp/1, tmp/2, tmp/3, tmp/4. The purge was interrupted before it had deleted anything, and was carried on now."},
		{at: "begin begin", now: 5, told: "before it had deleted anything"},
		{at: "end begin", now: 5, told: "before it had deleted anything"},
		{at: "begin delete 0", now: 5, told: "before it had deleted anything"},
		{at: "end delete 0", before: 1, probably: 1, now: 4, told: "1 deleted before: tmp/0. Of these, 1 gone, probably by the interrupted call, which could not say so: tmp/0. 4 deleted now: tmp/1, tmp/2, tmp/3, tmp/4."},
		{at: "begin delete 3", before: 3, now: 2, told: ": tmp/0, tmp/1, tmp/2. 2 deleted now: tmp/3, tmp/4."},
		{at: "end delete 3", before: 4, probably: 1, now: 1, told: "4 deleted before, "},
		{at: "finish", before: 5, told: ": tmp/0, tmp/1, tmp/2, tmp/3, tmp/4. 0 deleted now."},
	} {
		for _, where := range []string{"claim", "state"} {
			t.Run(tc.at+", plan in "+where, func(t *testing.T) {
				if where == "state" && tc.at == "end input" {
					t.Skip("a plan in the state is not fetched")
				}
				f := newSettled(t)
				if where == "state" {
					f.janitor.Claims, f.janitor.PlanInState = nil, true
				}
				a, all := five(t, f.fixture)
				f.replica(t, &dying{Store: f.memory, at: tc.at})
				asked := purge(t, f.manual(t), a)
				died := time.Now().Truncate(time.Second)
				_, err := retry(t, f.manual(t), a, asked, yes(""))
				noOutcome(t, err, "operation_unknown") // nobody would hear that of a process that died
				f.write(t, "tmp/late", "tmp/0.late")

				// Another replica, whose release would ask once more, and a client
				// that cannot be asked any more.
				f.replica(t, f.memory)
				if tc.at != "end input" && tc.at != "begin begin" && tc.at != "end begin" {
					f.janitor.AskTwiceAbove = 1
				}
				_, err = retry(t, f.manual(t), a, asked, yes(""))
				noOutcome(t, err, "operation_in_progress")
				f.leaseEnds()
				first := mustRetry(t, f.manual(t), a, asked, yes(""))
				out := output(t, first, storagejanitor.OutcomePurged)
				n := out.Interrupted
				if n == nil || out.Deleted.Count != 5 || n.Before.Count != tc.before || n.Probably.Count != tc.probably || n.Now.Count != tc.now {
					t.Fatalf("output %+v, interrupted %+v", out, n)
				}
				if out.Bytes != 25 || out.Missing.Count+out.Changed.Count+out.Failed.Count+out.Left != 0 || first.IsError {
					t.Errorf("output %+v", out)
				}
				if known := tc.before - tc.probably; known == 0 != n.From.IsZero() || known > 0 && (n.From.Before(died) || n.Until.Before(n.From) || n.Until.After(time.Now())) {
					t.Errorf("%d before, from %v until %v", known, n.From, n.Until)
				} else if known > 0 && !strings.Contains(textOf(first), n.From.Format(time.RFC3339)) {
					t.Errorf("told no time: %q", textOf(first))
				}
				if !slices.Equal(n.Before.Names, append([]string(nil), all[:tc.before]...)) && tc.before > 0 {
					t.Errorf("before %q", n.Before.Names)
				}
				if !strings.Contains(textOf(first), tc.told) {
					t.Errorf("told %q", textOf(first))
				}
				f.wasDeleted(t, all...)
				f.keeps(t, "tmp/late", "tmp/0.late")
				f.write(t, all...)
				for range 2 {
					if again := mustRetry(t, f.manual(t), a, asked, yes("")); bytesOf(t, again) != bytesOf(t, first) {
						t.Errorf("again %s\nfirst %s", bytesOf(t, again), bytesOf(t, first))
					}
				}
				f.keeps(t, all...)
			})
		}
	}
}

// What a purge had done before each of two interruptions is told as before.
func TestResumeTwice(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	asked := purge(t, f.manual(t), a)
	for _, at := range []string{"end delete 1", "end delete 2"} {
		f.replica(t, &dying{Store: f.memory, at: at})
		_, err := retry(t, f.manual(t), a, asked, yes(""))
		noOutcome(t, err, "operation_unknown")
		f.leaseEnds()
	}
	f.replica(t, f.memory)
	out := output(t, mustRetry(t, f.manual(t), a, asked, yes("")), storagejanitor.OutcomePurged)
	n := out.Interrupted
	if n == nil || !slices.Equal(n.Before.Names, all[:3]) || !slices.Equal(n.Probably.Names, all[1:3]) || !slices.Equal(n.Now.Names, all[3:]) || out.Deleted.Count != 5 {
		t.Errorf("output %+v, interrupted %+v", out, n)
	}
	f.wasDeleted(t, all...)
}

// What has become of the planned objects in the meantime is told as it is.
func TestResumeAmongChanges(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	asked := purge(t, f.manual(t), a)
	f.replica(t, &dying{Store: f.memory, at: "end delete 1"})
	_, err := retry(t, f.manual(t), a, asked, yes(""))
	noOutcome(t, err, "operation_unknown")
	write(t, f.dir, all[1], "a new one, by the name of one that is gone")
	write(t, f.dir, all[2], "somebody needs this")
	if err := os.Remove(filepath.Join(f.dir, all[3])); err != nil {
		t.Fatal(err)
	}
	f.leaseEnds()
	f.replica(t, f.memory)
	out := output(t, mustRetry(t, f.manual(t), a, asked, yes("")), storagejanitor.OutcomePurged)
	n := out.Interrupted
	if !slices.Equal(out.Changed.Names, all[1:3]) || !slices.Equal(out.Missing.Names, all[3:4]) || n == nil ||
		n.Probably.Count != 0 || !slices.Equal(n.Before.Names, all[:1]) || !slices.Equal(n.Now.Names, all[4:]) {
		t.Errorf("output %+v, interrupted %+v", out, n)
	}
	f.keeps(t, all[1:3]...)
}

// A purge that was cut off is finished for the person who confirmed it, with the
// answers that were given, and for nobody else.
func TestResumeIsForOnePerson(t *testing.T) {
	f := newSettled(t)
	f.protect.Principal = nil
	a, all := five(t, f.fixture)
	f.replica(t, &dying{Store: f.memory, at: "end delete 1"})
	one := serve(t, f.server(t), true)
	asked := purge(t, dial(t, newClient(&asker{}, true), one, "alice", modern), a)
	_, err := retry(t, dial(t, newClient(&asker{}, true), one, "alice", modern), a, asked, yes(""))
	noOutcome(t, err, "operation_unknown")
	f.leaseEnds()
	f.replica(t, f.memory)
	two := serve(t, f.server(t), true)
	_, err = retry(t, dial(t, newClient(&asker{}, true), two, "mallory", modern), a, asked, yes(""))
	frozen(t, err)
	alice := dial(t, newClient(&asker{}, true), two, "alice", modern)
	_, err = retry(t, alice, a, asked, &mcp.ElicitResult{Action: "decline"})
	frozen(t, err)
	_, err = retry(t, alice, args{"prefix": ""}, asked, yes(""))
	frozen(t, err)
	f.keeps(t, all[2:]...)
	output(t, mustRetry(t, alice, a, asked, yes("")), storagejanitor.OutcomePurged)
	_, err = retry(t, dial(t, newClient(&asker{}, true), two, "mallory", modern), a, asked, yes(""))
	frozen(t, err)
}

// A no that was cut off stays a no.
func TestResumeDecline(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	f.replica(t, &dying{Store: f.memory, at: "finish"})
	asked := purge(t, f.manual(t), a)
	no := &mcp.ElicitResult{Action: "decline"}
	_, err := retry(t, f.manual(t), a, asked, no)
	noOutcome(t, err, "operation_unknown")
	f.leaseEnds()
	f.replica(t, f.memory)
	_, err = retry(t, f.manual(t), a, asked, yes(""))
	frozen(t, err)
	output(t, mustRetry(t, f.manual(t), a, asked, no), storagejanitor.OutcomeDeclined)
	_, err = retry(t, f.manual(t), a, asked, yes(""))
	frozen(t, err)
	f.wasDeleted(t)
	f.keeps(t, all...)
}

// The rest is deleted for a client that cannot be asked any more, since it was: a
// refusal would be recorded as the outcome, and claim that nothing was deleted.
func TestResumeForAnotherClient(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	f.replica(t, &dying{Store: f.memory, at: "end delete 1"})
	asked := purge(t, f.manual(t), a)
	_, err := retry(t, f.manual(t), a, asked, yes(""))
	noOutcome(t, err, "operation_unknown")
	f.leaseEnds()
	f.replica(t, f.memory)
	mute := connect(t, f.server(t), newClient(nil, true), modern)
	output(t, mustRetry(t, mute, a, asked, yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, all...)
}

// A replica of a release that cannot read the state leaves the rest to another.
func TestResumeByAnotherRelease(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	f.replica(t, &dying{Store: f.memory, at: "end delete 1"})
	asked := purge(t, f.manual(t), a)
	_, err := retry(t, f.manual(t), a, asked, yes(""))
	noOutcome(t, err, "operation_unknown")
	f.leaseEnds()
	f.replica(t, f.memory)
	f.janitor.Claims, f.janitor.PlanInState = nil, true // to which the state is foreign
	res := mustRetry(t, f.manual(t), a, asked, yes(""))
	if !res.IsError || !strings.Contains(textOf(res), "cannot read what was left") {
		t.Errorf("told %q", textOf(res))
	}
	f.keeps(t, all[2:]...)
	if op := f.operation(t); op.State != ledger.Unknown {
		t.Errorf("the operation is %v", op.State)
	}
	f.janitor.Claims, f.janitor.PlanInState = f.claims, false
	output(t, mustRetry(t, f.manual(t), a, asked, yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, all...)
}

// An error after which nothing can have been deleted is an outcome; one after which
// it is not certain leaves the purge to be resumed.
func TestSettledErrors(t *testing.T) {
	t.Run("claims away", func(t *testing.T) {
		f := newSettled(t)
		a, all := five(t, f.fixture)
		asked := purge(t, f.manual(t), a)
		f.claims.downRedeem = true
		first := mustRetry(t, f.manual(t), a, asked, yes(""))
		f.claims.downRedeem = false
		if again := mustRetry(t, f.manual(t), a, asked, yes("")); bytesOf(t, again) != bytesOf(t, first) || !first.IsError || !strings.Contains(textOf(first), "nothing was deleted") {
			t.Errorf("first %q, again %q", textOf(first), textOf(again))
		}
		if op := f.operation(t); op.State != ledger.Failed {
			t.Errorf("the operation is %v", op.State)
		}
		f.keeps(t, all...)
	})
	t.Run("another plan", func(t *testing.T) {
		f := newSettled(t)
		a, all := five(t, f.fixture)
		asked := purge(t, f.manual(t), a)
		f.claims.Store = swapped{f.claims.Store}
		f.write(t, "secrets/key")
		if res := mustRetry(t, f.manual(t), a, asked, yes("")); !res.IsError {
			t.Errorf("told %q", textOf(res))
		}
		if op := f.operation(t); op.State != ledger.Failed {
			t.Errorf("the operation is %v", op.State)
		}
		f.keeps(t, append(all, "secrets/key")...)
	})
	t.Run("no withdrawal", func(t *testing.T) {
		f := newSettled(t)
		a, _ := five(t, f.fixture)
		asked := purge(t, f.manual(t), a)
		f.claims.downRevoke = true
		mustRetry(t, f.manual(t), a, asked, &mcp.ElicitResult{Action: "decline"})
		if op := f.operation(t); op.State != ledger.Failed {
			t.Errorf("the operation is %v", op.State)
		}
		_, err := retry(t, f.manual(t), a, asked, yes(""))
		frozen(t, err)
	})
	for at, want := range map[string]ledger.State{
		"begin begin":    ledger.Failed,
		"end begin":      ledger.Failed,
		"begin delete 0": ledger.Failed,
		"end delete 0":   ledger.Unknown,
		"begin delete 2": ledger.Unknown,
	} {
		t.Run("ledger away at "+at, func(t *testing.T) {
			f := newSettled(t)
			a, all := five(t, f.fixture)
			asked := purge(t, f.manual(t), a)
			f.replica(t, &missing{dying{Store: f.memory, at: at}})
			first := mustRetry(t, f.manual(t), a, asked, yes(""))
			if op := f.operation(t); op.State != want || !first.IsError || strings.Contains(textOf(first), "10.1.2.3") ||
				strings.Contains(textOf(first), "nothing was deleted") != (want == ledger.Failed) {
				t.Fatalf("the operation is %v, told %q", op.State, textOf(first))
			}
			f.replica(t, f.memory)
			res := mustRetry(t, f.manual(t), a, asked, yes(""))
			if want == ledger.Failed {
				if bytesOf(t, res) != bytesOf(t, first) {
					t.Errorf("again %q", textOf(res))
				}
				f.keeps(t, all...)
				return
			}
			output(t, res, storagejanitor.OutcomePurged)
			f.wasDeleted(t, all...)
		})
	}
}

// A missing ledger is away for one call.
type missing struct{ dying }

func (m *missing) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	m.dead = false
	return m.dying.BeginStep(ctx, id, fence, name, lease)
}

func (m *missing) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	m.dead = false
	return m.dying.EndStep(ctx, id, fence, name, result, lease)
}

func (m *missing) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	return m.Store.Finish(ctx, id, fence, f)
}

// A process that was stopped for so long that another took over deletes nothing
// more, wherever it was.
func TestFencedPurgeStops(t *testing.T) {
	for _, at := range []string{"end input", "begin begin", "end begin", "begin delete 2", "end delete 2"} {
		t.Run(at, func(t *testing.T) {
			f := newSettled(t)
			var log bytes.Buffer
			f.janitor.Logger = slog.New(slog.NewTextHandler(&log, nil))
			a, all := five(t, f.fixture)
			asked := purge(t, f.manual(t), a)
			s := &sleepy{dying: dying{Store: f.memory, at: at}, sleep: func(id [ledger.IDLen]byte, fence uint64) {
				f.leaseEnds()
				if _, err := f.memory.Resume(t.Context(), id, fence, time.Minute); err != nil {
					t.Error(err)
				}
			}}
			f.replica(t, s)
			_, err := retry(t, f.manual(t), a, asked, yes(""))
			noOutcome(t, err, "operation_unknown")
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "another call has taken it over") {
				t.Errorf("logged\n%s", got)
			}
			gone := 0
			switch at {
			case "begin delete 2":
				gone = 2
			case "end delete 2":
				gone = 3
			}
			f.keeps(t, all[gone:]...)
			if len(f.deleted) != gone || s.after > 0 {
				t.Errorf("deleted %q, and went on to %d steps", f.deleted, s.after)
			}
			if op := f.operation(t); op.State != ledger.Executing || op.Fence != 2 {
				t.Errorf("the other's operation is %v, fence %d", op.State, op.Fence)
			}
		})
	}
}

// A sleepy ledger lets somebody take the operation over before a call.
type sleepy struct {
	dying
	sleep func(id [ledger.IDLen]byte, fence uint64)
	after int // calls of steps that came later
}

func (s *sleepy) wake(id [ledger.IDLen]byte, fence uint64, call string) {
	switch was := s.dead; {
	case was:
		s.after++
	case s.dies(call) != nil:
		s.sleep(id, fence)
	}
}

func (s *sleepy) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	s.wake(id, fence, "begin "+name)
	return s.Store.BeginStep(ctx, id, fence, name, lease)
}

func (s *sleepy) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	s.wake(id, fence, "end "+name)
	return s.Store.EndStep(ctx, id, fence, name, result, lease)
}

func (s *sleepy) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	return s.Store.Finish(ctx, id, fence, f)
}

// A context that ends within the handler says that the operation was lost: that is
// an error, and no purge with some left. That the client goes says nothing.
func TestSettledPurgeAndContexts(t *testing.T) {
	for name, lost := range map[string]bool{"operation lost": true, "client gone": false} {
		t.Run(name, func(t *testing.T) {
			f := newSettled(t)
			a, all := five(t, f.fixture)
			var stop context.CancelCauseFunc
			f.janitor.OnDelete = func(string) { stop(ledger.ErrFenced) }
			cancelling := func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					ctx, cancel := context.WithCancelCause(ctx)
					defer cancel(nil)
					stop = cancel
					return next(ctx, method, req)
				}
			}
			j, err := storagejanitor.New(&f.janitor)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { j.Close() })
			s := mcp.NewServer(&mcp.Implementation{Name: "storage-janitor", Version: "test"}, nil)
			j.Register(s)
			within := []mcp.Middleware{mcpsdk.Protect(f.guard, &f.protect), cancelling}
			if !lost {
				slices.Reverse(within)
			}
			s.AddReceivingMiddleware(within...)
			cs := connect(t, s, newClient(&asker{}, true), modern)
			asked := purge(t, cs, a)
			res := mustRetry(t, cs, a, asked, yes(""))
			if !lost {
				output(t, res, storagejanitor.OutcomePurged)
				return
			}
			if !res.IsError || strings.Contains(textOf(res), "left") {
				t.Errorf("told %q", textOf(res))
			}
			f.keeps(t, all[1:]...)
			if op := f.operation(t); op.State != ledger.Unknown {
				t.Errorf("the operation is %v", op.State)
			}
		})
	}
}

// Who reads the ledger's steps learns no names from theirs.
func TestStepNamesTellNothing(t *testing.T) {
	f := newSettled(t)
	long := "tmp/" + strings.Repeat("secret/", 140) + "a"
	f.write(t, "tmp/my-secret", long)
	a := args{"prefix": "tmp/"}
	output(t, mustRetry(t, f.manual(t), a, purge(t, f.manual(t), a), yes("")), storagejanitor.OutcomePurged)
	names := make(map[string]bool)
	for _, s := range f.operation(t).Steps {
		names[s.Name] = true
		if strings.Contains(s.Name, "secret") || len(s.Name) > 64 {
			t.Errorf("step %q", s.Name)
		}
	}
	if len(names) != 4 { // the plan, the begin, two objects
		t.Errorf("steps %v", names)
	}
}

// A step whose result this release does not know is not taken for anything.
func TestUnknownStepResult(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	asked := purge(t, f.manual(t), a)
	f.replica(t, &renaming{f.memory})
	res := mustRetry(t, f.manual(t), a, asked, yes(""))
	if op := f.operation(t); !res.IsError || op.State != ledger.Unknown {
		t.Errorf("told %q, the operation is %v", textOf(res), op.State)
	}
	f.replica(t, f.memory)
	f.leaseEnds()
	if res = mustRetry(t, f.manual(t), a, asked, yes("")); !res.IsError {
		t.Errorf("told %q", textOf(res))
	}
	f.keeps(t, all[1:]...)
}

// A renaming ledger ends deletions as another release would, and loses the answer.
type renaming struct{ ledger.Store }

func (r *renaming) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	if !strings.HasPrefix(name, "delete") {
		return r.Store.EndStep(ctx, id, fence, name, result, lease)
	}
	return errors.Join(r.Store.EndStep(ctx, id, fence, name, []byte("sent to the moon"), lease), errDown)
}

// Only the tool that works in steps may be called again in the middle of them.
func TestSettlePolicy(t *testing.T) {
	for _, tc := range []struct {
		method, target string
		want           bool
	}{
		{foil.MethodToolsCall, storagejanitor.PurgeTool, true},
		{foil.MethodToolsCall, storagejanitor.ListTool, false},
		{foil.MethodToolsCall, "another", false},
		{foil.MethodPromptsGet, storagejanitor.PurgeTool, false},
	} {
		if p := storagejanitor.SettlePolicy(tc.method, tc.target); p.Resumable != tc.want || p.Once == foil.Settle != tc.want {
			t.Errorf("%s %s: %+v", tc.method, tc.target, p)
		}
	}
}
