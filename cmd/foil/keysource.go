package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/openbao"
)

// keysTimeout bounds the wait for a source, and for other writers.
const keysTimeout = 30 * time.Second

// ringForms are the sources of a ring, for help and errors; keyForms those of foil keys.
const (
	ringForms = "a path, file:PATH, openbao:MOUNT/PATH or env:NAME"
	keyForms  = "a path, file:PATH, openbao:MOUNT/PATH, env:NAME, or transit:MOUNT/KEY for a Transit key"
)

// The kinds of sources that package keyring does not know.
const (
	openBaoScheme = "openbao:"
	transitScheme = "transit:"
)

// quietly is for what fails with an error that is shown anyway.
var quietly = slog.New(slog.DiscardHandler)

// ringFlag is the source that every command under foil keys needs.
type ringFlag struct{ spec string }

func (r *ringFlag) add(c *cobra.Command) {
	c.Flags().StringVar(&r.spec, "ring", "", "key ring: "+keyForms+" (required)")
	_ = c.MarkFlagRequired("ring") // fails for an unknown flag only
}

// check says, without asking anybody, why the flag names no ring.
func (r *ringFlag) check() error {
	if path, ok := strings.CutPrefix(r.spec, openBaoScheme); ok {
		_, err := openbao.OpenRing(nil, path) // which asks nobody
		return err
	}
	if _, ok := r.transitPath(); ok {
		return fmt.Errorf("%s is a Transit key, which never leaves OpenBao: this wants a ring, %s", r.spec, ringForms)
	}
	if _, err := keyring.ParseSource(r.spec); err != nil {
		return fmt.Errorf("%w, or openbao:MOUNT/PATH", err)
	}
	return nil
}

// source opens the source. It may log in, and the caller must call done.
func (r *ringFlag) source(ctx context.Context) (source keyring.Source, done func(), err error) {
	if err := r.check(); err != nil {
		return nil, nil, usagef("--ring: %w", err)
	}
	path, ok := strings.CutPrefix(r.spec, openBaoScheme)
	if !ok {
		source, err := keyring.ParseSource(r.spec)
		return source, func() {}, err
	}
	client, err := dialBao(ctx, quietly)
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = client.Close() } // which gives the token back, as far as it can
	ring, err := openbao.OpenRing(client, path)
	if err != nil {
		done()
		return nil, nil, err
	}
	return ring, done, nil
}

// name is what the source calls itself.
func (r *ringFlag) name() string {
	if strings.HasPrefix(r.spec, openBaoScheme) || strings.HasPrefix(r.spec, transitScheme) {
		return r.spec
	}
	source, err := keyring.ParseSource(r.spec)
	if err != nil {
		return r.spec
	}
	return fmt.Sprint(source)
}

// load reads the ring.
func (r *ringFlag) load(ctx context.Context) (*keyring.Ring, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	source, done, err := r.source(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ring, err := source.Load(ctx)
	if err != nil {
		return nil, r.explain(source, err)
	}
	return ring, nil
}

// store opens the source to write to it. The caller must call done.
func (r *ringFlag) store(ctx context.Context) (store keyring.Store, done func(), err error) {
	source, done, err := r.source(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, ok := source.(keyring.Store)
	if !ok {
		done()
		return nil, nil, usagef("--ring: %v can be read and not written: change the ring where it comes from, and restart what reads the variable; or keep it in a file or in OpenBao", source)
	}
	return store, done, nil
}

// update changes the ring in its store.
func (r *ringFlag) update(ctx context.Context, fn func(*keyring.Ring) (*keyring.Ring, error)) error {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	store, done, err := r.store(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = store.Update(ctx, fn)
	return r.explain(store, err)
}

// create stores the first ring.
func (r *ringFlag) create(ctx context.Context, ring *keyring.Ring) error {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	store, done, err := r.store(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = store.Create(ctx, ring)
	if path := filePath(store); path != "" && errors.Is(err, fs.ErrNotExist) && !tilde(path) {
		return &because{fmt.Sprintf("%v: there is no directory %s: make it first", store, filepath.Dir(path)), err}
	}
	if e, ok := errors.AsType[*openbao.Error](err); ok && e.Status == http.StatusNotFound {
		return &because{fmt.Sprintf("%v: there is no such engine: make it with foil openbao setup --ring %s", store, strings.TrimPrefix(r.spec, openBaoScheme)), err}
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
