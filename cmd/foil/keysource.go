package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/keyring"
)

// keysTimeout bounds the wait for a source, and for other writers.
const keysTimeout = 30 * time.Second

// ringFlag is the source that every command under foil keys needs.
type ringFlag struct{ spec string }

func (r *ringFlag) add(c *cobra.Command) {
	c.Flags().StringVar(&r.spec, "ring", "", "key ring: a path, file:PATH or env:NAME (required)")
	_ = c.MarkFlagRequired("ring") // fails for an unknown flag only
}

func (r *ringFlag) source() (keyring.Source, error) {
	source, err := keyring.ParseSource(r.spec)
	if err != nil {
		return nil, usagef("--ring: %w", err)
	}
	return source, nil
}

// load reads the ring.
func (r *ringFlag) load(ctx context.Context) (*keyring.Ring, error) {
	source, err := r.source()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	ring, err := source.Load(ctx)
	if err != nil {
		return nil, r.explain(source, err)
	}
	return ring, nil
}

func (r *ringFlag) store() (keyring.Store, error) {
	source, err := r.source()
	if err != nil {
		return nil, err
	}
	store, ok := source.(keyring.Store)
	if !ok {
		return nil, usagef("--ring: %v can be read and not written", source)
	}
	return store, nil
}

// update changes the ring in its store.
func (r *ringFlag) update(ctx context.Context, store keyring.Store, fn func(*keyring.Ring) (*keyring.Ring, error)) error {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	_, err := store.Update(ctx, fn)
	return r.explain(store, err)
}

// create stores the first ring.
func (r *ringFlag) create(ctx context.Context, store keyring.Store, ring *keyring.Ring) error {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	err := store.Create(ctx, ring)
	if path := filePath(store); path != "" && errors.Is(err, fs.ErrNotExist) && !tilde(path) {
		return &because{fmt.Sprintf("%v: there is no directory %s: make it first", store, filepath.Dir(path)), err}
	}
	return r.explain(store, err)
}

// explain adds what to do about an error of a ring file.
func (r *ringFlag) explain(source keyring.Source, err error) error {
	path := filePath(source)
	switch {
	case path == "":
	case errors.Is(err, fs.ErrNotExist) && tilde(path):
		return &because{fmt.Sprintf("%v: there is no %s: the shell does not expand ~ after file:, so leave file: out or write file:$HOME/…", source, path), err}
	case errors.Is(err, fs.ErrNotExist):
		return &because{fmt.Sprintf("%v: no ring there: make one with foil keys new --ring %s", source, quote("file:"+path)), err}
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; a ring file must belong to the user that runs the server, and foil keys must run as that user", err)
	}
	return err
}

// because is an error in better words.
type because struct {
	words string
	err   error
}

func (b *because) Error() string { return b.words }
func (b *because) Unwrap() error { return b.err }

// filePath returns the absolute path of a source that is a file, or "".
func filePath(source keyring.Source) string {
	f, ok := source.(*keyring.File)
	if !ok {
		return ""
	}
	path := strings.TrimPrefix(f.String(), "file:")
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// tilde reports whether a path has a ~ in it for a directory of that name: the shell
// expands it at the beginning of a word only.
func tilde(path string) bool { return strings.Contains(path, string(filepath.Separator)+"~") }

// quote returns word as a shell takes it.
func quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
