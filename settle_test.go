package foil_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
)

// anyLedger hides that a memory store dies with the process: so does the test.
type anyLedger struct{ ledger.Store }

// settled is a bench whose Guard settles.
type settled struct {
	*bench
	ledger *ledger.Memory
	checks *claimcheck.Memory
}

func newSettled(t *testing.T, change func(*foil.Options)) *settled {
	t.Helper()
	s := &settled{}
	s.bench = newBench(t, func(o *foil.Options) {
		s.ledger = ledger.NewMemory(&ledger.MemoryOptions{Now: o.Now})
		o.Once, o.Replay, o.Ledger = foil.Settle, nil, anyLedger{s.ledger}
		s.checks = claimcheck.NewMemory(&claimcheck.MemoryOptions{Now: o.Now})
		o.Claims = s.checks
		if change != nil {
			change(o)
		}
	})
	return s
}

// answering is a request with answers.
func answering(answers string) foil.Request {
	r := purge()
	r.Answers = []byte(answers)
	return r
}

// start opens a token that must execute.
func (s *settled) start(t *testing.T, req foil.Request, token string) *foil.Opened {
	t.Helper()
	o, err := s.Open(ctx, req, token)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := o.Recorded(); ok || o.Execution() == nil {
		t.Fatal("does not execute")
	}
	return o
}

func (s *settled) conclude(t *testing.T, o *foil.Opened, c foil.Conclusion) {
	t.Helper()
	if err := o.Conclude(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// wantRecorded opens a token whose outcome must be told again.
func (s *settled) wantRecorded(t *testing.T, req foil.Request, token, result string) *foil.Recorded {
	t.Helper()
	o, err := s.Open(ctx, req, token)
	if err != nil {
		t.Fatalf("recorded outcome: %v", err)
	}
	r, ok := o.Recorded()
	if !ok || o.Execution() != nil {
		t.Fatal("executes again")
	}
	if string(r.Result) != result {
		t.Errorf("told %q, want %q", r.Result, result)
	}
	return r
}

func wantOperation(t *testing.T, err error, state ledger.State) *foil.OperationError {
	t.Helper()
	e, ok := errors.AsType[*foil.OperationError](err)
	if !ok || e.State != state || !errors.Is(err, foil.ErrOperation) || errors.Is(err, foil.ErrInvalid) || errors.Is(err, foil.ErrUnavailable) {
		t.Fatalf("got %v, want operation %v", err, state)
	}
	return e
}

func TestSettleTellsAgain(t *testing.T) {
	s := newSettled(t, nil)
	token := s.seal(t, purge(), confirm())
	o := s.start(t, answering(accepted), token)
	e := wantOperation(t, openErr(s, answering(accepted), token), ledger.Executing)
	if w := foil.Wire(e); w.Code != -32000 || string(w.Data) != `{"reason":"operation_in_progress","retry_after_ms":2000}` {
		t.Errorf("wire %+v", w)
	}
	const result = `{"content":[{"type":"text","text":"9007199254740993"}]}`
	s.conclude(t, o, foil.Conclusion{Result: []byte(result)})
	for range 4 {
		r := s.wantRecorded(t, answering(accepted), token, result)
		if r.Failed || r.IsError || r.Token != "" || r.Lost || !r.At.Equal(s.now.Truncate(time.Millisecond)) {
			t.Errorf("recorded %+v", r)
		}
	}
	// _meta and the order of members are the client's to change.
	s.wantRecorded(t, answering(`{"confirm":{"content":{"ok":true},"_meta":{"n":1},"action":"accept"}}`), token, result)
}

func openErr(s *settled, req foil.Request, token string) error {
	_, err := s.Open(ctx, req, token)
	return err
}

func TestSettleAnswersChanged(t *testing.T) {
	s := newSettled(t, nil)
	token := s.seal(t, purge(), confirm())
	o := s.start(t, answering(`{"confirm":{"action":"decline"}}`), token)
	for _, ended := range []bool{false, true} {
		if ended {
			s.conclude(t, o, foil.Conclusion{Result: []byte(`{}`)})
		}
		for _, answers := range []string{
			accepted, ``, `{}`, `{"confirm":{"action":"decline","content":null}}`, `{"confirm":{"action":"cancel"}}`,
		} {
			wantReason(t, openErr(s, answering(answers), token), foil.ReasonAnswersChanged)
		}
	}
	// What nobody had asked is dropped before.
	s.wantRecorded(t, answering(`{"confirm":{"action":"decline"},"other":{"action":"accept"}}`), token, `{}`)
}

// Every binding holds for the telling, too.
func TestSettleBindings(t *testing.T) {
	s := newSettled(t, nil)
	token := s.seal(t, purge(), confirm())
	s.conclude(t, s.start(t, answering(accepted), token), foil.Conclusion{Result: []byte(`"secret"`)})
	bob := answering(accepted)
	bob.Principal = foil.OAuth("app", "https://issuer.example", "bob")
	wantReason(t, openErr(s, bob, token), foil.ReasonPrincipal)
	other := answering(accepted)
	other.Arguments = []byte(`{"prefix":"secrets/"}`)
	wantReason(t, openErr(s, other, token), foil.ReasonArguments)
}

// Expiry refuses to start and not to read.
func TestSettleExpiry(t *testing.T) {
	s := newSettled(t, nil)
	ran, idle := s.seal(t, purge(), confirm()), s.seal(t, purge(), confirm())
	s.conclude(t, s.start(t, answering(accepted), ran), foil.Conclusion{Result: []byte(`1`)})
	s.now = s.now.Add(foil.DefaultTTL)
	s.wantRecorded(t, answering(accepted), ran, `1`)
	wantReason(t, openErr(s, answering(accepted), idle), foil.ReasonExpired)
	s.now = s.now.Add(foil.DefaultFlowLimit)
	s.wantRecorded(t, answering(accepted), ran, `1`)
	wantReason(t, openErr(s, answering(accepted), idle), foil.ReasonFlowExpired)
	// A late token that fits nothing else is refused for that, like any other.
	bob := answering(accepted)
	bob.Principal = foil.OAuth("app", "https://issuer.example", "bob")
	wantReason(t, openErr(s, bob, ran), foil.ReasonPrincipal)
	s.now = s.now.Add(23*time.Hour - foil.DefaultTTL)
	s.wantRecorded(t, answering(accepted), ran, `1`)
}

// A question is an outcome too: it is asked again under the same identity.
func TestSettleAsksAgain(t *testing.T) {
	s := newSettled(t, nil)
	one := s.seal(t, purge(), confirm())
	o := s.start(t, answering(accepted), one)
	out := confirm()
	out.Prev, out.State = o, "round two"
	two := s.seal(t, purge(), out)
	s.conclude(t, o, foil.Conclusion{Result: []byte(`{"ask":1}`), Asks: true})

	s.now = s.now.Add(5 * time.Minute)
	r := s.wantRecorded(t, answering(accepted), one, `{"ask":1}`)
	if r.Token == "" || r.Token == two {
		t.Fatalf("token %q", r.Token)
	}
	s.now = s.now.Add(6 * time.Minute) // two is over, its copy is not
	done := s.start(t, answering(accepted), r.Token)
	if done.State() != "round two" || done.Round() != 2 || done.Flow() != o.Flow() || !done.Deadline().Equal(o.Deadline()) {
		t.Errorf("the copy holds %q, %v, deadline %v", done.State(), done, done.Deadline())
	}
	s.conclude(t, done, foil.Conclusion{Result: []byte(`"done"`)})
	s.wantRecorded(t, answering(accepted), r.Token, `"done"`)
	s.wantRecorded(t, answering(accepted), two, `"done"`) // one identity: late, and executed
	fresh := s.wantRecorded(t, answering(accepted), one, `{"ask":1}`)
	s.wantRecorded(t, answering(accepted), fresh.Token, `"done"`)

	s.now = epoch.Add(foil.DefaultFlowLimit - time.Minute)
	near := s.wantRecorded(t, answering(accepted), one, `{"ask":1}`)
	if o, err := s.Open(ctx, answering(accepted), near.Token); err != nil || o.Expires().After(o.Deadline()) {
		t.Errorf("a copy outlives its flow: %v", err)
	}
	s.now = epoch.Add(foil.DefaultFlowLimit)
	s.wantRecorded(t, answering(accepted), near.Token, `"done"`)
	wantReason(t, openErr(s, answering(accepted), one), foil.ReasonFlowExpired)
}

func TestSettleAskWithoutSeal(t *testing.T) {
	s := newSettled(t, nil)
	token := s.seal(t, purge(), confirm())
	o := s.start(t, answering(accepted), token)
	wantOperation(t, o.Conclude(ctx, foil.Conclusion{Result: []byte(`{}`), Asks: true}), ledger.Unknown)
}

func TestSettleUnknown(t *testing.T) {
	boom := errors.New("boom: secret detail")
	for name, c := range map[string]struct {
		end  foil.Conclusion
		want ledger.State
	}{
		"error":     {foil.Conclusion{Err: boom}, ledger.Unknown},
		"no effect": {foil.Conclusion{Err: ledger.NoEffect(boom), Result: []byte(`{"code":1}`)}, ledger.Failed},
		"failed":    {foil.Conclusion{Failed: true, Result: []byte(`{}`)}, ledger.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSettled(t, nil)
			token := s.seal(t, purge(), confirm())
			o := s.start(t, answering(accepted), token)
			s.conclude(t, o, c.end)
			if c.want == ledger.Failed {
				r := s.wantRecorded(t, answering(accepted), token, string(c.end.Result))
				if !r.Failed || r.IsError != (c.end.Err != nil) {
					t.Errorf("recorded %+v", r)
				}
				return
			}
			e := wantOperation(t, openErr(s, answering(accepted), token), ledger.Unknown)
			if w := foil.Wire(e); w.Code != -32000 || string(w.Data) != `{"reason":"operation_unknown","flow":"`+o.Flow()+`"}` {
				t.Errorf("wire %+v", w)
			}
			if strings.Contains(s.log.String(), "secret detail") {
				t.Error("the handler's error is in the log")
			}
		})
	}
}

// A process that died leaves an operation that nobody executes again by itself.
func TestSettleLapse(t *testing.T) {
	s := newSettled(t, nil)
	token := s.seal(t, purge(), confirm())
	lost := s.start(t, answering(accepted), token)
	s.now = s.now.Add(foil.DefaultLease)
	for range 2 {
		wantOperation(t, openErr(s, answering(accepted), token), ledger.Unknown)
	}
	s.conclude(t, lost, foil.Conclusion{Result: []byte(`1`)}) // late, and the fence is still its own
	s.wantRecorded(t, answering(accepted), token, `1`)
}

func TestSettleResolved(t *testing.T) {
	s := newSettled(t, nil)
	token := s.seal(t, purge(), confirm())
	lost := s.start(t, answering(accepted), token)
	s.now = s.now.Add(foil.DefaultLease)
	page, _, err := s.ledger.List(ctx, ledger.Query{State: ledger.Unknown})
	if err != nil || len(page) != 1 {
		t.Fatalf("unknown operations: %v, %v", page, err)
	}
	op := page[0]
	r := ledger.Resolution{State: ledger.Succeeded, Outcome: foil.EncodeOutcome([]byte(`"by hand"`)), By: "ops"}
	if err := s.ledger.Resolve(ctx, op.ID, op.Fence, r); err != nil {
		t.Fatal(err)
	}
	if _, err := lost.Dispatch(ctx); err == nil {
		// Within a third of the lease by the process's own clock: the step tells.
		_, err = lost.Execution().Step(ctx, "x", func(context.Context) ([]byte, error) { t.Error("a step after it was resolved"); return nil, nil })
		if !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("step after it was resolved: %v", err)
		}
	}
	wantOperation(t, lost.Conclude(ctx, foil.Conclusion{Result: []byte(`1`)}), ledger.Unknown)
	if r := s.wantRecorded(t, answering(accepted), token, `"by hand"`); r.ResolvedBy != "ops" {
		t.Errorf("resolved by %q", r.ResolvedBy)
	}
}

func TestSettleResumes(t *testing.T) {
	s := newSettled(t, func(o *foil.Options) { o.Resumable = true })
	claim, err := s.checks.Issue(ctx, []byte("the plan"), 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	token := s.seal(t, purge(), foil.Outgoing{State: claim, Questions: confirm().Questions})
	first := s.start(t, answering(accepted), token)
	if got, err := first.Claims().Redeem(ctx, claim); err != nil || string(got) != "the plan" {
		t.Fatalf("plan %q, %v", got, err)
	}
	step := func(o *foil.Opened, name string, want bool) (result string, err error) {
		ran := false
		b, err := o.Execution().Step(ctx, name, func(context.Context) ([]byte, error) { ran = true; return []byte("did " + name), nil })
		if ran != want {
			t.Errorf("step %s ran: %v, want %v", name, ran, want)
		}
		return string(b), err
	}
	if _, err := step(first, "a", true); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("crash")
	if _, err := first.Execution().Step(ctx, "b", func(context.Context) ([]byte, error) { return nil, boom }); err != boom {
		t.Fatalf("a step's own error: %v", err)
	}

	s.now = s.now.Add(foil.DefaultLease)
	wantReason(t, openErr(s, answering(`{"confirm":{"action":"decline"}}`), token), foil.ReasonAnswersChanged)
	s.now = s.now.Add(11 * time.Minute) // the token and the claim are over
	second := s.start(t, answering(accepted), token)
	e := second.Execution()
	if _, ok := e.Done("a"); !ok || !e.Resumed() || !e.Interrupted("b") || e.Interrupted("a") || e.Interrupted("c") {
		t.Error("the second execution does not know what the first has done")
	}
	if got, err := second.Claims().Redeem(ctx, claim); err != nil || string(got) != "the plan" {
		t.Errorf("plan after the crash %q, %v", got, err)
	}
	if got, err := step(second, "a", false); err != nil || got != "did a" {
		t.Errorf("step a: %q, %v", got, err)
	}
	if _, err := step(second, "b", true); err != nil {
		t.Error(err)
	}
	if _, err := step(first, "c", false); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("the first goes on: %v", err)
	}
	if first.IdempotencyKey("b", "p") != second.IdempotencyKey("b", "p") || first.IdempotencyKey("b", "p") == first.IdempotencyKey("bp", "") ||
		first.IdempotencyKey("s", "Q\x00\x00\x00\x01z") == first.IdempotencyKey("s\x00\x00\x00\x06Q", "z") {
		t.Error("idempotency keys")
	}
	s.conclude(t, second, foil.Conclusion{Result: []byte(`2`)})
	wantOperation(t, first.Conclude(ctx, foil.Conclusion{Result: []byte(`1`)}), ledger.Unknown)
	s.wantRecorded(t, answering(accepted), token, `2`)
}

// After the flow's deadline nobody resumes without an operator.
func TestSettleResumeDeadline(t *testing.T) {
	s := newSettled(t, func(o *foil.Options) { o.Resumable = true })
	token := s.seal(t, purge(), confirm())
	s.start(t, answering(accepted), token)
	s.now = s.now.Add(foil.DefaultFlowLimit)
	wantOperation(t, openErr(s, answering(accepted), token), ledger.Unknown)
}

func TestSettleRace(t *testing.T) {
	s := newSettled(t, nil)
	token := s.seal(t, purge(), confirm())
	var executing atomic.Int32
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			o, err := s.Open(ctx, answering(accepted), token)
			switch {
			case err == nil && o.Execution() != nil:
				executing.Add(1)
			case err == nil || !errors.Is(err, foil.ErrOperation):
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if executing.Load() != 1 {
		t.Errorf("%d executions", executing.Load())
	}
}

func TestSettleAuthorize(t *testing.T) {
	var deny atomic.Bool
	s := newSettled(t, func(o *foil.Options) {
		o.Authorize = func(_ context.Context, req foil.Request, o *foil.Opened) error {
			if req.Target != "purge_objects" || o.Round() != 1 {
				t.Errorf("asked about %v, %v", req, o)
			}
			if deny.Load() {
				return errors.New("no more")
			}
			return nil
		}
	})
	token := s.seal(t, purge(), confirm())
	deny.Store(true) // it is not asked for the first
	s.conclude(t, s.start(t, answering(accepted), token), foil.Conclusion{Result: []byte(`1`)})
	wantReason(t, openErr(s, answering(accepted), token), foil.ReasonUnauthorized)
	deny.Store(false)
	s.wantRecorded(t, answering(accepted), token, `1`)
}

func TestSettleTooLarge(t *testing.T) {
	s := newSettled(t, func(o *foil.Options) { o.MaxOutcome = 100 })
	token := s.seal(t, purge(), confirm())
	s.conclude(t, s.start(t, answering(accepted), token), foil.Conclusion{Result: make([]byte, 100)})
	if r := s.wantRecorded(t, answering(accepted), token, ""); !r.Lost || r.Result != nil {
		t.Errorf("recorded %+v", r)
	}
}

// What Begin is given, for the operators and for the time in which it counts.
func TestSettleStart(t *testing.T) {
	var got ledger.Start
	s := newSettled(t, func(o *foil.Options) {
		o.FlowLimit, o.OutcomeRetention = 3*time.Minute, 2*time.Hour
		o.Ledger = &seenLedger{Store: o.Ledger, start: &got}
	})
	token := s.seal(t, purge(), confirm())
	o := s.start(t, answering(accepted), token)
	deadline := o.Deadline()
	if !got.Expires.Equal(deadline) || !got.Keep.Equal(deadline.Add(foil.DefaultSkew)) || got.Retention != 2*time.Hour || got.Lease != foil.DefaultLease {
		t.Errorf("expires %v, keep %v, retention %v, lease %v; deadline %v", got.Expires, got.Keep, got.Retention, got.Lease, deadline)
	}
	if len(got.Principal) != ledger.PrincipalLen || got.Round != 1 || got.Method != purge().Method || got.Target != purge().Target {
		t.Errorf("start %+v", got)
	}
	if ms := ledger.Minted(got.ID); !ms.Equal(epoch.Truncate(time.Millisecond)) {
		t.Errorf("minted %v", ms)
	}
}

type seenLedger struct {
	ledger.Store
	start *ledger.Start
}

func (l *seenLedger) Begin(ctx context.Context, s *ledger.Start) (*ledger.Operation, bool, error) {
	*l.start = *s
	return l.Store.Begin(ctx, s)
}

// A codec is told how long a token may be read, which is longer than it may start
// anything.
func TestSettleReadable(t *testing.T) {
	c := &seenCodec{}
	b := newBench(t, nil)
	c.Codec = b.codec
	for _, once := range []foil.Once{foil.Redeem, foil.Settle} {
		g := b.guard(t, c, func(o *foil.Options) {
			o.Once, o.Ledger = once, anyLedger{ledger.NewMemory(nil)}
		})
		if _, err := g.Seal(ctx, purge(), confirm()); err != nil {
			t.Fatal(err)
		}
		want := epoch.Add(foil.DefaultTTL)
		if once == foil.Settle {
			want = epoch.Add(foil.DefaultFlowLimit + foil.DefaultOutcomeRetention)
		}
		if !c.expires.Equal(want.Truncate(time.Millisecond)) {
			t.Errorf("%v: readable until %v, want %v", once, c.expires, want)
		}
	}
}

type seenCodec struct {
	foil.Codec
	expires time.Time
}

func (c *seenCodec) Seal(ctx context.Context, payload []byte, expires time.Time) (string, error) {
	c.expires = expires
	return c.Codec.Seal(ctx, payload, expires)
}

// Answers differ if anything that was asked for differs, down to where it stands.
func TestSettleAnswersIdentity(t *testing.T) {
	s := newSettled(t, nil)
	two := foil.Outgoing{Questions: []byte(`{"a":` + confirmQuestion + `,"b":` + confirmQuestion + `}`)}
	const yes, no = `{"action":"accept"}`, `{"action":"decline"}`
	token := s.seal(t, purge(), two)
	s.start(t, answering(`{"a":`+yes+`,"b":`+no+`}`), token)
	for _, other := range []string{
		`{"a":` + no + `,"b":` + yes + `}`,
		`{"a":` + yes + `}`,
		`{"a":{"action":"accept","x":"accept"},"b":` + no + `}`,
	} {
		wantReason(t, openErr(s, answering(other), token), foil.ReasonAnswersChanged)
	}
	token = s.seal(t, purge(), two)
	s.start(t, answering(`{"a":{"action":"accept","x":1}}`), token)
	for _, other := range []string{
		`{"b":{"action":"accept","x":1}}`, `{"a":{"action":"accept","y":1}}`, `{"a":{"action":"accept","x":1.0}}`, `{"a":{"action":"accept","_meta":{},"x":2}}`,
	} {
		err := openErr(s, answering(other), token)
		if other == `{"a":{"action":"accept","x":1.0}}` {
			wantOperation(t, err, ledger.Executing) // one exact value, two spellings
			continue
		}
		wantReason(t, err, foil.ReasonAnswersChanged)
	}
}

// What Seal refuses for want of a login, Open refuses too.
func TestSettleNobodyOpens(t *testing.T) {
	lax := newSettled(t, func(o *foil.Options) { o.SettleAnonymous = true })
	strict := lax.guard(t, lax.codec, func(o *foil.Options) {
		o.Once, o.Ledger = foil.Settle, anyLedger{lax.ledger}
	})
	req := answering(accepted)
	req.Principal = foil.Anonymous()
	_, err := strict.Open(ctx, req, lax.seal(t, req, confirm()))
	wantReason(t, err, foil.ReasonPrincipalMissing)
}

// A client that hangs up says nothing of the ledger's health.
func TestSettleHungUp(t *testing.T) {
	s := newSettled(t, nil)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	token := s.seal(t, purge(), confirm())
	if _, err := s.Open(gone, answering(accepted), token); err == nil {
		t.Fatal("opened for a client that is gone")
	}
	s.start(t, answering(accepted), token)
}

// Between redeeming a claim and keeping what it held lies a crash: the operation
// gets its plan again.
func TestSettleClaimAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{}
		s := newSettled(t, func(o *foil.Options) {
			f.Store = o.Ledger
			o.Ledger, o.Resumable = f, true
		})
		claim, err := s.checks.Issue(ctx, []byte("plan"), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		token := s.seal(t, purge(), confirm())
		f.step = func() error { return errDisk }
		if _, err := s.start(t, answering(accepted), token).Claims().Redeem(ctx, claim); !errors.Is(err, foil.ErrUnavailable) {
			t.Fatalf("a plan that could not be kept: %v", err)
		}
		f.step = nil
		s.now = s.now.Add(foil.DefaultLease)
		if got, err := s.start(t, answering(accepted), token).Claims().Redeem(ctx, claim); err != nil || string(got) != "plan" {
			t.Errorf("plan %q, %v", got, err)
		}
	})
}

// Settling costs one durable write before the handler and one after.
func TestSettleWrites(t *testing.T) {
	r := new(recorder)
	s := newSettled(t, func(o *foil.Options) { o.Observer = r })
	token := s.seal(t, purge(), confirm())
	r.take()
	o := s.start(t, answering(accepted), token)
	if _, err := o.Dispatch(ctx); err != nil {
		t.Fatal(err)
	}
	s.conclude(t, o, foil.Conclusion{Result: []byte(`1`)})
	want := "ledger begin <nil>; opened open purge_objects flow=true round=1 kid=true bytes=true took=true; operation open purge_objects flow=true round=1: started; " +
		"ledger finish <nil>; operation conclude purge_objects flow=true round=1: succeeded"
	if got := r.take(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.wantRecorded(t, answering(accepted), token, `1`)
	if got := r.take(); !strings.HasSuffix(got, ": recorded") || strings.Count(got, "ledger") != 1 {
		t.Errorf("told again: %s", got)
	}
}
