package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// A Guard must treat every round of a flow like the first. So what is refused is
// presented again as if it came of a later round ([bout.laterToo]); what is about
// spending and answers is played in a later round, too ([inRounds]); and one row
// attacks the token that a server itself made for a second round ([runSecond]).

// edited is a token with another payload, sealed under the key that it has. It is
// "" for a text that is no token of this service.
func (b *bout) edited(token string, change func(payload []byte) []byte) (string, error) {
	for _, key := range []Key{Active, Retired, Revoked, Unknown} {
		codec := b.Minter.Codecs[key]
		if codec == nil {
			continue
		}
		payload, err := codec.Open(b.ctx, token)
		if err != nil {
			continue
		}
		changed := change(bytes.Clone(payload))
		if bytes.Equal(changed, payload) {
			return "", errors.New("the claim to change is not in the token")
		}
		// How long it may be read is for the server to find out.
		text, err := codec.Seal(b.ctx, changed, b.Minter.now().Add(b.Minter.ttl()))
		if err != nil {
			return "", fmt.Errorf("seal: %w", err)
		}
		// Not kept in mind for what was written: the token that it was made of is,
		// and these are many.
		return text, nil
	}
	return "", nil
}

// In a string the quotes would be escaped, so this is the claim.
var roundClaim = regexp.MustCompile(`"rnd":([0-9]+)`)

// inRound is the token as it would be had its flow asked that often: the same but
// for its round. It is "" for what is no token, and for a token of that round or a
// later one.
func (b *bout) inRound(token string, round int) (string, error) {
	late := false
	text, err := b.edited(token, func(payload []byte) []byte {
		return roundClaim.ReplaceAllFunc(payload, func(claim []byte) []byte {
			if was, err := strconv.Atoi(string(claim[len(`"rnd":`):])); err != nil || was >= round {
				late = true
				return claim
			}
			return strconv.AppendInt([]byte(`"rnd":`), int64(round), 10)
		})
	})
	if late {
		return "", nil
	}
	return text, err
}

// laterRounds are the second round and the last one that is allowed.
func (b *bout) laterRounds() []int { return []int{2, b.Minter.maxRounds()} }

// laterToo presents what was refused with a token of a later round. It returns ""
// or a finding. The reply that decides stays.
func (b *bout) laterToo(req *Request) (string, error) {
	raw, ok := req.Params.Get("requestState")
	var token string
	if !ok || json.Unmarshal([]byte(raw), &token) != nil {
		return "", nil
	}
	decided := b.last
	for _, round := range b.laterRounds() {
		later, err := b.inRound(token, round)
		if err != nil {
			return "", fmt.Errorf("in round %d: %w", round, err)
		}
		if later == "" {
			continue
		}
		again := *req
		again.Params = req.Params.Set("requestState", quote(later))
		o, err := b.send(&again)
		if err != nil {
			return "", fmt.Errorf("in round %d: %w", round, err)
		}
		if v := b.verdict(o); v != Refused {
			return fmt.Sprintf("refused, but in round %d: %s", round, v), nil
		}
	}
	b.last = decided
	return "", nil
}

// inRounds carries an attack out on flows of a later round and then of the first.
func inRounds(run func(*bout) (string, error)) func(*bout) (string, error) {
	return func(b *bout) (string, error) {
		said := len(b.notes)
		b.round = 2
		v, err := run(b)
		if b.round = 0; err != nil {
			return "", fmt.Errorf("in round 2: %w", err)
		}
		if !b.expected(v) {
			b.note("in round 2")
			return v, nil
		}
		b.notes = b.notes[:said]
		return run(b)
	}
}
