package foil

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/claims"
)

// Seal binds a handler's state to the request it answers and to the questions
// it asks, and returns the token to send as requestState.
//
// An error that matches [ErrInvalid] is the flow's own end: too many rounds, or
// past its deadline. [ErrUnavailable] means that no key may seal now. Every
// other error is a mistake of the server and tells what to change. None of them
// lets a state out.
func (g *Guard) Seal(ctx context.Context, req Request, out Outgoing) (token string, err error) {
	began := g.begin()
	var c claims.Claims
	token, err = g.seal(ctx, &req, &out, &c)
	g.report(ctx, "seal", &req, token, &c, began, err)
	return token, err
}

// payloads are buffers for what is about to be sealed. They are wiped before
// they are given back.
var payloads = sync.Pool{New: func() any { return new([]byte) }}

// seal fills in c as far as it comes.
func (g *Guard) seal(ctx context.Context, req *Request, out *Outgoing, c *claims.Claims) (string, error) {
	t, err := g.terms(req)
	if err != nil {
		return "", err
	}
	now := g.o.Now().Truncate(time.Millisecond) // more would be read by nobody
	if err := g.mint(req, out, &t, now, c); err != nil {
		return "", err
	}
	if !encrypts(g.codec) && strings.Contains(out.State, claimcheck.Prefix) {
		return "", errors.New("foil: the state holds a claim check and this codec can be read by anyone: use an encrypting codec")
	}
	buf := payloads.Get().(*[]byte)
	payload := c.Append((*buf)[:0])
	token, err := g.codec.Seal(ctx, payload, g.readable(c, &t))
	if err == nil && out.Prev != nil && out.Prev.exec != nil {
		out.Prev.exec.asks(payload)
	}
	clear(payload)
	if cap(payload) <= 16<<10 {
		*buf = payload
		payloads.Put(buf)
	}
	if err != nil {
		return "", unavailable("seal", err)
	}
	if len(token) > g.o.MaxToken {
		return "", fmt.Errorf("foil: the sealed state has %d bytes, more than the limit of %d: keep it small and park what is large as a claim check", len(token), g.o.MaxToken)
	}
	return token, nil
}

// mint builds the claims of a new token.
func (g *Guard) mint(req *Request, out *Outgoing, t *terms, now time.Time, c *claims.Claims) error {
	if req.Principal.IsZero() && !t.Without.Has(BindPrincipal) {
		return fmt.Errorf("foil: the request names no principal: %s", req.Principal.hint())
	}
	if t.Once == Settle && req.Principal.kind != principalNamed && !g.o.SettleAnonymous {
		return errors.New("foil: Once: Settle tells an outcome again to whoever may present the state, and this request is anonymous: set Options.SettleAnonymous too, or give the server a login")
	}
	if !canonjson.ValidWTF8(req.Method) || !canonjson.ValidWTF8(req.Target) {
		return errors.New("foil: the request's method or target is not valid UTF-8")
	}
	if !canonjson.ValidWTF8(out.State) {
		return errors.New("foil: the state is not valid UTF-8: encode binary state, as base64 for example")
	}
	sums, err := g.sums(req)
	if err != nil {
		return err
	}
	questions, err := g.asked(out.Questions)
	if err != nil {
		return err
	}
	var random [8 + 10 + claims.IDSize]byte
	_, _ = rand.Read(random[:]) // it never fails: the process ends instead
	salt, id, flow := random[:8], random[8:18], random[18:]
	*c = claims.Claims{
		IssuedAt:  claims.Seconds(now),
		Expires:   claims.Seconds(now.Add(t.TTL)),
		Method:    req.Method,
		Target:    req.Target,
		Arguments: [16]byte(sums.Python[:16]),
		State:     out.State,
		Own:       true,
		Exact:     sums.Exact,
		ID:        timedID(now, id),
		Flow:      [claims.IDSize]byte(flow),
		Round:     1,
		Deadline:  claims.Seconds(now.Add(t.FlowLimit)),
		Questions: questions,
	}
	if !g.o.NoAudience {
		c.Audience, c.HasAudience = g.o.Audience, true
	}
	if req.Principal.kind == principalNamed {
		c.SetPrincipal([8]byte(salt), req.Principal.text)
	}
	if p := out.Prev; p != nil {
		c.Flow, c.Round, c.Deadline = p.claims.Flow, p.claims.Round+1, p.claims.Deadline
		switch {
		case t.Without.Has(BindExpiry):
		case c.Round > t.MaxRounds:
			return Reject(ReasonRound)
		case !(c.IssuedAt < c.Deadline):
			return Reject(ReasonFlowExpired)
		}
	}
	return nil
}

// timedID is an identity that begins with the time in milliseconds, so that
// stores insert nearly in order.
func timedID(t time.Time, random []byte) (id [claims.IDSize]byte) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(t.UnixMilli()))
	copy(id[:6], ms[2:])
	copy(id[6:], random)
	return id
}
