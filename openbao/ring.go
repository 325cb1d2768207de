package openbao

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/foilmcp/foil/keyring"
)

// ringField is the one field of the entry that holds a ring: its document, as text.
const ringField = "ring"

// maxRaces is how often an Update that lost a race tries again. Each loss is an update
// of somebody else's that was stored.
const maxRaces = 100

var (
	errLost  = errors.New("openbao: another version is there")
	errNotKV = errors.New("openbao: not a KV engine of version 2")
)

// A Ring is a key ring document in a KV engine (version 2): one entry whose field
// "ring" holds the document. It is safe for concurrent use by many processes.
//
// A write is checked against the version that was read, so of two writers one is
// first and the other starts over with what that one wrote. A change that revokes or
// removes a key destroys all older versions of the entry, as they still hold it; if
// that fails the new ring is written all the same, the error says so, and calling
// Update again tries again.
//
// A standby of OpenBao may answer with an older document. [keyring.Refresher] takes no
// lower serial, and no write is built on one: its check fails.
type Ring struct {
	kv   kv
	path string
	turn chan struct{} // one writer of this process at a time
}

var _ keyring.Store = (*Ring)(nil)

// OpenRing returns the ring that is kept at path, which is MOUNT/PATH; the mount is
// the part before the first slash. Nothing need be there: see [Ring.Create].
func OpenRing(c *Client, path string) (*Ring, error) {
	mount, rest, err := splitPath("a ring", path)
	if err != nil {
		return nil, err
	}
	return &Ring{kv: kv{c, mount}, path: rest, turn: make(chan struct{}, 1)}, nil
}

// String returns "openbao:MOUNT/PATH".
func (r *Ring) String() string { return "openbao:" + r.kv.mount + "/" + r.path }

// Format keeps what is inside out of every verb.
func (r *Ring) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(r.String())) }

// Load implements [keyring.Source]. It is one call.
func (r *Ring) Load(ctx context.Context) (*keyring.Ring, error) {
	ring, _, err := r.load(ctx)
	return ring, err
}

func (r *Ring) load(ctx context.Context) (*keyring.Ring, int, error) {
	e, err := r.kv.read(ctx, "read ring", r.path)
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("%s: %w", r, err)
	case e == nil:
		return nil, 0, fmt.Errorf("%s: no ring there: make one with foil keys new, or look whether the mount is a KV engine of version 2", r)
	case e.data == nil:
		return nil, 0, fmt.Errorf("%s: version %d was deleted: bring it back with bao kv undelete, or write an older one again with bao kv rollback", r, e.version)
	}
	var doc string
	if len(e.data) != 1 || json.Unmarshal(e.data[ringField], &doc) != nil {
		return nil, 0, fmt.Errorf("%s: version %d must have one field, %s, with the document as text", r, e.version, ringField)
	}
	ring, err := keyring.Parse([]byte(doc))
	if err != nil {
		return nil, 0, fmt.Errorf("%s: version %d: %w", r, e.version, err)
	}
	return ring, e.version, nil
}

func field(ring *keyring.Ring) map[string]string {
	return map[string]string{ringField: string(ring.Marshal())}
}

// Create implements [keyring.Store].
func (r *Ring) Create(ctx context.Context, ring *keyring.Ring) error {
	_, err := r.kv.write(ctx, "write ring", r.path, field(ring), 0)
	switch {
	case errors.Is(err, errLost):
		return fmt.Errorf("%w: %s", keyring.ErrExists, r)
	case err != nil && r.landed(ctx, err, ring):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", r, err)
	}
	return nil
}

// landed finds out whether a write whose answer was lost was done.
func (r *Ring) landed(ctx context.Context, err error, ring *keyring.Ring) bool {
	if e := as(err); e == nil || !e.unsure || ctx.Err() != nil {
		return false
	}
	got, _, err := r.load(ctx)
	return err == nil && bytes.Equal(got.Marshal(), ring.Marshal())
}

// Update implements [keyring.Store].
func (r *Ring) Update(ctx context.Context, fn func(*keyring.Ring) (*keyring.Ring, error)) (*keyring.Ring, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: another update of this process is under way: %w", r, ctx.Err())
	}
	for range maxRaces {
		old, version, err := r.load(ctx)
		if err != nil {
			return nil, err
		}
		updated, err := fn(old)
		if err != nil {
			return nil, err
		}
		if updated == old {
			if len(old.RevokedIDs()) > 0 { // it may be what an earlier call did not get done
				err = r.destroyBefore(ctx, version)
			}
			return old, err
		}
		if err := keyring.CheckUpdate(old, updated); err != nil {
			return nil, err
		}
		_, err = r.kv.write(ctx, "write ring", r.path, field(updated), version)
		switch {
		case errors.Is(err, errLost):
			if !pause(ctx, 10*time.Millisecond) {
				return nil, fmt.Errorf("%s: others write all the time: %w", r, ctx.Err())
			}
			continue
		case err != nil && !r.landed(ctx, err, updated):
			return nil, fmt.Errorf("%s: %w", r, err)
		}
		if withdraws(old, updated) {
			if err := r.destroyBefore(ctx, version+1); err != nil {
				return nil, err
			}
		}
		return updated, nil
	}
	return nil, fmt.Errorf("%s: %d updates of others came first, one after the other: a standby may be answering with an old document", r, maxRaces)
}

// withdraws reports whether a key is to be used no more.
func withdraws(old, updated *keyring.Ring) bool {
	if len(updated.RevokedIDs()) > len(old.RevokedIDs()) {
		return true
	}
	return slices.ContainsFunc(old.Keys(), func(k *keyring.Key) bool { return updated.Key(k.ID()) == nil })
}

// destroyBefore destroys the versions before newest, which hold keys that were
// withdrawn.
func (r *Ring) destroyBefore(ctx context.Context, newest int) error {
	if _, err := r.kv.destroyBefore(ctx, r.path, newest); err != nil {
		return fmt.Errorf("%s: the ring is written, but its older versions still hold what was withdrawn: run the same again, or bao kv destroy: %w", r, err)
	}
	return nil
}
