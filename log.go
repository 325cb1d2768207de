package foil

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
)

// Everything a Guard logs is built here: reasons and identities, and never a
// token, a state, an argument, an answer, a key or a principal.

// refused logs a refusal with what an operator needs to find its cause.
func (g *Guard) refused(req *Request, token string, o *Opened, err error) {
	attrs := append(g.about(req, o), slog.String("reason", string(ReasonOf(err))))
	if token != "" {
		attrs = append(attrs, slog.String("token", fingerprint(token)))
		if k, ok := g.codec.(KeyIdentifier); ok && len(token) <= g.o.MaxToken {
			if kid := k.KeyID(token); kid != "" {
				attrs = append(attrs, slog.String("kid", bounded(kid)))
			}
		}
	}
	g.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "request state refused", attrs...)
}

// failed logs a failure that is not the client's and returns err.
func (g *Guard) failed(req *Request, doing string, err error) error {
	attrs := append(g.about(req, nil), slog.String("error", err.Error()))
	g.o.Logger.LogAttrs(context.Background(), slog.LevelError, "request state failed to "+doing, attrs...)
	return err
}

// dropped logs that answers nobody had asked for were taken out.
func (g *Guard) dropped(req *Request, o *Opened) {
	attrs := append(g.about(req, o), slog.Int("dropped", o.dropped))
	g.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "answers to no question dropped", attrs...)
}

func (g *Guard) about(req *Request, o *Opened) []slog.Attr {
	attrs := []slog.Attr{slog.String("method", bounded(req.Method)), slog.String("target", bounded(req.Target))}
	if o != nil {
		attrs = append(attrs, slog.String("flow", o.Flow()), slog.Int("round", o.Round()))
	}
	return attrs
}

// fingerprint lets two log lines be matched without telling the token.
func fingerprint(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:8])
}
