package keyring

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of the schedule. The ring is left as it was.
var (
	// ErrInterop says that the operation is not for this kind of ring: interop
	// rings move by hand (Stage, Activate, Retire), all others by Rotate.
	ErrInterop = errors.New("keyring: not for this kind of ring")
	// ErrStorage says that the operation is not for this kind of ring: keys that
	// seal tokens and keys that seal what stores keep end in different ways.
	ErrStorage = errors.New("keyring: not for this kind of ring")
	// ErrUnknownKey says that the ring has no key with the id.
	ErrUnknownKey = errors.New("keyring: no such key")
	// ErrTooEarly says that a step of an interop ring could break honest flows now.
	ErrTooEarly = errors.New("keyring: too early")
	// ErrNoStep says that the ring is not in the state that the step needs.
	ErrNoStep = errors.New("keyring: nothing to do for this step")
)

// A Change is what an operation on a ring did. Only Ring holds secrets, and it
// does not print them.
type Change struct {
	// Ring is the ring to write: a new one with the next serial, or the very ring
	// the operation was called on when nothing is to be changed.
	Ring *Ring
	// Added is the id of a new key, SealFrom the time it starts to seal (zero for
	// a staged key). Activate sets them for the key that it activates.
	Added    string
	SealFrom time.Time
	// Removed lists the ids of the keys that left the document.
	Removed []string
	// Revoked is the id of a key withdrawn by this change.
	Revoked string
	// Lost is how long a stretch of honest flows a revocation costs at most: those
	// sealed under the key and still within MaxTTL, and those that start until
	// every replica knows.
	Lost time.Duration
}

// Changed reports whether there is anything to write.
func (c *Change) Changed() bool { return c.Added != "" || c.Revoked != "" || len(c.Removed) > 0 }

// done holds the new ring to the rules of the document.
func (c *Change) done() (*Change, error) {
	if err := c.Ring.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// LostMinutes returns Lost in minutes, rounded up.
func (c *Change) LostMinutes() int { return int((c.Lost + time.Minute - 1) / time.Minute) }

// Rotate appends a key and schedules it, in one write:
//
//   - the new key seals from now + Propagation + Propagation/3 + Skew. By then every
//     replica knows it, even one whose source was away for just under Propagation
//     (Propagation/3 is for its refreshes before and after that, see [Refresher]),
//     and whose clock is behind by Skew;
//   - every earlier key without an open_until, pending ones included, opens until
//     that time + MaxTTL + Keep. An open_until once written is never moved later;
//   - keys past their open_until by more than Skew leave the document.
//
// A new key never seals before one that is already scheduled. If nothing can seal
// now and nothing is scheduled, it seals at once.
//
// With every > 0 Rotate does so only if the newest key, pending or not, was made
// at least that long ago (less a tenth, at most Skew, so that a timer with the
// same period does not miss each second turn); otherwise the Change is empty. Of
// many replicas that all do this, one rotates.
//
// In a storage ring the earlier keys get no open_until: they open until [Ring.Drop].
// An interop ring is refused with [ErrInterop].
func (r *Ring) Rotate(now time.Time, every time.Duration) (*Change, error) {
	if r.interop {
		return nil, fmt.Errorf("%w: an interop ring rotates by stage, activate and retire", ErrInterop)
	}
	if every < 0 {
		return nil, errors.New("keyring: rotation period is negative")
	}
	if every > 0 {
		if now.Before(r.NewestMade().Add(every - min(every/10, r.skew))) {
			return &Change{Ring: r}, nil
		}
	}
	return r.rotate(now, r.lead())
}

// NewestMade returns when the newest key was made, pending or not, as far as its
// seal_from tells: it is what Rotate counts the age of a ring from. The first key of a
// ring counts as older than it is, by the time that it would have had to wait.
func (r *Ring) NewestMade() time.Time { return r.newest().Add(-r.lead()) }

// lead is how long before its seal_from a key must be written.
func (r *Ring) lead() time.Duration { return r.propagation + r.propagation/3 + r.skew }

// rotate takes the lead as a parameter so that a test can show that none of its
// terms can be spared.
func (r *Ring) rotate(now time.Time, lead time.Duration) (*Change, error) {
	from := now.Add(lead)
	newest := r.newest()
	if _, err := r.Sealing(now); err != nil && !newest.After(now) {
		from = now.Add(-r.skew) // there is no predecessor to overlap with
	}
	if from.Before(newest) {
		from = newest
	}
	n := r.next()
	c := &Change{Ring: n}
	n.add(c, now, from) // before the drop, so that no id is used again
	n.drop(c, func(k *Key) bool { return !k.until.IsZero() && now.After(k.until.Add(r.skew)) })
	return c.done()
}

// Revoke withdraws the key with the given id; it opens nothing on any replica that
// knows.
//
// If the key seals now, or did within Skew so that a slow clock may still use it, a
// new key is written that seals at once: from now - Skew, but not before the revoked
// key, which it must supersede. A key that does not seal yet is taken out of the
// schedule, because once in force it would leave nothing to seal with; its
// predecessor goes on, and a replacement is scheduled as by Rotate unless another
// key is in time. Of any other key only the id is written.
//
// In an interop ring the staged or activated key, if there is one, takes the place
// of the new key: replicas that read their keys at start may know it already. The
// operator has to restart them all.
//
// Revoking a revoked key changes nothing. An unknown id is [ErrUnknownKey]. A storage
// ring is refused with [ErrStorage]; see [Ring.RevokeStored].
func (r *Ring) Revoke(now time.Time, id string) (*Change, error) {
	if r.storage && r.Key(id) != nil {
		return nil, fmt.Errorf("%w: what key %q sealed could never be read again; rotate, and drop the key when no row uses it", ErrStorage, id)
	}
	return r.revoke(now, id)
}

func (r *Ring) revoke(now time.Time, id string) (*Change, error) {
	k := r.Key(id)
	if slices.Contains(r.revoked, id) {
		return &Change{Ring: r}, nil
	}
	if k == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknownKey, id)
	}
	n := r.next()
	c := &Change{Ring: n, Revoked: id, Lost: r.lost(k, now)}
	n.revoked = append(n.revoked, id)
	from := now.Add(-r.skew)
	if from.Before(k.from) {
		from = k.from
	}
	next := r.successor(k)
	recent := !r.interop && !k.from.After(now) && (next == nil || next.from.After(from))
	switch {
	case k == r.inForce(now) || recent:
		n.markRevoked(id)
		if s := n.waiting(now); r.interop && s != nil {
			n.setFrom(c, s, from)
		} else {
			n.add(c, now, from)
		}
	case k.from.IsZero() || k.from.After(now):
		// A writer whose clock is ahead may have revoked another that does not seal
		// yet by this clock; it must not come into force in this one's place.
		n.drop(c, func(x *Key) bool { return x.id == id || x.revoked && x.from.After(now) })
		if !r.interop {
			n.replace(c, now)
		}
	default:
		n.markRevoked(id)
	}
	return c.done()
}

// replace schedules a key for one that was taken out before it sealed, if that left
// a gap: a key that closes and has no successor in time. The new key seals when all
// know it. If the key before the gap closes too early for that, which takes a very
// short Keep, it takes over while it still can, and flows sealed with it on replicas
// that do not know it yet are lost.
func (r *Ring) replace(c *Change, now time.Time) {
	k := r.inForce(now)
	if k == nil {
		k = r.successor(&Key{}) // the first to come into force
	}
	if k == nil {
		r.add(c, now, now.Add(-r.skew))
		return
	}
	for s := k; k != nil && !k.until.IsZero(); k = s {
		s = r.successor(k)
		last := k.until.Add(-r.maxTTL)
		if s != nil && !s.from.After(last) {
			continue
		}
		from := now.Add(r.lead())
		if from.Before(k.from) {
			from = k.from
		}
		if from.After(last) {
			c.Lost = from.Sub(last)
			from = last
		}
		r.add(c, now, from)
		return
	}
}

// lost returns how long a stretch of flows the end of k costs at most.
func (r *Ring) lost(k *Key, now time.Time) time.Duration {
	if k.from.IsZero() || k.from.After(now) || !k.Opens(now) {
		return 0
	}
	// It sealed from k.from until end; tokens of the last MaxTTL are still good.
	end, more := now, r.propagation
	if s := r.successor(k); s != nil && s.from.Before(now) {
		end, more = s.from, 0
	}
	first := k.from
	if t := now.Add(-r.maxTTL); first.Before(t) {
		first = t
	}
	return max(0, end.Sub(first)) + more
}

// successor returns the key that comes into force after k, or nil.
func (r *Ring) successor(k *Key) *Key {
	var best *Key
	after := false
	for _, x := range r.keys {
		if x == k {
			after = true
			continue
		}
		if x.from.IsZero() || x.from.Before(k.from) || (x.from.Equal(k.from) && !after) {
			continue
		}
		if best == nil || x.from.Before(best.from) {
			best = x
		}
	}
	return best
}

// newest returns the greatest seal_from.
func (r *Ring) newest() time.Time {
	var t time.Time
	for _, k := range r.keys {
		if k.from.After(t) {
			t = k.from
		}
	}
	return t
}

// waiting returns the first key that does not seal yet at now and is not revoked.
func (r *Ring) waiting(now time.Time) *Key {
	for _, k := range r.keys {
		if !k.revoked && (k.from.IsZero() || k.from.After(now)) {
			return k
		}
	}
	return nil
}

// The rest changes a ring under construction, which nobody else holds yet.

// next returns a copy of the ring with the next serial. Keys are replaced, never
// changed in place: the old ring goes on using them.
func (r *Ring) next() *Ring {
	n := *r
	n.serial++
	n.keys = slices.Clone(r.keys)
	n.revoked = slices.Clone(r.revoked)
	return &n
}

// add appends a key that seals from the given time and closes its predecessors.
// Keys that come into force later than it are its successors and stay open; the
// first of them closes it.
func (r *Ring) add(c *Change, now, from time.Time) {
	from = ceilSecond(from)
	k := &Key{id: r.newID(now), secret: newSecret(), from: from}
	if !r.interop && !r.storage {
		r.closeBefore(from)
		if s := r.successor(&Key{from: from}); s != nil && s.from.After(from) {
			k.until = s.from.Add(r.maxTTL).Add(r.keep)
		}
	}
	r.keys = append(r.keys, k)
	c.Added, c.SealFrom = k.id, from
}

// closeBefore gives every key that seals no later than from an open_until, if it
// has none.
func (r *Ring) closeBefore(from time.Time) {
	for i, k := range r.keys {
		if k.until.IsZero() && !k.from.After(from) {
			closed := *k
			closed.until = from.Add(r.maxTTL).Add(r.keep)
			r.keys[i] = &closed
		}
	}
}

func (r *Ring) setFrom(c *Change, key *Key, from time.Time) {
	for i, k := range r.keys {
		if k == key {
			moved := *k
			moved.from = ceilSecond(from)
			// Behind all others, so that it wins a tie with the key it follows.
			r.keys = append(slices.Delete(r.keys, i, i+1), &moved)
			c.Added, c.SealFrom = moved.id, moved.from
			return
		}
	}
}

func (r *Ring) drop(c *Change, gone func(*Key) bool) {
	r.keys = slices.DeleteFunc(r.keys, func(k *Key) bool {
		if !gone(k) {
			return false
		}
		c.Removed = append(c.Removed, k.id)
		return true
	})
}

func (r *Ring) markRevoked(id string) {
	for i, k := range r.keys {
		if k.id == id {
			marked := *k
			marked.revoked = true
			r.keys[i] = &marked
		}
	}
}

// ceilSecond rounds up, as the document has whole seconds and a key may come into
// force later than planned but not earlier.
func ceilSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second).UTC() }
