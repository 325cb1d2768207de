package keyringtest

import (
	"testing"

	"github.com/foilmcp/foil/keyring"
)

// A server decides by the kind of its ring what it may promise, once: no update may
// change it, not even to a ring that is good in itself.

var kinds = []string{"tokens", "interop", "storage"}

func testTokensStay(t *testing.T, h *Harness)   { stays(t, h, "tokens") }
func testInteropStays(t *testing.T, h *Harness) { stays(t, h, "interop") }
func testStorageStays(t *testing.T, h *Harness) { stays(t, h, "storage") }

func stays(t *testing.T, h *Harness, kind string) {
	was := ringOf(t, kind, 5, 2)
	if err := h.Store.Create(t.Context(), was); err != nil {
		t.Fatalf("Create of a ring of kind %s: %v", kind, err)
	}
	stored(t, h.Store, was)
	for _, other := range kinds {
		if other == kind {
			continue
		}
		becomes := ringOf(t, other, 6, 3)
		r, err := h.Store.Update(t.Context(), func(*keyring.Ring) (*keyring.Ring, error) { return becomes, nil })
		if err == nil {
			t.Errorf("Update from kind %s to %s = %v, want an error", kind, other, r)
		}
		stored(t, h.Store, was)
	}
	same := ringOf(t, kind, 6, 3)
	if r, err := h.Store.Update(t.Context(), func(*keyring.Ring) (*keyring.Ring, error) { return same, nil }); err != nil || r == nil {
		t.Fatalf("Update of a ring of kind %s = %v, %v", kind, r, err)
	}
	stored(t, h.Store, same)
}
