package storagejanitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// An UnreadableError says that a list lacks what could not be read, such as a
// directory that another user closed. What the list has is right.
type UnreadableError struct {
	// Count is how many directories and files could not be looked at, not
	// counting what is in the directories.
	Count int
	// First is the name of the first of them, with a slash at the end if it is
	// a directory. As the name of an object it is somebody else's text.
	First string
	// Err is why the first could not be read.
	Err error
}

// Error tells the first cause.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("storagejanitor: %d part(s) of the bucket cannot be read, the first is %q: %v", e.Count, e.First, e.Err)
}

// Unwrap returns Err.
func (e *UnreadableError) Unwrap() error { return e.Err }

// List returns the objects that match, ordered by the bytes of their names. If
// there are more than limit it returns the first limit of them and [ErrTooMany].
//
// A directory below the bucket's own that cannot be read is left out: then List
// returns the objects that are elsewhere and an [*UnreadableError], which may
// come together with ErrTooMany. It is for errors.As. With any other error the
// list is of no use.
func (b *Bucket) List(ctx context.Context, f Filter, limit int) ([]Object, error) {
	l := lister{bucket: b, filter: f, limit: limit}
	err := l.walk(ctx, "")
	if err != nil && !errors.Is(err, ErrTooMany) {
		return nil, err
	}
	if l.unreadable != nil {
		err = errors.Join(err, l.unreadable)
	}
	return l.found, err
}

type lister struct {
	bucket     *Bucket
	filter     Filter
	limit      int
	found      []Object
	unreadable *UnreadableError
}

// An entry of a directory is an object that matches, or a directory that may
// hold one.
type entry struct {
	Object
	dir bool
}

// walk adds the objects below dir in order. It reads no directory that cannot
// hold one, and keeps none open while it reads another.
func (l *lister) walk(ctx context.Context, dir string) error {
	entries, err := l.read(ctx, dir)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
	case dir == "":
		return fmt.Errorf("storagejanitor: list: %w", err)
	case !errors.Is(err, fs.ErrNotExist): // else gone since its parent was read
		l.skip(dir+"/", err)
	}
	for _, e := range entries {
		if e.dir {
			if err := l.walk(ctx, e.Name); err != nil {
				return err
			}
			continue
		}
		if len(l.found) == l.limit {
			return ErrTooMany
		}
		l.found = append(l.found, e.Object)
	}
	return nil
}

func (l *lister) skip(name string, err error) {
	if l.unreadable == nil {
		l.unreadable = &UnreadableError{First: name, Err: err}
	}
	l.unreadable.Count++
}

// read returns the entries of dir in the order of the object names that they
// lead to: a directory sorts as its name with a slash, so that "a-b" comes
// before "a/b". It ends after one object more than there is room for.
func (l *lister) read(ctx context.Context, dir string) ([]entry, error) {
	d, err := l.bucket.openDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	f, err := d.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	key := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(key(a), key(b)) })

	var entries []entry
	room, prefix := l.limit-len(l.found), l.filter.Prefix
	for _, e := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name := path.Join(dir, e.Name())
		if len(name) > maxName || !utf8.ValidString(name) {
			continue
		}
		if e.IsDir() {
			if below := name + "/"; strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below) {
				entries = append(entries, entry{Object{Name: name}, true})
			}
			continue
		}
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		info, err := d.Lstat(e.Name())
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue // gone since the directory was read, or no object
		}
		if err != nil {
			l.skip(name, err)
			continue
		}
		o := Object{name, info.Size(), info.ModTime(), l.bucket.id(info)}
		if !l.filter.match(o) {
			continue
		}
		entries = append(entries, entry{o, false})
		if room--; room < 0 {
			break
		}
	}
	return entries, nil
}
