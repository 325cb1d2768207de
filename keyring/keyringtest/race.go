package keyringtest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

// patience is how long a store is given to let a second writer, or a reader, in while
// an update is under way. A store that locks writers out is right too.
const patience = 250 * time.Millisecond

// testLostRace lets another write between what an update reads and what it writes. The
// update may start over with what the other wrote, or fail; or the other waits.
func testLostRace(t *testing.T, h *Harness) {
	was := h.created(t)
	other := h.Store
	if h.Peer != nil {
		other = h.Peer(t)
	}
	type result struct {
		ring *keyring.Ring
		err  error
	}
	theirs := make(chan result, 1)
	between := false // the other wrote while the function ran
	var given []int64
	var mine result
	mine.ring, mine.err = h.Store.Update(t.Context(), func(r *keyring.Ring) (*keyring.Ring, error) {
		given = append(given, r.Serial())
		if len(given) == 1 {
			go func() {
				r, err := rotate(t.Context(), other)
				theirs <- result{r, err}
			}()
			select {
			case got := <-theirs:
				theirs <- got
				between = got.err == nil
			case <-time.After(patience):
			}
		}
		c, err := r.Rotate(start, 0)
		if err != nil {
			return nil, err
		}
		return c.Ring, nil
	})
	their := <-theirs
	got, err := h.Store.Load(t.Context())
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	written := int64(0)
	for who, r := range map[string]result{"the update": mine, "the other": their} {
		if r.err != nil {
			continue
		}
		written++
		keys := r.ring.Keys()
		if !holds(t, got, keys[len(keys)-1]) {
			t.Errorf("%s returned serial %d, and its key is not in the document", who, r.ring.Serial())
		}
	}
	switch {
	case written == 0:
		t.Errorf("of two updates none succeeded: %v; %v", mine.err, their.err)
	case got.Serial() < was.Serial()+written:
		t.Errorf("document has serial %d after %d updates upon %d", got.Serial(), written, was.Serial())
	case mine.err == nil && mine.ring.Serial() != given[len(given)-1]+1:
		t.Errorf("Update returned serial %d, and its function was last given %d", mine.ring.Serial(), given[len(given)-1])
	case mine.err == nil && between && len(given) == 1:
		t.Error("another wrote first, and the function was not called again with what that is")
	}
}

// holds reports whether the ring has the very key.
func holds(t *testing.T, r *keyring.Ring, key *keyring.Key) bool {
	t.Helper()
	k := r.Key(key.ID())
	if k == nil {
		return false
	}
	a, errA := k.Derive("keyringtest", 32)
	b, errB := key.Derive("keyringtest", 32)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	return bytes.Equal(a, b)
}

// testLoadDuringUpdate: a fleet refreshes while somebody rotates, however long that
// takes.
func testLoadDuringUpdate(t *testing.T, h *Harness) {
	was := h.created(t)
	readers := []keyring.Store{h.Store}
	if h.Peer != nil {
		readers = append(readers, h.Peer(t))
	}
	if _, err := h.Store.Update(t.Context(), func(r *keyring.Ring) (*keyring.Ring, error) {
		for _, s := range readers {
			ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
			got, err := s.Load(ctx)
			cancel()
			if err != nil || got.Serial() != was.Serial() {
				t.Errorf("Load during an update = %v, %v; want %v", got, err, was)
				break
			}
		}
		c, err := r.Rotate(start, 0)
		if err != nil {
			return nil, err
		}
		return c.Ring, nil
	}); err != nil {
		t.Errorf("Update: %v", err)
	}
}
