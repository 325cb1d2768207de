// Package ringtable is what the codecs with keys from a ring share: the ring
// made ready for use, and which of its keys may seal and open now.
package ringtable

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/keyring"
)

const (
	// KIDSize is how many bytes of a token name its key.
	KIDSize = 4
	keySize = 32
)

// A Format says how a token format derives its keys and names them.
type Format struct {
	Name  string // of the codec's package, for errors
	Info  string // of the key: K = HKDF-SHA256(secret, no salt, Info, 32)
	Label string // of its id: SHA-256(Label || K)[:4]
}

// A Derived is a key of a ring as a format has it.
type Derived struct {
	Key []byte            // 32 bytes
	Sum [sha256.Size]byte // identifies Key in full, and tells nothing of it
}

// KID is what tokens name the key by. Two keys may share it.
func (d *Derived) KID() [KIDSize]byte { return [KIDSize]byte(d.Sum[:]) }

func (f *Format) derive(key *keyring.Key) (*Derived, error) {
	k, err := key.Derive(f.Info, keySize)
	if err != nil {
		return nil, fmt.Errorf("%s: key %q: %w", f.Name, key.ID(), err)
	}
	return &Derived{Key: k, Sum: sha256.Sum256(append([]byte(f.Label), k...))}, nil
}

// KID returns the id, in hex, by which tokens and logs name a key.
func (f *Format) KID(key *keyring.Key) (string, error) {
	d, err := f.derive(key)
	if err != nil {
		return "", err
	}
	kid := d.KID()
	return hex.EncodeToString(kid[:]), nil
}

// Keys are the keys of a ring that may change at any time. M is what the codec
// makes of each. It is safe for concurrent use.
type Keys[M any] struct {
	format Format
	source keyring.Current
	ready  func(*Derived) (M, error)
	table  atomic.Pointer[Table[M]]
	mu     sync.Mutex // builds tables
}

// New returns the keys of the ring that source has. It fails if there is none
// now. ready makes a key ready for use; it is called by one goroutine at a time.
func New[M any](f Format, source keyring.Current, ready func(*Derived) (M, error)) (*Keys[M], error) {
	if source == nil {
		return nil, fmt.Errorf("%s: keys is nil", f.Name)
	}
	k := &Keys[M]{format: f, source: source, ready: ready}
	if _, err := k.Current(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return k, nil
}

// A Table is a ring made ready. It is immutable.
type Table[M any] struct {
	ring  *keyring.Ring
	byKey map[*keyring.Key]*entry[M]
	byKID map[[KIDSize]byte][]*entry[M]
}

type entry[M any] struct {
	key   *keyring.Key
	ready M
}

// Current returns the table of the ring as of now. An error is a failure of the
// key source.
func (k *Keys[M]) Current() (*Table[M], error) {
	ring, err := k.source.Ring()
	if err != nil {
		return nil, err
	}
	if t := k.table.Load(); t != nil && t.ring == ring {
		return t, nil
	}
	if ring.Storage() {
		return nil, fmt.Errorf("%s: the keys of this ring seal what stores keep: make a ring for tokens with foil keys new, without --storage", k.format.Name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.table.Load(); t != nil && t.ring == ring {
		return t, nil
	}
	t := &Table[M]{ring: ring, byKey: make(map[*keyring.Key]*entry[M]), byKID: make(map[[KIDSize]byte][]*entry[M])}
	for _, key := range ring.Keys() {
		d, err := k.format.derive(key)
		if err != nil {
			return nil, err
		}
		e := &entry[M]{key: key}
		if e.ready, err = k.ready(d); err != nil {
			return nil, fmt.Errorf("%s: key %q: %w", k.format.Name, key.ID(), err)
		}
		t.byKey[key] = e
		t.byKID[d.KID()] = append(t.byKID[d.KID()], e)
	}
	k.table.Store(t)
	return t, nil
}

// Sealing returns the key in force, and its id in the ring.
func (t *Table[M]) Sealing(now time.Time) (ready M, id string, err error) {
	key, err := t.ring.Sealing(now)
	if err != nil {
		return ready, "", err
	}
	return t.byKey[key].ready, key.ID(), nil
}

// Open tries each key that tokens name kid and that still opens, until one
// gives a payload. last is whether no other key is left to try. The error is a
// refusal.
func (t *Table[M]) Open(kid [KIDSize]byte, now time.Time, try func(ready M, last bool) (payload []byte, ok bool)) ([]byte, error) {
	return t.OpenNow(kid, func() time.Time { return now }, try)
}

// OpenNow is Open with a clock, which is only read for a key that has an end.
func (t *Table[M]) OpenNow(kid [KIDSize]byte, clock func() time.Time, try func(ready M, last bool) (payload []byte, ok bool)) ([]byte, error) {
	reason := foil.ReasonUnknownKey
	entries := t.byKID[kid]
	for i, e := range entries {
		var now time.Time
		if _, ends := e.key.OpenUntil(); ends {
			now = clock()
		}
		if !e.key.Opens(now) {
			continue
		}
		reason = foil.ReasonTampered
		if payload, ok := try(e.ready, i == len(entries)-1); ok {
			return payload, nil
		}
	}
	return nil, foil.Reject(reason)
}

// RingID returns the ids in the ring of the keys that tokens name kid, in hex,
// separated by commas, or "".
func (k *Keys[M]) RingID(kid string) string {
	b, err := hex.DecodeString(kid)
	if err != nil || len(b) != KIDSize {
		return ""
	}
	t, err := k.Current()
	if err != nil {
		return ""
	}
	var ids []string
	for _, e := range t.byKID[[KIDSize]byte(b)] {
		ids = append(ids, e.key.ID())
	}
	return strings.Join(ids, ",")
}

// Limits returns what the ring demands.
func (k *Keys[M]) Limits() foil.KeyLimits {
	t, err := k.Current()
	if err != nil {
		// Seal and Open report it; the last ring's bounds still hold.
		t = k.table.Load()
	}
	r := t.ring
	return foil.KeyLimits{MaxTTL: r.MaxTTL(), Keep: r.Keep(), Skew: r.Skew(), Interop: r.Interop()}
}
