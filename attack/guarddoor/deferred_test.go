package guarddoor_test

import (
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
)

// TestDeferred runs the battery against a handler that spends its states itself.
// It is then the handler that finds out that the store is away, and not Open, so
// store-down is not among the rows.
func TestDeferred(t *testing.T) {
	t.Parallel()
	for _, r := range run(t, site(t, attack.Mode{Once: foil.Deferred}, nil), light()) {
		if !r.OK {
			t.Errorf("%s: got %q, want %q\nnote: %s\nwire: %s", r.Name, r.Got, r.Expected, r.Note, r.Wire)
		}
	}
}
