package keyring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// File is a ring document in a file, for one machine or a shared volume.
//
// The file must be readable by its owner alone (mode 0600 or 0400); anything wider
// is refused on reading. A write goes to a temporary file in the same directory,
// which is flushed and renamed over the old one, so that a reader and a crash at
// any moment see the old document or the new one, whole. The mode and, where the
// process may set it, the owner stay; where it may not, the write fails.
//
// Writers take a lock on PATH.lock, which the system releases when a process dies.
// The lock file stays. Symbolic links are followed: a write replaces the file that
// the link leads to and leaves the link. Writing needs a Unix.
type File struct{ path string }

// OpenFile returns the store for the document at path. The file need not exist:
// see [File.Create].
func OpenFile(path string) *File { return &File{path} }

// String returns "file:PATH".
func (f *File) String() string { return "file:" + f.path }

// Load reads and parses the file.
func (f *File) Load(ctx context.Context) (*Ring, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("keyring: %s: %w", f, err)
	}
	r, _, err := read(f.path)
	return r, err
}

func read(path string) (*Ring, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("keyring: %w", err)
	}
	defer file.Close()
	info, err := file.Stat() // of what is open, not of what the path names by now
	if err != nil {
		return nil, nil, fmt.Errorf("keyring: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("keyring: %s is not a regular file", path)
	}
	if wide := widerThanOwner(info); wide != 0 {
		return nil, nil, fmt.Errorf("keyring: %s has mode %04o, so that others than its owner have access to the keys; run: chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	doc, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err != nil {
		return nil, nil, fmt.Errorf("keyring: %w", err)
	}
	r, err := Parse(doc)
	if err != nil {
		return nil, nil, fmt.Errorf("file:%s: %w", path, err)
	}
	return r, info, nil
}

// Update implements [Store].
func (f *File) Update(ctx context.Context, fn func(*Ring) (*Ring, error)) (*Ring, error) {
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	unlock, err := lock(ctx, path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, info, err := read(path)
	if err != nil {
		return nil, err
	}
	updated, err := fn(old)
	if err != nil || updated == old {
		return old, err
	}
	if err := CheckUpdate(old, updated); err != nil {
		return nil, err
	}
	tmp, err := writeTemp(path, updated.Marshal(), info)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, path); err != nil {
		os.Remove(tmp)
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return updated, syncDir(filepath.Dir(path))
}

// Create implements [Store]. It makes a file with mode 0600. A symbolic link in its
// place, even one that leads nowhere, counts as a document that exists.
func (f *File) Create(ctx context.Context, r *Ring) error {
	unlock, err := lock(ctx, f.path)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Lstat(f.path); err == nil {
		return fmt.Errorf("%w: %s", ErrExists, f)
	}
	tmp, err := writeTemp(f.path, r.Marshal(), nil)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	// A link, unlike a rename, never replaces what another program put there since.
	if err := os.Link(tmp, f.path); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s", ErrExists, f)
	} else if err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	return syncDir(filepath.Dir(f.path))
}

// lock takes the writers' lock for path and removes what a writer that died may
// have left: only the holder has temporary files.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("keyring: %s: %w", path, err)
	}
	file, err := openLock(path)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := tryLock(file)
		if ok && sameFile(file, path+".lock") {
			break
		}
		if ok {
			// Somebody removed it, and others may lock the one that is there
			// now: this lock keeps nobody out.
			file.Close()
			if file, err = openLock(path); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil {
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-ctx.Done():
				err = fmt.Errorf("another writer holds the lock: %w", ctx.Err())
			}
		}
		file.Close()
		return nil, fmt.Errorf("keyring: %s.lock: %w", path, err)
	}
	dir, prefix := filepath.Dir(path), tempPrefix(path)
	if entries, err := os.ReadDir(dir); err == nil {
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) {
				os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
	return func() { file.Close() }, nil
}

// openLock opens the lock file of path and gives it the owner of the ring, so that
// a root that rotates does not lock out the service. What has a second name is
// not ours alone, and is left as it is.
func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|openFlags|noFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	if info, err := os.Stat(path); err == nil && onlyName(file) {
		_ = takeOwner(file, info) // best effort
	}
	return file, nil
}

// sameFile reports whether path names the open file.
func sameFile(file *os.File, path string) bool {
	a, err := file.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

func tempPrefix(path string) string { return "." + filepath.Base(path) + ".tmp-" }

// writeTemp writes doc to a file beside path, flushed to the disk, with the mode
// and owner of the file it shall replace, if any.
func writeTemp(path string, doc []byte, like fs.FileInfo) (name string, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), tempPrefix(path)+"*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("keyring: %w", err)
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
			name, err = "", fmt.Errorf("keyring: %w", err)
		}
	}()
	if _, err = file.Write(doc); err != nil {
		return "", err
	}
	if like != nil {
		if err = takeOwner(file, like); err != nil {
			return "", fmt.Errorf("cannot keep the file's owner, who must go on reading it: %w", err)
		}
		if err = file.Chmod(like.Mode().Perm()); err != nil {
			return "", err
		}
	}
	if err = file.Sync(); err != nil {
		return "", err
	}
	return file.Name(), file.Close()
}

// syncDir makes a rename or link in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("keyring: flush directory: %w", err)
	}
	return nil
}
