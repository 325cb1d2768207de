package bench

import (
	"context"
	"log/slog"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
)

// guarded is foil as a server has it, with single use off.
type guarded struct{ guard *foil.Guard }

func newFoil(codec foil.Codec) (guarded, error) {
	guard, err := foil.New(codec, &foil.Options{
		Audience: audience,
		Once:     foil.Off,
		TTL:      ttl,
		Logger:   slog.New(slog.DiscardHandler),
	})
	return guarded{guard}, err
}

func newCodec() (foil.Codec, error) {
	ring, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		return nil, err
	}
	return aesgcm.New(keyring.Fixed(ring), nil)
}

func (r *request) foil() foil.Request {
	return foil.Request{
		Method:    r.method,
		Target:    r.target,
		Arguments: r.arguments,
		Principal: foil.PrincipalString(r.principal),
	}
}

func (g guarded) seal(ctx context.Context, req *request, state string) (string, error) {
	return g.guard.Seal(ctx, req.foil(), foil.Outgoing{State: state})
}

func (g guarded) open(ctx context.Context, req *request, token string) (string, error) {
	o, err := g.guard.Open(ctx, req.foil(), token)
	if err != nil {
		return "", err
	}
	return o.State(), nil
}
