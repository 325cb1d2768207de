package aesgcm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
)

// What was sealed is told for each key, by its id in the ring, over a rotation.
func TestSealsByKey(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ring, err := keyring.NewRing(now, nil)
	if err != nil {
		t.Fatal(err)
	}
	change, err := ring.Rotate(now, 0)
	if err != nil {
		t.Fatal(err)
	}
	codec, err := aesgcm.New(keyring.Fixed(change.Ring), &aesgcm.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	seal := func(n int) {
		t.Helper()
		for range n {
			if _, err := codec.Seal(t.Context(), nil, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	seal(3)
	now = change.SealFrom
	seal(2)
	want := map[string]uint64{"2026-11-30a": 3, "2026-11-30b": 2}
	if diff := cmp.Diff(want, codec.SealsByKey()); diff != "" {
		t.Error(diff)
	}
	if aesgcm.MaxSeals != 1<<28 {
		t.Errorf("MaxSeals is %d, want 2^28", aesgcm.MaxSeals)
	}
}
