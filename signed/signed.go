// Package signed is a codec whose tokens anyone can read and nobody without the
// key can make or change:
//
//	"h1." || base64url(kid[4] || payload) || "." || base64url(mac[32])
//
// with HMAC-SHA-256 under keys from a key ring; docs/wire.md has the bytes.
//
// A client sees the handler's state, and can test guesses of the arguments and
// of the principal against the digests beside it. It is for states that may be
// public, and for looking at what a token holds. A [foil.Guard] refuses to seal
// a claim check with it. Use package aesgcm for everything else.
package signed

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/ringtable"
	"github.com/foilmcp/foil/keyring"
)

const (
	prefix  = "h1."
	kidSize = ringtable.KIDSize
)

var format = ringtable.Format{
	Name:  "signed",
	Info:  "foil/request-state/h1/hmac-sha-256",
	Label: "foil/request-state/h1/kid:",
}

// Options configure a [Codec].
type Options struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// A Codec signs and verifies tokens. It implements [foil.Codec] and is safe for
// concurrent use. The same payload under the same key gives the same token.
type Codec struct {
	keys      *ringtable.Keys[*signer]
	ephemeral bool
	now       func() time.Time
}

var (
	_ foil.Codec         = (*Codec)(nil)
	_ foil.Prefixer      = (*Codec)(nil)
	_ foil.KeyIdentifier = (*Codec)(nil)
	_ foil.KeyLimiter    = (*Codec)(nil)
)

// A signer is a key made ready.
type signer struct {
	key []byte
	kid [kidSize]byte
}

// mac authenticates all of a token before its last dot.
func (s *signer) mac(text string) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// New returns a codec with the keys of a ring. The ring may change while the
// codec is in use. New fails if there is no ring now.
func New(keys keyring.Current, opts *Options) (*Codec, error) {
	c := &Codec{now: time.Now}
	if opts != nil && opts.Now != nil {
		c.now = opts.Now
	}
	var err error
	c.keys, err = ringtable.New(format, keys, func(d *ringtable.Derived) (*signer, error) {
		return &signer{key: d.Key, kid: d.KID()}, nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Ephemeral returns a codec with a random key that dies with the process. It is
// right for a server on stdio, and wrong wherever a second process, or the same
// one after a restart, must open a token.
func Ephemeral() *Codec {
	c, err := New(keyring.Fixed(keyring.NewEphemeral()), nil)
	if err != nil {
		panic(err) // a fresh ring always has a key
	}
	c.ephemeral = true
	return c
}

// Prefix returns what every token begins with.
func (c *Codec) Prefix() string { return prefix }

// Encrypts reports false: a client can read what is sealed.
func (c *Codec) Encrypts() bool { return false }

// KeyLimits returns what the ring demands.
func (c *Codec) KeyLimits() foil.KeyLimits {
	if c.ephemeral {
		return foil.KeyLimits{Ephemeral: true}
	}
	return c.keys.Limits()
}

// KeyID returns the key id in a token, in hex, or "" if the text is no token of
// this form. Whether it is genuine only Open can tell.
func (c *Codec) KeyID(token string) string {
	kid, err := Parse(token)
	if err != nil {
		return ""
	}
	return kid
}

// Parse checks the form of a token, which needs no key, and returns the id of
// the key it names, in hex. The error matches [foil.ErrInvalid].
func Parse(token string) (kid string, err error) {
	p, err := decode(token)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(p.body[:kidSize]), nil
}

// RingID returns the id in the ring of the key that tokens name kid, or "".
func (c *Codec) RingID(kid string) string { return c.keys.RingID(kid) }

// KID returns the id, in hex, by which tokens and logs name a key of a ring. It
// differs from the one in another format.
func KID(key *keyring.Key) (string, error) { return format.KID(key) }

// Seal signs payload under the key in force.
func (c *Codec) Seal(_ context.Context, payload []byte, _ time.Time) (string, error) {
	t, err := c.keys.Current()
	if err != nil {
		return "", err
	}
	s, _, err := t.Sealing(c.now())
	if err != nil {
		return "", err
	}
	body := make([]byte, 0, kidSize+len(payload))
	body = append(append(body, s.kid[:]...), payload...)
	text := prefix + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(s.mac(text)), nil
}

// parts are a token taken apart; none of it is verified.
type parts struct {
	text string // what the MAC covers
	body []byte // key id and payload
	mac  []byte
}

var strict = base64.RawURLEncoding.Strict()

// decode takes the one spelling of a token and no other.
func decode(token string) (parts, error) {
	malformed := foil.Reject(foil.ReasonMalformed)
	rest, ok := strings.CutPrefix(token, prefix)
	// Strict refuses padding, the other alphabet and stray bits, but skips
	// line ends: without this, a token would have many spellings.
	if !ok || strings.ContainsAny(rest, "\r\n") {
		return parts{}, malformed
	}
	// A dot is in neither alphabet, so there can be just one more.
	first, last, ok := strings.Cut(rest, ".")
	if !ok {
		return parts{}, malformed
	}
	body, err := strict.DecodeString(first)
	if err != nil || len(body) < kidSize {
		return parts{}, malformed
	}
	mac, err := strict.DecodeString(last)
	if err != nil || len(mac) != sha256.Size {
		return parts{}, malformed
	}
	return parts{text: token[:len(prefix)+len(first)], body: body, mac: mac}, nil
}

// Open returns the payload of a token that Seal returned, under any key of the
// ring that still opens.
func (c *Codec) Open(_ context.Context, token string) ([]byte, error) {
	t, err := c.keys.Current()
	if err != nil {
		return nil, err
	}
	p, err := decode(token)
	if err != nil {
		return nil, err
	}
	return t.Open([kidSize]byte(p.body), c.now(), func(s *signer, _ bool) ([]byte, bool) {
		if !hmac.Equal(p.mac, s.mac(p.text)) {
			return nil, false
		}
		return p.body[kidSize:], true
	})
}

// String tells nothing of the keys.
func (c *Codec) String() string { return "signed.Codec" }

// Format prints what String gives, under every verb.
func (c *Codec) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }
