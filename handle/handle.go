// Package handle is a codec whose tokens hold nothing:
//
//	"r1." || base64url(32 random bytes)
//
// The payload stays in a [Store], under SHA-256 of the token, until the token may
// no longer be presented. A client learns nothing from a handle, not even the
// size of a state, and a state can be larger than a token may be.
//
// The price is a durable write for every question that is asked and a read for
// every answer, so the store is in the way of both: while it is away no state
// opens. Anybody who may start a flow fills it; a full store refuses. Package
// aesgcm needs no store and is what most servers want.
package handle

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/b64u"
)

const (
	prefix     = "r1."
	randomSize = 32
)

// Defaults of [Options].
const (
	DefaultMaxPayload   = 1 << 20
	DefaultSkew         = 60 * time.Second
	DefaultStoreTimeout = foil.DefaultStoreTimeout
)

// Options configure a [Codec]. The zero value is safe.
type Options struct {
	// MaxPayload is the size in bytes of the largest payload, which is a state
	// and about 700 bytes; a larger one is not sealed. DefaultMaxPayload if zero.
	MaxPayload int

	// Skew is the largest difference between the store's clock and that of any
	// process that judges expiry. Payloads are kept for that much longer, so
	// that an honest retry in the last moment finds its own. A Guard without a
	// Skew takes this one. DefaultSkew if zero.
	Skew time.Duration

	// StoreTimeout bounds each call of the store; DefaultStoreTimeout if zero.
	// A call that takes longer is a system failure.
	StoreTimeout time.Duration
}

// A Codec keeps payloads in a store and gives out handles. It implements
// [foil.Codec] and is safe for concurrent use.
type Codec struct {
	store Store
	o     Options
}

var (
	_ foil.Codec      = (*Codec)(nil)
	_ foil.Encrypter  = (*Codec)(nil)
	_ foil.Prefixer   = (*Codec)(nil)
	_ foil.KeyLimiter = (*Codec)(nil)
)

// New returns a codec over a store. A nil opts means the defaults.
func New(store Store, opts *Options) (*Codec, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case store == nil:
		return nil, errors.New("handle: store is nil")
	case o.MaxPayload < 0 || o.Skew < 0 || o.StoreTimeout < 0:
		return nil, errors.New("handle: MaxPayload, Skew and StoreTimeout must not be negative")
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	if o.Skew == 0 {
		o.Skew = DefaultSkew
	}
	if o.StoreTimeout == 0 {
		o.StoreTimeout = DefaultStoreTimeout
	}
	return &Codec{store: store, o: o}, nil
}

// Prefix returns what every handle begins with.
func (c *Codec) Prefix() string { return prefix }

// Encrypts reports true: a client cannot read what is sealed, as it never has it.
func (c *Codec) Encrypts() bool { return true }

// KeyLimits says whether the store dies with the process, and the clock skew. A
// store knows until when each payload may be presented and sets no bound.
func (c *Codec) KeyLimits() foil.KeyLimits {
	e, ok := c.store.(ephemeral)
	return foil.KeyLimits{Skew: c.o.Skew, Ephemeral: ok && e.Ephemeral()}
}

// Seal stores payload and returns its handle, once the store has it for good.
func (c *Codec) Seal(ctx context.Context, payload []byte, expires time.Time) (string, error) {
	if len(payload) > c.o.MaxPayload {
		return "", fmt.Errorf("handle: payload has %d bytes, more than MaxPayload of %d", len(payload), c.o.MaxPayload)
	}
	if expires.IsZero() {
		return "", errors.New("handle: no time until which to keep the payload")
	}
	var random [randomSize]byte
	_, _ = rand.Read(random[:]) // it never fails: the process ends instead
	token := string(b64u.Append([]byte(prefix), random[:]))
	ctx, cancel := context.WithTimeout(ctx, c.o.StoreTimeout)
	defer cancel()
	if err := c.store.Put(ctx, sha256.Sum256([]byte(token)), payload, expires.Add(c.o.Skew)); err != nil {
		return "", failure("put", err)
	}
	return token, nil
}

// Open returns the payload under a handle. A text that is no handle is refused
// without a call of the store.
//
// A handle that the store does not know is [foil.ReasonUnknownKey]: whether it
// was there once and expired, belongs to another store or was made up, nobody can
// tell. A store that cannot answer is a system failure, whatever the handle.
func (c *Codec) Open(ctx context.Context, token string) ([]byte, error) {
	if !wellFormed(token) {
		return nil, foil.Reject(foil.ReasonMalformed)
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.StoreTimeout)
	defer cancel()
	payload, found, err := c.store.Get(ctx, sha256.Sum256([]byte(token)))
	switch {
	case err != nil:
		return nil, failure("get", err)
	case !found:
		return nil, foil.Reject(foil.ReasonUnknownKey)
	}
	return payload, nil
}

// wellFormed reports whether token is the one spelling of a handle.
func wellFormed(token string) bool {
	body, ok := strings.CutPrefix(token, prefix)
	if !ok || len(body) != b64u.EncodedLen(randomSize) {
		return false
	}
	_, err := b64u.Decode(nil, body)
	return err == nil
}

// Ping reports whether the store answers now. It asks the store's own Ping, or
// looks for a handle that does not exist if the store has none. It is for health
// checks, and tells nothing of any handle.
func (c *Codec) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.StoreTimeout)
	defer cancel()
	if p, ok := c.store.(pinger); ok {
		if err := p.Ping(ctx); err != nil {
			return failure("ping", err)
		}
		return nil
	}
	var key [sha256.Size]byte
	_, _ = rand.Read(key[:])
	if _, _, err := c.store.Get(ctx, key); err != nil {
		return failure("ping", err)
	}
	return nil
}

// failure is a system failure, whatever the store says: it has no way to refuse.
func failure(call string, err error) error {
	if errors.Is(err, foil.ErrInvalid) {
		err = errors.New("the store reported a refusal where only a failure is possible")
	}
	return fmt.Errorf("handle: store: %s: %w", call, err)
}

// String tells nothing of what is stored.
func (c *Codec) String() string { return "handle.Codec" }

// Format prints what String gives, under every verb.
func (c *Codec) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }
