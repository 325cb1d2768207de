package bench

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"time"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/claims"
)

// A request is what a state is bound to, as every contestant gets it.
type request struct {
	method, target string
	arguments      []byte
	principal      string // canonical text, as the login gives it
}

// reference is the request that all figures are for: tools/call with four
// arguments, 120 bytes of state, an audience and a principal.
var reference = request{
	method:    "tools/call",
	target:    "purge_objects",
	arguments: []byte(`{"prefix":"logs/2026/","max_bytes":1048576,"older_than":"720h","dry_run":false}`),
	principal: `["storage-cli","https://login.example.com","user-4711"]`,
}

const (
	state = `{"plan":"5d2e0a1b2c3d4e5f60718293a4b5c6d7e8f9","step":"confirm","objects":412,"bytes":73400320,"bucket":"archived-logs"}`

	audience = "storage"

	ttl       = 10 * time.Minute
	flowLimit = time.Hour
	maxRounds = 10
	skew      = time.Minute
)

// A contestant seals the state for a request and, with the same request, opens
// it again. Like foil with single use off, Open refuses what does not fit.
type contestant interface {
	seal(ctx context.Context, req *request, state string) (token string, err error)
	open(ctx context.Context, req *request, token string) (state string, err error)
}

// wire holds foil's claims in the form that encoding/json handles best: a
// struct, with bytes left to its own base64.
type wire struct {
	Version   int               `json:"v"`
	IssuedAt  float64           `json:"iat"`
	Expires   float64           `json:"exp"`
	Method    string            `json:"m"`
	Target    string            `json:"t"`
	Arguments []byte            `json:"a"`
	State     string            `json:"s"`
	Audience  string            `json:"aud"`
	Principal []byte            `json:"p"`
	Exact     []byte            `json:"ax"`
	ID        []byte            `json:"jti"`
	Flow      []byte            `json:"fid"`
	Round     int               `json:"rnd"`
	Deadline  float64           `json:"dl"`
	Questions map[string]string `json:"k"`
}

// mint does for a peer what foil does before it encodes: digests, principal tag
// and identities come from foil's own functions.
func mint(req *request, state string) (*wire, error) {
	sums, err := digest(req.arguments)
	if err != nil {
		return nil, err
	}
	random := make([]byte, 8+10+claims.IDSize)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	now := time.Now()
	var tag claims.Claims
	tag.SetPrincipal([8]byte(random), req.principal)
	id := binary.BigEndian.AppendUint64(make([]byte, 0, 18), uint64(now.UnixMilli())<<16)[:6]
	return &wire{
		Version:   claims.Version,
		IssuedAt:  seconds(now),
		Expires:   seconds(now.Add(ttl)),
		Method:    req.method,
		Target:    req.target,
		Arguments: sums.Python[:16],
		State:     state,
		Audience:  audience,
		Principal: tag.Principal[:],
		Exact:     sums.Exact[:],
		ID:        append(id, random[8:18]...),
		Flow:      random[18:],
		Round:     1,
		Deadline:  seconds(now.Add(flowLimit)),
		Questions: map[string]string{},
	}, nil
}

var errRefused = errors.New("bench: refused")

// check does for a peer what foil does after it has decoded.
func (w *wire) check(req *request) error {
	sums, err := digest(req.arguments)
	if err != nil {
		return err
	}
	now := seconds(time.Now())
	tag := claims.Claims{HasPrincipal: len(w.Principal) == len(claims.Claims{}.Principal)}
	copy(tag.Principal[:], w.Principal)
	if w.Version == claims.Version &&
		w.IssuedAt <= now+skew.Seconds() && now < w.Expires && now < w.Deadline &&
		w.Method == req.method && w.Target == req.target &&
		subtle.ConstantTimeCompare(w.Arguments, sums.Python[:16]) == 1 &&
		subtle.ConstantTimeCompare(w.Exact, sums.Exact[:]) == 1 &&
		w.Audience == audience && tag.IsPrincipal(req.principal) &&
		1 <= w.Round && w.Round <= maxRounds {
		return nil
	}
	return errRefused
}

func digest(arguments []byte) (canonjson.Sums, error) {
	sums, err := canonjson.Sum(arguments, nil)
	if err == nil && sums.Ambiguous {
		err = errRefused
	}
	return sums, err
}

func seconds(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}
