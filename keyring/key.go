package keyring

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/foilmcp/foil/internal/secret"
)

// MinSecretLen is the least number of bytes a key's secret may have.
const MinSecretLen = 32

// maxSecretLen bounds what a document can make us hold; no use needs more.
const maxSecretLen = 1024

// A Key is one entry of a [Ring]. It is immutable and safe for concurrent use.
type Key struct {
	id      string
	secret  secret.Bytes
	from    time.Time // zero: staged, seals never
	until   time.Time // zero: open-ended
	revoked bool
}

// ID returns the key's name within the ring, such as "2026-11-30a". It is not a
// secret and may be logged.
func (k *Key) ID() string { return k.id }

// SealFrom returns when the key starts to seal. The zero time means that it only
// opens: a staged key of an interop ring.
func (k *Key) SealFrom() time.Time { return k.from }

// OpenUntil returns when the key stops opening. ok is false while that is not
// decided, which is so until a successor is written.
func (k *Key) OpenUntil() (t time.Time, ok bool) { return k.until, !k.until.IsZero() }

// Revoked reports whether the key was withdrawn. A revoked key opens nothing and
// seals nothing.
func (k *Key) Revoked() bool { return k.revoked }

// Opens reports whether the key may open tokens at now. It does so from the
// moment it is known, before it seals, up to and not including OpenUntil.
func (k *Key) Opens(now time.Time) bool {
	return !k.revoked && (k.until.IsZero() || now.Before(k.until))
}

// Derive returns n bytes of key material for the purpose that info names: HKDF
// with SHA-256 over the key's secret, without a salt (RFC 5869). Each use of a key
// needs an info of its own. n must be between 1 and 255*32.
func (k *Key) Derive(info string, n int) ([]byte, error) {
	if n < 1 {
		return nil, fmt.Errorf("keyring: cannot derive %d bytes", n)
	}
	out, err := hkdf.Key(sha256.New, k.secret.Reveal(), nil, info, n)
	if err != nil {
		return nil, fmt.Errorf("keyring: derive from key %q: %w", k.id, err)
	}
	return out, nil
}

// newSecret returns 32 random bytes.
func newSecret() secret.Bytes {
	var b [MinSecretLen]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return secret.New(b[:])
}

// The printing methods have value receivers, so that a copied Key prints no more
// than a pointer does.

// String shows the id and nothing else.
func (k Key) String() string { return "key " + strconv.Quote(k.id) + " " + secret.Redacted }

// Format writes the same under every verb.
func (k Key) Format(s fmt.State, _ rune) { io.WriteString(s, k.String()) }

// GoString is like String.
func (k Key) GoString() string { return k.String() }

// MarshalText is like String; encoding/json uses it. [Ring.Marshal] writes the
// document with its secrets.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// LogValue is like String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }
