package ledgertest

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// odd is text that a database would rather not keep.
const odd = "a\x00b\xff\xfe ' \" % \\ \r\n é 𝄞 "

func testBegin(t *testing.T, h *Harness) {
	full := h.start()
	full.Round, full.Method, full.Target = 7, "tools/call "+odd, strings.Repeat("t", ledger.MaxTarget-len(odd))+odd
	full.Principal = bytes.Repeat([]byte{0, 0xff, 'p'}, ledger.PrincipalLen/3)
	zero := h.start() // a zero ID is one like any other, and was minted in 1970
	zero.ID, zero.Flow, zero.Answers, zero.Method, zero.Target = [16]byte{}, [16]byte{}, [32]byte{}, "", ""
	most := h.start()
	for i := range most.Flow {
		most.Flow[i] = 0xff
	}
	most.Round = 1<<31 - 1
	for _, s := range []*ledger.Start{h.start(), full, zero, most} {
		from := h.now()
		op := begin(t, h.Store, s)
		to := h.now()
		for what, op := range map[string]*ledger.Operation{"Begin": op, "Get": get(t, h.Store, s.ID)} {
			if op.ID != s.ID || op.Flow != s.Flow || op.Answers != s.Answers {
				t.Errorf("%s returned another ID, flow or answers", what)
			}
			if op.Round != s.Round || op.Method != s.Method || op.Target != s.Target || !bytes.Equal(op.Principal, s.Principal) {
				t.Errorf("%s returned another round, method, target or principal", what)
			}
			if d := op.Expires.Sub(s.Expires); d <= -time.Millisecond || d >= time.Millisecond {
				t.Errorf("%s returned an Expires that is off by %v", what, d)
			}
			if op.State != ledger.Executing || op.Fence != 1 {
				t.Errorf("%s = %v with fence %d, want executing with fence 1", what, op.State, op.Fence)
			}
			h.within(t, what+": Started", op.Started, from, to)
			h.within(t, what+": LeaseUntil", op.LeaseUntil, from.Add(s.Lease), to.Add(s.Lease))
			if !op.Finished.IsZero() || !op.KeptUntil.IsZero() || op.Outcome != nil || len(op.Steps) != 0 || op.ResolvedBy != "" || op.Note != "" {
				t.Errorf("%s returned an operation that ended before it ran", what)
			}
		}
	}
}

func testBeginAgain(t *testing.T, h *Harness) {
	s := h.start()
	first := begin(t, h.Store, s)
	h.pass(h.short())
	other := *s
	other.Flow, other.Answers, other.Round, other.Method, other.Target = [16]byte{9}, [32]byte{9}, 9, "other", "other"
	other.Principal = make([]byte, ledger.PrincipalLen)
	other.Expires, other.Keep = s.Expires.Add(time.Hour), s.Keep.Add(time.Hour)
	other.Lease, other.Retention = 3*long, 3*long
	for range 3 {
		op, started, err := h.Store.Begin(t.Context(), &other)
		if err != nil || started {
			t.Fatalf("Begin of what is executing: started %v, error %v", started, err)
		}
		same(t, "Begin again", op, first)
		same(t, "Get after Begin again", get(t, h.Store, s.ID), first)
	}
	_, err := h.Store.BeginStep(t.Context(), s.ID, 1, "step", long)
	good(t, "BeginStep", err)
	good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, done("the outcome")))
	ended := get(t, h.Store, s.ID)
	op, started, err := h.Store.Begin(t.Context(), &other)
	if err != nil || started {
		t.Fatalf("Begin of what has ended: started %v, error %v", started, err)
	}
	same(t, "Begin of what has ended", op, bare(ended))
	if string(op.Outcome) != "the outcome" || len(ended.Steps) != 1 {
		t.Errorf("Begin of what has ended returned %d bytes of outcome, and Get %d steps", len(op.Outcome), len(ended.Steps))
	}
}

// bare is op as Begin returns what is there: without its steps.
func bare(op *ledger.Operation) *ledger.Operation {
	b := *op
	b.Steps = nil
	return &b
}

// same fails unless both are alike in all that a store knows.
func same(t *testing.T, what string, got, want *ledger.Operation) {
	t.Helper()
	norm := func(op *ledger.Operation) ledger.Operation {
		n := *op
		for _, p := range []*time.Time{&n.Expires, &n.Started, &n.Finished, &n.LeaseUntil, &n.KeptUntil} {
			*p = p.UTC()
		}
		n.Principal = append([]byte{}, n.Principal...)
		n.Steps = append([]ledger.Step{}, n.Steps...)
		for i := range n.Steps {
			n.Steps[i].Began, n.Steps[i].Ended = n.Steps[i].Began.UTC(), n.Steps[i].Ended.UTC()
		}
		return n
	}
	if g, w := norm(got), norm(want); !reflect.DeepEqual(g, w) {
		t.Errorf("%s: operation is\n%+v\nwant\n%+v", what, g, w)
	}
}

func testDistinct(t *testing.T, h *Harness) {
	base := h.freshID()
	ids := [][ledger.IDLen]byte{base}
	for i := range ledger.IDLen {
		id := base
		id[i] ^= 0x20 // another letter, or another case of it
		ids = append(ids, id)
	}
	ids = append(ids, [16]byte{}, [16]byte{15: 1}, [16]byte{0: 'a'}, [16]byte{0: 'a', 1: ' '}, [16]byte{0: 'A'})
	for i, id := range ids {
		s := h.start()
		s.ID, s.Round = id, i+1
		begin(t, h.Store, s)
	}
	for i, id := range ids {
		if op := get(t, h.Store, id); op.ID != id || op.Round != i+1 {
			t.Errorf("Get of id %d returned another operation", i)
		}
	}
}

func testBadStarts(t *testing.T, h *Harness) {
	for name, spoil := range map[string]func(s *ledger.Start){
		"round 0":              func(s *ledger.Start) { s.Round = 0 },
		"round -1":             func(s *ledger.Start) { s.Round = -1 },
		"a long method":        func(s *ledger.Start) { s.Method = strings.Repeat("m", ledger.MaxName+1) },
		"a long target":        func(s *ledger.Start) { s.Target = strings.Repeat("t", ledger.MaxTarget+1) },
		"a short principal":    func(s *ledger.Start) { s.Principal = make([]byte, ledger.PrincipalLen-1) },
		"no lease":             func(s *ledger.Start) { s.Lease = 0 },
		"a negative lease":     func(s *ledger.Start) { s.Lease = -time.Hour },
		"a lease of an age":    func(s *ledger.Start) { s.Lease = 1<<63 - 1 },
		"a negative retention": func(s *ledger.Start) { s.Retention = -1 },
		"retention of an age":  func(s *ledger.Start) { s.Retention = 1<<63 - 1 },
		"no Expires":           func(s *ledger.Start) { s.Expires = time.Time{} },
		"Expires in 10000":     func(s *ledger.Start) { s.Expires = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"no Keep":              func(s *ledger.Start) { s.Keep = time.Time{} },
	} {
		s := h.start()
		spoil(s)
		if _, started, err := h.Store.Begin(t.Context(), s); started || err == nil {
			t.Errorf("Begin with %s: started %v, error %v; want an error", name, started, err)
		}
		if _, err := h.Store.Get(t.Context(), s.ID); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("Begin with %s left something behind: Get: %v", name, err)
		}
	}
}

func (h *Harness) raceBegin(t *testing.T, stores []ledger.Store) {
	t.Helper()
	notFirst := errors.New("returned what is there")
	for round := range rounds {
		s := h.start()
		n := crowd(t, notFirst, func(i int) error {
			mine := *s
			mine.Round = i + 1
			op, started, err := stores[i%len(stores)].Begin(t.Context(), &mine)
			if err == nil && !started {
				if op == nil || op.ID != s.ID {
					t.Error("Begin that did not start returned no operation, or another")
				}
				return notFirst
			}
			if err == nil && op.Round != i+1 {
				t.Error("Begin that started returned what another wrote")
			}
			return err
		})
		if n != 1 {
			t.Fatalf("round %d: %d of 64 concurrent begins started, want 1", round, n)
		}
	}
}

func testConcurrentBegin(t *testing.T, h *Harness) { h.raceBegin(t, []ledger.Store{h.Store}) }
func testConcurrentBeginPeers(t *testing.T, h *Harness) {
	h.raceBegin(t, []ledger.Store{h.Store, h.peer(t)})
}

func testAbsent(t *testing.T, h *Harness) {
	h.running(t)
	id := h.freshID()
	check := func() {
		t.Helper()
		if op, err := h.Store.Get(t.Context(), id); op != nil || !errors.Is(err, ledger.ErrNotFound) {
			t.Fatalf("Get of what is not there: %v, want ErrNotFound", err)
		}
	}
	check()
	for _, fence := range []uint64{0, 1} {
		allFenced(t, "of what is not there", runs(t.Context(), h.Store, id, fence))
		allFenced(t, "of what is not there", takes(t.Context(), h.Store, id, fence))
		fenced(t, "Finish of what is not there", h.Store.Finish(t.Context(), id, fence, done("outcome")))
		check()
	}
}
