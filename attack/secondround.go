package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/foilmcp/foil"
)

// second plays a flow that asks twice up to its second question. It returns the
// flow as it was before each of its two answers.
func (b *bout) second() (one, two *flow, err error) {
	s, err := b.App.Stage(b.ctx, 2)
	if err != nil {
		return nil, nil, fmt.Errorf("stage: %w", err)
	}
	if one, err = b.ask(s, Alice, nil); err != nil {
		return nil, nil, err
	}
	// A deadline that is renewed is the same within a millisecond.
	if err := b.pause(5 * time.Millisecond); err != nil {
		return nil, nil, err
	}
	req := one.retry()
	req.Prelude = true
	o, err := b.send(req)
	if err != nil {
		return nil, nil, err
	}
	next := *one
	if err := b.asked(&next, o); err != nil {
		return nil, nil, fmt.Errorf("round 2: %w", err)
	}
	return one, &next, nil
}

// A form of the row second-round, and what alone stops it.
type bound struct {
	what string
	by   foil.Binding
	req  *Request
}

// runSecond takes the token of a second round where it does not belong.
func runSecond(b *bout) (string, error) {
	one, two, err := b.second()
	if err != nil {
		return "", err
	}
	if finding, err := b.goesOn(one.token, two.token); finding != "" || err != nil {
		return finding, err
	}
	forms, err := b.misuses(two)
	if err != nil {
		return "", err
	}
	n := 0
	for _, x := range forms {
		if x.by != 0 && b.Mode.Without.Has(x.by) {
			continue
		}
		o, err := b.send(x.req)
		if err != nil {
			return "", fmt.Errorf("%s: %w", x.what, err)
		}
		if v := b.verdict(o); v != Refused {
			b.note("with %s", x.what)
			return v, nil
		}
		n++
	}
	decided := b.last
	if finding, err := b.unspent(two); finding != "" || err != nil {
		return finding, err
	}
	if b.Mode.Once != foil.Off {
		want := Refused
		if b.Mode.Once == foil.Settle {
			want = Recorded
		}
		if v, err := b.again(two, 0); err != nil || v != want {
			return "refused, but a second time: " + v, err
		}
	}
	b.last = decided
	b.note("%d forms", n)
	return Refused, nil
}

// misuses are the forms for a flow that is in its second round.
func (b *bout) misuses(f *flow) ([]bound, error) {
	var forms []bound
	add := func(what string, by foil.Binding, req *Request) { forms = append(forms, bound{what, by, req}) }
	for _, who := range []Login{Bob, BobSameClient, AliceElsewhere, AliceCertificate, Nobody} {
		add(who.Name, foil.BindPrincipal, f.as(who))
	}
	s, kind := f.scene, b.Mode.kind()
	other := s.free(kind)
	if kind != foil.MethodResourcesRead {
		other.Arguments = f.call.Arguments
		add("another argument", foil.BindRequest, f.retryOf(f.call.With(s.Changed, quote(s.Decoy))))
		add("one argument more", foil.BindRequest, f.retryOf(f.call.With("also", `"x"`)))
	}
	add("another target", foil.BindRequest, f.retryOf(other))
	for _, method := range []string{foil.MethodToolsCall, foil.MethodPromptsGet, foil.MethodResourcesRead} {
		if method != kind {
			add("another method", foil.BindRequest, f.retryOf(s.own(method)))
		}
	}
	for what, x := range list("another audience", "another-service", "no audience", noAudience) {
		token, err := b.edited(f.token, func(payload []byte) []byte { return withAudience(payload, x) })
		if err != nil {
			return nil, err
		}
		add(what, foil.BindAudience, f.with(token))
	}
	for _, deadline := range []bool{false, true} {
		token, err := b.elapsed(f.token, deadline)
		if err != nil {
			return nil, err
		}
		add(fmt.Sprintf("a token past exp (past its flow's deadline: %t)", deadline), foil.BindExpiry, f.with(token))
	}
	token, err := b.inRound(f.token, b.Minter.maxRounds()+1)
	if err != nil {
		return nil, err
	}
	add("one round more than the limit", foil.BindExpiry, f.with(token))
	payload, err := b.Minter.Payload(b.ctx, f.token)
	if err != nil {
		return nil, fmt.Errorf("read the honest token: %w", err)
	}
	for i, what := range []string{Retired: "a retired key", Revoked: "a revoked key", Unknown: "a foreign key"} {
		codec := b.Minter.Codecs[Key(i)]
		if Key(i) == Active || codec == nil {
			continue
		}
		token, err := codec.Seal(b.ctx, payload, b.Minter.now().Add(b.Minter.ttl()))
		if err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
		add(what, 0, f.with(token))
	}
	return forms, nil
}

// lineage are the claims that tie the rounds of a flow together, as they are.
type lineage struct {
	Flow     string          `json:"fid"`
	Round    int             `json:"rnd"`
	Deadline json.RawMessage `json:"dl"`
	ID       string          `json:"jti"`
	Holder   string          `json:"p"`
	Audience string          `json:"aud"`
	Method   string          `json:"m"`
	Target   string          `json:"t"`
	Digest   string          `json:"ax"`
}

func (b *bout) lineage(token string) (l lineage, err error) {
	payload, err := b.Minter.Payload(b.ctx, token)
	if err == nil {
		err = json.Unmarshal(payload, &l)
	}
	if err != nil {
		return l, fmt.Errorf("read the honest token: %w", err)
	}
	return l, nil
}

// goesOn checks that a token is of the round after another's, in the same flow and
// with the same end. It returns "" or a finding.
func (b *bout) goesOn(before, after string) (string, error) {
	one, err := b.lineage(before)
	if err != nil {
		return "", err
	}
	two, err := b.lineage(after)
	if err != nil {
		return "", err
	}
	switch {
	case one.Flow == "" || two.Flow != one.Flow:
		return "the second round is of another flow", nil
	case two.Round != one.Round+1:
		return fmt.Sprintf("round %d follows round %d", two.Round, one.Round), nil
	case !bytes.Equal(two.Deadline, one.Deadline):
		return "the second round has another deadline", nil
	case one.ID == "" || two.ID == one.ID:
		return "the second round has the first one's identity", nil
	case two.Audience != one.Audience || two.Method != one.Method || two.Target != one.Target || two.Digest != one.Digest || (two.Holder == "") != (one.Holder == ""):
		return "the second round is bound to something else", nil
	}
	return "", nil
}
