// Package sqlite keeps spent tokens, parked payloads, handles and operations in
// one SQLite file. It needs no server and no cgo.
//
// A [Store] is one file; [Store.Replay], [Store.Claims], [Store.Handles] and
// [Store.Ledger] are its faces. Any number of processes on one machine may open
// the same file. The file must be on a local disk: SQLite's locks do not work
// over network file systems.
//
// # What it promises
//
// A result is given only after COMMIT returned with synchronous=FULL in WAL
// mode, so it survives the death of the process and, if the disk keeps what it
// says it has synced, the loss of power. Callers that come at the same time
// share one commit. What the file forgets the store forgets: a restored backup
// brings spent tokens back, and so does deleting the file.
//
// # The file
//
// Open creates the file with mode 0600; SQLite gives its -wal and -shm
// companions the mode of the file. It changes neither the mode nor the owner of
// a file that is there. The directory must be writable and should belong to the
// user alone: whoever can write there can replace the file. A file that was
// moved, deleted or replaced under an open store is noticed, and every call is
// an error from then on.
//
// Payloads, outcomes and results of steps are sealed with Options.AtRest before
// they are written. Without it the store keeps no content, unless it is told to
// keep it as it was given by Options.PlainAtRest.
//
// The user's own tables may live in the file that Open made, so that [InTx] can
// spend a token in one transaction with their rows. SQLite's user_version is
// theirs then; application_id is not, nor are the tables spent, sweep_mark, ping,
// claim, claim_total and all that begin with foil_.
//
// Processes see each other through the -wal and -shm companions, which SQLite
// finds by name. Two that have the same file with different companions would
// each accept a token. That happens if the single file is bind-mounted to
// another path (mount its directory instead), if it has a second hard link, or
// if somebody removes the companions while it is open. A hard link and changed
// companions are noticed at Open and in every call, which then are errors. On
// Linux, Open is also refused while another process has other companions, by
// locks on bytes of the file far beyond its end; other systems lack such locks,
// so there nobody may mount the file twice. The remedy is to stop every process
// and start them again. On Linux nothing is lost then, unless a process was
// killed that had not noticed yet: the commits of a removed -wal die with it.
//
// Nothing else in the process may open the file, as by POSIX closing it would
// drop the locks of the store, but connections of the driver that this package
// uses, modernc.org/sqlite, which knows of them. Close those before the store.
//
// # Clocks
//
// The store forgets by its own clock less Options.Skew and records, in the same
// file and the same transaction, up to where it has forgotten. A clock that
// runs ahead by more than Skew and then sweeps makes every process on the file
// refuse tokens until real time has caught up: the store fails closed.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	sqlite3 "modernc.org/sqlite/lib"
)

// Defaults of [Options].
const (
	DefaultTimeout            = 5 * time.Second
	DefaultSkew               = replay.DefaultSkew
	DefaultMaxClaimBytes      = claimcheck.DefaultMaxPayloadBytes
	DefaultMaxClaims          = claimcheck.DefaultMaxClaims
	DefaultMaxClaimTotalBytes = claimcheck.DefaultMaxTotalBytes

	DefaultMaxHandles          = 1 << 18
	DefaultMaxHandleTotalBytes = 256 << 20
	DefaultMaxOutcomeBytes     = ledger.DefaultOutcome
)

var (
	// ErrClosed is returned by every call on a store that was closed.
	ErrClosed = errors.New("sqlite: store is closed")

	// ErrFull says that there is no room for another handle. Nothing is dropped
	// before its time to make room.
	ErrFull = errors.New("sqlite: store is full")

	// ErrExists says that there is a handle under that key.
	ErrExists = errors.New("sqlite: there is a handle under this key")
)

// Options are the options of [Open]. The zero value is safe.
type Options struct {
	// Now is the clock; nil means time.Now. It is called by several goroutines.
	Now func() time.Time

	// Skew is the largest difference between the clock of this process and
	// that of any other process that judges expiry or sweeps this file. Spent
	// IDs are kept for Skew beyond their expiry. Zero means DefaultSkew.
	Skew time.Duration

	// Timeout bounds each call but those of operators (Sweep, Restored, Fsck and
	// Stats), waiting for the write lock included. Zero means DefaultTimeout.
	Timeout time.Duration

	// MaxClaimBytes is the length of the longest payload that Claims takes; a
	// longer one is claimcheck.ErrTooLarge. Zero means DefaultMaxClaimBytes.
	MaxClaimBytes int

	// MaxClaims and MaxClaimTotalBytes bound what Claims has parked at one
	// time in the whole file, by whichever process, redeemed claims included
	// until their ttl ends; beyond is claimcheck.ErrFull. Bytes are those of
	// payloads as they are kept; the file is somewhat larger. Zero means
	// DefaultMaxClaims and DefaultMaxClaimTotalBytes.
	MaxClaims          int
	MaxClaimTotalBytes int64

	// MaxHandles and MaxHandleTotalBytes bound in the same way what Handles
	// keeps; beyond is ErrFull. Zero means DefaultMaxHandles and
	// DefaultMaxHandleTotalBytes.
	MaxHandles          int
	MaxHandleTotalBytes int64

	// MaxOutcomeBytes is the length of the longest outcome or result of a step
	// that Ledger takes; a longer one is ledger.ErrTooLarge. Zero means
	// DefaultMaxOutcomeBytes.
	MaxOutcomeBytes int

	// AtRest seals what Claims, Handles and Ledger keep. What was written with
	// it is not read without, nor the other way round. Without it they write
	// nothing, unless PlainAtRest is set: then content lies in the file, its
	// log and its backups as it was given, for whoever can read them.
	AtRest      *atrest.Sealer
	PlainAtRest bool
}

// Store is one SQLite file. It is safe for concurrent use.
type Store struct {
	path    string
	opts    Options
	db      *sql.DB
	file    os.FileInfo // of the file that was opened
	steps   int         // how many an operation may have
	onBatch func(n int) // tests only; may be nil
	pragmas []string    // tests only; for each connection

	mu      sync.Mutex
	queue   []*op
	running bool // a goroutine is in run
	closed  bool
	idle    chan struct{} // closed when the store is closed and run has ended
	views   sync.WaitGroup
	life    context.Context // ends with Close
	end     context.CancelFunc

	filesMu    sync.Mutex
	companions companions // of conn; written by run alone, which reads it without filesMu

	// Used by run alone.
	conn     *conn
	lock     companionLock // held while conn is there
	inserted int           // IDs written since the last sweep in passing
	swept    time.Time     // of the last sweep in passing
}

// Open opens the store at path, a plain file name, and creates or migrates it
// if needed. A nil opts means the defaults; negative options are an error. A
// file that is another program's database, or has a schema newer than this
// program knows, is refused and left as it is. The caller must Close the store.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Skew < 0 || o.Timeout < 0 || o.MaxClaimBytes < 0 || o.MaxClaims < 0 || o.MaxClaimTotalBytes < 0 ||
		o.MaxHandles < 0 || o.MaxHandleTotalBytes < 0 || o.MaxOutcomeBytes < 0 {
		return nil, errors.New("sqlite: negative option")
	}
	if o.AtRest != nil && o.PlainAtRest {
		return nil, errors.New("sqlite: Options.AtRest and PlainAtRest exclude each other")
	}
	o.setDefaults()
	if path == "" || strings.HasPrefix(path, ":") || strings.HasPrefix(path, "file:") {
		return nil, fmt.Errorf("sqlite: %q is not a file name", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	s := &Store{path: abs, opts: o, steps: ledger.MaxSteps, idle: make(chan struct{})}
	s.life, s.end = context.WithCancel(context.Background())
	if err := s.open(ctx); err != nil {
		s.end()
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	return s, nil
}

func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Skew = cmp.Or(o.Skew, DefaultSkew)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxClaimBytes = cmp.Or(o.MaxClaimBytes, DefaultMaxClaimBytes)
	o.MaxClaims = cmp.Or(o.MaxClaims, DefaultMaxClaims)
	o.MaxClaimTotalBytes = cmp.Or(o.MaxClaimTotalBytes, DefaultMaxClaimTotalBytes)
	o.MaxHandles = cmp.Or(o.MaxHandles, DefaultMaxHandles)
	o.MaxHandleTotalBytes = cmp.Or(o.MaxHandleTotalBytes, DefaultMaxHandleTotalBytes)
	o.MaxOutcomeBytes = cmp.Or(o.MaxOutcomeBytes, DefaultMaxOutcomeBytes)
}

// Replay returns the store of spent tokens.
func (s *Store) Replay() *Replay { return &Replay{s} }

// Claims returns the store of parked payloads.
func (s *Store) Claims() *Claims { return &Claims{s} }

// Handles returns the store of tokens that are handles.
func (s *Store) Handles() *Handles { return &Handles{s} }

// Ledger returns the store of operations.
func (s *Store) Ledger() *Ledger { return &Ledger{s} }

// Ping reports whether a write could succeed now: it makes one, of about the
// size of what spending an ID may write, and commits it. On a full disk it is
// an error.
func (s *Store) Ping(ctx context.Context) error {
	return s.write(ctx, (*conn).writePing)
}

func (c *conn) writePing() error {
	n, err := changed(c.ping.ExecContext(context.Background()))
	if err == nil && n != 1 {
		err = errors.New("database lacks the row that Ping writes")
	}
	return err
}

// Close lets the calls in progress finish and closes the file. Calls after it
// are ErrClosed; closing twice is no error.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.idle
		return nil
	}
	s.closed = true
	if !s.running {
		close(s.idle)
	}
	s.mu.Unlock()
	removeOpen(s)
	s.end()
	s.views.Wait()
	<-s.idle
	s.salvage()
	s.conn.close()
	err := s.db.Close()
	s.lock.release()
	if err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

// Format implements fmt.Formatter, so that no verb prints what is inside.
func (s *Store) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("sqlite.Store")) }

// full returns err under the sentinel by which a seam says that there is no room,
// if that is what it means.
func full(err, sentinel error) error {
	if code(err) == sqlite3.SQLITE_FULL {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	return err
}

// ceilMillis rounds up, so that nothing is forgotten early.
func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }
