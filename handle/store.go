package handle

import (
	"context"
	"time"
)

// A Store keeps payloads under a key until they expire. The methods have types of
// the standard library alone, so that a store need not import this package.
//
// A key is SHA-256 of a handle: with it alone, whoever reads the store can present
// nothing. A payload is as good as a token to whoever can write one, so a store
// that others can read or write seals it at rest, bound to its key (package
// atrest).
//
// A store whose data dies with the process says so by a method Ephemeral() bool.
// One that can tell whether Get would succeed now has a method
// Ping(context.Context) error; a store that is full can still be read.
//
// A Store must be safe for concurrent use, by as many processes as it serves. The
// package handletest is the suite that every implementation runs.
type Store interface {
	// Put keeps payload under key until expires. When it returns nil the payload
	// is as durable as the store promises, and every Get that begins after that,
	// on any replica, finds it.
	//
	// A key that is there is an error and is left as it is: of any number of
	// concurrent calls with one key, one at most succeeds. A store that is full
	// returns an error and forgets nothing before its time.
	//
	// A context that had ended before the call stores nothing. After any other
	// error the payload may be stored or not. The store neither changes payload
	// nor keeps a reference to it.
	//
	// No error contains the payload or what the store authenticates to its
	// backend with, such as the password in a DSN.
	Put(ctx context.Context, key [32]byte, payload []byte, expires time.Time) error

	// Get returns the payload under key, which is then the caller's. It is found
	// until the store's own clock, less the clock skew that the store allows, has
	// reached expires, and not once its clock has passed expires by more than a
	// second and that skew, swept or not. found is false for a key that was never
	// there. A payload that is damaged, or was sealed for another key, is an
	// error: it must not look as if it had never been.
	Get(ctx context.Context, key [32]byte) (payload []byte, found bool, err error)
}

type pinger interface {
	Ping(ctx context.Context) error
}

type ephemeral interface {
	Ephemeral() bool
}
