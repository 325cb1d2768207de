// Package atrest seals what stores keep: parked plans, recorded outcomes, the
// payloads of handles. Whoever reads a store, its backup or its log of changes
// learns nothing of them, and whoever can write to it cannot make one, change one
// or move one to another row.
//
// A sealed value is
//
//	kid[4] || nonce[12] || ciphertext || tag[16]
//
// under AES-256-GCM, with a key of a storage ring ([keyring.RingOptions]) and the
// place of the value as associated data; docs/wire.md has the bytes.
//
// What it cannot do: a row that is taken away, or put back as it once was in the
// same place, looks good. Against those a store has its own means.
package atrest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/foilmcp/foil/keyring"
)

const (
	kidSize   = 4
	nonceSize = 12
	tagSize   = 16

	// Overhead is by how many bytes a sealed value is longer than its plaintext.
	Overhead = kidSize + nonceSize + tagSize

	// As for tokens: a random nonce of 96 bits is good for 2^32 seals under one
	// key (NIST SP 800-38D, section 8.3), and processes cannot count each other's.
	warnAfter   = 1 << 27
	refuseAfter = 1 << 28
)

// ErrSealed says that a value was not sealed for just this place, or by no key of
// the ring, or is damaged. It does not say which. A key that was dropped or
// revoked, and one that another process has sealed with before this one has read
// of it, look the same.
var ErrSealed = errors.New("atrest: not sealed for this place under a key of the ring")

// A Sealer seals and opens values. It is safe for concurrent use, and the ring
// may change while it is in use.
type Sealer struct {
	keys *keys
	now  func() time.Time

	warnAfter, refuseAfter uint64 // lower in tests
}

// New returns a Sealer with the keys of a storage ring. It fails if there is no
// ring now, or one that is no storage ring: a key must not seal both tokens,
// which clients hold, and rows.
func New(ring keyring.Current) (*Sealer, error) {
	if ring == nil {
		return nil, errors.New("atrest: keys is nil")
	}
	s := &Sealer{keys: &keys{source: ring}, now: time.Now, warnAfter: warnAfter, refuseAfter: refuseAfter}
	if _, err := s.keys.current(); err != nil {
		return nil, err
	}
	return s, nil
}

// Seal encrypts plaintext under the key in force, for one column of one row of one
// table. [Sealer.Open] needs the same three. table and column must hold no zero
// byte; row is any bytes that identify the row for as long as the value is kept,
// and are never reused for another row.
//
// An error is a system failure: there is no ring, no key that seals, or the key
// has sealed too much in this process.
func (s *Sealer) Seal(table string, row []byte, column string, plaintext []byte) ([]byte, error) {
	ad, err := place(table, row, column)
	if err != nil {
		return nil, err
	}
	t, err := s.keys.current()
	if err != nil {
		return nil, err
	}
	key, err := t.ring.Sealing(s.now())
	if err != nil {
		return nil, fmt.Errorf("atrest: %w", err)
	}
	r := t.byKey[key]
	switch n := r.seals.Add(1); {
	case n > s.refuseAfter:
		return nil, fmt.Errorf("atrest: key %q has sealed %d values in this process and must not seal more: rotate the storage ring", key.ID(), s.refuseAfter)
	case n == s.warnAfter:
		slog.Warn("a key of the storage ring nears its number of seals: rotate the ring", "key", key.ID(), "seals", n, "limit", s.refuseAfter)
	}
	out := make([]byte, kidSize+nonceSize, Overhead+len(plaintext))
	copy(out, r.kid[:])
	_, _ = rand.Read(out[kidSize:]) // it never fails: the process ends instead
	return r.aead.Seal(out, out[kidSize:], plaintext, ad), nil
}

// Open returns what Seal sealed for just this place, under any key of the ring
// that is not revoked. [ErrSealed] is the store's or somebody's fault, every other
// error a failure of the key source or a table or column that no value can have.
// sealed is not changed.
func (s *Sealer) Open(table string, row []byte, column string, sealed []byte) ([]byte, error) {
	ad, err := place(table, row, column)
	if err != nil {
		return nil, err
	}
	t, err := s.keys.current()
	if err != nil {
		return nil, err
	}
	if len(sealed) < Overhead {
		return nil, ErrSealed
	}
	nonce, box := sealed[kidSize:kidSize+nonceSize], sealed[kidSize+nonceSize:]
	for _, r := range t.byKID[[kidSize]byte(sealed)] {
		// A storage ring has no open_until: a row may outlive its key's time.
		if r.key.Revoked() {
			continue
		}
		if plaintext, err := r.aead.Open(nil, nonce, box, ad); err == nil {
			return plaintext, nil
		}
	}
	return nil, ErrSealed
}

// place is the associated data of a value:
//
//	table || 0x00 || row || 0x00 || column
//
// No two places have the same, whatever bytes a row has: table and column hold no
// zero byte, so the first one ends the table, the last one begins the column, and
// the row is all between them.
func place(table string, row []byte, column string) ([]byte, error) {
	if strings.IndexByte(table, 0) >= 0 || strings.IndexByte(column, 0) >= 0 {
		return nil, errors.New("atrest: the name of a table or column has a zero byte")
	}
	ad := make([]byte, 0, len(table)+len(row)+len(column)+2)
	ad = append(append(ad, table...), 0)
	ad = append(append(ad, row...), 0)
	return append(ad, column...), nil
}

// String tells nothing of the keys.
func (s *Sealer) String() string { return "atrest.Sealer" }

// Format prints what String gives, under every verb.
func (s *Sealer) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }
