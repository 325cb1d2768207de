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
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/keyring"
)

const (
	prefix    = "v1."
	kidSize   = 4
	nonceSize = 12
	tagSize   = 16
	floor     = kidSize + nonceSize + tagSize

	keyInfo  = "mcp/request-state/v1/aes-256-gcm"
	kidLabel = "mcp/request-state/v1/kid:"

	// A random nonce of 96 bits is good for 2^32 seals under one key (NIST SP
	// 800-38D, section 8.3). Processes cannot count each other's, so each
	// stops at a sixteenth, and says so in time.
	warnAfter   = 1 << 27
	refuseAfter = 1 << 28
)

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
	keys      keyring.Current
	ephemeral bool
	now       func() time.Time
	log       *slog.Logger

	warnAfter, refuseAfter uint64 // lower in tests

	table atomic.Pointer[table]
	mu    sync.Mutex                           // builds tables
	seals map[[sha256.Size]byte]*atomic.Uint64 // by key, for as long as the process lives
}

var (
	_ foil.Codec         = (*Codec)(nil)
	_ foil.Encrypter     = (*Codec)(nil)
	_ foil.KeyIdentifier = (*Codec)(nil)
	_ foil.KeyLimiter    = (*Codec)(nil)
)

// A table is a ring made ready for use.
type table struct {
	ring  *keyring.Ring
	byKey map[*keyring.Key]*entry
	byKid map[[kidSize]byte][]*entry
}

type entry struct {
	key   *keyring.Key
	kid   [kidSize]byte
	aead  cipher.AEAD
	ad    [len(prefix) + kidSize]byte
	seals *atomic.Uint64
}

// New returns a codec with the keys of a ring. The ring may change while the
// codec is in use. New fails if there is no ring now.
func New(keys keyring.Current, opts *Options) (*Codec, error) {
	if keys == nil {
		return nil, errors.New("aesgcm: keys is nil")
	}
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
		keys: keys, now: o.Now, log: o.Logger,
		warnAfter: warnAfter, refuseAfter: refuseAfter,
		seals: make(map[[sha256.Size]byte]*atomic.Uint64),
	}
	if _, err := c.current(); err != nil {
		return nil, fmt.Errorf("aesgcm: %w", err)
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

// Encrypts reports true: a client cannot read what is sealed.
func (c *Codec) Encrypts() bool { return true }

// KeyLimits returns what the ring demands.
func (c *Codec) KeyLimits() foil.KeyLimits {
	if c.ephemeral {
		return foil.KeyLimits{Ephemeral: true}
	}
	t, err := c.current()
	if err != nil {
		// Seal and Open report it; the last ring's bounds still hold.
		t = c.table.Load()
	}
	r := t.ring
	return foil.KeyLimits{MaxTTL: r.MaxTTL(), Skew: r.Skew(), Interop: r.Interop()}
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
func (c *Codec) RingID(kid string) string {
	b, err := hex.DecodeString(kid)
	if err != nil || len(b) != kidSize {
		return ""
	}
	t, err := c.current()
	if err != nil {
		return ""
	}
	var ids []string
	for _, e := range t.byKid[[kidSize]byte(b)] {
		ids = append(ids, e.key.ID())
	}
	return strings.Join(ids, ",")
}

// KID returns the id, in hex, by which tokens and logs name a key of a ring.
func KID(key *keyring.Key) (string, error) {
	e, _, err := newEntry(key)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(e.kid[:]), nil
}

// Seal encrypts payload under the key in force.
func (c *Codec) Seal(_ context.Context, payload []byte, _ time.Time) (string, error) {
	t, err := c.current()
	if err != nil {
		return "", err
	}
	key, err := t.ring.Sealing(c.now())
	if err != nil {
		return "", err
	}
	e := t.byKey[key]
	switch n := e.seals.Add(1); {
	case n > c.refuseAfter:
		return "", fmt.Errorf("aesgcm: key %q has sealed %d tokens in this process and must not seal more: rotate the ring", key.ID(), c.refuseAfter)
	case n == c.warnAfter:
		c.log.Warn("a key nears its number of seals: rotate the ring", "key", key.ID(), "seals", n, "limit", c.refuseAfter)
	}
	raw := make([]byte, kidSize+nonceSize, floor+len(payload))
	copy(raw, e.kid[:])
	if _, err := rand.Read(raw[kidSize:]); err != nil {
		return "", fmt.Errorf("aesgcm: no randomness: %w", err)
	}
	raw = e.aead.Seal(raw, raw[kidSize:kidSize+nonceSize], payload, e.ad[:])
	out := make([]byte, 0, len(prefix)+base64.RawURLEncoding.EncodedLen(len(raw)))
	out = append(out, prefix...)
	return string(base64.RawURLEncoding.AppendEncode(out, raw)), nil
}

var strict = base64.RawURLEncoding.Strict()

// decode takes the one spelling of a token and no other.
func decode(token string) ([]byte, error) {
	body, ok := strings.CutPrefix(token, prefix)
	// Strict refuses padding, the other alphabet and stray bits, but skips
	// line ends: without this, a token would have many spellings.
	if !ok || strings.ContainsAny(body, "\r\n") {
		return nil, foil.Reject(foil.ReasonMalformed)
	}
	raw, err := strict.DecodeString(body)
	if err != nil || len(raw) < floor {
		return nil, foil.Reject(foil.ReasonMalformed)
	}
	return raw, nil
}

// Open returns the payload of a token that Seal returned, under any key of the
// ring that still opens.
func (c *Codec) Open(_ context.Context, token string) ([]byte, error) {
	t, err := c.current()
	if err != nil {
		return nil, err
	}
	raw, err := decode(token)
	if err != nil {
		return nil, err
	}
	now, known := c.now(), false
	for _, e := range t.byKid[[kidSize]byte(raw)] {
		if !e.key.Opens(now) {
			continue
		}
		known = true
		payload, err := e.aead.Open(nil, raw[kidSize:kidSize+nonceSize], raw[kidSize+nonceSize:], e.ad[:])
		if err == nil {
			return payload, nil
		}
	}
	if !known {
		return nil, foil.Reject(foil.ReasonUnknownKey)
	}
	return nil, foil.Reject(foil.ReasonTampered)
}

// Seals returns how many tokens this process sealed under the key in force.
func (c *Codec) Seals() uint64 {
	t, err := c.current()
	if err != nil {
		return 0
	}
	key, err := t.ring.Sealing(c.now())
	if err != nil {
		return 0
	}
	return t.byKey[key].seals.Load()
}

// String tells nothing of the keys.
func (c *Codec) String() string { return "aesgcm.Codec" }

// Format prints what String gives, under every verb.
func (c *Codec) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// current returns the table of the ring as of now.
func (c *Codec) current() (*table, error) {
	ring, err := c.keys.Ring()
	if err != nil {
		return nil, err
	}
	if t := c.table.Load(); t != nil && t.ring == ring {
		return t, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.table.Load(); t != nil && t.ring == ring {
		return t, nil
	}
	t, err := c.build(ring)
	if err != nil {
		return nil, err
	}
	c.table.Store(t)
	return t, nil
}

func (c *Codec) build(ring *keyring.Ring) (*table, error) {
	t := &table{ring: ring, byKey: make(map[*keyring.Key]*entry), byKid: make(map[[kidSize]byte][]*entry)}
	for _, key := range ring.Keys() {
		e, sum, err := newEntry(key)
		if err != nil {
			return nil, err
		}
		if e.seals = c.seals[sum]; e.seals == nil {
			e.seals = new(atomic.Uint64)
			c.seals[sum] = e.seals
		}
		t.byKey[key] = e
		t.byKid[e.kid] = append(t.byKid[e.kid], e)
	}
	return t, nil
}

// newEntry derives what a key needs. The sum identifies the derived key in full.
func newEntry(key *keyring.Key) (*entry, [sha256.Size]byte, error) {
	fail := func(err error) (*entry, [sha256.Size]byte, error) {
		return nil, [sha256.Size]byte{}, fmt.Errorf("aesgcm: key %q: %w", key.ID(), err)
	}
	k, err := key.Derive(keyInfo, 32)
	if err != nil {
		return fail(err)
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return fail(err)
	}
	e := &entry{key: key}
	if e.aead, err = cipher.NewGCM(block); err != nil {
		return fail(err)
	}
	sum := sha256.Sum256(append([]byte(kidLabel), k...))
	copy(e.kid[:], sum[:])
	copy(e.ad[:], prefix)
	copy(e.ad[len(prefix):], e.kid[:])
	return e, sum, nil
}
