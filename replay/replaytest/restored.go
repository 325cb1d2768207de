package replaytest

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/replay"
)

// mintedAt is an ID that begins with the time, as an ID of 16 bytes does.
func mintedAt(at time.Time) []byte {
	id := freshID()
	ms := at.UnixMilli()
	for i := 5; i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	return id
}

func (h *Harness) needRestored(t *testing.T) {
	t.Helper()
	if h.Restored == nil {
		t.Skip("needs a store that can be restored: set Harness.Restored")
	}
}

// later lets a moment pass.
func (h *Harness) later() {
	if h.Clock != nil {
		h.Clock.Advance(2 * time.Millisecond)
	} else {
		time.Sleep(2 * time.Millisecond)
	}
}

func testRestored(t *testing.T, h *Harness) {
	h.needRestored(t)
	spent, expires := mintedAt(h.now()), h.live()
	use(t, h.Store, spent, expires, true)
	old := [][]byte{mintedAt(h.now()), mintedAt(h.now().AddDate(-1, 0, 0)), mintedAt(time.UnixMilli(0))}
	h.later()
	h.Restored(t)
	refused := func(s replay.Store) {
		t.Helper()
		for _, id := range old {
			if first, err := s.Use(t.Context(), id, expires); first || !errors.Is(err, replay.ErrRestored) {
				t.Fatalf("Use of an id from before the store was restored = %v, %v; want ErrRestored", first, err)
			}
		}
		never(t, s, spent, expires)
	}
	refused(h.Store)
	use(t, h.Store, mintedAt(h.now().Add(time.Hour)), expires, true)
	// An ID of another length tells no time.
	other := make([]byte, 15)
	rand.Read(other[6:])
	use(t, h.Store, other, expires, true)
	use(t, h.Store, append(other, 0, 0), expires, true)
	refused(h.Store)
	if h.Peer != nil {
		refused(h.Peer(t))
	}
	if h.Reopen != nil {
		refused(h.Reopen(t))
	}
}
