// Package storeserver takes a PostgreSQL or Redis store away from the processes
// that share it, as the battery needs it. It is for tests and demonstrations.
//
// Both stores go by the clock of their server, which a client cannot set ahead,
// so that neither can be made to forget before its time.
package storeserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/foilmcp/foil/attack"
)

// patience is how long the store may take to be taken away, and to be given back.
const patience = 10 * time.Second

// longest is how long Redis stays away if nobody gives it back.
const longest = 2 * time.Minute

var (
	_ attack.Store = Postgres{}
	_ attack.Blind = Postgres{}
	_ attack.Store = Redis{}
	_ attack.Blind = Redis{}
)

// A clock is what both stores lack.
type clock struct{}

// Blind says that nothing can be forgotten early.
func (clock) Blind(name, _ string) string {
	if name == "replay-swept" {
		return "the store goes by the clock of its server, which no client can set ahead"
	}
	return ""
}

// Sweep cannot be done.
func (clock) Sweep(context.Context, time.Time) (int, error) {
	return 0, errors.New("storeserver: the clock of a server cannot be set ahead")
}

// A Postgres is a PostgreSQL store in the schema of package store/postgres's
// default.
type Postgres struct {
	clock
	// DSN names the database. It is in no error.
	DSN string
}

// Outage locks the tables of the store: every call waits for them.
func (p Postgres) Outage(ctx context.Context) (restore func() error, err error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(limited, p.DSN)
	if err != nil {
		return nil, errors.New("storeserver: cannot connect to PostgreSQL") // the driver's words may hold the DSN
	}
	for _, q := range []string{"BEGIN", "LOCK TABLE foil.mark, foil.spent, foil.claim, foil.operation, foil.step IN ACCESS EXCLUSIVE MODE"} {
		if _, err := conn.Exec(limited, q); err != nil {
			return nil, errors.Join(fmt.Errorf("storeserver: lock the tables: %w", err), conn.Close(context.WithoutCancel(ctx)))
		}
	}
	return func() error {
		// Not with ctx: the locks must be given back though the attack is over.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_, err := conn.Exec(limited, "ROLLBACK")
		return errors.Join(err, conn.Close(limited))
	}, nil
}

// A Redis is a Redis store. Nobody else should use the server: an outage is one
// for all of its clients.
type Redis struct {
	clock
	// URL names the server. It is in no error.
	URL string
}

// Outage makes the server keep all writes waiting. It carries out those that are
// still waiting at the end, so it must last longer than the replicas' patience.
func (r Redis) Outage(ctx context.Context) (restore func() error, err error) {
	o, err := redis.ParseURL(r.URL)
	if err != nil {
		return nil, errors.New("storeserver: the URL of the Redis server cannot be read")
	}
	client := redis.NewClient(o)
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := client.Do(limited, "CLIENT", "PAUSE", longest.Milliseconds(), "WRITE").Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("storeserver: pause the server: %w", err), client.Close())
	}
	return func() error {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		return errors.Join(client.Do(limited, "CLIENT", "UNPAUSE").Err(), client.Close())
	}, nil
}
