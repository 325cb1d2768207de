package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/foilmcp/foil/keyring"
)

// checkApart refuses to serve a bucket that holds the server's own files: they
// would be objects, to be listed, and deleted with what else matches a prefix.
// What is kept beside a file, such as the lock of a ring and the log of a store,
// is in the same directory as the file.
func (c *config) checkApart() error {
	bucket, err := os.Stat(c.bucket)
	if err != nil {
		return nil // said where the bucket is opened
	}
	files := []struct{ what, path string }{{"-store", c.store}, {"-tokens", c.tokens}}
	for _, ring := range []struct{ what, source string }{{"-ring", c.ring}, {"-storage-ring", c.storageRing}} {
		if ring.source == "" {
			continue
		}
		source, err := keyring.ParseSource(ring.source)
		if err != nil {
			return fmt.Errorf("%s: %w", ring.what, err)
		}
		if f, ok := source.(*keyring.File); ok {
			files = append(files, struct{ what, path string }{ring.what, strings.TrimPrefix(f.String(), "file:")})
		}
	}
	if self, err := os.Executable(); err == nil {
		files = append(files, struct{ what, path string }{"this program", self})
	}
	for _, f := range files {
		if f.path == "" {
			continue
		}
		real, err := resolve(f.path)
		if err != nil {
			return fmt.Errorf("%s %s: %w", f.what, f.path, err)
		}
		if within(bucket, real) {
			return fmt.Errorf("%s is %s, inside the bucket %s: it would be an object that can be listed and purged; keep it elsewhere", f.what, real, c.bucket)
		}
	}
	return nil
}

// resolve returns where path leads to through symbolic links, also where the file
// is yet to be made.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	dir, err := resolve(filepath.Dir(path)) // the root exists
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(path))
	target, err := os.Readlink(path)
	switch {
	case err != nil:
		return path, nil // no link: it will be made here
	case filepath.IsAbs(target):
		return resolve(target)
	}
	return resolve(filepath.Join(dir, target))
}

// within reports whether path, which has no links in it, lies below the directory.
// Directories are compared as such and not by name, which can have several.
func within(dir fs.FileInfo, path string) bool {
	for up := filepath.Dir(path); up != path; path, up = up, filepath.Dir(up) {
		if info, err := os.Stat(up); err == nil && os.SameFile(info, dir) {
			return true
		}
	}
	return false
}
