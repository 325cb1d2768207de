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
// looks again on every new connection, in Ping, and every five seconds: its role,
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
// # What it may do there
//
// A user of its own in the server, which needs no more than:
//
//	user foil on >password ~{foil:}* +eval +evalsha +script|load +info +config|get +wait +time +type +exists +unlink +@hash +@sortedset
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/foilmcp/foil/ledger"
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

	// ErrMissing says that nothing of a store's is in the database under the prefix;
	// see Options.Existing.
	ErrMissing = errors.New("redis: no store is in this database under this prefix: are the database's number and the prefix those of the servers?")

	// ErrReplaced says that the database is not the one that was opened.
	ErrReplaced = errors.New("redis: the database was emptied, replaced or migrated since it was opened; see the package documentation before starting again")
)

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
// or rediss:// for TLS, checks it, and makes the database ready, unless it
// must be so by Options.Existing. A nil opts means the defaults; options that are
// negative or contradict each other are errors. A database of a newer schema is
// refused and left as it is. No error contains the password. After an outage the client may take a second to find the server again.
// The caller must Close the store.
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
// than Options.WaitTimeout. New connections of such a client are not looked at one by
// one: a server that comes back with another configuration is found out after a lost
// answer, by Ping, and otherwise within five seconds.
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
