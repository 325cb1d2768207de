package storagejanitor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// maxName is the length in bytes of the longest object name, as in S3. It also
// bounds how deep a walk goes.
const maxName = 1024

// ErrTooMany says that more objects match than a caller wants to see.
var ErrTooMany = errors.New("storagejanitor: too many objects match")

// An Object is a regular file of a [Bucket], as it was when it was listed.
type Object struct {
	Name     string // path below the bucket's root, with slashes
	Size     int64
	Modified time.Time
	// ID tells the file from another one that took its place with the same
	// name, size and time of modification, and from itself with other content,
	// permissions or links. It is the same on every machine that has the
	// bucket. On systems that tell files apart by their names only, as Windows
	// and AIX here, it is empty.
	ID string
}

// A Filter says which objects are meant. The zero Filter means all.
type Filter struct {
	// Prefix is what the name begins with. It is compared as text: "logs"
	// matches "logs/a" and "logs-old/a", "logs/" only the first.
	Prefix string
	// MaxBytes, if not nil, is the size of the largest object.
	MaxBytes *int64
	// OlderThan, if not zero, is the time before which the object was last modified.
	OlderThan time.Time
}

func (f *Filter) match(o Object) bool {
	return strings.HasPrefix(o.Name, f.Prefix) &&
		(f.MaxBytes == nil || o.Size <= *f.MaxBytes) &&
		(f.OlderThan.IsZero() || o.Modified.Before(f.OlderThan))
}

// A Bucket is a directory seen as a flat set of objects. Nothing outside of the
// directory is ever listed or deleted: neither ".." nor a symbolic link leads
// out of it. Symbolic links are not objects and are not followed, wherever they
// point; nor are devices, sockets and pipes objects, nor files whose names are
// not UTF-8 or longer than 1024 bytes.
//
// Every regular file in the directory is an object: keep the key ring, the store,
// the tokens and the program of the server itself elsewhere.
//
// A Bucket is safe for concurrent use. Others may change the directory at any
// time: no call waits for what they put there, such as a pipe in the place of a
// directory.
type Bucket struct {
	root *os.Root
	info fs.FileInfo // of the root

	// between, if not nil, is called in the instants between a look at name, a
	// component of a path, and the step that follows. Tests set it. The step
	// fails with its error.
	between func(step, name string) error
}

// The steps that follow a look.
const (
	stepEnter  = "enter"
	stepRemove = "remove"
)

func (b *Bucket) looked(next, name string) error {
	if b.between == nil {
		return nil
	}
	return b.between(next, name)
}

// OpenBucket opens the directory, which must exist. Close releases it.
func OpenBucket(dir string) (*Bucket, error) {
	if dir == "" {
		return nil, errors.New("storagejanitor: no directory is named as the bucket")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("storagejanitor: open bucket: %w", err)
	}
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("storagejanitor: open bucket: %w", err)
	}
	return &Bucket{root: root, info: info}, nil
}

// Close releases the directory.
func (b *Bucket) Close() error { return b.root.Close() }

// A Fate is what became of an object that was to be deleted.
type Fate uint8

const (
	// Failed: the object could not be looked at or removed.
	Failed Fate = iota
	// Deleted: the object is gone, by this call.
	Deleted
	// Missing: there was no object of this name any more.
	Missing
	// Changed: the object is another one than was listed, in size, time of
	// modification, kind or ID. It was kept.
	Changed
)

// Delete removes the object if it is still as it was listed: a regular file
// with the same size, time of modification and ID, reached through directories
// and no links. The error tells why it Failed.
//
// The object's directory is held open from before the last look until after the
// removal, so who moves or swaps a directory above cannot lead the removal
// elsewhere. But the look and the removal are two steps, as file systems have no
// other: a file, link or empty directory that takes the name of the object, in
// that directory, in the instant between them is removed.
func (b *Bucket) Delete(o Object) (Fate, error) {
	if !fs.ValidPath(o.Name) || o.Name == "." {
		return Failed, errors.New("storagejanitor: delete: not the name of an object")
	}
	fate, err := b.remove(o)
	switch {
	case err == nil:
		return fate, nil
	case errors.Is(err, fs.ErrNotExist):
		return Missing, nil
	}
	return Failed, fmt.Errorf("storagejanitor: delete: %w", err)
}

func (b *Bucket) remove(o Object) (Fate, error) {
	dir, name := path.Split(o.Name)
	d, err := b.openDir(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return Failed, err
	}
	defer d.Close()
	info, err := d.Lstat(name)
	if err != nil {
		return Failed, err
	}
	if !info.Mode().IsRegular() || info.Size() != o.Size || !info.ModTime().Equal(o.Modified) || b.id(info) != o.ID {
		return Changed, nil
	}
	if err := b.looked(stepRemove, name); err != nil {
		return Failed, err
	}
	if err := d.Remove(name); err != nil {
		return Failed, err
	}
	return Deleted, nil
}
