package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
)

// errDSN has no cause: the driver's text can hold a piece of the password that it
// took for something else.
var errDSN = errors.New("cannot parse the DSN (not shown, as it may hold a password); it is postgres://user:password@host:5432/database?sslmode=verify-full with special characters as %XX, or keywords as in host=… user='…' password='…'")

// connect makes a pool. It reaches the server only when a connection is used.
func connect(ctx context.Context, dsn string, o *Options) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
	}
	if o.MaxConns > 0 {
		config.MaxConns = int32(min(o.MaxConns, 1<<16))
		config.MinConns = min(config.MinConns, config.MaxConns)
		config.MinIdleConns = min(config.MinIdleConns, config.MaxConns)
	}
	cc := config.ConnConfig
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = o.Timeout
	}
	if _, ok := cc.RuntimeParams["application_name"]; !ok {
		cc.RuntimeParams["application_name"] = "foil"
	}
	Watch(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, plain(err)
	}
	return pool, nil
}
