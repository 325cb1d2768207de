package attack

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/foilmcp/foil"
)

// rounds are attacks on the flow as a whole.
func rounds() []Attack {
	return []Attack{
		{
			Name: "too-many-rounds", Does: "goes on asking: one round more than the limit", StoppedBy: "flow limits",
			must: []string{Refused}, binding: foil.BindExpiry,
			run: func(b *bout) (string, error) {
				m := b.Minter.maxRounds()
				if v, err := b.same(b.minted("the last round allowed", func(t *Minting) { t.Round = m })); v != Accepted {
					return "within the limit " + v, err
				}
				return b.each(b.minted("one round more", func(t *Minting) { t.Round = m + 1 }))
			},
		},
		{
			Name: "past-deadline", Does: "a fresh round of a flow that is older than its deadline", StoppedBy: "flow limits",
			must: []string{Refused}, binding: foil.BindExpiry,
			run: func(b *bout) (string, error) {
				flow := func(limit time.Duration) func(*Minting) {
					return func(t *Minting) { t.At, t.FlowLimit = b.Minter.now().Add(-time.Minute), limit }
				}
				if v, err := b.same(b.minted("half a minute left", flow(90*time.Second))); v != Accepted {
					return "before the deadline " + v, err
				}
				return b.each(b.minted("now at the deadline", flow(time.Minute)), b.minted("half a minute after", flow(30*time.Second)))
			},
		},
		{
			Name: "second-round", Does: "takes the server's own token for a second round to all of this", StoppedBy: "every binding, in every round",
			must: []string{Refused}, run: runSecond,
		},
	}
}

// answers are attacks on the answers to the questions.
func answers() []Attack {
	return []Attack{
		{
			Name: "pre-answered", Does: "answers a later round's question along with this one", StoppedBy: "questions",
			must: []string{AskedAgain}, binding: foil.BindQuestions,
			// Without the binding it is up to the handler, which may not look ahead.
			without: []string{Accepted, AskedAgain},
			run:     inRounds(runPreAnswered),
		},
		{
			Name: "reworded-question", Does: "answers a question whose wording or form has changed since", StoppedBy: "questions",
			must: []string{AskedAgain}, binding: foil.BindQuestions,
			run: inRounds(func(b *bout) (string, error) {
				for _, change := range []struct{ what, member, value string }{
					{"the wording", "message", `"Tidy up a little?"`},
					{"the form", "requestedSchema", `{"type":"object","properties":{"less":{"type":"boolean"}}}`},
				} {
					v, err := b.unacted(func(f *flow) (*Request, error) {
						other, err := reworded(f.questions, change.member, change.value)
						if err != nil {
							return nil, err
						}
						token, err := b.mint(f, func(m *Minting) { m.Questions = other })
						return f.with(token), err
					})
					if err != nil || !b.expected(v) {
						b.note("with %s", change.what)
						return v, err
					}
				}
				return b.verdict(read(b.last)), nil
			}),
		},
		{
			Name: "other-kind", Does: "answers a question with a result of another kind, or of two", StoppedBy: "questions",
			must: []string{AskedAgain}, binding: foil.BindQuestions,
			// Without the binding it is up to the handler to tell them apart.
			without: []string{Accepted, AskedAgain},
			run:     inRounds(runOtherKind),
		},
		{
			Name: "no-state", Does: "answers, but no state", StoppedBy: "bare answers",
			must: []string{AskedAgain, Refused},
			run: func(b *bout) (string, error) {
				for _, state := range []string{"", `""`, "null"} {
					v, err := b.unacted(func(f *flow) (*Request, error) {
						r := f.retry()
						if r.Params = r.Params.Without("requestState"); state != "" {
							r.Params = r.Params.After(M("requestState", state))
						}
						return r, nil
					})
					if err != nil || !b.expected(v) {
						b.note("with the state %q", state)
						return v, err
					}
				}
				return b.verdict(read(b.last)), nil
			},
		},
	}
}

// unacted presents something that must be asked about again, with nothing done.
func (b *bout) unacted(change func(*flow) (*Request, error)) (string, error) {
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	req, err := change(f)
	if err != nil {
		return "", err
	}
	o, err := b.send(req)
	if err != nil {
		return "", err
	}
	v := b.verdict(o)
	if v != AskedAgain && v != Refused {
		return v, nil
	}
	decided := b.last
	if finding, err := b.did(f, 0); finding != "" || err != nil {
		return v + ", but " + finding, err
	}
	if _, sent := req.Params.Get("requestState"); !sent || v == Refused {
		// What was presented spent nothing of this flow.
		if got, err := b.honest(f); err != nil || got != Accepted {
			return v + ", but then the honest retry: " + got, err
		}
	}
	b.last = decided
	return v, nil
}

func runPreAnswered(b *bout) (string, error) {
	// The attacker has been through such a flow and knows what comes.
	stage := func() (*flow, error) {
		s, err := b.App.Stage(b.ctx, 2)
		if err != nil {
			return nil, fmt.Errorf("stage: %w", err)
		}
		return b.ask(s, Alice, nil)
	}
	known, err := stage()
	if err != nil {
		return "", err
	}
	o, err := b.send(known.retry())
	if err != nil {
		return "", err
	}
	if err := b.asked(known, o); err != nil {
		return "", fmt.Errorf("round 2: %w", err)
	}
	f, err := stage()
	if err != nil {
		return "", err
	}
	both := strings.TrimSuffix(f.answers, "}") + "," + strings.TrimPrefix(known.answers, "{")
	if o, err = b.send(f.answering(both)); err != nil {
		return "", err
	}
	v := b.verdict(o)
	if v != AskedAgain {
		return v, nil
	}
	decided := b.last
	if finding, err := b.did(f, 0); finding != "" || err != nil {
		return "asked again, but " + finding, err
	}
	// The flow goes on honestly from there.
	if err := b.asked(f, o); err != nil {
		return "", err
	}
	if v, err := b.honest(f); err != nil || v != Accepted {
		return "asked again, but then the honest answer: " + v, err
	}
	b.last = decided
	return AskedAgain, nil
}

// runOtherKind answers with what the specification calls another result (MCP
// 2026-07-28, InputResponse).
func runOtherKind(b *bout) (string, error) {
	for _, form := range []struct{ what, answer string }{
		{"a sampled message", `{"role":"assistant","content":{"type":"text","text":"accept"},"model":"m"}`},
		{"a list of roots", `{"roots":[]}`},
		{"consent that is a list of roots too", `{"action":"accept","content":{},"roots":[]}`},
		{"roots that are consent too", `{"roots":[],"action":"accept","content":{}}`},
	} {
		v, err := b.unacted(func(f *flow) (*Request, error) {
			var own map[string]json.RawMessage
			if err := json.Unmarshal([]byte(f.answers), &own); err != nil {
				return nil, fmt.Errorf("read the answers: %w", err)
			}
			var other Members
			for key := range own {
				other = append(other, M(key, form.answer))
			}
			return f.answering(other.JSON()), nil
		})
		if err != nil || !b.expected(v) {
			b.note("with %s", form.what)
			return v, err
		}
	}
	return b.verdict(read(b.last)), nil
}

// declined answers every question with a decline.
func declined(questions json.RawMessage) (string, error) {
	var qs map[string]json.RawMessage
	if err := json.Unmarshal(questions, &qs); err != nil {
		return "", fmt.Errorf("read the questions: %w", err)
	}
	no := make(map[string]map[string]string, len(qs))
	for key := range qs {
		no[key] = map[string]string{"action": "decline"}
	}
	text, err := json.Marshal(no)
	return string(text), err
}

// reworded changes a member of every question.
func reworded(questions json.RawMessage, member, value string) (json.RawMessage, error) {
	var qs map[string]struct {
		Method string                     `json:"method"`
		Params map[string]json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(questions, &qs); err != nil {
		return nil, fmt.Errorf("read the questions: %w", err)
	}
	for _, q := range qs {
		if q.Params == nil {
			return nil, fmt.Errorf("a question has no params")
		}
		q.Params[member] = json.RawMessage(value)
	}
	return json.Marshal(qs)
}
