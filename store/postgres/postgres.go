// Package postgres keeps spent tokens, parked payloads, handles and operations in
// a PostgreSQL database, for replicas on any number of machines. It needs
// PostgreSQL 13 or newer.
//
// A [Store] is one schema of a database; [Store.Replay], [Store.Claims],
// [Store.Handles] and [Store.Ledger] are its faces, and [InTx] spends a token in
// a transaction of the caller's.
//
// # What it promises
//
// A result is given only after COMMIT returned, in a transaction that was told
// synchronous_commit=on whatever the role, the database or the server say; a
// server that runs with fsync=off is refused. So a result survives the death of
// every process and, if the disk keeps what it says it has synced, the loss of
// power of the machine. Each call is a transaction of its own, in READ COMMITTED
// and in one round trip; the server shares one sync of its log among the calls
// that commit at the same time.
//
// A call that loses its connection does not know whether it was carried out.
// Use and Begin write an attempt mark beside the ID and ask again with it on
// another connection, until the timeout; if they cannot find out it is an error.
// Redemptions and everything else are not tried again.
//
// # Failover
//
// A standby that replicates asynchronously lacks the last commits of a primary
// that dies. If it is promoted, tokens that were spent in that moment are fresh
// again: the store has forgotten, and cannot know it. Whoever fails over must set
// synchronous_standby_names, so that a commit waits for a standby (the store's
// synchronous_commit=on asks for it), and promote only that one; or call
// [Store.Restored] on the new primary before it serves. The same goes for a
// restored backup. A wait for the standby that is cancelled (pg_cancel_backend)
// leaves the commit on the primary alone, where others see it: the call that
// waited is an error, and its outcome unknown. The DSN of a cluster should say
// target_session_attrs=read-write.
//
// # Clocks
//
// All times that the store writes or compares are those of the server. It
// forgets at its clock less Options.Skew and records, in a row of its own, up to
// where it may have forgotten: the sweep mark. A server whose clock runs ahead
// by more than Skew and then sweeps refuses tokens until real time has caught
// up: the store fails closed.
//
// # Rights
//
// [Migrate] needs a role that may create the schema or owns it. Everything else
// needs the rights that [Grants] prints, and no more. A role that may write to
// these tables can spend and unspend tokens; one that may read them sees no
// content if Options.AtRest is set. What PostgreSQL writes to its own log may
// hold parameters (log_statement, log_min_duration_statement,
// log_parameter_max_length): IDs, and content that is not sealed at rest.
//
// Only pgx is supported: a transaction of database/sql cannot be given to InTx.
// Behind PgBouncer in transaction mode the DSN must say
// default_query_exec_mode=exec, unless PgBouncer keeps prepared statements.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Defaults of [Options].
const (
	DefaultSchema              = "foil"
	DefaultTimeout             = 5 * time.Second
	DefaultSkew                = replay.DefaultSkew
	DefaultMaxClaimBytes       = claimcheck.DefaultMaxPayloadBytes
	DefaultMaxClaims           = claimcheck.DefaultMaxClaims
	DefaultMaxClaimTotalBytes  = claimcheck.DefaultMaxTotalBytes
	DefaultMaxHandles          = 1 << 20
	DefaultMaxHandleTotalBytes = 1 << 30
	DefaultMaxOutcome          = ledger.DefaultOutcome
)

// ErrClosed is returned by every call on a store that was closed.
var ErrClosed = errors.New("postgres: store is closed")

// Options are the options of [Open] and [New]. The zero value is safe; to keep
// claims, handles or outcomes, AtRest or PlainAtRest must be set.
type Options struct {
	// Schema is the schema of the store's tables: a lower-case letter, then
	// letters, digits and underscores. Zero means DefaultSchema.
	Schema string

	// Migrate makes Open and New create the tables or bring them up to date.
	// Without it a schema that is not of this program's version is an error: a
	// server needs no right to create tables. See [Migrate].
	Migrate bool

	// Timeout bounds each call, waiting for a connection and for locks
	// included. The server gives up by it too. Zero means DefaultTimeout.
	Timeout time.Duration

	// MaxConns is how many connections Open's pool holds at most: about as many
	// calls are carried out at the same time, the others wait. Zero means the
	// DSN's pool_max_conns or, if that is not there either, pgx's default, the
	// greater of 4 and the number of CPUs. New does not look at it.
	MaxConns int

	// Skew is the largest difference between the clock of the server and that
	// of any process that judges expiry. IDs, handles and operations are kept
	// for Skew beyond their time. Zero means DefaultSkew.
	Skew time.Duration

	// AtRest seals the content of claims, handles, outcomes and results of
	// steps. PlainAtRest keeps it as it was given. With neither, content is
	// neither written nor read. With both, new rows are sealed, and rows that
	// are not are read as well: for as long as there are any. With AtRest alone
	// such a row is an error, or whoever can write to the table could put
	// there what they like.
	AtRest      *atrest.Sealer
	PlainAtRest bool

	// MaxClaimBytes is the length of the longest payload that Claims takes; a
	// longer one is claimcheck.ErrTooLarge. Zero means DefaultMaxClaimBytes.
	MaxClaimBytes int

	// MaxClaims and MaxClaimTotalBytes bound what Claims has parked at one time
	// in the whole schema, by whichever replica, redeemed claims included until
	// their ttl ends; beyond is claimcheck.ErrFull. MaxHandles and
	// MaxHandleTotalBytes bound the handles. Bytes are those of the rows, which
	// are longer if sealed. Calls that are under way at the same time do not see
	// each other, so that a bound may be exceeded by as much as they bring: one
	// row for each connection. Zero means the Default of that name.
	MaxClaims           int
	MaxClaimTotalBytes  int64
	MaxHandles          int
	MaxHandleTotalBytes int64

	// MaxOutcome is the length of the longest outcome, and of the longest
	// result of a step; a longer one is ledger.ErrTooLarge. Zero means
	// DefaultMaxOutcome.
	MaxOutcome int

	// AcceptNoFsync accepts a server that runs with fsync=off, which forgets
	// when its machine loses power. It is for tests.
	AcceptNoFsync bool

	clock    func() string // tests only: SQL instead of serverTime
	maxSteps int           // tests only: instead of ledger.MaxSteps
}

// Store is one schema of a database. It is safe for concurrent use, and any
// number of them may serve the same schema.
type Store struct {
	opts  Options
	pool  *pgxpool.Pool
	owned bool     // the pool is the store's own
	texts sync.Map // statements as the server gets them

	patience atomic.Int64 // Options.Timeout; tests change it

	mu      sync.Mutex
	closed  bool
	working sync.WaitGroup // sweeps in passing
	stop    context.CancelFunc
	ctx     context.Context // of sweeps in passing

	sweeping atomic.Bool
	written  atomic.Int64 // rows written since the last sweep in passing
	swept    atomic.Int64 // when that was, in nanoseconds of this process's clock
	began    time.Time
}

// Open connects to the database that dsn names, a URL or keywords and values,
// with what the PG* variables of the environment add, and checks the schema. A
// nil opts means the defaults; negative options are an error. No error contains
// the DSN or its password. The caller must Close the store.
func Open(ctx context.Context, dsn string, opts *Options) (*Store, error) {
	s, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	if s.pool, err = connect(ctx, dsn, &s.opts); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s.owned = true
	if err := s.check(ctx); err != nil {
		s.pool.Close()
		return nil, err
	}
	return s, nil
}

// New is Open with a pool of the caller's, which it does not close. Calls wait
// for a connection of the pool as long as Options.Timeout: a pool whose
// connections are all held by transactions that wait for the store in turn
// stands still until then. If the server has synchronous_standby_names, the pool's
// configuration must have been given to [Watch].
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Store, error) {
	s, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	if pool == nil {
		return nil, errors.New("postgres: pool is nil")
	}
	s.pool = pool
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// prepare fills in the defaults.
func prepare(opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Timeout < 0 || o.MaxConns < 0 || o.Skew < 0 || o.MaxClaimBytes < 0 || o.MaxClaims < 0 || o.MaxClaimTotalBytes < 0 ||
		o.MaxHandles < 0 || o.MaxHandleTotalBytes < 0 || o.MaxOutcome < 0 {
		return nil, errors.New("postgres: negative option")
	}
	o.Schema = or(o.Schema, DefaultSchema)
	if err := checkSchemaName(o.Schema); err != nil {
		return nil, err
	}
	o.Timeout = or(o.Timeout, DefaultTimeout)
	o.Skew = or(o.Skew, DefaultSkew)
	o.MaxClaimBytes = or(o.MaxClaimBytes, DefaultMaxClaimBytes)
	o.MaxClaims = or(o.MaxClaims, DefaultMaxClaims)
	o.MaxClaimTotalBytes = or(o.MaxClaimTotalBytes, DefaultMaxClaimTotalBytes)
	o.MaxHandles = or(o.MaxHandles, DefaultMaxHandles)
	o.MaxHandleTotalBytes = or(o.MaxHandleTotalBytes, DefaultMaxHandleTotalBytes)
	o.MaxOutcome = or(o.MaxOutcome, DefaultMaxOutcome)
	o.maxSteps = or(o.maxSteps, ledger.MaxSteps)
	s := &Store{opts: o, began: time.Now()}
	s.patience.Store(int64(o.Timeout))
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

func or[T comparable](v, instead T) T {
	var zero T
	if v == zero {
		return instead
	}
	return v
}

// check finds out whether the store can work, before anything stands on it.
func (s *Store) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.opts.Timeout, DefaultTimeout))
	defer cancel()
	if s.opts.Migrate {
		return migrate(ctx, s.pool, s.opts.Schema)
	}
	version, err := version(ctx, s.pool, s.opts.Schema)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return checkVersion(version, s.opts.Schema)
}

// Replay returns the store of spent tokens.
func (s *Store) Replay() *Replay { return &Replay{s} }

// Claims returns the store of parked payloads.
func (s *Store) Claims() *Claims { return &Claims{s} }

// Handles returns the store of handles.
func (s *Store) Handles() *Handles { return &Handles{s} }

// Ledger returns the store of operations.
func (s *Store) Ledger() *Ledger { return &Ledger{s} }

// Close ends the sweep that may be under way and closes the connections, once
// the calls in progress have ended; a pool that was given to New stays open.
// Calls after it are ErrClosed; closing twice is no error.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.working.Wait()
	if first && s.owned {
		s.pool.Close()
	}
	return nil
}

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (s *Store) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("postgres.Store")) }
