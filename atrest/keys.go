package atrest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/foilmcp/foil/keyring"
)

const (
	info    = "foil/at-rest/v1"      // K = HKDF-SHA256(secret, no salt, info, 32)
	label   = "foil/at-rest/v1/kid:" // kid = SHA-256(label || K)[:4]
	keySize = 32
)

// KeyID returns the id of the key that a sealed value names, in hex, or "" if it
// is too short for one. It needs no key; whether the value is genuine only
// [Sealer.Open] can tell.
func KeyID(sealed []byte) string {
	if len(sealed) < Overhead {
		return ""
	}
	return hex.EncodeToString(sealed[:kidSize])
}

// KeyIDOf returns the id, in hex, by which sealed values name a key of a ring.
// Two keys can have the same; it happens once in four thousand million pairs.
func KeyIDOf(key *keyring.Key) (string, error) {
	_, sum, err := derive(key)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum[:kidSize]), nil
}

// derive returns the at-rest key, and what identifies it and tells nothing of it.
func derive(key *keyring.Key) (k []byte, sum [sha256.Size]byte, err error) {
	if k, err = key.Derive(info, keySize); err != nil {
		return nil, sum, fmt.Errorf("atrest: %w", err)
	}
	return k, sha256.Sum256(append([]byte(label), k...)), nil
}

// keys are the keys of a ring that may change at any time.
type keys struct {
	source keyring.Current
	table  atomic.Pointer[table]
	mu     sync.Mutex // builds tables
}

// A table is a ring made ready. It is immutable.
type table struct {
	ring  *keyring.Ring
	byKey map[*keyring.Key]*ready
	byKID map[[kidSize]byte][]*ready
}

// ready is a key made ready for use.
type ready struct {
	key   *keyring.Key
	kid   [kidSize]byte
	aead  cipher.AEAD
	seals *atomic.Uint64
}

// counts are the seals of this process under each key that it ever had, whatever
// Sealer made them: the sum of [derive] to *atomic.Uint64.
var counts sync.Map

// current returns the table of the ring as of now. An error is a failure of the
// key source, or of whoever chose it.
func (k *keys) current() (*table, error) {
	ring, err := k.source.Ring()
	if err != nil {
		return nil, fmt.Errorf("atrest: %w", err)
	}
	if t := k.table.Load(); t != nil && t.ring == ring {
		return t, nil
	}
	if !ring.Storage() {
		return nil, errors.New("atrest: this ring seals tokens: make one for storage with foil keys new --storage and give that to the store")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.table.Load(); t != nil && t.ring == ring {
		return t, nil
	}
	t := &table{ring: ring, byKey: make(map[*keyring.Key]*ready), byKID: make(map[[kidSize]byte][]*ready)}
	for _, key := range ring.Keys() {
		r, err := makeReady(key)
		if err != nil {
			return nil, err
		}
		t.byKey[key] = r
		t.byKID[r.kid] = append(t.byKID[r.kid], r)
	}
	k.table.Store(t)
	return t, nil
}

func makeReady(key *keyring.Key) (*ready, error) {
	k, sum, err := derive(key)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, fmt.Errorf("atrest: key %q: %w", key.ID(), err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("atrest: key %q: %w", key.ID(), err)
	}
	count, _ := counts.LoadOrStore(sum, new(atomic.Uint64))
	return &ready{key: key, kid: [kidSize]byte(sum[:]), aead: aead, seals: count.(*atomic.Uint64)}, nil
}
