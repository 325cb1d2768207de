package replay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// AttemptLen is the length in bytes of an attempt mark: the name of one
// presentation.
const AttemptLen = 16

// ErrRestored says that an ID was minted before the store was restored from a
// backup, which may have forgotten it. IDs of 16 bytes begin with the time they
// were minted, in Unix milliseconds (6 bytes); a restore mark applies to them.
var ErrRestored = errors.New("replay: id is older than the restored store")

// A Tx spends an ID within a transaction that its user commits: the mark and the
// user's own rows come true together or not at all. The store packages make one
// from a transaction of their database (sqlite.InTx, postgres.InTx).
type Tx interface {
	// UseAs does what [Store.Use] does, in the transaction, and writes attempt
	// (AttemptLen bytes) beside the ID. first is final only once the transaction
	// has committed. It checks what the transaction stands on, and an error
	// means that the mark would not be as durable as the store promises.
	UseAs(ctx context.Context, id []byte, expires time.Time, attempt []byte) (first bool, err error)
}

// A Deferrer is a [Store] whose IDs can be spent in a transaction of the caller's.
type Deferrer interface {
	Store
	// UseAs is Use with an attempt mark, outside of any transaction of the
	// caller's. It reports true again for the attempt that was first, so that a
	// presentation may ask twice.
	UseAs(ctx context.Context, id []byte, expires time.Time, attempt []byte) (first bool, err error)
	// Attempt returns the attempt mark under which id was spent: nil and true if
	// it was spent without one, false if it is not spent. It sees what is
	// committed, and nothing else.
	Attempt(ctx context.Context, id []byte) (attempt []byte, spent bool, err error)
}

// CheckAttempt reports whether attempt is one. It is for implementations of
// [Deferrer] and [Tx]. The error does not contain the attempt.
func CheckAttempt(attempt []byte) error {
	if len(attempt) != AttemptLen {
		return fmt.Errorf("replay: attempt has %d bytes, want %d", len(attempt), AttemptLen)
	}
	return nil
}
