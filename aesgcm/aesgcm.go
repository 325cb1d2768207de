// Package aesgcm is foil's default codec: tokens of the form
//
//	"v1." || base64url(kid[4] || nonce[12] || ciphertext || tag[16])
//
// under AES-256-GCM with keys from a key ring. The format is that of the MCP
// Python SDK; docs/wire.md has the bytes. A client can neither read nor change
// what is inside.
package aesgcm

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/b64u"
	"github.com/foilmcp/foil/internal/ringtable"
	"github.com/foilmcp/foil/keyring"
)

const (
	prefix    = "v1."
	kidSize   = ringtable.KIDSize
	nonceSize = 12
	tagSize   = 16
	floor     = kidSize + nonceSize + tagSize

	// A random nonce of 96 bits is good for 2^32 seals under one key (NIST SP
	// 800-38D, section 8.3). Processes cannot count each other's, so each
	// stops at a sixteenth, and says so in time.
	warnAfter   = 1 << 27
	refuseAfter = 1 << 28
)

var format = ringtable.Format{
	Name:  "aesgcm",
	Info:  "mcp/request-state/v1/aes-256-gcm",
	Label: "mcp/request-state/v1/kid:",
}

// Options configure a [Codec].
type Options struct {
	// Logger gets a warning when a key nears its number of seals. Nil is
	// slog.Default().
	Logger *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// A Codec seals and opens tokens. It implements [foil.Codec] and is safe for
// concurrent use.
type Codec struct {
	keys      *ringtable.Keys[*sealer]
	ephemeral bool
	now       func() time.Time
	log       *slog.Logger

	warnAfter, refuseAfter uint64 // lower in tests

}

var (
	_ foil.Codec         = (*Codec)(nil)
	_ foil.Encrypter     = (*Codec)(nil)
	_ foil.Prefixer      = (*Codec)(nil)
	_ foil.KeyIdentifier = (*Codec)(nil)
	_ foil.KeyLimiter    = (*Codec)(nil)
)

// A sealer is a key made ready.
type sealer struct {
	aead  cipher.AEAD
	ad    [len(prefix) + kidSize]byte // the prefix and the key's id
	seals *atomic.Uint64
}

// New returns a codec with the keys of a ring. The ring may change while the
// codec is in use. New fails if there is no ring now.
func New(keys keyring.Current, opts *Options) (*Codec, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Codec{
		now: o.Now, log: o.Logger,
		warnAfter: warnAfter, refuseAfter: refuseAfter,
	}
	var err error
	c.keys, err = ringtable.New(format, keys, c.ready)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// counts are the seals of this process under each key that it ever had, whatever
// codec made them: [32]byte, which tells nothing of the key, to *atomic.Uint64.
var counts sync.Map

// ready makes a key ready for use.
func (c *Codec) ready(d *ringtable.Derived) (*sealer, error) {
	block, err := aes.NewCipher(d.Key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	count, _ := counts.LoadOrStore(d.Sum, new(atomic.Uint64))
	s := &sealer{aead: aead, seals: count.(*atomic.Uint64)}
	kid := d.KID()
	copy(s.ad[:], prefix)
	copy(s.ad[len(prefix):], kid[:])
	return s, nil
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

// Encrypts reports true: a client cannot read what is sealed.
func (c *Codec) Encrypts() bool { return true }

// KeyLimits returns what the ring demands.
func (c *Codec) KeyLimits() foil.KeyLimits {
	if c.ephemeral {
		return foil.KeyLimits{Ephemeral: true}
	}
	return c.keys.Limits()
}

// KeyID returns the key id in a token's clear part, in hex, or "" if the text is
// no token of this form. Whether it is genuine only Open can tell.
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
	raw, err := decode(token)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(raw[:kidSize]), nil
}

// RingID returns the id in the ring of the key that tokens name kid, or "".
func (c *Codec) RingID(kid string) string { return c.keys.RingID(kid) }

// KID returns the id, in hex, by which tokens and logs name a key of a ring.
func KID(key *keyring.Key) (string, error) { return format.KID(key) }

// Seal encrypts payload under the key in force.
func (c *Codec) Seal(_ context.Context, payload []byte, _ time.Time) (string, error) {
	t, err := c.keys.Current()
	if err != nil {
		return "", err
	}
	s, id, err := t.Sealing(c.now())
	if err != nil {
		return "", err
	}
	switch n := s.seals.Add(1); {
	case n > c.refuseAfter:
		return "", fmt.Errorf("aesgcm: key %q has sealed %d tokens in this process and must not seal more: rotate the ring", id, c.refuseAfter)
	case n == c.warnAfter:
		c.log.Warn("a key nears its number of seals: rotate the ring", "key", id, "seals", n, "limit", c.refuseAfter)
	}
	size := floor + len(payload)
	buf := scratch.Get().(*[]byte)
	room := slices.Grow((*buf)[:0], size+tokenLen(size))
	raw := room[: kidSize+nonceSize : size]
	copy(raw, s.ad[len(prefix):])
	_, _ = rand.Read(raw[kidSize:]) // it never fails: the process ends instead
	raw = s.aead.Seal(raw, raw[kidSize:kidSize+nonceSize], payload, s.ad[:])
	text := room[size : size+tokenLen(size)]
	copy(text, prefix)
	b64u.Encode(text[len(prefix):], raw)
	token := string(text)
	if cap(room) <= 32<<10 {
		*buf = room
		scratch.Put(buf)
	}
	return token, nil
}

// scratch are buffers for sealed bytes and their text, which are no secret.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// tokenLen is the length of the token of so many sealed bytes.
func tokenLen(size int) int { return len(prefix) + b64u.EncodedLen(size) }

// decode takes the one spelling of a token and no other.
func decode(token string) ([]byte, error) {
	body, ok := strings.CutPrefix(token, prefix)
	if !ok {
		return nil, foil.Reject(foil.ReasonMalformed)
	}
	raw, err := b64u.Decode(nil, body)
	if err != nil || len(raw) < floor {
		return nil, foil.Reject(foil.ReasonMalformed)
	}
	return raw, nil
}

// Open returns the payload of a token that Seal returned, under any key of the
// ring that still opens.
func (c *Codec) Open(_ context.Context, token string) ([]byte, error) {
	t, err := c.keys.Current()
	if err != nil {
		return nil, err
	}
	raw, err := decode(token)
	if err != nil {
		return nil, err
	}
	return t.OpenNow([kidSize]byte(raw), c.now, func(s *sealer, last bool) ([]byte, bool) {
		sealed := raw[kidSize+nonceSize:]
		var dst []byte
		if last {
			dst = sealed[:0] // nobody needs it after this
		}
		payload, err := s.aead.Open(dst, raw[kidSize:kidSize+nonceSize], sealed, s.ad[:])
		return payload, err == nil
	})
}

// Seals returns how many tokens this process sealed under the key in force.
func (c *Codec) Seals() uint64 {
	t, err := c.keys.Current()
	if err != nil {
		return 0
	}
	s, _, err := t.Sealing(c.now())
	if err != nil {
		return 0
	}
	return s.seals.Load()
}

// String tells nothing of the keys.
func (c *Codec) String() string { return "aesgcm.Codec" }

// Format prints what String gives, under every verb.
func (c *Codec) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }
