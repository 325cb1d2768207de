package attack

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/keyring"
)

// A Key is a key that the server under attack treats in its own way.
type Key uint8

const (
	Active  Key = iota // the key that seals
	Retired            // past its open_until
	Revoked            // withdrawn
	Unknown            // another service's
)

// A Minter mints tokens with the keys of the server under attack, at any time
// and for anybody. Its own Guards compare nothing and remember nothing.
type Minter struct {
	// Codecs seal under each key. Every one but Active may be missing; then
	// the attacks that need it cannot be carried out.
	Codecs map[Key]foil.Codec
	// Audience is the service under attack.
	Audience string
	// TTL is how long its tokens live; foil.DefaultTTL if zero.
	TTL time.Duration
	// Skew is the difference between clocks that it allows; foil.DefaultSkew
	// if zero.
	Skew time.Duration
	// MaxRounds is how many times it lets a flow ask; foil.DefaultMaxRounds
	// if zero.
	MaxRounds int
	// Foreign seals a payload under a secret of the service in a format that
	// the service is not configured to open. It may be nil.
	Foreign func(payload []byte) (token string, err error)
	// Secrets are the secrets of the service's keys, to look for in its logs.
	Secrets [][]byte
	// Now is the clock of the server under attack; time.Now if nil.
	Now func() time.Time
}

// A Minting is a token to be. The zero value of a field is what an honest server
// would have done now.
type Minting struct {
	Call      Call
	Login     Login
	State     string
	Questions json.RawMessage

	Key       Key
	At        time.Time     // when it is minted; now if zero
	Audience  string        // another service
	Round     int           // how many times the flow has asked
	FlowLimit time.Duration // how long after At the flow ends
}

const everything = foil.BindPrincipal | foil.BindExpiry | foil.BindRequest | foil.BindAudience | foil.BindQuestions

func (m *Minter) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

func (m *Minter) ttl() time.Duration {
	if m.TTL > 0 {
		return m.TTL
	}
	return foil.DefaultTTL
}

func (m *Minter) skew() time.Duration {
	if m.Skew > 0 {
		return m.Skew
	}
	return foil.DefaultSkew
}

func (m *Minter) maxRounds() int {
	if m.MaxRounds > 0 {
		return m.MaxRounds
	}
	return foil.DefaultMaxRounds
}

func (m *Minter) guard(key Key, at time.Time, audience string, flow time.Duration) (*foil.Guard, error) {
	codec := m.Codecs[key]
	if codec == nil {
		return nil, errors.New("attack: the minter lacks the key that this attack needs")
	}
	return foil.New(codec, &foil.Options{
		Audience: audience, Once: foil.Off, TTL: m.ttl(), FlowLimit: flow, Without: everything,
		AmbiguousArguments: foil.Allow, MaxToken: 8 << 20,
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return at },
	})
}

// Mint mints a token.
func (m *Minter) Mint(ctx context.Context, t Minting) (string, error) {
	if t.At.IsZero() {
		t.At = m.now()
	}
	if t.Audience == "" {
		t.Audience = m.Audience
	}
	g, err := m.guard(t.Key, t.At, t.Audience, t.FlowLimit)
	if err != nil {
		return "", err
	}
	req := t.Call.Request(t.Login)
	out := foil.Outgoing{State: t.State, Questions: t.Questions}
	for {
		token, err := g.Seal(ctx, req, out)
		if err != nil || t.Round <= 1 {
			return token, err
		}
		if out.Prev, err = g.Open(ctx, req, token); err != nil {
			return "", err
		}
		t.Round--
	}
}

// Read returns the handler's state in a token of the service.
func (m *Minter) Read(ctx context.Context, token string) (state string, err error) {
	g, err := m.guard(Active, m.now(), m.Audience, 0)
	if err != nil {
		return "", err
	}
	o, err := g.Open(ctx, foil.Request{Method: foil.MethodToolsCall}, token)
	if err != nil {
		return "", err
	}
	return o.State(), nil
}

// readable reports whether a client can read what its tokens hold.
func (m *Minter) readable() bool {
	e, ok := m.Codecs[Active].(foil.Encrypter)
	return !ok || !e.Encrypts()
}

// Payload returns what is inside a token of the service.
func (m *Minter) Payload(ctx context.Context, token string) ([]byte, error) {
	if m.Codecs[Active] == nil {
		return nil, errors.New("attack: the minter lacks the active key")
	}
	return m.Codecs[Active].Open(ctx, token)
}

// NewRing makes a ring document with a key of every kind, for a server under
// attack, and codecs that seal under each of them. The server must be given the
// document; the minter's fields Codecs, TTL, Skew, Foreign and Secrets are set
// for it.
func NewRing(now time.Time) (document []byte, m *Minter, err error) { return NewRingFor(now, AESGCM) }

// NewRingFor is [NewRing] for a server with another token format.
func NewRingFor(now time.Time, format Format) (document []byte, m *Minter, err error) {
	m = &Minter{Codecs: map[Key]foil.Codec{}, TTL: foil.DefaultTTL, Skew: foil.DefaultSkew}
	secrets := map[Key][]byte{}
	for _, k := range []Key{Active, Retired, Revoked, Unknown} {
		s := make([]byte, keyring.MinSecretLen)
		if _, err := rand.Read(s); err != nil {
			return nil, nil, fmt.Errorf("attack: no randomness: %w", err)
		}
		ring, err := keyring.FromSecrets(s)
		if err != nil {
			return nil, nil, fmt.Errorf("attack: %w", err)
		}
		if m.Codecs[k], err = format.codec(keyring.Fixed(ring)); err != nil {
			return nil, nil, fmt.Errorf("attack: %w", err)
		}
		secrets[k] = s
		if k != Unknown {
			m.Secrets = append(m.Secrets, s)
		}
	}
	m.Foreign = func(payload []byte) (string, error) { return format.other().under(secrets[Active], payload) }

	type key struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
		From   int64  `json:"seal_from"`
		Until  int64  `json:"open_until,omitempty"`
	}
	entry := func(id string, k Key, from, until time.Duration) key {
		e := key{ID: id, Secret: base64.RawURLEncoding.EncodeToString(secrets[k]), From: now.Add(from).Unix()}
		if until != 0 {
			e.Until = now.Add(until).Unix()
		}
		return e
	}
	document, err = json.MarshalIndent(map[string]any{
		"version": 1, "serial": 1, "interop": false, "propagation": 300, "keep": 86400,
		"skew": int(m.Skew.Seconds()), "max_ttl": int(m.TTL.Seconds()),
		"keys": []key{
			entry("retired", Retired, -3*time.Hour, -time.Hour),
			entry("revoked", Revoked, -2*time.Hour, 24*time.Hour),
			entry("active", Active, -time.Hour, 0),
		},
		"revoked": []string{"revoked"},
	}, "", "  ")
	if err != nil {
		return nil, nil, fmt.Errorf("attack: %w", err)
	}
	return document, m, nil
}
