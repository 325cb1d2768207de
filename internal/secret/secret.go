// Package secret holds key material so that it cannot be printed by accident.
//
// A [Bytes] shows [Redacted] under every fmt verb, in JSON, as text and in
// log/slog. [Bytes.Reveal] is the only door to what it holds, so that a search
// for that name finds every place where a secret leaves its box.
package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what a secret prints as.
const Redacted = "[redacted]"

// Bytes holds secret bytes. It is immutable and safe for concurrent use; the
// zero value holds nothing.
type Bytes struct {
	// A closure, not a slice: fmt does not call methods on unexported fields of
	// other structs, and printers that walk values by reflection would show a
	// slice. Of a function there is only an address to show.
	reveal func() []byte
}

// New returns a Bytes with a copy of b.
func New(b []byte) Bytes {
	own := append([]byte(nil), b...)
	return Bytes{reveal: func() []byte { return own }}
}

// Reveal returns a copy of the bytes. Whatever it is used for must not log,
// print or store them.
func (b Bytes) Reveal() []byte {
	return append([]byte(nil), b.bytes()...)
}

// Len returns the number of bytes held.
func (b Bytes) Len() int { return len(b.bytes()) }

// Equal reports whether both hold the same bytes; for equal lengths the time it
// takes does not depend on them.
func (b Bytes) Equal(other Bytes) bool {
	return subtle.ConstantTimeCompare(b.bytes(), other.bytes()) == 1
}

func (b Bytes) bytes() []byte {
	if b.reveal == nil {
		return nil
	}
	return b.reveal()
}

// Format writes [Redacted] whatever the verb and the flags.
func (Bytes) Format(s fmt.State, _ rune) { io.WriteString(s, Redacted) }

// String returns [Redacted].
func (Bytes) String() string { return Redacted }

// GoString returns [Redacted].
func (Bytes) GoString() string { return Redacted }

// MarshalText returns [Redacted]; encoding/json, encoding/xml and others use it.
func (Bytes) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue returns [Redacted].
func (Bytes) LogValue() slog.Value { return slog.StringValue(Redacted) }
