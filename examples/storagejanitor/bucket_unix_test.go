//go:build unix

package storagejanitor_test

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/foilmcp/foil/examples/storagejanitor"
)

// A pipe must not be an object, and looking at the bucket must not wait for
// somebody to write into it.
func TestPipeIsNoObject(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := names(list(t, open(t, dir), storagejanitor.Filter{})); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q", got)
	}
}
