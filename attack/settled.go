package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/foilmcp/foil"
)

// settled are presentations of a token whose flow has come to its end.
func settled() []Attack {
	return []Attack{
		{
			Name: "answers-changed", Does: "the token of a flow that has ended, with other answers", StoppedBy: "ledger",
			must: []string{Refused}, off: Accepted, run: inRounds(runAnswersChanged),
		},
		{
			Name: "lost-answer", Does: "the same token and answers after the answer was lost on the way", StoppedBy: "ledger",
			must: []string{Refused}, settle: []string{Recorded}, off: Accepted, run: inRounds(runLostAnswer),
		},
	}
}

func runAnswersChanged(b *bout) (string, error) {
	for _, form := range []struct {
		what   string
		change func(*flow) (string, error)
	}{
		{"a decline", func(f *flow) (string, error) { return declined(f.questions) }},
		{"another value", func(f *flow) (string, error) {
			return answersWith(f.answers, func(answer map[string]json.RawMessage) { answer["content"] = json.RawMessage(`{"another":1}`) })
		}},
		{"no answers", func(*flow) (string, error) { return "{}", nil }},
	} {
		f, err := b.spend(0)
		if err != nil {
			return "", err
		}
		other, err := form.change(f)
		if err != nil {
			return "", err
		}
		o, err := b.send(f.answering(other))
		if err != nil {
			return "", err
		}
		v := b.verdict(o)
		if v == AskedAgain && b.Mode.Once == foil.Off {
			continue // what they are worth is up to the handler
		}
		if v == Refused {
			decided := b.last
			if v, err = b.once(f, v); err == nil && v == Refused {
				v, err = b.unchanged(f)
			}
			b.last = decided
		}
		if err != nil || !b.expected(v) {
			b.note("with %s", form.what)
			return v, err
		}
	}
	return b.attack.Expect(b.Mode)[0], nil
}

// unchanged checks that the honest retry of a flow that has ended gets what this
// mode gives it, although another one was refused.
func (b *bout) unchanged(f *flow) (string, error) {
	o, err := b.send(f.retry())
	if err != nil {
		return "", err
	}
	want := Refused
	if b.Mode.Once == foil.Settle {
		want = Recorded
	}
	if v := b.verdict(o); v != want {
		return "refused, but then the honest retry: " + v, nil
	}
	v, err := b.once(f, Refused)
	return v, err
}

// runLostAnswer asks again in every way that leaves the question the same.
func runLostAnswer(b *bout) (string, error) {
	f, err := b.spend(0)
	if err != nil {
		return "", err
	}
	marked, err := answersWith(f.answers, func(answer map[string]json.RawMessage) { answer["_meta"] = json.RawMessage(`{"example.org/try":2}`) })
	if err != nil {
		return "", err
	}
	var verdict string
	for _, form := range []struct {
		what   string
		change func(*Request)
	}{
		{"the same request", func(*Request) {}},
		{"another JSON-RPC id", func(r *Request) { r.ID = `"another"` }},
		{"another try in the answers' _meta", func(r *Request) { r.Params = r.Params.Set("inputResponses", marked) }},
		{"every other replica", func(r *Request) { r.Replica = b.elsewhere(f.asked) }},
	} {
		req := f.retry()
		form.change(req)
		o, err := b.send(req)
		if err != nil {
			return "", err
		}
		v := b.verdict(o)
		if v == Refused || v == Recorded {
			v, err = b.once(f, v)
		}
		if err != nil || !b.expected(v) {
			b.note("with %s", form.what)
			return v, err
		}
		verdict = v
	}
	return verdict, nil
}

// answersWith changes every answer.
func answersWith(answers string, change func(map[string]json.RawMessage)) (string, error) {
	var all map[string]map[string]json.RawMessage
	if err := json.Unmarshal([]byte(answers), &all); err != nil {
		return "", fmt.Errorf("read the answers: %w", err)
	}
	for _, answer := range all {
		change(answer)
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// runLate presents tokens after their time: none may start anything then. Under
// Settle what was carried out in time is told again.
func runLate(b *bout) (string, error) {
	m := b.Minter
	aged := func(d time.Duration) func(*Minting) {
		return func(t *Minting) { t.At = m.now().Add(-d) }
	}
	// A token that is nearly as old is good, so it is the age.
	if v, err := b.same(b.minted("half a minute left", aged(m.ttl()-30*time.Second))); v != Accepted {
		return "before exp " + v, err
	}
	expect := b.expect
	if b.Mode.Once == foil.Settle && !b.Mode.Without.Has(foil.BindExpiry) {
		b.expect = []string{Refused}
	}
	v, err := b.each(
		b.minted("now at exp", aged(m.ttl())),
		b.minted("a second after exp", aged(m.ttl()+time.Second)),
		b.minted("a day after exp", aged(m.ttl()+24*time.Hour)),
	)
	b.expect = expect
	if err != nil || v != Refused || b.Mode.Once != foil.Settle {
		return v, err
	}
	b.note("what was never carried out was refused")
	for _, x := range []struct {
		what     string
		deadline bool
	}{{"past exp", false}, {"past the flow's deadline", true}} {
		f, err := b.spend(0)
		if err != nil {
			return "", err
		}
		if f.token, err = b.elapsed(f.token, x.deadline); err != nil {
			return "", err
		}
		if v, err = b.again(f, 0); err != nil || v != Recorded {
			b.note("with one that was carried out, %s", x.what)
			return v, err
		}
	}
	return Recorded, nil
}

var (
	timesOfRound = regexp.MustCompile(`"iat":[0-9.]+,"exp":[0-9.]+`)
	deadlineOf   = regexp.MustCompile(`,"dl":[0-9.]+`)
)

// elapsed is a token as it will be when its time has passed: the same but for its
// times, of which the deadline is changed only on demand.
func (b *bout) elapsed(token string, pastDeadline bool) (string, error) {
	payload, err := b.Minter.Payload(b.ctx, token)
	if err != nil {
		return "", fmt.Errorf("read the honest token: %w", err)
	}
	// In a string the quotes would be escaped, so these are the claims.
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	over := b.Minter.now().Add(-time.Second)
	times := `"iat":` + seconds(over.Add(-b.Minter.ttl())) + `,"exp":` + seconds(over)
	if !timesOfRound.Match(payload) || !deadlineOf.Match(payload) {
		return "", errors.New("the token's times are not where they should be")
	}
	payload = timesOfRound.ReplaceAllLiteral(payload, []byte(times))
	if pastDeadline {
		payload = deadlineOf.ReplaceAllLiteral(payload, []byte(`,"dl":`+seconds(over)))
	}
	old, err := b.Minter.Codecs[Active].Seal(b.ctx, payload, b.Minter.now().Add(24*time.Hour))
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	b.hide("a token", old)
	b.mu.Lock()
	b.told[quote(old)] = b.told[quote(token)]
	b.mu.Unlock()
	return old, nil
}
