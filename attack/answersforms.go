package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// An askedTwice is a form of answers that two JSON parsers may read differently.
// The forms of one group are consent in one reading and a refusal in another, so a
// server that has one reading acts on at most one of them.
type askedTwice struct {
	what, group string
	answers     string
}

// ambiguities are the forms of the consent to one question.
func ambiguities(answers string) ([]askedTwice, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(answers), &all); err != nil {
		return nil, fmt.Errorf("read the answers: %w", err)
	}
	if len(all) != 1 {
		return nil, errors.New("the scene asks more than one question at once")
	}
	for key, raw := range all {
		key, yes, no := quote(key), string(raw), `{"action":"decline"}`
		rest, ok := strings.CutPrefix(yes, "{")
		if !ok || rest == "}" {
			break
		}
		open := strings.TrimSuffix(yes, "}")
		form := func(what, group string, answers Members) askedTwice { return askedTwice{what, group, answers.JSON()} }
		one := func(value string) Members { return Members{{key, value}} }
		return []askedTwice{
			form("an answer twice, consent last", "answer", Members{{key, no}, {key, yes}}),
			form("an answer twice, consent first", "answer", Members{{key, yes}, {key, no}}),
			form("one key spelt with escapes, consent last", "spelling", Members{{escaped(key), no}, {key, yes}}),
			form("one key spelt with escapes, consent first", "spelling", Members{{escaped(key), yes}, {key, no}}),
			form("the action twice, consent last", "action", one(`{"action":"decline",`+rest)),
			form("the action twice, consent first", "action", one(open+`,"action":"decline"}`)),
			form("a twin of the action before it", "", one(`{"Action":"decline",`+rest)),
			form("a twin of the action behind it", "", one(open+`,"ACTION":"decline"}`)),
			form("a member twice, further inside", "", one(open+`,"_meta":{"x":[{"a":1,"a":2}]}}`)),
			form("twins further inside", "", one(open+`,"_meta":{"x":[{"a":1,"A":2}]}}`)),
		}, nil
	}
	return nil, errors.New("the consent has no members")
}

// runAmbiguousAnswers presents them. A server whose MCP library reads the answers
// before the Guard does cannot see that there was another reading: the Guard, the
// record of the answers and the handler have the one. Then it must be one.
func runAmbiguousAnswers(b *bout) (string, error) {
	read, acted := 0, map[string]int{}
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	forms, err := ambiguities(f.answers)
	if err != nil {
		return "", err
	}
	var last *Request // of those that were refused, and spent nothing
	for i, x := range forms {
		// The answers of a flow differ from another's.
		its, err := ambiguities(f.answers)
		if err != nil {
			return "", err
		}
		req := f.answering(its[i].answers)
		o, err := b.send(req)
		if err != nil {
			return "", fmt.Errorf("%s: %w", x.what, err)
		}
		switch o.kind {
		case Refused, ambiguous, serverError:
			last = req
			continue
		case Accepted, AskedAgain:
			read++
		default:
			b.note("with %s", x.what)
			return o.kind, nil
		}
		n, err := f.scene.Executed()
		if err != nil {
			return "", fmt.Errorf("count what was done: %w", err)
		}
		if acted[x.group] += n; n > 1 || x.group != "" && acted[x.group] > 1 {
			b.note("with %s", x.what)
			return "the server has two readings of the answers", nil
		}
		if f, err = b.begin(); err != nil {
			return "", err
		}
		last = nil
	}
	if read > 0 {
		return b.oneReading(f)
	}
	b.note("%d forms", len(forms))
	if finding, err := b.unspent(f); finding != "" || err != nil {
		return finding, err
	}
	return b.stays(f, last)
}

// oneReading checks that the twin of an answer's key is no answer, and says why the
// rest cannot be seen.
func (b *bout) oneReading(f *flow) (string, error) {
	no, err := declined(f.questions)
	if err != nil {
		return "", err
	}
	yes := strings.TrimPrefix(f.answers, `{"`)
	twin := `{"` + strings.ToUpper(yes[:1]) + yes[1:len(yes)-1] + "," + strings.TrimPrefix(no, "{")
	o, err := b.send(f.answering(twin))
	if err != nil {
		return "", err
	}
	if v := b.verdict(o); v != Accepted {
		return "a decline beside the consent to a twin of the question: " + v, nil
	}
	if finding, err := b.did(f, 0); finding != "" || err != nil {
		return "declined, but " + finding, err
	}
	b.note("the server reads the answers into one of its readings before the Guard sees them, and handler and token go by that: no gain")
	return NotVisible, nil
}
