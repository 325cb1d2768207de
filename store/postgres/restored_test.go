package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/postgres"
)

// What executed before the restore is unknown, and nobody who executed it, or had
// taken it over since the backup was made, can go on.
func TestRestored(t *testing.T) {
	w := newWorld(t, nil)
	w.frozen(&w.opts)
	s := w.open(t)
	start := newStart()
	clear(start.ID[:6]) // minted long ago
	start.Expires = w.clock.Now().Add(time.Hour)
	if _, _, err := s.Ledger().Begin(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	before, err := s.Restored(t.Context())
	if want := w.clock.Now().Add(postgres.DefaultSkew); err != nil || !before.Equal(want) {
		t.Fatalf("Restored = %v, %v; want %v", before, err, want)
	}
	op, err := s.Ledger().Get(t.Context(), start.ID)
	if err != nil || op.State != ledger.Unknown || op.Fence < 1<<32 {
		t.Fatalf("the operation is %+v, %v; want it unknown, with a fence far above", op, err)
	}
	for fence := range uint64(5) {
		if err := s.Ledger().Finish(t.Context(), start.ID, fence, ledger.Finish{State: ledger.Failed}); !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("Finish under fence %d: %v, want ErrFenced", fence, err)
		}
	}
	if _, err := s.Ledger().Resume(t.Context(), start.ID, op.Fence, time.Minute); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("Resume under the new fence: %v, want ErrFenced", err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || !stats.RestoredAt.Equal(before) {
		t.Errorf("Stats = %+v, %v; want RestoredAt %v", stats, err, before)
	}
	w.clock.Advance(-time.Hour)
	if again, err := s.Restored(t.Context()); err != nil || !again.Equal(before) {
		t.Errorf("Restored by a clock set back = %v, %v; want %v still", again, err, before)
	}
}
