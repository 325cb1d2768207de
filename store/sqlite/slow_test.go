package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/foilmcp/foil/store/sqlite"
)

// What an operator asks for may take longer than a call of a server, which another
// one that began after it shows to be over.
func TestOperatorsArePatient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	for name, call := range map[string]func(s *sqlite.Store) error{
		"Restored": func(s *sqlite.Store) error { _, err := s.Restored(t.Context()); return err },
		"Sweep":    func(s *sqlite.Store) error { _, err := s.Sweep(t.Context()); return err },
	} {
		s := open(t, path, nil)
		unlock := lock(t, path)
		s.SetTimeout(100 * time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- call(s) }()
		for range 3 { // three timeouts one after the other
			if first, err := s.Replay().Use(t.Context(), newID(), time.Now().Add(time.Hour)); err == nil || first {
				t.Fatalf("Use in a locked file = %v, %v; want an error", first, err)
			}
		}
		select {
		case err := <-done:
			t.Errorf("%s in a locked file gave up: %v", name, err)
			unlock()
			continue
		default:
		}
		unlock()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
