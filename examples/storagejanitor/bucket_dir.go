package storagejanitor

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// openDir opens a directory of the bucket, which the caller must close; "" is the
// bucket itself. It follows no link and does not wait for a pipe. The error is
// [fs.ErrNotExist] if there is no such directory, whatever else has its name.
//
// What is done with a name in the directory stays in it, whatever happens to the
// path that led there.
func (b *Bucket) openDir(dir string) (*os.Root, error) {
	at, err := b.root.OpenRoot(".")
	if err != nil || dir == "" {
		return at, err
	}
	for name := range strings.SplitSeq(dir, "/") {
		next, err := b.enter(at, name)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// enter opens the directory of that name in at.
func (b *Bucket) enter(at *os.Root, name string) (*os.Root, error) {
	seen, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, fs.ErrNotExist
	}
	if err := b.looked(stepEnter, name); err != nil {
		return nil, err
	}
	// By now the name may be anything. OpenRoot would open a plain name as it
	// opens a file, and wait for a writer if it is a pipe. What comes before a
	// slash it opens as a directory or not at all (O_DIRECTORY).
	next, err := at.OpenRoot(name + "/.")
	if err != nil {
		again, e := at.Lstat(name)
		if errors.Is(e, fs.ErrNotExist) || e == nil && !os.SameFile(seen, again) {
			return nil, fs.ErrNotExist
		}
		return nil, err
	}
	// OpenRoot follows links. Through one it arrives at another directory.
	if now, err := next.Stat("."); err != nil || !os.SameFile(seen, now) {
		next.Close()
		if err == nil {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	return next, nil
}
