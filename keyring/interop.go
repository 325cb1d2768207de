package keyring

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// The three steps of an interop rotation. Replicas that read their keys at start
// have a list: the first key seals, all open. Between two steps the operator gives
// every such replica the new export and restarts it:
//
//	step      document                          list after it      all replicas then
//	stage     new key without seal_from         [old, new]         open both, seal old
//	activate  new key's seal_from is set        [new, old]         open both, seal new
//	retire    keys before the sealing one go    [new]              open and seal new
//
// At no point does one replica seal with a key that another does not open: while
// the lists of one step are rolled out, half of the fleet has the list of the step
// before, and each list opens what the other seals.

// Stage appends a key that opens and does not seal. It needs an interop ring
// without a staged key.
func (r *Ring) Stage(now time.Time) (*Change, error) {
	if err := r.needInterop("stage"); err != nil {
		return nil, err
	}
	if k := r.waiting(now); k != nil {
		return nil, fmt.Errorf("%w: key %q is staged or waiting already", ErrNoStep, k.id)
	}
	n := r.next()
	c := &Change{Ring: n}
	k := &Key{id: n.newID(now), secret: newSecret()}
	n.keys = append(n.keys, k)
	c.Added = k.id
	return c.done()
}

// Activate makes the staged key the one that seals: here at the time Rotate would
// choose, so that even a replica which has only just learnt of the key opens what
// it seals, and first in the exported list at once. Every replica that reads its
// keys at start must have been restarted since Stage; the ring cannot know.
func (r *Ring) Activate(now time.Time) (*Change, error) {
	if err := r.needInterop("activate"); err != nil {
		return nil, err
	}
	var staged *Key
	for _, k := range r.keys {
		if k.from.IsZero() && !k.revoked {
			staged = k
		}
	}
	if staged == nil {
		return nil, fmt.Errorf("%w: no key is staged", ErrNoStep)
	}
	from := now.Add(r.lead())
	if t := r.newest(); from.Before(t) {
		from = t
	}
	n := r.next()
	c := &Change{Ring: n}
	n.setFrom(c, staged, from)
	return c.done()
}

// Retire takes the keys before the sealing one out of the document. It is refused
// with [ErrTooEarly] until MaxTTL + Keep + Skew after the sealing key came into
// force, as tokens of the old keys may be on their way until then; force skips
// that. Every replica that reads its keys at start must have been restarted since
// Activate, and MaxTTL have passed after that; the ring cannot know.
func (r *Ring) Retire(now time.Time, force bool) (*Change, error) {
	if err := r.needInterop("retire"); err != nil {
		return nil, err
	}
	// The key that seals last, in force already or activated for later.
	sealing := r.inForce(now)
	if last := r.inForce(time.Unix(maxUnix, 0)); last != sealing && sealing != nil && !last.revoked {
		return nil, fmt.Errorf("%w: key %q seals only from %s", ErrTooEarly, last.id, last.from.Format(time.RFC3339))
	}
	if sealing == nil || sealing.revoked {
		return nil, ErrNoSealingKey
	}
	n := r.next()
	c := &Change{Ring: n}
	n.drop(c, func(k *Key) bool { return k != sealing && !k.from.IsZero() })
	if len(c.Removed) == 0 {
		return nil, fmt.Errorf("%w: there is no key to retire", ErrNoStep)
	}
	if safe := sealing.from.Add(r.maxTTL).Add(r.keep).Add(r.skew); !force && now.Before(safe) {
		return nil, fmt.Errorf("%w: tokens of the old keys may be under way until %s", ErrTooEarly, safe.Format(time.RFC3339))
	}
	return c.done()
}

func (r *Ring) needInterop(step string) error {
	if !r.interop {
		return fmt.Errorf("%w: %s is a step of an interop ring; this one rotates by itself", ErrInterop, step)
	}
	return nil
}

// ExportPython returns the keys as a Python expression for the request state
// security of the Python MCP SDK: the key that seals, or is activated to, first,
// then all others that open at now. It contains the secrets. Only an interop ring
// may be exported: the Python SDK does not enforce what other rings promise.
func (r *Ring) ExportPython(now time.Time) (string, error) {
	if err := r.needInterop("export for Python"); err != nil {
		return "", err
	}
	first := r.inForce(time.Unix(maxUnix, 0))
	if first == nil || !first.Opens(now) {
		return "", ErrNoSealingKey
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# ring serial %d, %s\n", r.serial, now.UTC().Format(time.RFC3339))
	b.WriteString("RequestStateSecurity(keys=[\n")
	line := func(k *Key, note string) {
		fmt.Fprintf(&b, "    bytes.fromhex(%q),  # %s%s\n", hex.EncodeToString(k.secret.Reveal()), k.id, note)
	}
	line(first, ", seals")
	for _, k := range r.keys {
		if k != first && k.Opens(now) {
			line(k, ", opens")
		}
	}
	b.WriteString("])\n")
	return b.String(), nil
}
