// Package redis keeps spent tokens, parked payloads, handles and the ledger in one
// Redis server, or one compatible with Redis 7 such as Valkey.
//
// A [Store] is one database under one prefix; [Store.Replay], [Store.Claims],
// [Store.Handles] and [Store.Ledger] are its faces. Any number of processes may
// open the same one. Everything is done by Lua scripts, each of which is one step
// of the server's.
//
// # What it promises
//
// With [Always], the default, a result is given only after the server has synced
// its log: it survives the death of client and server and, if the disk keeps what
// it says it has synced, the loss of power. [Everysec] may forget the last second
// or two, and [None] everything: a token that was spent in that time is accepted
// again. [Open] refuses a server that is not set up for what was asked for, and
// looks again on every new connection, in Ping, and every few seconds: its role,
// maxmemory-policy, appendonly, appendfsync and no-appendfsync-on-rewrite. In
// between, somebody who changes the configuration is not noticed.
//
// # What it cannot promise
//
// A failover forgets. Redis copies to its replicas after it has answered, so a
// replica that is promoted may lack what the primary had confirmed, and a token
// that was spent is accepted again. Options.Replicas makes each call wait until so
// many replicas have it in memory, and an error if they do not: then a promotion of
// one of those forgets nothing, and one of another still may. Who needs more takes
// a store with synchronous replication. An older backup brings spent tokens back in
// any store: run [Store.Restored] then.
//
// No transaction of the caller's holds rows of a Redis database and rows of another
// together, so [Replay] is no replay.Deferrer.
//
// A ledger that forgets an operation lets its token start again. [Ledger] therefore
// works with Always alone, unless Options.LedgerMayForget says so by name.
//
// # Clocks, and what is forgotten when
//
// The server's clock decides, never that of a caller. No key has a time to live:
// the expiry of Redis works beside the scripts, so on a server whose clock runs
// ahead for a moment it would drop spent IDs without a trace, and they would be
// good again once the clock is set back. Here a script forgets, and in the same
// step raises a durable mark at and below which every ID is refused. A clock that
// runs ahead by more than Options.Skew makes the store refuse tokens until real
// time has caught up: it fails closed. An ID whose time has passed by the server's
// clock is refused as well, swept or not.
//
// Sweeping is done in passing, by calls that write. A database that nobody writes
// to keeps what it has; [Store.Sweep] empties it at a chosen moment.
//
// # A database that was emptied
//
// Each database has an identity, drawn when it is first opened. A store that finds
// it gone or changed, because somebody flushed it or the server came back without
// its data, is an error in every call from then on. A process that starts after
// that finds an empty database and takes it: so after such a loss run
// [Store.Restored] before anybody redeems.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

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

var (
	// ErrClosed is returned by every call on a store that was closed.
	ErrClosed = errors.New("redis: store is closed")

	// ErrServer says that the server is not set up to keep what it confirms, or
	// that it is the wrong one: a replica, or too old.
	ErrServer = errors.New("redis: server cannot be relied on")

	// ErrReplicas says that fewer than Options.Replicas have confirmed a write in
	// time. It is in the primary: a token counts as spent.
	ErrReplicas = errors.New("redis: too few replicas have confirmed the write in time; it may or may not last")

	// ErrReplaced says that the database is not the one that was opened.
	ErrReplaced = errors.New("redis: the database was emptied, replaced or migrated since it was opened; see the package documentation before starting again")
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

	// LedgerMayForget lets Ledger work with another Durability than Always. An
	// operation that the server forgets may be executed a second time.
	LedgerMayForget bool
}

// Store is one database under one prefix. It is safe for concurrent use.
type Store struct {
	opts   Options
	client redis.UniversalClient
	owned  bool   // the client is the store's own, to be closed
	meta   string // the key that says what this database is
	id     string // its identity; empty until it is opened

	checked  atomic.Int64     // when the server was last looked at, by our own clock
	uses     atomic.Int64     // IDs written since the last sweep in passing
	maxSteps int              // ledger.MaxSteps; fewer in tests
	clock    func() time.Time // tests only: the server's clock

	mu      sync.Mutex
	queue   []*call
	workers int
	closed  bool
	idle    sync.WaitGroup // workers
}

// Open connects to the server at dsn, a URL redis://[user:password@]host:port/db,
// or rediss:// for TLS, checks it, and makes the database ready. A nil opts means
// the defaults; options that are negative or contradict each other are errors. A
// database of a newer schema is refused and left as it is. No error contains the
// password. The caller must Close the store.
func Open(ctx context.Context, dsn string, opts *Options) (*Store, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	c, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	s := newStore(o)
	// A redemption is never repeated by the client: the store asks again itself,
	// under the same attempt mark.
	c.MaxRetries = -1
	c.DialerRetries = 1
	c.ContextTimeoutEnabled = true
	c.ReadTimeout, c.WriteTimeout = -1, -1 // each call has a deadline
	c.DialTimeout = o.Timeout
	c.DisableIdentity = true
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c.OnConnect = func(ctx context.Context, conn *redis.Conn) error { return s.check(ctx, conn) }
	s.client, s.owned = redis.NewClient(c), true
	if err := s.open(ctx); err != nil {
		_ = s.client.Close()
		return nil, err
	}
	return s, nil
}

// New is Open for a client that the caller has made and closes: a *redis.Client,
// which may know of sentinels, or a *redis.ClusterClient. It must be made with
// MaxRetries: -1 and ContextTimeoutEnabled: true, and its timeouts must be longer
// than Options.WaitTimeout.
func New(ctx context.Context, client redis.UniversalClient, opts *Options) (*Store, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	s := newStore(o)
	s.client = client
	var retries, timeouts bool
	switch c := client.(type) {
	case *redis.Client:
		// The client keeps -1 as 0.
		retries, timeouts = c.Options().MaxRetries > 0, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		retries, timeouts = c.Options().MaxRetries > 0, c.Options().ContextTimeoutEnabled
	default:
		return nil, fmt.Errorf("redis: a store needs a *redis.Client or *redis.ClusterClient, not a %T", client)
	}
	if retries || !timeouts {
		return nil, errors.New("redis: the client must be made with MaxRetries: -1 and ContextTimeoutEnabled: true")
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func newStore(o Options) *Store {
	return &Store{opts: o, meta: "{" + o.Prefix + "}meta", maxSteps: ledger.MaxSteps}
}

// parse reads a DSN. Its errors do not quote it, as it holds the password.
func parse(dsn string) (*redis.Options, error) {
	bad := errors.New("redis: the DSN is not a URL like redis://user:password@host:port/0 (rediss:// for TLS)")
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "" || u.Fragment != "" {
		return nil, bad
	}
	c, err := redis.ParseURL(dsn)
	if err != nil {
		return nil, bad
	}
	if c.TLSConfig != nil && c.TLSConfig.MinVersion < tls.VersionTLS12 {
		c.TLSConfig.MinVersion = tls.VersionTLS12
	}
	return c, nil
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

// Replay returns the store of spent tokens.
func (s *Store) Replay() *Replay { return &Replay{s} }

// Claims returns the store of parked payloads.
func (s *Store) Claims() *Claims { return &Claims{s} }

// Handles returns the store of the payloads of handles.
func (s *Store) Handles() *Handles { return &Handles{s} }

// Ledger returns the store of operations. If it may forget, by Options.Durability,
// every call is an error unless Options.LedgerMayForget is set.
func (s *Store) Ledger() *Ledger { return &Ledger{s} }

// Close lets the calls in progress finish and closes the connections, unless they
// are those of the client given to [New]. Calls after it are ErrClosed; closing
// twice is no error.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.idle.Wait()
	if !first || !s.owned {
		return nil
	}
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("redis: close: %w", err)
	}
	return nil
}

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (s *Store) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("redis.Store")) }

// ceilMillis rounds up, so that nothing is forgotten early.
func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// millisUp is a duration in milliseconds, rounded up.
func millisUp(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}
