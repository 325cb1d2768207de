package keyring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A Source is where a ring document is kept. Load returns the document as it is
// now; it must return when ctx ends and be safe for concurrent use. Its errors must
// not contain key bytes.
type Source interface {
	Load(ctx context.Context) (*Ring, error)
}

// A Store is a Source that can be written. It is safe for concurrent use by many
// processes: of concurrent updates each sees the result of the one before, and a
// Load that begins when an update has returned sees that update, or a later one.
// Readers see the document before an update or after it, whole, and do not wait for
// one that is under way.
//
// A context that had ended before the call writes nothing. After any other error of
// the backend the document may be written or not. No error contains key bytes or
// what the store authenticates to its backend with, such as a token or the password
// in a DSN. The package keyringtest is the suite that every implementation runs.
type Store interface {
	Source
	// Update replaces the document by what fn makes of it and returns what is
	// stored afterwards. fn must be a pure function: a store that loses a race
	// calls it again, with what won, or returns an error. If fn returns the ring it
	// was given, nothing is written; if it returns an error, neither, and that error
	// is returned. The new ring must have the next serial and the same Interop
	// and Storage ([CheckUpdate]). Without a document Update is an error and fn is not called.
	Update(ctx context.Context, fn func(*Ring) (*Ring, error)) (*Ring, error)
	// Create stores the first document. If there is one already it is left alone
	// and the error matches [ErrExists].
	Create(ctx context.Context, r *Ring) error
}

// ErrExists says that Create found a document.
var ErrExists = errors.New("keyring: a ring exists already")

// ParseSource returns the source that s names: "file:PATH" or just a path for a
// ring file ([OpenFile]), "env:NAME" for a document in an environment variable
// ([OpenEnv]). Only a file can be written, that is, is a [Store].
func ParseSource(s string) (Source, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	switch {
	case s == "" || ok && rest == "":
		return nil, fmt.Errorf("keyring: source %q names nothing; want a path, file:PATH or env:NAME", s)
	case !ok || strings.ContainsAny(scheme, `/\.`) || len(scheme) == 1:
		return OpenFile(s), nil // a path; one letter is a drive
	case scheme == "file":
		return OpenFile(rest), nil
	case scheme == "env":
		return OpenEnv(rest), nil
	default:
		return nil, fmt.Errorf("keyring: unknown kind of source %q; want a path, file:PATH or env:NAME", scheme)
	}
}

// CheckUpdate says why updated must not take the place of old, the document that is
// about to be replaced. It is for implementations of [Store], which ask it of
// whatever the function given to Update returns.
func CheckUpdate(old, updated *Ring) error {
	switch {
	case updated == nil:
		return errors.New("keyring: update made no ring")
	case updated.serial != old.serial+1:
		return fmt.Errorf("keyring: update has serial %d, must be %d", updated.serial, old.serial+1)
	case updated.interop != old.interop:
		return errors.New("keyring: an update cannot change whether the ring is an interop ring")
	case updated.storage != old.storage:
		return errors.New("keyring: an update cannot change whether the ring is a storage ring")
	case len(updated.Marshal()) > maxDocument:
		return fmt.Errorf("keyring: ring would have more than %d bytes, which nobody reads; keys leave it as they close", maxDocument)
	}
	return nil
}

// Env is a ring document in an environment variable. It cannot be written and, as
// the environment of a process does not change, never rotates without a restart.
type Env struct{ name string }

// OpenEnv returns the source that reads the document in the variable name.
func OpenEnv(name string) *Env { return &Env{name} }

// String returns "env:NAME".
func (e *Env) String() string { return "env:" + e.name }

// Load parses the variable.
func (e *Env) Load(context.Context) (*Ring, error) {
	doc, ok := os.LookupEnv(e.name)
	if !ok {
		return nil, fmt.Errorf("keyring: environment variable %s is not set", e.name)
	}
	r, err := Parse([]byte(doc))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e, err)
	}
	return r, nil
}
