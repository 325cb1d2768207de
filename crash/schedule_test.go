//go:build unix

package crash_test

import (
	"context"
	"errors"
	"slices"
	"testing/synctest"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/ledger"
	"pgregory.net/rapid"
)

// A plot is one approval, who presents it, and what must hold at every moment.
type plot struct {
	*rapid.T
	codec     foil.Codec
	ledger    *ledger.Memory
	resumable bool
	token     string
	all       []*mortal
	fences    []uint64            // of the handlers that were started
	done      map[string]string   // the provider's keys by step
	calls     map[string][]uint64 // the fences of those who called it
	first     *mortal             // who began the operation
	outcome   string              // the first result that anybody was told
	resolved  bool
	seen      map[string]int // what all plots had in them
}

// hidden hides that the ledger dies with the process: so does the test.
type hidden struct{ ledger.Store }

func newPlot(rt *rapid.T, codec foil.Codec, seen map[string]int) *plot {
	w := &plot{
		T: rt, codec: codec, seen: seen, ledger: ledger.NewMemory(nil), resumable: rapid.Bool().Draw(rt, "resumable"),
		done: make(map[string]string), calls: make(map[string][]uint64),
	}
	token, err := w.newGuard(hidden{w.ledger}).Seal(context.Background(), w.request(false), foil.Outgoing{
		Questions: []byte(`{"confirm":{"method":"elicitation/create","params":{"message":"Do it?"}}}`),
	})
	if err != nil {
		rt.Fatal(err)
	}
	w.token = token
	return w
}

// waiting are those at a gate who may be given a turn.
func (w *plot) waiting() (all []*mortal) {
	for _, m := range w.all {
		if m.at != "" && !m.frozen {
			all = append(all, m)
		}
	}
	return all
}

// act lets one thing happen.
func (w *plot) act() {
	one := func(from []*mortal) *mortal {
		return from[rapid.IntRange(0, len(from)-1).Draw(w.T, "who")]
	}
	waiting := w.waiting()
	what := rapid.SampledFrom([]string{"go", "go", "go", "go", "go", "go", "go", "go", "go", "go", "go", "go", "present", "present", "fault", "die", "freeze", "freeze", "thaw", "lapse", "lapse", "resolve"}).Draw(w.T, "what")
	switch what {
	case "go", "fault", "die":
		if len(waiting) > 0 {
			one(waiting).turn <- map[string]verdict{"go": pass, "fault": fault, "die": die}[what]
		}
	case "present":
		if len(w.all) < 8 {
			w.present(rapid.IntRange(0, 9).Draw(w.T, "other") == 0)
		}
	case "freeze":
		if len(waiting) > 0 {
			one(waiting).freeze()
		}
	case "thaw":
		frozen := slices.DeleteFunc(slices.Clone(w.all), func(m *mortal) bool { return !m.frozen })
		if len(frozen) > 0 {
			one(frozen).melt()
		}
	case "lapse":
		time.Sleep(time.Duration(rapid.SampledFrom([]int{2, 12, 29, 31, 45, 70}).Draw(w.T, "seconds")) * time.Second)
	case "resolve":
		w.resolve()
	}
}

func (m *mortal) freeze() { m.frozen, m.froze, m.thaw = true, true, make(chan struct{}) }

func (m *mortal) melt() {
	m.frozen = false
	close(m.thaw)
}

func (w *plot) present(other bool) *mortal {
	m := &mortal{w: w, turn: make(chan verdict), other: other}
	m.guard = w.newGuard(hidden{&gates{w.ledger, m}})
	w.all = append(w.all, m)
	go m.present()
	return m
}

// dispatched is told before a handler runs.
func (w *plot) dispatched(m *mortal) {
	for _, o := range w.all {
		// Those that stood still or are dead have lost it without knowing.
		if o.live && !o.froze {
			w.Errorf("two handlers run: %v, and now %v", o, m)
		}
	}
	m.live = true
	if slices.Contains(w.fences, m.fence) || !w.resumable && len(w.fences) > 0 {
		w.Errorf("a handler runs again: %v after fences %v", m, w.fences)
	}
	w.fences = append(w.fences, m.fence)
	if m.fence > 1 {
		w.seen["resumed"]++
	}
	if m.fence > 2 {
		w.seen["resumed twice"]++
	}
}

// effect is the provider.
func (w *plot) effect(m *mortal, step, key string) {
	if k, ok := w.done[step]; ok && k != key {
		w.Errorf("%s is done again under another key: %v", step, m)
	}
	w.done[step] = key
	if !w.resumable && len(w.calls[step]) > 0 {
		w.Errorf("%s is done twice: %v", step, m)
	}
	w.calls[step] = append(w.calls[step], m.fence)
	op := w.operation()
	if op.Fence > m.fence {
		w.seen["stopped in a step, and took it to its end"]++
		if m.late++; m.late > 1 {
			w.Errorf("%v went on for another step after fence %d had taken over", m, op.Fence)
		}
	}
	if s := slices.IndexFunc(op.Steps, func(s ledger.Step) bool { return s.Name == step }); s >= 0 && op.Steps[s].Done() && op.Fence == m.fence {
		w.Errorf("%s is done again by %v, which has the fence", step, m)
	}
}

// operation is the one there is, or an empty one.
func (w *plot) operation() *ledger.Operation {
	page, _, err := w.ledger.List(context.Background(), ledger.Query{})
	if err != nil || len(page) > 1 {
		w.Errorf("%d operations, %v", len(page), err)
	}
	if len(page) == 0 {
		return &ledger.Operation{}
	}
	op, err := w.ledger.Get(context.Background(), page[0].ID)
	if err != nil {
		w.Errorf("Get: %v", err)
		return &ledger.Operation{}
	}
	return op
}

// answered is told what a process answered.
func (w *plot) answered(m *mortal) {
	op := w.operation()
	oe, isOp := errors.AsType[*foil.OperationError](m.err)
	switch {
	case w.first != nil && m.other != w.first.other && (m.err == nil || isOp):
		w.Errorf("other answers than those that were first are told something: %v", m)
	case m.err == nil:
		if w.outcome != "" {
			w.seen["told again"]++
		} else {
			w.outcome = m.told
		}
		if m.told != w.outcome || op.State != ledger.Succeeded || string(op.Outcome) != "r"+m.told {
			w.Errorf("%v, the first was told %q, and the ledger says %v %q", m, w.outcome, op.State, op.Outcome)
		}
	case errors.Is(m.err, foil.ErrInvalid):
		// Whoever was first decides which answers are the other ones.
		if w.first == nil || m.other == w.first.other {
			w.Errorf("an honest retry is refused: %v", m)
		}
	case isOp:
		w.seen[map[ledger.State]string{ledger.Executing: "in progress", ledger.Unknown: "unknown"}[oe.State]]++
		if w.outcome != "" && m.faults == 0 && !m.froze && op.Fence == m.fence {
			w.Errorf("%v, after %q had been told", m, w.outcome)
		}
	case errors.Is(m.err, foil.ErrUnavailable), errors.Is(m.err, errFault), errors.Is(m.err, errDead), errors.Is(m.err, ledger.ErrFenced):
	default:
		w.Errorf("an answer that nobody promised: %v", m)
	}
}

// resolve is an operator who looks at what is unknown.
func (w *plot) resolve() {
	page, _, err := w.ledger.List(context.Background(), ledger.Query{State: ledger.Unknown})
	if err != nil {
		w.Fatal(err)
	}
	for _, op := range page {
		err := w.ledger.Resolve(context.Background(), op.ID, op.Fence, ledger.Resolution{
			State: ledger.Succeeded, Outcome: foil.EncodeOutcome([]byte("found")), By: "operator",
		})
		if err != nil {
			w.Fatal(err)
		}
		w.resolved = true
		w.seen["resolved"]++
	}
}

// finish lets everybody come to an end, and then asks until there is an outcome.
func (w *plot) finish() {
	w.drain()
	for try := range 3 {
		time.Sleep(time.Minute) // every lease is over
		m := w.present(false)
		w.drain()
		oe, isOp := errors.AsType[*foil.OperationError](m.err)
		switch {
		case m.err == nil && m.told == w.outcome:
			if w.resolved == (m.told != "found") && w.resolved {
				w.Fatalf("the operator's finding is not the outcome: %v", m)
			}
			if !w.resolved && len(w.done) != w.steps() {
				w.Fatalf("%v, and %d effects", m, len(w.done))
			}
			if op := w.operation(); op.State != ledger.Succeeded {
				w.Fatalf("%v, and the ledger says %v", m, op.State)
			}
			if try > 0 || w.resolved {
				return
			}
		case errors.Is(m.err, foil.ErrInvalid) && slices.ContainsFunc(w.all, func(o *mortal) bool { return o.other }):
			return // the other answers were first
		case isOp && oe.State == ledger.Unknown && !w.resumable && w.outcome == "":
			page, _, err := w.ledger.List(context.Background(), ledger.Query{State: ledger.Unknown})
			if err != nil || len(page) != 1 || oe.Flow == "" {
				w.Fatalf("%v, and the ledger lists %d unknown, %v", m, len(page), err)
			}
			w.resolve()
		default:
			w.Fatalf("the last retry: %v; first told %q", m, w.outcome)
		}
	}
}

// drain lets everybody go on until nobody is at a gate.
func (w *plot) drain() {
	for {
		synctest.Wait()
		if i := slices.IndexFunc(w.all, func(m *mortal) bool { return m.frozen }); i >= 0 {
			w.all[i].melt()
			continue
		}
		waiting := w.waiting()
		switch {
		case len(waiting) > 0:
			waiting[0].turn <- pass
		case slices.ContainsFunc(w.all, func(m *mortal) bool { return !m.over }):
			time.Sleep(100 * time.Millisecond) // it waits to try again
		default:
			return
		}
	}
}

// end leaves no goroutine behind.
func (w *plot) end() {
	for _, m := range w.all {
		if m.frozen {
			m.melt()
		}
		m.dead = true
	}
	for {
		synctest.Wait()
		waiting := w.waiting()
		if len(waiting) == 0 {
			break
		}
		for _, m := range waiting {
			m.turn <- die
		}
	}
	time.Sleep(time.Minute) // whoever waits to try again, and every timer, ends
}
