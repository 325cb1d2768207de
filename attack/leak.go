package attack

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/foilmcp/foil/claimcheck"
)

// evidence is what the attacks of a battery have seen of secrets, which must be
// found nowhere.
type evidence struct {
	mu      sync.Mutex
	secrets map[string]string // what it is, by the secret
}

func (e *evidence) secret(what string, secrets ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.secrets == nil {
		e.secrets = map[string]string{}
	}
	for _, s := range secrets {
		e.secrets[s] = what
	}
}

// leak is the last attack of all, so that it looks back on everything.
func leak() []Attack {
	return []Attack{{
		Name: "leak", Does: "reads all that the servers have written, for tokens, states, arguments, answers, keys and names", StoppedBy: "redaction",
		must: []string{Holds}, run: runLeak,
	}}
}

func runLeak(b *bout) (string, error) {
	if b.Logs == nil {
		return "", errors.New("Config.Logs is nil: the attack needs all that the servers write")
	}
	// Something to write about, if this is the only attack.
	seen, err := b.provoke()
	if err != nil {
		return "", err
	}
	writings, err := b.Logs.Written(b.ctx)
	if err != nil {
		return "", fmt.Errorf("read what was written: %w", err)
	}
	size := 0
	for _, w := range writings {
		size += len(w.Text)
	}
	if !slices.ContainsFunc(writings, func(w Writing) bool { return bytes.Contains(w.Text, []byte(seen)) }) {
		return "", errors.New("the refusal of a moment ago is not in the logs: they are not those of the servers")
	}
	needles := b.needles()
	for _, w := range writings {
		if what := needles.find(w.Text); what != "" {
			return fmt.Sprintf("%s is in %s", what, w.Name), nil
		}
	}
	b.note("%d secrets, in %d KiB written", needles.n, size>>10)
	return Holds, nil
}

// provoke plays an honest flow and everything that is refused. It returns what
// the log must say of one of the refused tokens.
func (b *bout) provoke() (fingerprint string, err error) {
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	if _, err := b.honest(f); err != nil {
		return "", err
	}
	for _, v := range b.causes() {
		_, req, err := v.make()
		if err != nil {
			return "", fmt.Errorf("%s: %w", v.what, err)
		}
		if _, err := b.send(req); err != nil {
			return "", fmt.Errorf("%s: %w", v.what, err)
		}
	}
	if err := b.confide(); err != nil {
		return "", err
	}
	token := f.token + "A"
	if _, err := b.send(f.with(token)); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:8]), nil
}

// confide sends arguments and answers that nobody else would send, good and bad.
func (b *bout) confide() error {
	argument, answer := rand.Text()+rand.Text(), rand.Text()+rand.Text()
	b.hide("an argument", argument)
	b.hide("an answer", answer)
	more := Members{M("x", quote(argument))}
	said := `{"action":"accept","content":{"x":` + quote(answer) + `}}`
	// beside are the honest answers and one that nobody asked for.
	beside := func(f *flow) string { return strings.TrimSuffix(f.answers, "}") + `,"unasked":` + said + "}" }
	for _, v := range []variant{
		b.free("in an argument", more, more),
		b.free("in an argument that is new", nil, more),
		b.free("in an argument that is gone", more, nil),
		b.changed("in an argument of a name twice", func(f *flow) *Request {
			c := f.call
			c.Arguments = c.Arguments.After(more[0], more[0])
			return f.retryOf(c)
		}),
		b.changed("in arguments that are none", func(f *flow) *Request {
			r := f.retry()
			r.Params = r.Params.Set("arguments", quote(argument))
			return r
		}),
		b.changed("in an answer", func(f *flow) *Request {
			marked, err := answersWith(f.answers, func(a map[string]json.RawMessage) { a["_meta"] = json.RawMessage(`{"x":` + quote(answer) + `}`) })
			if err != nil {
				return f.retry() // the answers are not the battery's to read
			}
			return f.answering(marked)
		}),
		b.changed("in an answer to no question", func(f *flow) *Request { return f.answering(beside(f)) }),
		b.changed("in an answer to no question, of another user", func(f *flow) *Request {
			r := f.answering(beside(f))
			r.Login = Bob
			return r
		}),
		b.changed("in an answer twice", func(f *flow) *Request { return f.answering(`{"x":` + said + `,"x":` + said + "}") }),
		b.changed("in an answer of no kind", func(f *flow) *Request { return f.answering(`{"x":{"x":` + quote(answer) + "}}") }),
		b.changed("in answers that are none", func(f *flow) *Request { return f.answering(quote(answer)) }),
		b.changed("in answers without a state", func(f *flow) *Request {
			r := f.answering(beside(f))
			r.Params = r.Params.Without("requestState")
			return r
		}),
	} {
		_, req, err := v.make()
		if err != nil {
			return fmt.Errorf("%s: %w", v.what, err)
		}
		if _, err := b.send(req); err != nil {
			return fmt.Errorf("%s: %w", v.what, err)
		}
	}
	return nil
}

// needles are all that must not be found.
func (b *bout) needles() *needles {
	n := newNeedles()
	b.seen.mu.Lock()
	defer b.seen.mu.Unlock()
	for secret, what := range b.seen.secrets {
		n.add(what, secret)
		if what != "a token" {
			continue
		}
		state, err := b.Minter.Read(b.ctx, secret)
		if err != nil {
			continue // under a key that no longer opens
		}
		n.add("a state", state)
		// In a format that can be read, much of the inside is no secret.
		raw := dissect(secret).raw
		if payload, err := b.Minter.Payload(b.ctx, secret); err == nil && !bytes.Contains(raw, payload) {
			n.add("the inside of a token", string(raw))
		}
	}
	for _, s := range b.Minter.Secrets {
		n.add("a key", string(s))
		for _, format := range []*rawFormat{&rawV1, &rawH1} {
			if key, err := format.key(s); err == nil {
				n.add("a key", string(key))
			}
		}
	}
	n.literal("a claim check", claimcheck.Prefix)
	for _, l := range Cast() {
		if l.Bearer != "" {
			n.word("a bearer token", l.Bearer)
		}
	}
	for _, name := range castNames {
		n.word("a principal", name)
	}
	return n
}
