//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris

package storagejanitor_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

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

// A file that took the place of a planned one is kept, whatever it looks like.
func TestDeleteTellsFilesApart(t *testing.T) {
	when := time.Unix(1785542400, 0)
	put := func(p, content string) error {
		return errors.Join(os.WriteFile(p, []byte(content), 0o666), os.Chtimes(p, when, when))
	}
	for name, replace := range map[string]func(dir, p string) error{
		"another file": func(dir, p string) error {
			return errors.Join(os.Rename(p, filepath.Join(dir, "old")), put(p, "BBBB"))
		},
		"another file's directory": func(dir, p string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "old")), os.Rename(filepath.Join(dir, "e"), filepath.Join(dir, "d")))
		},
		// Of the same number: a new file often gets that of the file that was
		// just deleted. The clock of the file system is coarse.
		"the same file, rewritten": func(_, p string) error {
			for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
				if err := put(p, "BBBB"); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := filepath.Join(dir, "d", "x")
			write(t, dir, "d/x", "")
			write(t, dir, "e/x", "")
			if err := errors.Join(put(p, "AAAA"), put(filepath.Join(dir, "e", "x"), "BBBB")); err != nil {
				t.Fatal(err)
			}
			b := open(t, dir)
			o := list(t, b, storagejanitor.Filter{Prefix: "d/"})[0]
			if err := replace(dir, p); err != nil {
				t.Fatal(err)
			}
			if fate, err := b.Delete(o); fate != storagejanitor.Changed || err != nil || !exists(t, dir, "d/x") {
				t.Errorf("fate %d, %v; want the file kept as changed", fate, err)
			}
		})
	}
}

// Another opening of the bucket, as on another replica, knows the file again.
func TestIDIsTheSameElsewhere(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "d/x", "12345")
	o := list(t, open(t, dir), storagejanitor.Filter{})[0]
	if o.ID == "" {
		t.Error("no ID")
	}
	if fate, err := open(t, dir).Delete(o); fate != storagejanitor.Deleted || err != nil {
		t.Errorf("fate %d, %v", fate, err)
	}
}
