package foil

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
)

// Open accepts a token that a client presents with req, spends it if the policy
// says so, and returns what it holds.
//
// Every failure that a client could have caused matches [ErrInvalid]; an error
// that does not is a system failure ([ErrUnavailable]): the state may be good.
// Only a token that passes every other check is spent, and it is spent before
// Open returns: a crash afterwards can lose a confirmation but never repeat one.
func (g *Guard) Open(ctx context.Context, req Request, token string) (*Opened, error) {
	began := g.begin()
	o, err := g.open(ctx, &req, token)
	var c *claims.Claims
	if o != nil {
		c = &o.claims
	}
	g.report(ctx, "open", &req, token, c, began, err)
	if o != nil {
		g.operation(ctx, o, statusOf(o, err))
	}
	if err != nil {
		return nil, err
	}
	if o.dropped > 0 {
		g.logDropped(ctx, &req, o)
	}
	return o, nil
}

// open returns what could be read of the token, too, with an error.
func (g *Guard) open(ctx context.Context, req *Request, token string) (*Opened, error) {
	t, err := g.terms(req)
	if err != nil {
		return nil, unavailable("policy", err)
	}
	// A client must not learn from a store's outage which of its states would
	// have passed.
	if h := g.backend(token); h != nil {
		if err := g.ready(ctx, h); err != nil {
			return nil, unavailable("codec", err)
		}
	}
	switch t.Once {
	case Redeem, Deferred:
		if err := g.ready(ctx, &g.store); err != nil {
			return nil, unavailable("replay store", err)
		}
	case Settle:
		if err := g.ready(ctx, &g.ledger); err != nil {
			return nil, unavailable("ledger", err)
		}
	}
	o, late, err := g.verify(ctx, req, token, &t)
	if err != nil {
		return o, err
	}
	switch t.Once {
	case Redeem:
		err = g.spend(ctx, o)
	case Settle:
		err = g.settle(ctx, req, o, &t, late)
	case Deferred:
		o.deferral = newDeferral()
	}
	return o, err
}

// verify makes every check but single use. Under Settle, late is the reason why
// an operation must not start now although its outcome may be told.
func (g *Guard) verify(ctx context.Context, req *Request, token string, t *terms) (o *Opened, late Reason, err error) {
	if len(token) > g.o.MaxToken {
		return nil, "", Reject(ReasonTooLarge)
	}
	sums, err := g.sums(req)
	if err != nil {
		return nil, "", err
	}
	answers, err := g.readAnswers(req.Answers)
	if err != nil {
		return nil, "", err
	}
	payload, err := g.codec.Open(ctx, token)
	if err != nil {
		err = codecFailure(err)
	}
	// A refusal may have been made without asking the backend, and says nothing.
	if h := g.backend(token); h != nil && ctx.Err() == nil && ReasonOf(err) == "" {
		h.report(g.o.Now(), err)
	}
	if err != nil {
		return nil, "", err
	}
	o = newOpened(g)
	c := &o.claims
	if err := c.ParseLikely(payload, claims.Likely{Method: req.Method, Target: req.Target, Audience: g.o.Audience}); err != nil {
		return nil, "", Reject(ReasonMalformed)
	}
	if !c.Own {
		if !t.keys.Interop {
			return nil, "", Reject(ReasonMalformed)
		}
		adopt(c, token, t)
	}
	late, r := g.compare(c, req, &sums, t)
	if r != "" {
		return o, "", Reject(r)
	}
	o.compared = c.Own && !t.Without.Has(BindQuestions)
	filter := c
	if !o.compared {
		filter = nil
	}
	o.answers, o.dropped = g.keep(answers, filter)
	return o, late, nil
}

// compare returns the reason why a token does not fit a request, or "". It
// states each accepting condition, so that a number that is none refuses. Under
// Settle a token that is late is compared to the end: late is then the reason.
func (g *Guard) compare(c *claims.Claims, req *Request, sums *canonjson.Sums, t *terms) (late, refused Reason) {
	now := claims.Seconds(g.o.Now())
	bound := func(b Binding) bool { return !t.Without.Has(b) }
	accept := []struct {
		ok     bool
		reason Reason
	}{
		{!bound(BindExpiry) || c.IssuedAt <= now+g.skew(t).Seconds(), ReasonNotYetValid},
		{!bound(BindExpiry) || now < c.Expires, ReasonExpired},
		{!bound(BindRequest) || c.Method == req.Method, ReasonMethod},
		{!bound(BindRequest) || c.Target == req.Target, ReasonTarget},
		{!bound(BindRequest) || subtle.ConstantTimeCompare(c.Arguments[:], sums.Python[:16]) == 1, ReasonArguments},
		{!bound(BindRequest) || !c.Own || subtle.ConstantTimeCompare(c.Exact[:], sums.Exact[:]) == 1, ReasonArguments},
		{!bound(BindAudience) || g.isAudience(c), ReasonAudience},
		{!bound(BindPrincipal) || !req.Principal.IsZero(), ReasonPrincipalMissing},
		{!bound(BindPrincipal) || isPrincipal(c, req.Principal), ReasonPrincipal},
		{!bound(BindExpiry) || c.Round <= t.MaxRounds, ReasonRound},
		{!bound(BindExpiry) || now < c.Deadline, ReasonFlowExpired},
	}
	for _, a := range accept {
		switch {
		case a.ok:
		case t.Once == Settle && (a.reason == ReasonExpired || a.reason == ReasonFlowExpired):
			late = a.reason // the deadline, which is final, comes last
		default:
			return "", a.reason
		}
	}
	return late, ""
}

func (g *Guard) isAudience(c *claims.Claims) bool {
	if g.o.NoAudience {
		return !c.HasAudience
	}
	return c.HasAudience && c.Audience == g.o.Audience
}

// isPrincipal demands that token and request agree on whether there is one.
func isPrincipal(c *claims.Claims, p Principal) bool {
	switch p.kind {
	case principalNamed:
		return c.IsPrincipal(p.text)
	case principalAnonymous:
		return !c.HasPrincipal
	}
	return false
}

// spend marks the token's identity, which lies inside the seal, as used.
func (g *Guard) spend(ctx context.Context, o *Opened) error {
	limited, cancel := context.WithTimeout(ctx, g.o.StoreTimeout)
	defer cancel()
	began := g.begin()
	first, err := g.o.Replay.Use(limited, o.claims.ID[:], claims.Time(o.claims.Expires))
	g.storeCall(ctx, "replay", "use", began, err)
	g.heard(ctx, err)
	switch {
	case err != nil:
		return storeFailure("replay store", err)
	case !first:
		return Reject(ReasonReplayed)
	}
	return nil
}

// heard takes note of what a call of the replay store says of its health. ctx is
// the caller's: a client that hangs up says nothing, nor does an ID that is older
// than the store's marks; else one client could shut out the others.
func (g *Guard) heard(ctx context.Context, err error) {
	if ctx.Err() == nil && !errors.Is(err, replay.ErrSwept) && !errors.Is(err, replay.ErrRestored) {
		g.store.report(g.o.Now(), err)
	}
}

// storeFailure is the failure of a store, but for a state that is older than a
// backup which was restored: that one is refused for good.
func storeFailure(what string, err error) error {
	if errors.Is(err, replay.ErrRestored) || errors.Is(err, ledger.ErrRestored) {
		return Reject(ReasonRestored)
	}
	return unavailable(what, err)
}

// adopt gives a token of a replica without foil's claims an identity and a
// flow: 48 bits of its time, then its own digest.
func adopt(c *claims.Claims, token string, t *terms) {
	iat := claims.Time(c.IssuedAt)
	sum := sha256.Sum256(tokenBytes(token))
	c.ID = timedID(iat, sum[:10])
	c.Flow = c.ID
	c.Round = 1
	c.Deadline = claims.Seconds(iat.Add(t.FlowLimit))
}

// tokenBytes decodes the part after the prefix. The codec has accepted the
// text, so there is one spelling of it either way.
func tokenBytes(token string) []byte {
	_, body, _ := strings.Cut(token, ".")
	b, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil || len(b) == 0 {
		return []byte(token)
	}
	return b
}
