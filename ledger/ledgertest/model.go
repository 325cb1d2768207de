package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"pgregory.net/rapid"
)

// Model does with a store what comes to rapid's mind, call after call, and fails
// at the first answer that a tiny obvious model would not have given. It calls
// newHarness once, and keeps the store: each of rapid's checks goes by a flow of
// its own.
func Model(t *testing.T, newHarness func(t *testing.T) *Harness) {
	h := newHarness(t)
	rapid.Check(t, func(t *rapid.T) {
		m := &model{h: h, ops: map[[ledger.IDLen]byte]*modelOp{}}
		m.flow = h.start().Flow
		t.Repeat(map[string]func(*rapid.T){
			"":          m.checkAll,
			"Begin":     m.begin,
			"Renew":     m.renew,
			"Resume":    m.resume,
			"BeginStep": m.beginStep,
			"EndStep":   m.endStep,
			"Finish":    m.finish,
			"Resolve":   m.resolve,
			"List":      m.list,
			"Pass":      m.pass,
			"Sweep":     m.sweep,
		})
	})
}

// model is what a store should know of one flow.
type model struct {
	h    *Harness
	flow [ledger.IDLen]byte
	ids  [][ledger.IDLen]byte // in the order of the start
	ops  map[[ledger.IDLen]byte]*modelOp
}

type modelOp struct {
	start    *ledger.Start
	state    ledger.State // as declared; executing whether or not the lease ran out
	fence    uint64
	lease    time.Time
	finished time.Time
	outcome  []byte
	resolved bool
	steps    []modelStep
	gone     bool // forgotten: it must not start again
}

type modelStep struct {
	name   string
	fence  uint64
	done   bool
	result string
}

// margin is how far the clock of the model may be from that of the store.
func (m *model) margin() time.Duration {
	if m.h.hasClock() {
		return time.Millisecond
	}
	return 2 * time.Second
}

func (o *modelOp) stateAt(now time.Time) ledger.State {
	if o.state == ledger.Executing && now.After(o.lease) {
		return ledger.Unknown
	}
	return o.state
}

func (o *modelOp) over() bool { return o.state == ledger.Succeeded || o.state == ledger.Failed }

// keptUntil is zero while the operation has not ended.
func (o *modelOp) keptUntil() time.Time {
	if !o.over() {
		return time.Time{}
	}
	if end := o.finished.Add(o.start.Retention); end.After(o.start.Keep) {
		return end
	}
	return o.start.Keep
}

// absent is what a store knows of what is not there: no fence fits.
func absent() *modelOp { return &modelOp{state: ledger.Succeeded, fence: 1 << 40} }

// pick is an operation that was begun, or now and then one that was not.
func (m *model) pick(t *rapid.T) ([ledger.IDLen]byte, *modelOp) {
	if len(m.ids) == 0 || rapid.IntRange(0, 19).Draw(t, "absent") == 0 {
		return m.h.freshID(), absent()
	}
	id := rapid.SampledFrom(m.ids).Draw(t, "operation")
	if o := m.ops[id]; o.gone {
		return id, absent()
	} else if m.forgettable(o) {
		return m.h.freshID(), absent() // it may go any moment
	}
	return id, m.ops[id]
}

// fence is the fence of o, or now and then another.
func (m *model) fence(t *rapid.T, o *modelOp) uint64 {
	if o.start == nil {
		return rapid.Uint64Range(0, 2).Draw(t, "fence")
	}
	switch rapid.IntRange(0, 5).Draw(t, "fence") {
	case 0:
		return o.fence + 1
	case 1:
		return o.fence - 1
	}
	return o.fence
}

// draw is a lease. One that ends soon has ended when the call is over.
func (m *model) draw(t *rapid.T) (lease time.Duration, settle func()) {
	if rapid.IntRange(0, 3).Draw(t, "lease") > 0 {
		return long, func() {}
	}
	return time.Millisecond, func() { m.h.pass(2 * time.Millisecond) }
}

func (m *model) expect(t *rapid.T, what string, got, want error) {
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Fatalf("%s: error %v, want %v", what, got, want)
	}
}

// runs is what a call of the process that executes should return.
func (o *modelOp) runs(fence uint64) error {
	if o.fence != fence || o.state != ledger.Executing {
		return ledger.ErrFenced
	}
	return nil
}

func (m *model) begin(t *rapid.T) {
	if len(m.ids) > 0 && rapid.Bool().Draw(t, "again") {
		id := rapid.SampledFrom(m.ids).Draw(t, "operation")
		o := m.ops[id]
		op, started, err := m.h.Store.Begin(t.Context(), o.start)
		switch {
		case started:
			t.Fatal("Begin: started twice")
		case o.gone && m.h.Sweep != nil:
			m.expect(t, "Begin of what is forgotten", err, ledger.ErrSwept)
		case o.gone && err != nil:
			m.expect(t, "Begin of what may be forgotten", err, ledger.ErrSwept)
		case m.forgettable(o) && err != nil:
			m.expect(t, "Begin of what may be forgotten", err, ledger.ErrSwept)
		case !o.gone:
			m.expect(t, "Begin again", err, nil)
			m.compare(t, "Begin", op, o, withOutcome)
		}
		return
	}
	s := m.h.start()
	s.Flow = m.flow
	s.Round = rapid.IntRange(1, 1<<20).Draw(t, "round")
	s.Target = rapid.StringN(0, 8, 32).Draw(t, "target")
	if rapid.Bool().Draw(t, "somebody") {
		s.Principal = rapid.SliceOfN(rapid.Byte(), ledger.PrincipalLen, ledger.PrincipalLen).Draw(t, "principal")
	}
	s.Retention = rapid.SampledFrom([]time.Duration{0, long, 2 * long}).Draw(t, "retention")
	lease, settle := m.draw(t)
	s.Lease = lease
	o := &modelOp{start: s, state: ledger.Executing, fence: 1, lease: m.h.now().Add(lease)}
	op, started, err := m.h.Store.Begin(t.Context(), s)
	m.expect(t, "Begin", err, nil)
	if !started {
		t.Fatal("Begin of what was never begun did not start it")
	}
	m.ids, m.ops[s.ID] = append(m.ids, s.ID), o
	if lease == long {
		m.compare(t, "Begin", op, o, withOutcome)
	}
	settle()
}

func (m *model) renew(t *rapid.T) {
	id, o := m.pick(t)
	fence := m.fence(t, o)
	lease, settle := m.draw(t)
	want := o.runs(fence)
	m.expect(t, "Renew", m.h.Store.Renew(t.Context(), id, fence, lease), want)
	if want == nil {
		o.lease = m.h.now().Add(lease)
	}
	settle()
}

func (m *model) resume(t *rapid.T) {
	id, o := m.pick(t)
	fence := m.fence(t, o)
	lease, settle := m.draw(t)
	var want error
	if o.fence != fence || o.stateAt(m.h.now()) != ledger.Unknown {
		want = ledger.ErrFenced
	}
	op, err := m.h.Store.Resume(t.Context(), id, fence, lease)
	m.expect(t, "Resume", err, want)
	if want == nil {
		o.fence, o.state, o.lease = o.fence+1, ledger.Executing, m.h.now().Add(lease)
		if lease == long {
			m.compare(t, "Resume", op, o, whole)
		}
	}
	settle()
}

func (o *modelOp) step(name string) *modelStep {
	for i := range o.steps {
		if o.steps[i].name == name {
			return &o.steps[i]
		}
	}
	return nil
}

func (m *model) beginStep(t *rapid.T) {
	id, o := m.pick(t)
	fence := m.fence(t, o)
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	lease, settle := m.draw(t)
	want := o.runs(fence)
	got, err := m.h.Store.BeginStep(t.Context(), id, fence, name, lease)
	m.expect(t, "BeginStep", err, want)
	if want == nil {
		o.lease = m.h.now().Add(lease)
		s := o.step(name)
		if s == nil {
			o.steps = append(o.steps, modelStep{name: name})
			s = o.step(name)
		}
		if !s.done {
			s.fence = fence
		}
		m.compareStep(t, &got, s)
	}
	settle()
}

func (m *model) endStep(t *rapid.T) {
	id, o := m.pick(t)
	fence := m.fence(t, o)
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	result := rapid.StringN(0, 8, 32).Draw(t, "result")
	lease, settle := m.draw(t)
	want := o.runs(fence)
	s := o.step(name)
	if want == nil && s != nil && s.done {
		want = ledger.ErrFenced
		// Whether such a call extends the lease is not said.
		lease, settle = long, func() { _ = m.h.Store.Renew(t.Context(), id, fence, long) }
		o.lease = m.h.now().Add(long)
	}
	m.expect(t, "EndStep", m.h.Store.EndStep(t.Context(), id, fence, name, []byte(result), lease), want)
	if want == nil {
		o.lease = m.h.now().Add(lease)
		if s == nil {
			o.steps = append(o.steps, modelStep{name: name})
			s = o.step(name)
		}
		s.fence, s.done, s.result = fence, true, result
	}
	settle()
}

func outcome(t *rapid.T) []byte {
	return rapid.SampledFrom([][]byte{nil, {}, {0}, []byte("a"), []byte("b\xff")}).Draw(t, "outcome")
}

func alike(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func (m *model) finish(t *rapid.T) {
	id, o := m.pick(t)
	fence := m.fence(t, o)
	f := ledger.Finish{State: rapid.SampledFrom([]ledger.State{ledger.Succeeded, ledger.Failed, ledger.Unknown}).Draw(t, "state")}
	if f.State != ledger.Unknown {
		f.Outcome = outcome(t)
	}
	if o.over() && rapid.Bool().Draw(t, "the same") { // as after an answer that was lost
		f = ledger.Finish{State: o.state, Outcome: o.outcome}
	}
	if o.over() && o.state == f.State && bytes.Equal(o.outcome, f.Outcome) && !alike(o.outcome, f.Outcome) {
		return // whether none and an empty one are the same is not said
	}
	var want error
	if o.fence != fence || o.over() && (o.resolved || o.state != f.State || !alike(o.outcome, f.Outcome)) {
		want = ledger.ErrFenced
	}
	if o.fence == fence && o.resolved && o.state == f.State {
		return // nobody has this fence
	}
	m.expect(t, fmt.Sprint("Finish as ", f.State), m.h.Store.Finish(t.Context(), id, fence, f), want)
	if want == nil && !o.over() {
		o.state, o.outcome, o.finished = f.State, f.Outcome, m.h.now()
	}
}

func (m *model) resolve(t *rapid.T) {
	id, o := m.pick(t)
	fence := m.fence(t, o)
	r := ledger.Resolution{
		State:   rapid.SampledFrom([]ledger.State{ledger.Succeeded, ledger.Failed}).Draw(t, "state"),
		Outcome: outcome(t), By: "operator", Note: "a note",
	}
	var want error
	if o.fence != fence || o.stateAt(m.h.now()) != ledger.Unknown {
		want = ledger.ErrFenced
	}
	m.expect(t, "Resolve", m.h.Store.Resolve(t.Context(), id, fence, r), want)
	if want == nil {
		o.fence, o.state, o.outcome, o.finished, o.resolved = o.fence+1, r.State, r.Outcome, m.h.now(), true
	}
}

func (m *model) pass(t *rapid.T) {
	d := time.Millisecond
	if m.h.hasClock() { // else no lease, and no time to keep, may end by the way
		d = rapid.SampledFrom([]time.Duration{time.Millisecond, time.Minute, long, 3 * long}).Draw(t, "time")
	}
	m.h.pass(d)
}

func (m *model) sweep(t *rapid.T) {
	if m.h.Sweep == nil {
		t.Skip("the backend forgets by itself")
	}
	m.expect(t, "Sweep", m.h.Sweep(t.Context()), nil)
	for _, id := range m.ids {
		if o := m.ops[id]; m.forgettable(o) {
			if _, err := m.h.Store.Get(t.Context(), id); !errors.Is(err, ledger.ErrNotFound) {
				t.Fatalf("Get of what is to be forgotten, after the sweep: %v", err)
			}
			o.gone = true
		}
	}
}

// forgettable reports whether a store may forget o by now, but for the margin.
func (m *model) forgettable(o *modelOp) bool {
	return o.over() && m.h.now().After(o.keptUntil().Add(m.h.Skew+m.margin()))
}
