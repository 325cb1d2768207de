package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/foilmcp/foil"
)

// Under Settle a token that is presented again gets the outcome of the first
// time. Here is how the battery tells that from having been carried out again.

// A repeat says how a result compares with the first that its token got.
type repeat uint8

const (
	first repeat = iota // there was none before
	same                // byte for byte
	differs
)

// stateless is a result with an empty state in the place of its own.
func stateless(result []byte, token string) []byte {
	if token == "" {
		return bytes.Clone(result)
	}
	return bytes.Replace(result, []byte(quote(token)), []byte(`""`), 1)
}

// operation is the kind of an error that tells of an operation without an
// outcome, or "".
func operation(raw json.RawMessage) string {
	var e struct {
		Code    int
		Message string
		Data    struct {
			Reason       string `json:"reason"`
			Flow         string `json:"flow"`
			RetryAfterMS int    `json:"retry_after_ms"`
		}
	}
	if json.Unmarshal(raw, &e) != nil || e.Code != -32000 {
		return ""
	}
	switch {
	case e.Message == "Operation in progress" && e.Data.Reason == "operation_in_progress" && e.Data.RetryAfterMS > 0:
		return inProgress
	case e.Message == "Operation outcome unknown" && e.Data.Reason == "operation_unknown" && e.Data.Flow != "":
		return unknown
	}
	return ""
}

// hear reads a reply and remembers what was told for the token presented.
func (b *bout) hear(req *Request, r *Reply) outcome {
	o := read(r)
	if o.token != "" {
		b.hide("a token", o.token)
	}
	presented, ok := req.Params.Get("requestState")
	if !ok || o.told == nil {
		return o
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told == nil {
		b.told = map[string][]byte{}
	}
	switch before, ok := b.told[presented]; {
	case !ok:
		b.told[presented] = o.told
	case bytes.Equal(before, o.told):
		o.again = same
	default:
		o.again = differs
	}
	return o
}

// once checks that a flow's call has acted once, whatever was told since.
func (b *bout) once(f *flow, verdict string) (string, error) {
	finding, err := b.did(f, 1)
	if finding != "" || err != nil {
		return verdict + ", but " + finding, err
	}
	return verdict, nil
}

// stays presents once more what was refused, now that the honest retry was
// carried out: under Settle there is an outcome to be told, and it must not be.
func (b *bout) stays(f *flow, req *Request) (string, error) {
	if b.Mode.Once != foil.Settle {
		return Refused, nil
	}
	decided := b.last
	o, err := b.send(req)
	if err != nil {
		return "", err
	}
	if v := b.verdict(o); v != Refused {
		return "refused, but once there was an outcome: " + v, nil
	}
	if finding, err := b.did(f, 1); finding != "" || err != nil {
		return "refused, but once there was an outcome " + finding, err
	}
	b.last = decided
	return Refused, nil
}

// settledRow names n presentations of which one was carried out.
func settledRow(n int) string { return fmt.Sprintf("%s x%d", Recorded, n-1) }

// askLater asks again for those who were told that the operation is in progress,
// which is honest, until each was told the outcome.
func (b *bout) askLater(f *flow, kinds []string) error {
	early := 0
	for i, k := range kinds {
		if k != inProgress {
			continue
		}
		early++
		for since := time.Now(); ; {
			o, err := b.send(f.retry())
			if err != nil {
				return err
			}
			kinds[i] = b.verdict(o)
			if kinds[i] != inProgress || time.Since(since) > recovery {
				break
			}
			if err := b.pause(100 * time.Millisecond); err != nil {
				return err
			}
		}
	}
	if early > 0 {
		b.note("%d were told first that it is in progress", early)
	}
	return nil
}

// copies goes on with a question that went out twice: the copies are one round,
// and whichever is answered first counts.
func (b *bout) copies(one, two *flow, again outcome) (string, error) {
	copied := *two
	if err := b.asked(&copied, again); err != nil {
		return "", err
	}
	decided := b.last
	if copied.token == two.token {
		return "recorded, but the state is not sealed anew", nil
	}
	no, err := declined(one.questions)
	if err != nil {
		return "", err
	}
	o, err := b.send(one.answering(no))
	if err != nil {
		return "", err
	}
	if v := b.verdict(o); v != Refused {
		return "recorded, but with other answers: " + v, nil
	}
	if finding, err := b.did(two, 0); finding != "" || err != nil {
		return "recorded, but " + finding, err
	}
	if v, err := b.honest(&copied); err != nil || v != Accepted {
		return "recorded, but then the copy: " + v, err
	}
	b.told[quote(two.token)] = b.told[quote(copied.token)]
	if v, err := b.again(two, 0); err != nil || v != Recorded {
		return "recorded, but then the first one beside its copy: " + v, err
	}
	b.last = decided
	b.note("the question is the same round, sealed anew; both copies led to one execution")
	return Recorded, nil
}
