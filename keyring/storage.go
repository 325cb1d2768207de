package keyring

import (
	"fmt"
	"time"
)

// A storage ring seals what stores keep: parked plans, recorded outcomes, the
// payloads of handles. A row may outlive any date that could be foreseen when its
// key was superseded, so no key of such a ring has an open_until. A key leaves when
// the operator knows that no row uses it.

// Storage reports whether the keys of the ring seal what stores keep. They never
// seal tokens, and the keys of any other ring never seal rows.
func (r *Ring) Storage() bool { return r.storage }

// Drop takes a superseded or revoked key out of a storage ring. What is still
// sealed under it can never be read again. The caller must know that no row uses
// it; the ring cannot.
//
// The key that seals, or may come to seal, cannot be dropped ([ErrNoStep]). A
// superseded one cannot until its successor has sealed for Propagation + Skew
// ([ErrTooEarly]): until then a replica that is late may still seal under it. An
// unknown id is [ErrUnknownKey], a ring of another kind [ErrStorage].
func (r *Ring) Drop(now time.Time, id string) (*Change, error) {
	if !r.storage {
		return nil, fmt.Errorf("%w: drop is for storage rings; keys that seal tokens leave by themselves after a rotation", ErrStorage)
	}
	k := r.Key(id)
	if k == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknownKey, id)
	}
	// Without a later key in the document, the one before this would seal again.
	s := r.successor(k)
	if s == nil {
		return nil, fmt.Errorf("%w: key %q is not superseded: rotate first", ErrNoStep, id)
	}
	if safe := s.from.Add(r.propagation).Add(r.skew); now.Before(safe) {
		return nil, fmt.Errorf("%w: key %q has a successor, and a server that is late may seal under it until %s: drop it then", ErrTooEarly, id, safe.UTC().Format(time.RFC3339))
	}
	n := r.next()
	c := &Change{Ring: n}
	n.drop(c, func(x *Key) bool { return x == k })
	return c.done()
}

// RevokeStored withdraws a key of a storage ring: as [Ring.Revoke], but nothing
// sealed under it can be read any more, however good the row is. That is right
// only if whoever has the secret can also write to the store; if not, rotate, and
// drop the key when no row uses it. Lost of the change is zero: how many rows it
// costs only the store can tell.
//
// A replica reads what the new key sealed when it has refreshed.
func (r *Ring) RevokeStored(now time.Time, id string) (*Change, error) {
	if !r.storage {
		return nil, fmt.Errorf("%w: this is no storage ring; use revoke", ErrStorage)
	}
	c, err := r.revoke(now, id)
	if err != nil {
		return nil, err
	}
	c.Lost = 0
	return c, nil
}
