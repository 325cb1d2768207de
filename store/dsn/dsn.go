// Package dsn opens a store by the text that names it: sqlite:FILE,
// postgres://…, redis://… or rediss://…. Where the servers of a store set a schema or
// a prefix of their own, the DSN has it as a parameter: postgres://…?foil_schema=NAME,
// redis://…?foil_prefix=TEXT. It is for programs that take the store
// as a setting, such as foil itself; a server that knows its database imports
// that one's package and not all three.
package dsn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/foilmcp/foil/store/redis"
	"github.com/foilmcp/foil/store/sqlite"
)

// Forms is what a DSN may look like, for help texts and errors.
const Forms = "sqlite:FILE, postgres://… or redis://…"

// Options are the options that all stores have. The zero value keeps no content;
// see AtRest.
type Options struct {
	// AtRest seals content; PlainAtRest keeps it as it is. With neither, claims,
	// handles and outcomes cannot be written.
	AtRest      *atrest.Sealer
	PlainAtRest bool
	// Migrate makes Open create or update the schema of a PostgreSQL store.
	// SQLite files are migrated at first use, and Redis has nothing to migrate.
	Migrate bool
	// Existing makes Open refuse a SQLite file that is not there, and a Redis database
	// without a store under the prefix, instead of making them: a misspelt DSN would
	// show an empty store. PostgreSQL has that anyway, unless Migrate is set.
	Existing bool
	// Timeout bounds each call; the store's own default if zero.
	Timeout time.Duration
}

// A Store is an opened store: its faces and what its operators need. The packages
// of the stores document each method.
type Store interface {
	Replay() replay.Store
	Claims() claimcheck.Store
	Ledger() ledger.Store
	Handles() Handles

	Stats(ctx context.Context) (store.Stats, error)
	Sweep(ctx context.Context) (store.Swept, error)
	Fsck(ctx context.Context, report func(store.Problem) error) error
	Restored(ctx context.Context) (before time.Time, err error)
	Close() error
}

// Handles is what handle.New takes.
type Handles interface {
	Put(ctx context.Context, key [32]byte, payload []byte, expires time.Time) error
	Get(ctx context.Context, key [32]byte) (payload []byte, found bool, err error)
}

// The backends.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
	Redis    = "redis"
)

// Backend returns which store a DSN names, without opening it. The error does not
// hold the DSN, which may hold a password.
func Backend(dsn string) (string, error) {
	scheme, rest, ok := strings.Cut(dsn, ":")
	switch {
	case !ok || rest == "":
	case scheme == "sqlite":
		return SQLite, nil
	case scheme == "postgres" || scheme == "postgresql":
		return Postgres, nil
	case scheme == "redis" || scheme == "rediss":
		return Redis, nil
	case scheme == "memory":
		return "", errors.New("dsn: a store in memory dies with its process and is not seen by others: use " + Forms)
	}
	return "", errors.New("dsn: a store is named by " + Forms)
}

// Open opens the store that dsn names. The caller must call Close. No error holds
// a password.
func Open(ctx context.Context, dsn string, opts *Options) (Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	backend, err := Backend(dsn)
	if err != nil {
		return nil, err
	}
	dsn, at, err := place(dsn, backend)
	if err != nil {
		return nil, err
	}
	switch backend {
	case SQLite:
		_, file, _ := strings.Cut(dsn, ":")
		if o.Existing {
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				return nil, &missing{file, err}
			}
		}
		s, err := sqlite.Open(ctx, file, &sqlite.Options{AtRest: o.AtRest, PlainAtRest: o.PlainAtRest, Timeout: o.Timeout})
		if err != nil {
			return nil, err
		}
		return lite{s}, nil
	case Postgres:
		s, err := postgres.Open(ctx, dsn, &postgres.Options{AtRest: o.AtRest, PlainAtRest: o.PlainAtRest, Timeout: o.Timeout, Migrate: o.Migrate, Schema: at})
		if err != nil {
			return nil, err
		}
		return pg{s}, nil
	case Redis:
		s, err := redis.Open(ctx, dsn, &redis.Options{AtRest: o.AtRest, PlainAtRest: o.PlainAtRest, Timeout: o.Timeout, Prefix: at, Existing: o.Existing})
		if err != nil {
			return nil, err
		}
		return red{s}, nil
	}
	return nil, fmt.Errorf("dsn: no store %q", backend)
}

// The faces of each store have types of their own; here they are the seams'.
type (
	lite struct{ *sqlite.Store }
	pg   struct{ *postgres.Store }
	red  struct{ *redis.Store }
)

func (s lite) Replay() replay.Store     { return s.Store.Replay() }
func (s lite) Claims() claimcheck.Store { return s.Store.Claims() }
func (s lite) Ledger() ledger.Store     { return s.Store.Ledger() }
func (s lite) Handles() Handles         { return s.Store.Handles() }

func (s pg) Replay() replay.Store     { return s.Store.Replay() }
func (s pg) Claims() claimcheck.Store { return s.Store.Claims() }
func (s pg) Ledger() ledger.Store     { return s.Store.Ledger() }
func (s pg) Handles() Handles         { return s.Store.Handles() }

func (s red) Replay() replay.Store     { return s.Store.Replay() }
func (s red) Claims() claimcheck.Store { return s.Store.Claims() }
func (s red) Ledger() ledger.Store     { return s.Store.Ledger() }
func (s red) Handles() Handles         { return s.Store.Handles() }
