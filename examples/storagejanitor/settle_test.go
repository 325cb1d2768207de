package storagejanitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	var lease time.Duration
	if _, ok := store.(*missing); ok {
		lease = time.Second // for so long a step's end is tried again
	}
	var err error
	f.guard, err = foil.New(f.codec, &foil.Options{
		Audience: "storage-janitor", Once: foil.Settle, Ledger: store, Lease: lease, PolicyFor: storagejanitor.SettlePolicy,
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
		return ledger.ErrFenced // after which the Guard does not try again
	}
	return d.Store.EndStep(ctx, id, fence, name, result, lease)
}

func (d *dying) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	if err := d.dies("finish"); err != nil {
		return ledger.ErrFenced // as above
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

// A missing ledger is away for one call, and whenever that is tried again.
type missing struct{ dying }

func (m *missing) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	m.dead = false
	return m.dying.BeginStep(ctx, id, fence, name, lease)
}

func (m *missing) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	m.dead = false
	err := m.dying.EndStep(ctx, id, fence, name, result, lease)
	if m.dead {
		return errDown
	}
	return err
}

func (m *missing) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	return m.Store.Finish(ctx, id, fence, f)
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
