package sqlite_test

import (
	"context"
	"testing"

	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/sqlite"
)

func problems(t *testing.T, s *sqlite.Store) (all []store.Problem) {
	t.Helper()
	err := s.Fsck(context.Background(), func(p store.Problem) error {
		all = append(all, p)
		return nil
	})
	if err != nil {
		t.Fatalf("Fsck: %v", err)
	}
	return all
}

// wantSound checks that Fsck finds nothing.
func wantSound(t *testing.T, s *sqlite.Store) {
	t.Helper()
	for _, p := range problems(t, s) {
		t.Errorf("Fsck: %v", p)
	}
}
