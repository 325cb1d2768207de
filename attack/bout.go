package attack

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/foilmcp/foil"
)

// A bout is one attack being carried out.
type bout struct {
	*Config
	ctx    context.Context
	attack *Attack
	expect []string
	seen   *evidence // of the whole battery
	round  int       // the round that flows begin in; the first if zero

	mu      sync.Mutex // the fields below; an attack may send from several goroutines
	last    *Reply     // the reply that decides
	notes   []string
	secrets []string          // what must not be shown
	told    map[string][]byte // the first result, by the token that was presented
}

func (b *bout) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// hide keeps a secret out of what is shown, and in mind for what was written.
func (b *bout) hide(what string, secrets ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.secrets = append(b.secrets, secrets...)
	b.seen.secret(what, secrets...)
}

// send sends a request and reads the reply.
func (b *bout) send(req *Request) (outcome, error) {
	r, err := b.Door.Send(b.ctx, req)
	if err != nil {
		return outcome{}, err
	}
	o := b.hear(req, r)
	b.mu.Lock()
	b.last = r
	b.mu.Unlock()
	return o, nil
}

// verdict is what a reply means in this attack.
func (b *bout) verdict(o outcome) string {
	switch {
	case o.kind == ambiguous && b.attack.strict, o.kind == serverError && b.attack.foreign:
		return Refused
	case b.Mode.Once == foil.Settle && o.again == same:
		return Recorded
	case b.Mode.Once == foil.Settle && o.again == differs:
		return retold
	}
	return o.kind
}

// expected reports whether v is right.
func (b *bout) expected(v string) bool { return slices.Contains(b.expect, v) }

// A flow is an honest flow after its first question.
type flow struct {
	scene     *Scene
	call      Call
	login     Login
	token     string
	questions []byte
	answers   string // that agree
	asked     int    // the replica that asked, if known
	counted   bool   // scene.Executed counts what call does
}

// begin stages a scene and makes its own call for the first time.
func (b *bout) begin() (*flow, error) { return b.beginAs(Alice, nil) }

// beginAs does it as somebody, or with another call of the scene.
func (b *bout) beginAs(who Login, pick func(*Scene) Call) (*flow, error) {
	s, err := b.App.Stage(b.ctx, 1)
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	return b.ask(s, who, pick)
}

// ask makes the first call on a scene.
func (b *bout) ask(s *Scene, who Login, pick func(*Scene) Call) (*flow, error) {
	f := &flow{scene: s, login: who}
	if f.counted = pick == nil; f.counted {
		f.call = s.own(b.Mode.kind())
	} else {
		f.call = pick(s)
	}
	o, err := b.send(&Request{Method: f.call.Method, Target: f.call.Target, Params: f.call.Params(), Login: who})
	if err != nil {
		return nil, fmt.Errorf("round 1: %w", err)
	}
	if err := b.asked(f, o); err != nil || b.round < 2 {
		return f, err
	}
	later, err := b.inRound(f.token, b.round)
	if err == nil && later == "" {
		err = errors.New("the honest token is of a later round")
	}
	f.token = later
	return f, err
}

// asked takes a question into a flow.
func (b *bout) asked(f *flow, o outcome) (err error) {
	if o.kind != AskedAgain || o.token == "" || len(o.questions) == 0 {
		return fmt.Errorf("%w, but: %s", errNotAsked, o.kind)
	}
	f.token, f.questions, f.asked = o.token, o.questions, o.reply.Replica
	if f.answers, err = f.scene.Accept(o.questions); err != nil {
		return fmt.Errorf("answer the question: %w", err)
	}
	return nil
}

// retry is the complete honest retry.
func (f *flow) retry() *Request { return f.retryOf(f.call) }

// answering is the retry with other answers.
func (f *flow) answering(answers string) *Request {
	r := f.retry()
	r.Params = r.Params.Set("inputResponses", answers)
	return r
}

// retryOf is the retry with another call.
func (f *flow) retryOf(c Call) *Request {
	return f.around(c.Method, c.Target, c.Params())
}

// around is the retry with other members that make the call.
func (f *flow) around(method, target string, call Members) *Request {
	return &Request{
		Method: method, Target: target, ID: "2", Login: f.login,
		Params: call.After(M("inputResponses", f.answers), M("requestState", quote(f.token))),
	}
}

// with is the retry with another token.
func (f *flow) with(token string) *Request {
	r := f.retry()
	r.Params = r.Params.Set("requestState", quote(token))
	return r
}

// as is the retry sent by somebody else.
func (f *flow) as(who Login) *Request {
	r := f.retry()
	r.Login = who
	return r
}

// did checks how often the flow's call has acted; it returns "" or a finding.
func (b *bout) did(f *flow, want int) (string, error) {
	if !f.counted {
		return "", nil
	}
	n, err := f.scene.Executed()
	if err != nil {
		return "", fmt.Errorf("count what was done: %w", err)
	}
	if n != want {
		return fmt.Sprintf("acted %d times, not %d", n, want), nil
	}
	return "", nil
}

// honest presents the honest retry, which must be accepted and act once.
func (b *bout) honest(f *flow) (string, error) {
	o, err := b.send(f.retry())
	if err != nil {
		return "", err
	}
	return b.finished(f, o)
}

// finished is the verdict on a reply that should end a flow well.
func (b *bout) finished(f *flow, o outcome) (string, error) {
	v := b.verdict(o)
	if v != Accepted {
		return v, nil
	}
	if finding, err := b.did(f, 1); finding != "" || err != nil {
		return "accepted, but " + finding, err
	}
	return Accepted, nil
}

// unspent checks after a refusal that nothing was done and the honest retry
// still works; it returns "" or a finding. The reply that decides stays.
func (b *bout) unspent(f *flow) (string, error) {
	decided := b.last
	if finding, err := b.did(f, 0); finding != "" || err != nil {
		return "refused, but " + finding, err
	}
	v, err := b.honest(f)
	if err != nil {
		return "", fmt.Errorf("the honest retry afterwards: %w", err)
	}
	if v != Accepted {
		return "refused, but then the honest retry too: " + v, nil
	}
	b.last = decided
	return "", nil
}

// errNotAsked says that an honest call was not answered by a question.
var errNotAsked = errors.New("the honest call was not answered by a question and a state")

// each plays all variants. The verdict is that of the first one that is not
// expected, else the worst of theirs.
func (b *bout) each(variants ...variant) (string, error) {
	var verdicts []string
	for _, v := range variants {
		if !b.takes(v) {
			continue
		}
		verdict, err := b.play(v)
		if v.own && errors.Is(err, errNotAsked) {
			b.note("the server does not take the honest form of %s", v.what)
			continue
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", v.what, err)
		}
		if !b.expected(verdict) {
			b.note("with %s", v.what)
			return verdict, nil
		}
		verdicts = append(verdicts, verdict)
	}
	if len(verdicts) == 0 {
		return "", errors.New("no form could be presented")
	}
	if len(variants) > 1 {
		b.note("%d forms", len(verdicts))
	}
	// Where more than one verdict is right, the worst of them counts.
	if i := slices.Index(verdicts, Accepted); i >= 0 {
		for _, v := range verdicts {
			if v != Accepted {
				b.note("some forms were %s", v)
				break
			}
		}
		return Accepted, nil
	}
	return verdicts[0], nil
}

func (b *bout) play(v variant) (string, error) {
	f, req, err := v.make()
	if err != nil {
		return "", err
	}
	o, err := b.send(req)
	if err != nil {
		return "", err
	}
	verdict := b.verdict(o)
	if verdict != Refused {
		return verdict, nil
	}
	if finding, err := b.laterToo(req); finding != "" || err != nil {
		return finding, err
	}
	if finding, err := b.unspent(f); finding != "" || err != nil {
		return finding, err
	}
	return b.stays(f, req)
}

// atOnce is how many forms are on their way at a time.
const atOnce = 4

// sharing presents many forms on one flow. They must all be refused.
func (b *bout) sharing(f *flow, forms iter.Seq2[string, *Request]) (string, error) {
	type form struct {
		n    int
		what string
		req  *Request
	}
	var (
		wg    sync.WaitGroup
		queue = make(chan form)
		mu    sync.Mutex
		worst = -1 // the first form that was not refused
		found string
		where string
		fails error
	)
	for range atOnce {
		wg.Go(func() {
			for x := range queue {
				o, err := b.send(x.req)
				verdict := ""
				if err == nil {
					if verdict = b.verdict(o); verdict == Refused {
						continue
					}
				}
				mu.Lock()
				if worst < 0 || x.n < worst {
					worst, found, where, fails = x.n, verdict, x.what, err
				}
				mu.Unlock()
			}
		})
	}
	n := 0
	for what, req := range forms {
		queue <- form{n, what, req}
		n++
		mu.Lock()
		stop := worst >= 0
		mu.Unlock()
		if stop {
			break
		}
	}
	close(queue)
	wg.Wait()
	switch {
	case n == 0:
		return "", errors.New("there was no form to present")
	case fails != nil:
		return "", fmt.Errorf("%s: %w", where, fails)
	case worst >= 0:
		b.note("with %s", where)
		return found, nil
	}
	if n > 1 {
		b.note("%d forms", n)
	}
	if finding, err := b.unspent(f); finding != "" || err != nil {
		return finding, err
	}
	return Refused, nil
}

// tokens presents forms of a flow's token.
func (b *bout) tokens(f *flow, forms iter.Seq2[string, string]) (string, error) {
	return b.sharing(f, func(yield func(string, *Request) bool) {
		for what, token := range forms {
			if token != f.token && !yield(what, f.with(token)) {
				return
			}
		}
	})
}

// mint mints a token for a flow: what it holds already, changed by change.
func (b *bout) mint(f *flow, change func(*Minting)) (string, error) {
	token, err := b.mintOfMany(f, change)
	if err == nil {
		b.hide("a token", token)
	}
	return token, err
}

// mintOfMany mints a token that is not kept in mind for what was written.
func (b *bout) mintOfMany(f *flow, change func(*Minting)) (string, error) {
	state, err := b.Minter.Read(b.ctx, f.token)
	if err != nil {
		return "", fmt.Errorf("read the honest token: %w", err)
	}
	m := Minting{Call: f.call, Login: f.login, State: state, Questions: f.questions, Round: b.round}
	change(&m)
	token, err := b.Minter.Mint(b.ctx, m)
	if err != nil {
		return "", fmt.Errorf("mint: %w", err)
	}
	b.hide("a state", state)
	return token, nil
}
