// Package replay remembers which tokens were spent, so that none is spent twice.
//
// [Store] is the seam. [Memory] is a bounded store inside one process: it is
// right only together with a key that dies with the same process, because the
// memory of spent tokens must live as long as the key that opens them and must
// be seen by every replica that holds the key. Durable and shared stores are in
// the store packages; replaytest is the suite that every implementation runs.
package replay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxIDLen is the length in bytes of the longest ID that a store takes.
const MaxIDLen = 64

var (
	// ErrFull says that the store has no room for another ID. It never makes
	// room by forgetting an ID before its time, so the token is refused.
	ErrFull = errors.New("replay: store is full")

	// ErrSwept says that expires is at or below the store's sweep mark: the
	// store may have forgotten this ID, so it cannot say whether it was used.
	ErrSwept = errors.New("replay: id is older than the sweep mark")
)

// A Store remembers the IDs of spent tokens until they expire.
//
// Implementations must be safe for concurrent use, by as many processes as
// the store serves.
type Store interface {
	// Use marks id as spent and reports whether this call was the first to do
	// so. Of any number of concurrent calls with one id, on any number of
	// machines, exactly one reports true, and only once the mark is as durable
	// as the store promises.
	//
	// An error means that the store could not decide; the caller must refuse
	// the token. After an error the id may be spent or not, except that a
	// context that had ended before the call marks nothing. An implementation
	// that loses its connection finds out by itself whether its own mark was
	// written; if it cannot, it returns an error and never true.
	//
	// The store remembers id at least until its own clock, less the allowed
	// clock skew, has reached expires. A caller gives one id one expires.
	//
	// Use with an expires at or below the store's own sweep mark is an error
	// ([ErrSwept]). The mark is the greatest expires that may have been
	// forgotten. It only ever rises, it is as durable as the IDs, and it is
	// checked in the same step that writes the ID, so that neither a stalled
	// call nor a clock set back can revive an ID.
	//
	// An id of no bytes or of more than MaxIDLen, and an expires after the year
	// 9999, are errors. The store keeps no reference to id. No error contains the
	// id or what the store authenticates to its backend with, such as the
	// password in a DSN.
	Use(ctx context.Context, id []byte, expires time.Time) (first bool, err error)
}

// A Pinger is a Store that can tell whether [Store.Use] could succeed now. It does
// what Use does, a lock and a durable write of the same size, and marks nothing.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Ephemeral is implemented by stores whose memory may die with the process.
// Reporting true means: do not use this store with a key that outlives it.
type Ephemeral interface {
	Ephemeral() bool
}

// Check reports whether id and expires are within what every store takes. It is
// for implementations of [Store], which call it before anything else. The error
// does not contain the id.
func Check(id []byte, expires time.Time) error {
	if len(id) == 0 || len(id) > MaxIDLen {
		return fmt.Errorf("replay: id has %d bytes, want 1 to %d", len(id), MaxIDLen)
	}
	if expires.UTC().Year() > 9999 {
		return errors.New("replay: expires is after the year 9999")
	}
	return nil
}
