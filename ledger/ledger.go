// Package ledger remembers what became of each approval, so that a lost answer
// or a crash between "approved" and "done" leaves nobody guessing.
//
// An operation is one presentation of one token that may execute something. It
// is written down before the handler runs and ends as succeeded, failed or
// unknown. A store keeps it under the token's identity; a lease, counted by the
// store's clock, says how long the process that executes may be silent; a fence
// number, raised whenever somebody else takes the operation over, shuts out a
// process that comes back late.
//
// A store that was restored from a backup lacks the steps done since. What it
// still has as executing or unknown is therefore never resumed: it is unknown, all
// processes are shut out of it, and it stays so until an operator resolves it.
//
// [Store] is the seam, [Memory] a store inside one process, ledgertest the suite
// that every implementation runs. Handlers do not use this package but
// [NoEffect] and [ErrFenced]: a Guard with Once: Settle drives it.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrFenced says that the operation is no longer this caller's: it was
	// taken over, resolved, or is finished. Whoever gets it must stop.
	ErrFenced = errors.New("ledger: the operation was taken over or has ended")

	// ErrNotFound says that the store knows no operation of this ID.
	ErrNotFound = errors.New("ledger: no such operation")

	// ErrFull says that the store has no room. It never makes room by
	// forgetting an operation before its time.
	ErrFull = errors.New("ledger: store is full")

	// ErrTooManySteps says that an operation has all the steps that one may have,
	// MaxSteps or fewer. Nothing was written. It says nothing about the store:
	// other operations have room, and the steps that are there may go on.
	ErrTooManySteps = errors.New("ledger: operation has too many steps")

	// ErrTooLarge says that an outcome or a step's result is longer than the
	// store takes. Nothing was written.
	ErrTooLarge = errors.New("ledger: outcome is too large")

	// ErrSwept says that Start.Expires is at or below the store's sweep mark:
	// the operation may have been forgotten, so it must not start again.
	ErrSwept = errors.New("ledger: operation is older than the sweep mark")

	// ErrRestored says that the token was minted before the store was restored
	// from a backup, which may have forgotten that it was used.
	ErrRestored = errors.New("ledger: token is older than the restored store")
)

// State is how far an operation has come.
type State uint8

const (
	// Executing: a process holds the lease.
	Executing State = iota + 1
	// Succeeded: the outcome is recorded.
	Succeeded
	// Failed: it is known that it failed, and the outcome is recorded.
	Failed
	// Unknown: nobody knows whether it had its effect: the lease ran out, or the
	// handler ended without being able to say. It stays until it is finished,
	// resumed or resolved.
	Unknown
)

// String gives the state in lower case, as in the output of foil ops.
func (s State) String() string {
	switch s {
	case Executing:
		return "executing"
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// ParseState reads what [State.String] writes.
func ParseState(s string) (State, error) {
	for _, st := range []State{Executing, Succeeded, Failed, Unknown} {
		if st.String() == s {
			return st, nil
		}
	}
	return 0, fmt.Errorf("ledger: state is executing, succeeded, failed or unknown, not %q", s)
}

// Limits that every store keeps. Longer values are errors before anything is
// written.
const (
	IDLen          = 16      // bytes of an operation's and a flow's ID
	PrincipalLen   = 24      // bytes of a principal tag, which may also be absent
	MaxName        = 256     // bytes of a step's name and of a method
	MaxTarget      = 4096    // bytes of a target; longer ones are cut by the caller
	MaxNote        = 4096    // bytes of a resolution's note and author
	DefaultOutcome = 1 << 20 // bytes of an outcome or a step's result, unless the store says otherwise
	MaxSteps       = 100_000 // steps of one operation
)

// A Start is what Begin writes down.
type Start struct {
	ID     [IDLen]byte // the token's jti; its first 6 bytes are the time it was minted, in Unix milliseconds
	Flow   [IDLen]byte // the token's fid
	Round  int         // the token's rnd, from 1
	Method string
	Target string
	// Principal is the token's principal tag as raw bytes, salt[8] and hash[16];
	// empty for anonymous callers.
	Principal []byte
	// Answers identifies the answers that came with the token.
	Answers [32]byte
	// Expires is the last moment at which the operation may start. Begin does
	// not compare it with the clock, which is the caller's business, but with
	// the sweep mark.
	Expires time.Time
	// Lease is how long the caller may be silent before the operation counts as
	// unknown.
	Lease time.Duration
	// Keep is until when the operation is kept at least, and Retention how long
	// after its end: it is kept until the later of both.
	Keep      time.Time
	Retention time.Duration
}

// An Operation is what a store knows. Times are the store's, in milliseconds.
type Operation struct {
	ID        [IDLen]byte
	Flow      [IDLen]byte
	Round     int
	Method    string
	Target    string
	Principal []byte
	Answers   [32]byte
	Expires   time.Time

	// State is the state as of now: Unknown if the lease has run out.
	State State
	// Fence is 1 for the first process and one more for each that took over.
	Fence uint64
	// Started is when the operation began, Finished when it ended (zero while
	// it has not), LeaseUntil when the lease ends or ended.
	Started    time.Time
	Finished   time.Time
	LeaseUntil time.Time
	// KeptUntil is when it may be forgotten; zero while it has not ended.
	KeptUntil time.Time
	// Outcome is what Finish or Resolve recorded; nil while there is none.
	Outcome []byte
	// Steps are in the order in which they began. Begin and List leave them out.
	Steps []Step
	// ResolvedBy and Note are set if an operator resolved it.
	ResolvedBy string
	Note       string
}

// A Step is a part of an operation that is done at most once in a row.
type Step struct {
	Name   string
	Fence  uint64    // of the process that began it last
	Began  time.Time // for the first time
	Ended  time.Time // zero: it began and it is not known whether it was done
	Result []byte    // nil until it ended
}

// Done reports whether the step ended with a result.
func (s *Step) Done() bool { return !s.Ended.IsZero() }

// A Finish is how an operation ended.
type Finish struct {
	// State is Succeeded, Failed or Unknown.
	State State
	// Outcome is recorded with Succeeded and Failed. It is nil with Unknown.
	Outcome []byte
}

// A Resolution is what an operator found out about an unknown operation.
type Resolution struct {
	State   State // Succeeded or Failed
	Outcome []byte
	By      string // who says so; not empty
	Note    string // why
}

// A Query selects operations for List. Zero fields select all.
type Query struct {
	State State
	Flow  []byte // IDLen bytes or nil
	// Since and Until bound Started: Since <= Started < Until.
	Since time.Time
	Until time.Time
	// After is the cursor that the page before returned.
	After string
	// Limit is how many operations to return at most; 100 if zero, at most 1000.
	Limit int
}

// A Store keeps operations.
//
// Every method is atomic, and what it reports is as durable as the store promises
// once it returns. Of any number of concurrent Begins with one ID, on any number
// of machines, one reports started and no other; none may, if the one that was
// first lost its answer. A store counts leases by its own
// clock and never by the caller's. It keeps no reference to what it is given and
// hands out what the caller may keep and change. No error contains an ID, an
// outcome, a principal, or what the store authenticates to its backend with.
// After an error that is not named here the write may have happened or not;
// Begin is the exception that a store resolves by itself: a call that lost its
// connection finds out whether the operation is its own (by an attempt mark in
// the row), and if it cannot, it returns an error and never started.
//
// Implementations must be safe for concurrent use by as many processes as the
// store serves.
type Store interface {
	// Begin writes down that an operation starts, with fence 1 and a lease, and
	// reports started; or it returns the operation of that ID, untouched and
	// without its steps, as every retry of a client asks this: Resume and Get
	// alone return steps. The
	// sweep mark and the restore mark are checked in the same step, for a start
	// alone: an operation that is there is returned whatever they say.
	// Errors: ErrSwept, ErrRestored, ErrFull.
	Begin(ctx context.Context, s *Start) (op *Operation, started bool, err error)

	// Get returns the operation with its steps, or ErrNotFound. It may read a
	// lot, and must not keep other callers from writing meanwhile.
	Get(ctx context.Context, id [IDLen]byte) (*Operation, error)

	// Renew extends the lease to lease from now. ErrFenced if fence is not the
	// operation's or the operation is not executing. A lease that has run out
	// is renewed all the same, as long as nobody has taken the operation over.
	Renew(ctx context.Context, id [IDLen]byte, fence uint64, lease time.Duration) error

	// Resume takes an operation over that is Unknown and has this fence: it
	// raises the fence by one, makes the operation executing with a new lease
	// and returns it with its steps. ErrFenced in every other case, and if its
	// ID was minted before the restore mark.
	Resume(ctx context.Context, id [IDLen]byte, fence uint64, lease time.Duration) (*Operation, error)

	// BeginStep checks the fence, extends the lease to lease from now, and
	// writes down that the step begins. If the step is done it returns it and
	// writes nothing but the lease. If it had begun before, Began stays.
	// ErrFenced as with Renew; ErrTooManySteps beyond MaxSteps, ErrFull if the
	// store has no room.
	BeginStep(ctx context.Context, id [IDLen]byte, fence uint64, name string, lease time.Duration) (Step, error)

	// EndStep checks the fence, extends the lease and records the result of a
	// step, which need not have begun. ErrFenced as with Renew, and if the step
	// is done already; ErrTooLarge, ErrTooManySteps and ErrFull.
	EndStep(ctx context.Context, id [IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error

	// Finish ends the operation. It works for one that is executing, whether or
	// not its lease has run out, and turns one that is Unknown into its outcome,
	// as long as fence is the operation's. ErrFenced otherwise; ErrTooLarge.
	// Finish with what Finish has recorded already, under the same fence, is no
	// error: a caller that lost its connection may ask again.
	Finish(ctx context.Context, id [IDLen]byte, fence uint64, f Finish) error

	// Resolve records an operator's finding for an operation that is Unknown and
	// has this fence, and raises the fence. ErrFenced in every other case.
	Resolve(ctx context.Context, id [IDLen]byte, fence uint64, r Resolution) error

	// List returns operations in the order of Started, then ID, without their
	// steps and outcomes, and the cursor of the next page, "" at the end.
	List(ctx context.Context, q Query) (page []Operation, next string, err error)
}

// A Pinger is a Store that can tell whether Begin could succeed now, by a durable
// write of its own.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Ephemeral is implemented by stores whose memory may die with the process.
type Ephemeral interface {
	Ephemeral() bool
}

// Counts are how many operations are in each state.
type Counts struct {
	Executing, Succeeded, Failed, Unknown int64
}

// A Counter is a Store that can count.
type Counter interface {
	Counts(ctx context.Context) (Counts, error)
}

type noEffect struct{ err error }

func (e *noEffect) Error() string { return e.err.Error() }
func (e *noEffect) Unwrap() error { return e.err }

// NoEffect marks err as one after which it is certain that nothing was done, so
// that the operation ends as failed and not as unknown. A handler wraps an error
// in it only if it knows. A nil err gives nil.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return &noEffect{err}
}

// IsNoEffect reports whether [NoEffect] is in err's tree.
func IsNoEffect(err error) bool {
	_, ok := errors.AsType[*noEffect](err)
	return ok
}
