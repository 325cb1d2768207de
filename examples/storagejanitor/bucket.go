package storagejanitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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
// time.
type Bucket struct{ root *os.Root }

// OpenBucket opens the directory, which must exist. Close releases it.
func OpenBucket(dir string) (*Bucket, error) {
	if dir == "" {
		return nil, errors.New("storagejanitor: no directory is named as the bucket")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("storagejanitor: open bucket: %w", err)
	}
	return &Bucket{root}, nil
}

// Close releases the directory.
func (b *Bucket) Close() error { return b.root.Close() }

// List returns the objects that match, ordered by the bytes of their names. If
// there are more than limit it returns the first limit of them and [ErrTooMany].
func (b *Bucket) List(ctx context.Context, f Filter, limit int) ([]Object, error) {
	var found []Object
	err := b.walk(ctx, "", f.Prefix, func(o Object) error {
		if !f.match(o) {
			return nil
		}
		if len(found) == limit {
			return ErrTooMany
		}
		found = append(found, o)
		return nil
	})
	return found, err
}

// walk visits the objects below dir whose names begin with prefix, in order. It
// reads no directory that cannot hold one.
func (b *Bucket) walk(ctx context.Context, dir, prefix string, visit func(Object) error) error {
	entries, err := b.readDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, e.Name())
		if len(name) > maxName || !utf8.ValidString(name) {
			continue
		}
		if e.IsDir() {
			if below := name + "/"; strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below) {
				if err := b.walk(ctx, name, prefix, visit); err != nil {
					return err
				}
			}
			continue
		}
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		info, err := b.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue // gone since the directory was read, or no object
		}
		if err != nil {
			return fmt.Errorf("storagejanitor: list: %w", err)
		}
		if err := visit(Object{name, info.Size(), info.ModTime()}); err != nil {
			return err
		}
	}
	return nil
}

// readDir returns the entries of dir in the order of the object names that they
// lead to: a directory sorts as its name with a slash, so that "a-b" comes
// before "a/b".
func (b *Bucket) readDir(dir string) ([]fs.DirEntry, error) {
	at := cmp.Or(dir, ".")
	// A directory that was swapped for a link after its parent was read is
	// not followed.
	if info, err := b.root.Lstat(at); dir != "" && (errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir()) {
		return nil, nil
	}
	f, err := b.root.Open(at)
	if dir != "" && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("storagejanitor: list: %w", err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("storagejanitor: list: %w", err)
	}
	key := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(key(a), key(b)) })
	return entries, nil
}

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
	// modification or kind. It was kept.
	Changed
)

// Delete removes the object if it is still as it was listed: a regular file
// with the same size and time of modification, reached through directories and
// no links. The error tells why it Failed.
//
// The look and the removal are two steps, as file systems have no other: an
// object that is replaced in the instant between them is removed.
func (b *Bucket) Delete(o Object) (Fate, error) {
	if !fs.ValidPath(o.Name) || o.Name == "." {
		return Failed, errors.New("storagejanitor: delete: not the name of an object")
	}
	for i, c := range o.Name {
		if c != '/' {
			continue
		}
		switch info, err := b.root.Lstat(o.Name[:i]); {
		case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
			return Missing, nil
		case err != nil:
			return Failed, fmt.Errorf("storagejanitor: delete: %w", err)
		}
	}
	info, err := b.root.Lstat(o.Name)
	if err == nil {
		if !info.Mode().IsRegular() || info.Size() != o.Size || !info.ModTime().Equal(o.Modified) {
			return Changed, nil
		}
		err = b.root.Remove(o.Name)
	}
	switch {
	case err == nil:
		return Deleted, nil
	case errors.Is(err, fs.ErrNotExist):
		return Missing, nil
	}
	return Failed, fmt.Errorf("storagejanitor: delete: %w", err)
}
