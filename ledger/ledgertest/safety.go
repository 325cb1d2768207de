package ledgertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/foilmcp/foil/ledger"
)

func testPing(t *testing.T, h *Harness) {
	p, ok := h.Store.(ledger.Pinger)
	if !ok {
		t.Skip("needs a store that implements ledger.Pinger")
	}
	for n := range 3 {
		good(t, "Ping", p.Ping(t.Context()))
		if got := all(t, h.Store, ledger.Query{}, nil); len(got) != n {
			t.Fatalf("List has %d operations after Ping, want %d", len(got), n)
		}
		h.running(t)
	}
}

// every calls every method; id and fence are of an operation that is executing,
// fresh starts another, and unknown is of one that is unknown.
func every(ctx context.Context, s ledger.Store, id [ledger.IDLen]byte, fence uint64, fresh *ledger.Start, unknown [ledger.IDLen]byte) map[string]error {
	errs := runs(ctx, s, id, fence)
	for name, err := range takes(ctx, s, unknown, 1) {
		errs[name] = err
	}
	_, started, err := s.Begin(ctx, fresh)
	if started && err != nil {
		err = nil // both at once is as bad as no error
	}
	errs["Begin"] = err
	_, errs["Get"] = s.Get(ctx, id)
	_, _, errs["List"] = s.List(ctx, ledger.Query{})
	errs["Finish"] = s.Finish(ctx, id, fence, done("of every"))
	if p, ok := s.(ledger.Pinger); ok {
		errs["Ping"] = p.Ping(ctx)
	}
	if c, ok := s.(ledger.Counter); ok {
		_, errs["Counts"] = c.Counts(ctx)
	}
	return errs
}

func testContext(t *testing.T, h *Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	op, unknown, fresh := h.running(t), h.undecided(t), h.start()
	before, unknownBefore := get(t, h.Store, op.ID), get(t, h.Store, unknown.ID)
	for name, err := range every(ctx, h.Store, op.ID, 1, fresh, unknown.ID) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: error %v, want context.Canceled", name, err)
		}
	}
	same(t, "after that", get(t, h.Store, op.ID), before)
	same(t, "after that", get(t, h.Store, unknown.ID), unknownBefore)
	begin(t, h.Store, fresh)
}

func testAliasing(t *testing.T, h *Harness) {
	s := h.start()
	s.Principal = bytes.Repeat([]byte("p"), ledger.PrincipalLen)
	result, outcome := []byte("result"), []byte("outcome")
	spoil := func(b []byte) {
		for i := range b {
			b[i] = '!'
		}
	}
	spoilAll := func(op *ledger.Operation) {
		spoil(op.Principal)
		spoil(op.Outcome)
		for i := range op.Steps {
			spoil(op.Steps[i].Result)
			op.Steps[i].Name = "spoilt"
		}
	}
	check := func(what string) {
		t.Helper()
		op := get(t, h.Store, s.ID)
		if string(op.Principal) != strings.Repeat("p", ledger.PrincipalLen) ||
			len(op.Steps) > 0 && (op.Steps[0].Name != "step" || string(op.Steps[0].Result) != "result") ||
			op.Outcome != nil && string(op.Outcome) != "outcome" {
			t.Fatalf("%s shares memory with its caller", what)
		}
		spoilAll(op)
	}
	op := begin(t, h.Store, s)
	spoil(s.Principal)
	check("Begin, of what it was given,")
	spoilAll(op)
	check("Begin, of what it returned,")
	check("Get")
	good(t, "EndStep", h.Store.EndStep(t.Context(), s.ID, 1, "step", result, long))
	spoil(result)
	check("EndStep")
	spoil(beginStep(t, h.Store, s.ID, 1, "step").Result)
	check("BeginStep")
	good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, ledger.Finish{State: ledger.Unknown}))
	op, err := h.Store.Resume(t.Context(), s.ID, 1, long)
	good(t, "Resume", err)
	spoilAll(op)
	check("Resume")
	good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 2, ledger.Finish{State: ledger.Succeeded, Outcome: outcome}))
	spoil(outcome)
	check("Finish")
	s.Principal = bytes.Repeat([]byte("p"), ledger.PrincipalLen)
	op, _, err = h.Store.Begin(t.Context(), s)
	good(t, "Begin", err)
	spoilAll(op)
	check("Begin, of what was there,")
	page, _, err := h.Store.List(t.Context(), ledger.Query{})
	good(t, "List", err)
	spoilAll(&page[0])
	check("List")

	s = h.start()
	s.Principal = bytes.Repeat([]byte("p"), ledger.PrincipalLen)
	begin(t, h.Store, s)
	good(t, "Finish", h.Store.Finish(t.Context(), s.ID, 1, ledger.Finish{State: ledger.Unknown}))
	outcome = []byte("outcome")
	good(t, "Resolve", h.Store.Resolve(t.Context(), s.ID, 1, ledger.Resolution{State: ledger.Failed, Outcome: outcome, By: "operator"}))
	spoil(outcome)
	check("Resolve")
}

// testErrors provokes every error that it can and reads it as a log would show it.
func testErrors(t *testing.T, h *Harness) {
	const word = "outcome-of-the-test"
	s := h.brief()
	s.Principal = []byte("principal-tag-of-24-byte")
	unknown := h.undecided(t)
	secrets := map[string][]byte{
		"an ID": s.ID[:], "another ID": unknown.ID[:], "an outcome": []byte(word), "a principal": s.Principal,
	}
	read := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		for name, secret := range secrets {
			checkText(t, what, name, text, secret)
		}
		if h.Secret != "" && strings.Contains(text, h.Secret) {
			t.Errorf("error of %s contains what the store authenticates with", what)
		}
	}
	_, err := h.Store.Get(t.Context(), s.ID)
	read("Get of what is not there", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range every(ctx, h.Store, s.ID, 1, s, unknown.ID) {
		read(name+" with a cancelled context", err)
	}
	begin(t, h.Store, s)
	read("Finish with another fence", h.Store.Finish(t.Context(), s.ID, 2, done(word)))
	read("EndStep with another fence", h.Store.EndStep(t.Context(), s.ID, 2, "step", []byte(word), long))
	read("Resolve with another fence", h.Store.Resolve(t.Context(), s.ID, 2, found(word)))
	read("Finish as executing", h.Store.Finish(t.Context(), s.ID, 1, ledger.Finish{State: ledger.Executing, Outcome: []byte(word)}))
	read("Resolve by nobody", h.Store.Resolve(t.Context(), unknown.ID, 1, ledger.Resolution{State: ledger.Failed, Outcome: []byte(word)}))
	if h.MaxOutcome > 0 {
		large := []byte(word + strings.Repeat("x", h.MaxOutcome))
		read("Finish with a long outcome", h.Store.Finish(t.Context(), s.ID, 1, ledger.Finish{State: ledger.Failed, Outcome: large}))
	}
	bad := *s
	bad.Round = 0
	_, _, err = h.Store.Begin(t.Context(), &bad)
	read("Begin with round 0", err)
	if h.Break != nil {
		restore := h.Break(t)
		for name, err := range every(t.Context(), h.Store, s.ID, 1, s, unknown.ID) {
			read(name+" without a backend", err)
		}
		read("Finish without a backend", h.Store.Finish(t.Context(), s.ID, 1, done(word)))
		restore()
	}
	_ = h.Store.Finish(t.Context(), s.ID, 1, done("of every")) // unless it is
	if h.Sweep != nil {
		h.pass(h.short() + h.Skew)
		h.sweep(t)
		_, _, err := h.Store.Begin(t.Context(), s)
		read("Begin of what was forgotten", err)
	}
	if h.Restored != nil {
		h.Restored(t)
		old := idAt(h.start(), h.now().AddDate(-1, 0, 0))
		secrets["an ID"] = old.ID[:]
		_, _, err := h.Store.Begin(t.Context(), old)
		read("Begin of what is older than the restored store", err)
	}
}

// checkText fails if text contains secret in any of the spellings that a program
// is likely to print.
func checkText(t *testing.T, what, name, text string, secret []byte) {
	t.Helper()
	h := hex.EncodeToString(secret)
	leaks := []string{string(secret), fmt.Sprint(secret), fmt.Sprintf("%#v", secret), h, base64.StdEncoding.EncodeToString(secret)}
	if len(secret) == ledger.IDLen {
		leaks = append(leaks, h[:8]+"-"+h[8:12]+"-"+h[12:16]+"-"+h[16:20]+"-"+h[20:])
	}
	for _, quoted := range []string{fmt.Sprintf("%q", secret), fmt.Sprintf("%+q", secret)} {
		leaks = append(leaks, strings.Trim(quoted, `"`))
	}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		leaks = append(leaks, e.EncodeToString(secret))
	}
	for _, leak := range leaks {
		if strings.Contains(strings.ToLower(text), strings.ToLower(leak)) {
			t.Errorf("error of %s contains %s", what, name)
			return
		}
	}
}
