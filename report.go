package foil

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/internal/logtext"
	"github.com/foilmcp/foil/ledger"
)

// Everything a Guard logs and tells its Observer is built here: reasons and
// identities, and never a token, a state, an argument, an answer, a key or a
// principal. The texts of failures come from codecs, stores and key sources,
// whose contracts forbid the same.

// begin is when a call began, if anybody wants to know.
func (g *Guard) begin() time.Time {
	if g.o.Observer == nil {
		return time.Time{}
	}
	return time.Now()
}

// report tells the outcome of one call. c is what is known of the token; round 0
// is nothing.
func (g *Guard) report(ctx context.Context, op string, req *Request, token string, c *claims.Claims, began time.Time, err error) {
	if err != nil {
		g.log(ctx, op, req, token, c, err)
	}
	if g.o.Observer == nil {
		return
	}
	e := Event{Op: op, Method: req.Method, Target: req.Target, KeyID: g.keyID(token), Bytes: len(token)}
	if !began.IsZero() {
		e.Took = time.Since(began)
	}
	if c != nil && c.Round > 0 {
		e.Flow, e.Round = flowID(c), c.Round
	}
	reason := ReasonOf(err)
	switch {
	case reason != "":
		g.o.Observer.Rejected(ctx, e, reason)
	case errors.Is(err, ErrOperation): // reported by Open
	case err != nil:
		g.o.Observer.Failed(ctx, e, err)
	case op == "seal":
		g.o.Observer.Sealed(ctx, e)
	case op == "open":
		g.o.Observer.Opened(ctx, e)
	}
}

// reportEnd tells that the handler's result was withheld.
func (g *Guard) reportEnd(ctx context.Context, o *Opened, err error) {
	if g.o.Observer == nil {
		return
	}
	e := Event{Op: "conclude", Method: o.claims.Method, Target: o.claims.Target, Flow: o.Flow(), Round: o.Round()}
	if reason := ReasonOf(err); reason != "" {
		g.o.Observer.Rejected(ctx, e, reason)
		return
	}
	g.o.Observer.Failed(ctx, e, err)
}

// operation tells a turn in the life of the operation of o.
func (g *Guard) operation(ctx context.Context, o *Opened, status OperationStatus) {
	if g.o.Observer == nil || status == "" {
		return
	}
	e := Event{Op: "conclude", Method: o.claims.Method, Target: o.claims.Target, Flow: o.Flow(), Round: o.Round()}
	if status != OperationSucceeded && status != OperationFailed && status != OperationLost {
		e.Op = "open"
	}
	g.o.Observer.Operation(ctx, e, status)
}

func (g *Guard) storeCall(ctx context.Context, store, op string, began time.Time, err error) {
	if g.o.Observer == nil {
		return
	}
	if errors.Is(err, claimcheck.ErrRedeemed) {
		err = nil
	}
	g.o.Observer.StoreCall(ctx, StoreCall{Store: store, Op: op, Took: time.Since(began), Err: err})
}

// log writes a line for a refusal, with what an operator needs to find its
// cause, or for a failure.
func (g *Guard) log(ctx context.Context, op string, req *Request, token string, c *claims.Claims, err error) {
	attrs := about(req, c)
	reason := ReasonOf(err)
	if o, ok := errors.AsType[*OperationError](err); ok {
		level := slog.LevelInfo
		if o.State == ledger.Unknown {
			level = slog.LevelWarn
		}
		g.o.Logger.LogAttrs(ctx, level, "operation without an outcome asked for", append(attrs, slog.String("state", o.State.String()))...)
		return
	}
	if reason == "" {
		level := slog.LevelError
		if ctx.Err() != nil {
			level = slog.LevelWarn // the client went away: nobody has to get up for that
		}
		attrs = append(attrs, slog.String("error", err.Error()))
		g.o.Logger.LogAttrs(ctx, level, "request state failed to "+op, attrs...)
		return
	}
	attrs = append(attrs, slog.String("reason", string(reason)))
	if reason == ReasonPrincipalMissing {
		attrs = append(attrs, slog.String("hint", req.Principal.hint()))
	}
	if token != "" {
		attrs = append(attrs, slog.String("token", Fingerprint(token)))
	}
	if kid := g.keyID(token); kid != "" {
		attrs = append(attrs, slog.String("kid", kid))
	}
	g.o.Logger.LogAttrs(ctx, slog.LevelWarn, "request state refused", attrs...)
}

// logDropped tells that answers nobody had asked for were taken out.
func (g *Guard) logDropped(ctx context.Context, req *Request, o *Opened) {
	attrs := append(about(req, &o.claims), slog.Int("dropped", o.dropped))
	g.o.Logger.LogAttrs(ctx, slog.LevelWarn, "answers to no question dropped", attrs...)
}

func about(req *Request, c *claims.Claims) []slog.Attr {
	attrs := []slog.Attr{slog.String("method", logtext.Cut(req.Method)), slog.String("target", logtext.Cut(req.Target))}
	if c != nil && c.Round > 0 {
		attrs = append(attrs, slog.String("flow", flowID(c)), slog.Int("round", c.Round))
	}
	return attrs
}

func (g *Guard) keyID(token string) string {
	k, ok := g.codec.(KeyIdentifier)
	if !ok || token == "" || len(token) > g.o.MaxToken {
		return ""
	}
	return logtext.Cut(k.KeyID(token))
}

func flowID(c *claims.Claims) string { return base64.RawURLEncoding.EncodeToString(c.Flow[:]) }

// Fingerprint is what logs call a token: the first 8 bytes of its SHA-256, in hex.
// It lets a log line be matched with a token without telling it.
func Fingerprint(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:8])
}
