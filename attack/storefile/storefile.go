// Package storefile does to a SQLite store of spent tokens (package store/sqlite)
// what the battery needs: it takes it away from the processes that share it, and
// lets it forget before its time. It is for tests and demonstrations.
package storefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/store/sqlite"
)

// A File is the path of a store that the servers under attack have open.
type File string

var _ attack.Store = File("")

// Sweep opens the file as one more process, whose clock has passed until and
// the skew, and lets it sweep.
func (f File) Sweep(ctx context.Context, until time.Time) (forgotten int, err error) {
	ahead := until.Add(sqlite.DefaultSkew)
	s, err := sqlite.Open(ctx, string(f), &sqlite.Options{Now: func() time.Time { return ahead }})
	if err != nil {
		return 0, fmt.Errorf("storefile: %w", err)
	}
	swept, err := s.Sweep(ctx)
	return int(swept.Spent + swept.Operations), errors.Join(err, s.Close())
}

// Outage takes SQLite's write lock and keeps it: no other process can write,
// and so none can tell whether a token is spent.
func (f File) Outage(ctx context.Context) (restore func() error, err error) {
	db, err := sql.Open("sqlite", string(f))
	if err != nil {
		return nil, fmt.Errorf("storefile: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err == nil {
		for _, q := range []string{"PRAGMA busy_timeout = 10000", "BEGIN IMMEDIATE"} {
			if _, err = conn.ExecContext(ctx, q); err != nil {
				err = errors.Join(fmt.Errorf("storefile: take the write lock: %w", err), conn.Close())
				break
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return func() error {
		// Not with ctx: the lock must be given back though the attack is over.
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, conn.Close(), db.Close())
	}, nil
}
