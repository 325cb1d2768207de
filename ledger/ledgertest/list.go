package ledgertest

import (
	"bytes"
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// all lists page by page; between is called after each page.
func all(t *testing.T, s ledger.Store, q ledger.Query, between func()) []ledger.Operation {
	t.Helper()
	var out []ledger.Operation
	for range 1000 {
		page, next, err := s.List(t.Context(), q)
		good(t, "List", err)
		if limit := cmp.Or(q.Limit, ledger.DefaultLimit); len(page) > limit {
			t.Fatalf("List returned %d operations, the limit is %d", len(page), limit)
		}
		out = append(out, page...)
		if next == "" {
			return out
		}
		q.After = next
		if between != nil {
			between()
		}
	}
	t.Fatal("List has no end")
	return nil
}

func ids(ops []ledger.Operation) (out [][ledger.IDLen]byte) {
	for _, op := range ops {
		out = append(out, op.ID)
	}
	return out
}

// shuffled are the IDs of n fresh operations, of which some start in the same
// millisecond, in the order of List.
func (h *Harness) shuffled(t *testing.T, n int) [][ledger.IDLen]byte {
	t.Helper()
	var ops []ledger.Operation
	for i := range n {
		s := h.start()
		s.ID[0] = byte(101 * i) // not in the order of time
		ops = append(ops, *begin(t, h.Store, s))
		if i%3 == 2 && h.hasClock() {
			h.Advance(time.Millisecond)
		}
	}
	slices.SortFunc(ops, func(a, b ledger.Operation) int {
		return cmp.Or(a.Started.Compare(b.Started), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return ids(ops)
}

func testListOrder(t *testing.T, h *Harness) {
	if got := all(t, h.Store, ledger.Query{}, nil); len(got) != 0 {
		t.Fatalf("List of an empty store has %d operations", len(got))
	}
	want := h.shuffled(t, 12)
	if got := ids(all(t, h.Store, ledger.Query{}, nil)); !slices.Equal(got, want) {
		t.Fatalf("List returned %x\nwant the order of the start, then of the ID, %x", got, want)
	}
	// What happens later does not change the order.
	good(t, "Finish", h.Store.Finish(t.Context(), want[3], 1, done("outcome")))
	good(t, "Renew", h.Store.Renew(t.Context(), want[7], 1, 2*long))
	if got := ids(all(t, h.Store, ledger.Query{}, nil)); !slices.Equal(got, want) {
		t.Fatalf("List returned %x\nwant %x", got, want)
	}
}

func testListFilters(t *testing.T, h *Harness) {
	flow := h.start().Flow
	ofFlow := func() *ledger.Start { s := h.start(); s.Flow = flow; return s }
	want := map[ledger.State][][ledger.IDLen]byte{}
	var inFlow [][ledger.IDLen]byte
	add := func(state ledger.State, s *ledger.Start) {
		t.Helper()
		begin(t, h.Store, s)
		if state == ledger.Succeeded || state == ledger.Failed {
			good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, ledger.Finish{State: state}))
		}
		want[state] = append(want[state], s.ID)
		if s.Flow == flow {
			inFlow = append(inFlow, s.ID)
		}
		h.pass(0)
	}
	lapses := h.start()
	lapses.Lease = h.short()
	add(ledger.Unknown, lapses)
	add(ledger.Executing, ofFlow())
	add(ledger.Succeeded, h.start())
	declared := ofFlow()
	add(ledger.Unknown, declared)
	good(t, "Finish", h.Store.Finish(t.Context(), declared.ID, 1, ledger.Finish{State: ledger.Unknown}))
	add(ledger.Failed, ofFlow())
	add(ledger.Executing, h.start())
	h.pass(h.short())
	for state, want := range want {
		got := all(t, h.Store, ledger.Query{State: state}, nil)
		if !slices.Equal(ids(got), want) {
			t.Errorf("List of what is %v returned %d operations, or others than the %d that are", state, len(got), len(want))
		}
		for _, op := range got {
			if op.State != state {
				t.Errorf("List of what is %v returned one as %v", state, op.State)
			}
		}
	}
	if got := ids(all(t, h.Store, ledger.Query{Flow: flow[:]}, nil)); !slices.Equal(got, inFlow) {
		t.Errorf("List of a flow returned %d operations, want its %d", len(got), len(inFlow))
	}
	if got := ids(all(t, h.Store, ledger.Query{Flow: flow[:], State: ledger.Unknown}, nil)); !slices.Equal(got, [][16]byte{declared.ID}) {
		t.Errorf("List of what is unknown in a flow returned %d operations, want 1", len(got))
	}
	if got := all(t, h.Store, ledger.Query{Flow: make([]byte, ledger.IDLen)}, nil); len(got) != 0 {
		t.Errorf("List of a flow that is none returned %d operations", len(got))
	}
	every := all(t, h.Store, ledger.Query{}, nil)
	for i := range every {
		for j := i; j < len(every); j++ {
			q := ledger.Query{Since: every[i].Started, Until: every[j].Started}
			if got := ids(all(t, h.Store, q, nil)); !slices.Equal(got, ids(every[i:j])) {
				t.Errorf("List from start %d until start %d returned %d operations, want %d", i, j, len(got), j-i)
			}
		}
		if got := all(t, h.Store, ledger.Query{Since: every[i].Started}, nil); len(got) != len(every)-i {
			t.Errorf("List since start %d returned %d operations, want %d", i, len(got), len(every)-i)
		}
		// A bound between two milliseconds counts too.
		q := ledger.Query{Since: every[i].Started.Add(time.Nanosecond), Until: every[i].Started.Add(time.Millisecond)}
		if got := all(t, h.Store, q, nil); len(got) != 0 {
			t.Errorf("List since a nanosecond after start %d returned %d operations, want none", i, len(got))
		}
		q = ledger.Query{Since: every[i].Started, Until: every[i].Started.Add(time.Nanosecond)}
		if got := all(t, h.Store, q, nil); len(got) != 1 {
			t.Errorf("List until a nanosecond after start %d returned %d operations, want 1", i, len(got))
		}
	}
}

func testListPages(t *testing.T, h *Harness) {
	want := h.shuffled(t, 120)
	got := all(t, h.Store, ledger.Query{}, nil) // more than the limit that a zero stands for
	if !slices.Equal(ids(got), want) {
		t.Fatalf("List returned %d operations in its pages, or another order; want %d", len(got), len(want))
	}
	page, next, err := h.Store.List(t.Context(), ledger.Query{Limit: ledger.MaxLimit})
	good(t, "List", err)
	if len(page) != len(want) || next != "" {
		t.Fatalf("List with the greatest limit returned %d operations of %d and the cursor %q", len(page), len(want), next)
	}
	for _, limit := range []int{1, 7, 40} {
		if got := ids(all(t, h.Store, ledger.Query{Limit: limit}, nil)); !slices.Equal(got, want) {
			t.Fatalf("List in pages of %d returned %d operations or another order, want %d", limit, len(got), len(want))
		}
	}
	// Those that start in the meantime come later, or not at all, and disturb
	// no other.
	h.pass(0)
	n := 0
	added := all(t, h.Store, ledger.Query{Limit: 9}, func() {
		if n++; n <= 5 {
			h.running(t)
		}
	})
	if len(added) < len(want) || !slices.Equal(ids(added)[:len(want)], want) {
		t.Fatalf("List returned %d operations while some began, or another order; want %d first", len(added), len(want))
	}
	for _, op := range added[len(want):] {
		if slices.Contains(want, op.ID) {
			t.Fatal("List returned an operation twice")
		}
	}
	// Those that change in the meantime do not shift the rest.
	cut := 0
	left := all(t, h.Store, ledger.Query{Limit: 10, State: ledger.Executing}, func() {
		good(t, "Finish", h.Store.Finish(t.Context(), want[cut], 1, done("outcome"))) // on a page that was listed
		cut++
	})
	if len(left) < len(want) || !slices.Equal(ids(left)[:len(want)], want) {
		t.Fatalf("List of what is executing returned %d operations while some ended, want %d first", len(left), len(want))
	}
}

func testListBare(t *testing.T, h *Harness) {
	s := h.start()
	s.Principal = bytes.Repeat([]byte("p"), ledger.PrincipalLen)
	s.Lease = h.short()
	begin(t, h.Store, s)
	endStep(t, h.Store, s.ID, 1, "step", "result")
	good(t, "Renew", h.Store.Renew(t.Context(), s.ID, 1, h.short()))
	h.pass(h.short())
	good(t, "Resolve", h.Store.Resolve(t.Context(), s.ID, 1, found("outcome")))
	page, _, err := h.Store.List(t.Context(), ledger.Query{})
	good(t, "List", err)
	if len(page) != 1 {
		t.Fatalf("List returned %d operations, want 1", len(page))
	}
	if page[0].Outcome != nil || len(page[0].Steps) != 0 {
		t.Errorf("List returned an outcome of %d bytes and %d steps", len(page[0].Outcome), len(page[0].Steps))
	}
	want := get(t, h.Store, s.ID)
	want.Outcome, want.Steps = nil, nil
	same(t, "List", &page[0], want)
}

func testBadQueries(t *testing.T, h *Harness) {
	h.shuffled(t, 5)
	_, next, err := h.Store.List(t.Context(), ledger.Query{Limit: 2})
	good(t, "List", err)
	for name, q := range map[string]ledger.Query{
		"a negative limit":     {Limit: -1},
		"a limit too high":     {Limit: ledger.MaxLimit + 1},
		"a short flow":         {Flow: make([]byte, ledger.IDLen-1)},
		"a long flow":          {Flow: make([]byte, ledger.IDLen+1)},
		"a state that is none": {State: ledger.Unknown + 1},
		"a word as cursor":     {After: "x"},
		"a space as cursor":    {After: " "},
		"quotes as cursor":     {After: `'"; --`},
		"a cut cursor":         {After: next[:len(next)-1]},
		"a longer cursor":      {After: next + "A"},
		"a cursor and a line":  {After: next + "\n"},
		"a long cursor":        {After: string(bytes.Repeat([]byte("A"), 1<<16))},
	} {
		if page, _, err := h.Store.List(t.Context(), q); err == nil {
			t.Errorf("List with %s returned %d operations and no error", name, len(page))
		}
	}
}

func counts(t *testing.T, h *Harness) ledger.Counts {
	t.Helper()
	c, ok := h.Store.(ledger.Counter)
	if !ok {
		t.Skip("needs a store that implements ledger.Counter")
	}
	n, err := c.Counts(t.Context())
	good(t, "Counts", err)
	return n
}

func testCounts(t *testing.T, h *Harness) {
	want := ledger.Counts{}
	check := func() {
		t.Helper()
		if got := counts(t, h); got != want {
			t.Fatalf("Counts = %+v, want %+v", got, want)
		}
	}
	check()
	for range 4 {
		h.running(t)
	}
	want.Executing = 4
	check()
	h.lapsed(t)
	h.undecided(t)
	want.Unknown = 2
	check()
	for range 3 {
		h.finished(t, h.start())
	}
	want.Succeeded = 3
	check()
	op := h.undecided(t)
	good(t, "Resolve", h.Store.Resolve(t.Context(), op.ID, 1, found("found")))
	want.Failed = 1
	check()
	op = h.undecided(t)
	_, err := h.Store.Resume(t.Context(), op.ID, 1, long)
	good(t, "Resume", err)
	want.Executing++
	check()
}
