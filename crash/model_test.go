//go:build unix

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/ledger"
	"pgregory.net/rapid"
)

// The schedule space within one process: every call of the ledger and every effect
// is a gate at which a process waits for its turn. What it gets there, and who is
// next, is drawn: to go on, an error before or after the store has done it, death, a
// long halt. Time is that of a synctest bubble.

// What a process gets at a gate.
type verdict int

const (
	pass verdict = iota
	fault
	die
)

var (
	errFault = errors.New("the store is away")
	errDead  = errors.New("the process is dead")
)

// mortal is one process that presents the state, with a Guard of its own.
type mortal struct {
	w      *plot
	guard  *foil.Guard
	turn   chan verdict
	at     string // the gate; "" while it runs
	dead   bool
	frozen bool
	froze  bool // ever
	thaw   chan struct{}
	faults int // how many it got
	fence  uint64
	live   bool // its handler runs
	over   bool // it has answered, or would have
	late   int  // calls of the provider after somebody else had taken over
	other  bool // gives other answers
	told   string
	err    error
}

func (m *mortal) gate(what string) verdict {
	if m.dead {
		return die
	}
	m.at = what
	v := <-m.turn
	m.at = ""
	switch v {
	case die:
		m.dead, m.live = true, false
	case fault:
		m.faults++
	}
	return v
}

func gated[T any](m *mortal, what string, call func() (T, error)) (out T, err error) {
	var none T
	for i, when := range []string{"before ", "after "} {
		switch m.gate(when + what) {
		case die:
			return none, errDead
		case fault:
			return none, errFault
		}
		if i == 0 {
			out, err = call()
		}
	}
	return out, err
}

// gates is the ledger as one process sees it.
type gates struct {
	ledger.Store
	m *mortal
}

func (g *gates) Begin(ctx context.Context, s *ledger.Start) (*ledger.Operation, bool, error) {
	started := false
	op, err := gated(g.m, "begin", func() (op *ledger.Operation, err error) {
		op, started, err = g.Store.Begin(ctx, s)
		if started {
			g.m.fence, g.m.w.first = op.Fence, g.m
		}
		return op, err
	})
	return op, started && err == nil, err
}

func (g *gates) Get(ctx context.Context, id [ledger.IDLen]byte) (*ledger.Operation, error) {
	return gated(g.m, "get", func() (*ledger.Operation, error) { return g.Store.Get(ctx, id) })
}

func (g *gates) Resume(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) (*ledger.Operation, error) {
	return gated(g.m, "resume", func() (*ledger.Operation, error) {
		op, err := g.Store.Resume(ctx, id, fence, lease)
		if err == nil {
			g.m.fence = op.Fence
		}
		return op, err
	})
}

// Renew has no gate, since a live process renews whatever else it does. One that
// stands still renews late, and one that is dead never.
func (g *gates) Renew(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) error {
	if g.m.frozen {
		<-g.m.thaw
	}
	if g.m.dead {
		return ledger.ErrFenced // ends the timer
	}
	return g.Store.Renew(ctx, id, fence, lease)
}

func (g *gates) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	return gated(g.m, "begin "+name, func() (ledger.Step, error) { return g.Store.BeginStep(ctx, id, fence, name, lease) })
}

func (g *gates) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	_, err := gated(g.m, "end "+name, func() (int, error) { return 0, g.Store.EndStep(ctx, id, fence, name, result, lease) })
	return err
}

func (g *gates) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	_, err := gated(g.m, "finish", func() (int, error) { return 0, g.Store.Finish(ctx, id, fence, f) })
	return err
}

// present is the life of a process.
func (m *mortal) present() {
	a, err := m.carryOut()
	m.over = true
	if m.live = false; m.dead { // its death may have been within the handler
		return
	}
	m.told, m.err = a, err
	m.w.answered(m)
}

func (m *mortal) carryOut() (string, error) {
	ctx := context.Background()
	o, err := m.guard.Open(ctx, m.w.request(m.other), m.w.token)
	if err != nil {
		return "", err
	}
	if r, ok := o.Recorded(); ok {
		return string(r.Result), nil
	}
	ctx, err = o.Dispatch(ctx)
	if err != nil {
		return "", err
	}
	m.w.dispatched(m)
	receipts := ""
	for i := range m.w.steps() {
		name := stepName(i)
		effect := func(context.Context) ([]byte, error) {
			if v := m.gate("before effect"); v != pass {
				return nil, errDead
			}
			m.w.effect(m, name, o.IdempotencyKey(name, "provider"))
			if v := m.gate("after effect"); v != pass {
				return nil, errDead
			}
			return []byte(name + ";"), nil
		}
		var receipt []byte
		if m.w.resumable {
			receipt, err = o.Execution().Step(ctx, name, effect)
		} else {
			receipt, err = effect(ctx)
		}
		if err != nil {
			break
		}
		receipts += string(receipt)
	}
	if m.dead {
		return "", errDead
	}
	m.live = false
	if cerr := o.Conclude(ctx, foil.Conclusion{Result: []byte(receipts), Err: err}); cerr != nil {
		return "", cerr
	}
	return receipts, err
}

// TestSchedules draws schedules and checks the promise in each.
func TestSchedules(t *testing.T) {
	codec := aesgcm.Ephemeral()
	// A check ends after a day, of the bubble's time too: so many are as good as
	// one long one.
	seen := make(map[string]int)
	for range max(60, number(t, "FOIL_CRASH", 0)) {
		synctest.Test(t, func(t *testing.T) {
			// Within a bubble nobody may ask a *testing.T for its deadline.
			rapid.Check(struct{ *testing.T }{t}, func(rt *rapid.T) {
				w := newPlot(rt, codec, seen)
				defer w.end()
				for range rapid.IntRange(5, 150).Draw(rt, "turns") {
					w.act()
					synctest.Wait()
				}
				w.finish()
			})
		})
	}
	t.Log(seen)
	for _, what := range []string{"resumed", "resumed twice", "stopped in a step, and took it to its end", "told again", "unknown", "in progress", "resolved"} {
		if seen[what] == 0 && !t.Failed() {
			t.Errorf("no schedule had one %s: they prove little", what)
		}
	}
}

// newGuard is what a process opens states with.
func (w *plot) newGuard(l ledger.Store) *foil.Guard {
	g, err := foil.New(w.codec, &foil.Options{
		Audience: "crash", Once: foil.Settle, Ledger: l, Resumable: w.resumable, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.Fatal(err)
	}
	return g
}

func (w *plot) request(other bool) foil.Request {
	r := foil.Request{Method: foil.MethodToolsCall, Target: "tool", Arguments: []byte(`{}`), Principal: foil.Fixed("ann")}
	r.Answers = []byte(`{"confirm":{"action":"accept","content":{"ok":true}}}`)
	if other {
		r.Answers = []byte(`{"confirm":{"action":"decline"}}`)
	}
	return r
}

func (w *plot) steps() int {
	if w.resumable {
		return 2
	}
	return 1
}

// String tells where everybody is, for a schedule that fails.
func (m *mortal) String() string {
	return fmt.Sprintf("fence %d at %q dead %v frozen %v live %v told %q %v", m.fence, m.at, m.dead, m.frozen, m.live, m.told, m.err)
}
