package postgres_test

import (
	"testing"

	"github.com/foilmcp/foil/store"
)

// problem fails for each that is found.
func problem(t *testing.T) func(store.Problem) error {
	return func(p store.Problem) error {
		t.Errorf("Fsck: %v", p)
		return nil
	}
}
