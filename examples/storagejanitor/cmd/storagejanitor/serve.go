package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/sqlite"
)

// Limits of the HTTP server.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	drainTimeout  = 15 * time.Second // for calls under way at the end
)

// newServer puts the parts together: a guard, the tools, the middleware.
func newServer(c *config, codec foil.Codec, spent replay.Store, claims claimcheck.Store, protect *mcpsdk.Options) (*mcp.Server, *storagejanitor.Janitor, error) {
	guard, err := foil.New(codec, &foil.Options{
		Audience: c.audience,
		Replay:   spent,
		Once:     c.once,
		Claims:   claims,
		TTL:      c.ttl,
		Logger:   c.log,
	})
	if err != nil {
		return nil, nil, &usageError{err} // a flag does not go with the ring
	}
	janitor, err := storagejanitor.New(&storagejanitor.Options{Bucket: c.bucket, Claims: claims, Logger: c.log})
	if err != nil {
		return nil, nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "storage-janitor", Title: "Storage janitor", Version: "1.0.0"}, nil)
	janitor.Register(server)
	protect.Logger = c.log
	server.AddReceivingMiddleware(mcpsdk.Protect(guard, protect))
	return server, janitor, nil
}

// serveStdio serves one client until the input ends. There is one user and one
// process, so a key and a memory that die with it will do.
func serveStdio(ctx context.Context, c *config, in io.ReadCloser, out io.WriteCloser) error {
	server, janitor, err := newServer(c, aesgcm.Ephemeral(), replay.NewMemory(nil), claimcheck.NewMemory(nil),
		&mcpsdk.Options{Principal: mcpsdk.Fixed("local")})
	if err != nil {
		return err
	}
	defer janitor.Close()
	err = server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	if ctx.Err() != nil {
		return nil // told to end
	}
	return err
}

// serveHTTP is one replica. Every replica has the same ring and the same store.
func serveHTTP(ctx context.Context, c *config) error {
	source, err := keyring.ParseSource(c.ring)
	if err != nil {
		return err
	}
	keys, err := keyring.NewRefresher(ctx, source, &keyring.RefresherOptions{Logger: c.log})
	if err != nil {
		return fmt.Errorf("key ring %s: %w", c.ring, err)
	}
	defer keys.Close()
	codec, err := aesgcm.New(keys, &aesgcm.Options{Logger: c.log})
	if err != nil {
		return err
	}
	store, err := openStore(ctx, c.store, keys)
	if err != nil {
		return err
	}
	defer store.Close()

	protect, login := &mcpsdk.Options{Principal: mcpsdk.Anonymous}, func(h http.Handler) http.Handler { return h }
	if c.tokens != "" {
		users, err := readTokens(c.tokens)
		if err != nil {
			return err
		}
		protect = &mcpsdk.Options{Issuer: tokenIssuer}
		login = auth.RequireBearerToken(users.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	}
	server, janitor, err := newServer(c, codec, store.Replay(), store.Claims(), protect)
	if err != nil {
		return err
	}
	defer janitor.Close()

	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(login(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := errors.Join(keys.Ready(), store.Ping(r.Context())); err != nil {
			c.log.Warn("not ready", "err", err)
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return listenAndServe(ctx, c, mux)
}

// openStore opens the store of spent confirmations for clocks as far apart as the
// ring allows: with less, it could forget one that another replica still honours.
func openStore(ctx context.Context, path string, keys keyring.Current) (*sqlite.Store, error) {
	ring, err := keys.Ring()
	if err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, path, &sqlite.Options{Skew: ring.Skew(), PlainAtRest: true})
}

// listenAndServe serves until ctx ends, and then lets calls under way finish.
func listenAndServe(ctx context.Context, c *config, h http.Handler) error {
	ln, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	if a, ok := ln.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		c.log.Warn("listening beyond this machine without TLS: put a proxy with TLS in front", "address", a.String())
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	c.log.Info("serving", "url", "http://"+ln.Addr().String()+"/mcp")
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		srv.Close()
		c.log.Warn("calls under way were cut off", "err", err)
	}
	<-ended
	return nil
}
