package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotEmpty says that a directory holds files that are not the page's.
var ErrNotEmpty = errors.New("the directory holds something else: name one that is new or empty, or that an earlier export made")

// Export writes the page into dir, which it makes. A directory that is there must be
// empty or hold the files of an earlier export alone, else the error matches
// [ErrNotEmpty] and nothing is written. Serve the directory from localhost or over
// HTTPS: elsewhere a browser has no WebCrypto.
func Export(dir string) error {
	all := files()
	if err := checkEmpty(dir, all); err != nil {
		return err
	}
	for _, f := range all {
		path := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("lab: export: %w", err)
		}
		if err := os.WriteFile(path, f.text, 0o644); err != nil {
			return fmt.Errorf("lab: export: %w", err)
		}
	}
	return nil
}

// checkEmpty reports whether all that is in dir has the names of the page's files.
func checkEmpty(dir string, all []file) error {
	own := map[string]bool{}
	for _, f := range all {
		own[filepath.FromSlash(f.name)] = true
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil && (!own[name] || !d.Type().IsRegular()) {
			err = fmt.Errorf("%w: %s", ErrNotEmpty, name)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lab: export: %w", err)
	}
	return nil
}
