package postgres

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// errDSN has no cause: the driver's texts can hold pieces of the DSN that it
	// took for something else than the password.
	errDSN = errors.New("cannot parse the DSN (not shown, as it may hold a password); it is postgres://user:password@host:5432/database?sslmode=verify-full with special characters as %XX, or keywords as in host=… user='…' password='…'")

	runtimeParameter = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
)

// connect makes a pool. It reaches the server only when a connection is used.
func connect(ctx context.Context, dsn string, o *Options) (*pgxpool.Pool, error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, err
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
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, plain(err)
	}
	return pool, nil
}

// parse reads a DSN. What a slip turns into something else than the password (an
// unescaped # ends a URL's path, an unquoted space a keyword's value) would be
// sent to the server or shown as a host name, so it is refused.
func parse(dsn string) (*pgxpool.Config, error) {
	url := strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
	if url && strings.Contains(dsn, "#") {
		return nil, errDSN
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
	}
	for name := range config.ConnConfig.RuntimeParams {
		if !runtimeParameter.MatchString(name) {
			return nil, errDSN
		}
	}
	return config, nil
}
