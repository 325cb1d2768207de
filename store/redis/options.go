package redis

import (
	"errors"
	"strings"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
)

// Defaults of [Options].
const (
	DefaultPrefix              = "foil:"
	DefaultTimeout             = 5 * time.Second
	DefaultWaitTimeout         = time.Second
	DefaultSkew                = replay.DefaultSkew
	DefaultMaxClaimBytes       = claimcheck.DefaultMaxPayloadBytes
	DefaultMaxClaims           = claimcheck.DefaultMaxClaims
	DefaultMaxClaimTotalBytes  = claimcheck.DefaultMaxTotalBytes
	DefaultMaxHandles          = 1 << 20
	DefaultMaxHandleTotalBytes = 1 << 30
	DefaultMaxOperations       = 1 << 20
	DefaultMaxOutcome          = ledger.DefaultOutcome
)

// Durability is what the server does before it confirms a write.
type Durability int

const (
	// Always: it syncs its log (appendonly yes, appendfsync always).
	Always Durability = iota
	// Everysec: it syncs its log once a second, so a crash forgets up to about
	// two (appendonly yes, appendfsync everysec or always).
	Everysec
	// None: nothing. A restart may forget everything, and with it which tokens
	// were spent.
	None
)

// Options are the options of [Open] and [New]. The zero value is safe.
type Options struct {
	// Prefix begins every key, in braces, so that a cluster keeps all of them
	// together: "foil:" gives "{foil:}spent". Up to 64 printable ASCII characters
	// without space and braces. Empty means DefaultPrefix.
	Prefix string

	// Durability is what the server must be set up for. The zero value is Always.
	Durability Durability

	// Unchecked leaves out what needs the CONFIG command, which managed servers
	// forbid: whether the log is kept and synced as Durability says. The operator
	// vouches for it. What INFO tells is checked all the same.
	Unchecked bool

	// Replicas is how many replicas must have a write in memory before it counts
	// (WAIT), and WaitTimeout how long to wait for them; fewer is ErrReplicas.
	// Zero means none, and DefaultWaitTimeout.
	Replicas    int
	WaitTimeout time.Duration

	// Skew is the largest difference between the server's clock and that of any
	// process that judges expiry. Spent IDs, handles and ended operations are kept
	// for Skew beyond their time. Zero means DefaultSkew.
	Skew time.Duration

	// Timeout bounds each call, connecting included. Zero means DefaultTimeout. It
	// must be longer than WaitTimeout if there are Replicas.
	Timeout time.Duration

	// MaxClaimBytes is the length of the longest payload that Claims takes; a
	// longer one is claimcheck.ErrTooLarge. MaxClaims and MaxClaimTotalBytes bound
	// what is parked at one time, by whichever process, redeemed claims included
	// until their ttl ends; beyond is claimcheck.ErrFull. Bytes are those that are
	// stored, sealing included. Zero means the defaults.
	MaxClaimBytes      int
	MaxClaims          int
	MaxClaimTotalBytes int64

	// MaxHandles and MaxHandleTotalBytes bound the handles likewise; beyond is an
	// error. Zero means the defaults.
	MaxHandles          int
	MaxHandleTotalBytes int64

	// MaxOperations bounds how many operations the ledger holds, beyond which
	// Begin is ledger.ErrFull. MaxOutcome is the length of the longest outcome or
	// result of a step; a longer one is ledger.ErrTooLarge. Zero means the defaults.
	MaxOperations int
	MaxOutcome    int

	// AtRest seals what the store keeps for others: payloads of claims and
	// handles, outcomes, results of steps. PlainAtRest keeps them as they are.
	// Without either, writing one is an error, and with both Open is: a store that
	// seals takes nothing that is not sealed, and the other way round.
	AtRest      *atrest.Sealer
	PlainAtRest bool

	// Existing makes [Open] and [New] refuse a database in which no store was opened
	// yet under this prefix, with [ErrMissing], instead of beginning one. It is for
	// who looks after a store: a database of another number, or another prefix, would
	// show an empty store that nobody uses.
	Existing bool

	// LedgerMayForget lets Ledger work with another Durability than Always. An
	// operation that the server forgets may be executed a second time.
	LedgerMayForget bool
}

// complete checks the options and fills in the defaults.
func (opts *Options) complete() (o Options, err error) {
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '{' || r == '}' }
	switch {
	case len(o.Prefix) > 64 || strings.ContainsFunc(o.Prefix, bad):
		return o, errors.New("redis: Options.Prefix must be up to 64 printable ASCII characters without space and braces")
	case o.Durability < Always || o.Durability > None:
		return o, errors.New("redis: Options.Durability is none of Always, Everysec and None")
	case o.Replicas < 0 || o.WaitTimeout < 0 || o.Skew < 0 || o.Timeout < 0 || o.MaxClaimBytes < 0 || o.MaxClaims < 0 || o.MaxClaimTotalBytes < 0 ||
		o.MaxHandles < 0 || o.MaxHandleTotalBytes < 0 || o.MaxOperations < 0 || o.MaxOutcome < 0:
		return o, errors.New("redis: negative option")
	case o.AtRest != nil && o.PlainAtRest:
		return o, errors.New("redis: Options.AtRest and Options.PlainAtRest exclude each other")
	}
	def(&o.WaitTimeout, DefaultWaitTimeout)
	def(&o.Skew, DefaultSkew)
	def(&o.Timeout, DefaultTimeout)
	def(&o.MaxClaimBytes, DefaultMaxClaimBytes)
	def(&o.MaxClaims, DefaultMaxClaims)
	def(&o.MaxClaimTotalBytes, DefaultMaxClaimTotalBytes)
	def(&o.MaxHandles, DefaultMaxHandles)
	def(&o.MaxHandleTotalBytes, DefaultMaxHandleTotalBytes)
	def(&o.MaxOperations, DefaultMaxOperations)
	def(&o.MaxOutcome, DefaultMaxOutcome)
	if o.Replicas > 0 && (o.Timeout <= o.WaitTimeout || o.WaitTimeout < time.Millisecond) {
		return o, errors.New("redis: Options.WaitTimeout must be a millisecond or more and shorter than Options.Timeout")
	}
	return o, nil
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
