package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A server that is told to stop waiting for its synchronous standby, by
// pg_cancel_backend or the end of the session, cannot take the commit back: it
// answers COMMIT all the same and sends a warning before it (SyncRepWaitForLSN in
// PostgreSQL's syncrep.c). Only the primary has what was written then. The text of
// the warning is translated; its code is not.
const (
	warning       = "01000"
	adminShutdown = "57P01"
)

var (
	errStandby = errors.New("outcome unknown: the server stopped waiting for its synchronous standby, so what was written may be on the primary alone and be lost with it")

	errUnwatched = errors.New("the server has synchronous_standby_names, but the pool given to New does not show the server's warnings: pass its configuration to postgres.Watch before pgxpool.NewWithConfig")
)

// watch is what a connection has seen. Its user alone touches it: pgx reads what
// the server sends in the calls of whoever holds the connection.
type watch struct{ warned bool }

const watchKey = "foil.watch"

// Watch prepares the configuration of a pool that is to be given to [New] on a
// server with synchronous_standby_names: it adds to ConnConfig.OnNotice and
// AfterConnect, which keep working. Call it after they are set and before
// pgxpool.NewWithConfig. Without it a wait for the standby that somebody cancelled
// would look like a commit that the standby has, so the store refuses every call
// on such a server. Open does this by itself.
func Watch(config *pgxpool.Config) {
	notice := config.ConnConfig.OnNotice
	config.ConnConfig.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if w := watchOf(c); w != nil && (n.Code == warning || n.Code == adminShutdown) {
			w.warned = true
		}
		if notice != nil {
			notice(c, n)
		}
	}
	after := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		c.PgConn().CustomData()[watchKey] = new(watch)
		if after != nil {
			return after(ctx, c)
		}
		return nil
	}
}

// watchOf is nil for a connection that is not watched.
func watchOf(c *pgconn.PgConn) *watch {
	w, _ := c.CustomData()[watchKey].(*watch)
	return w
}
