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
	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
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

// The stores are what the replicas share, or what one process has.
type stores struct {
	spent  replay.Store
	claims claimcheck.Store
	ledger ledger.Store
}

// newServer puts the parts together: a guard, the tools, the middleware.
func newServer(c *config, codec foil.Codec, s stores, protect *mcpsdk.Options) (*mcp.Server, *storagejanitor.Janitor, error) {
	o := &foil.Options{
		Audience: c.audience,
		Replay:   s.spent,
		Once:     c.once,
		Claims:   s.claims,
		TTL:      c.ttl,
		Logger:   c.log,
	}
	if c.once == foil.Settle {
		o.Replay, o.Ledger, o.Lease = nil, s.ledger, c.lease
		o.PolicyFor = storagejanitor.SettlePolicy
	}
	guard, err := foil.New(codec, o)
	if err != nil {
		return nil, nil, &usageError{err} // a flag does not go with the ring
	}
	janitor, err := storagejanitor.New(&storagejanitor.Options{Bucket: c.bucket, Claims: s.claims, Logger: c.log})
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
	server, janitor, err := newServer(c, aesgcm.Ephemeral(), stores{replay.NewMemory(nil), claimcheck.NewMemory(nil), ledger.NewMemory(nil)},
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
	keys, err := follow(ctx, c, c.ring)
	if err != nil {
		return err
	}
	defer keys.Close()
	codec, err := aesgcm.New(keys, &aesgcm.Options{Logger: c.log})
	if err != nil {
		return err
	}
	ready := []func() error{keys.Ready}
	var sealer *atrest.Sealer
	if c.storageRing != "" {
		atRest, err := follow(ctx, c, c.storageRing)
		if err != nil {
			return err
		}
		defer atRest.Close()
		ready = append(ready, atRest.Ready)
		if sealer, err = atrest.New(atRest); err != nil {
			return &usageError{fmt.Errorf("-storage-ring: %w", err)}
		}
	} else {
		c.log.Warn("the store keeps the names of objects as they are: seal them with -storage-ring")
	}
	store, err := openStore(ctx, c.store, keys, sealer)
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
	server, janitor, err := newServer(c, codec, stores{store.Replay(), store.Claims(), store.Ledger()}, protect)
	if err != nil {
		return err
	}
	defer janitor.Close()

	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(login(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := store.Ping(r.Context())
		for _, is := range ready {
			err = errors.Join(err, is())
		}
		if err != nil {
			c.log.Warn("not ready", "err", err)
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return listenAndServe(ctx, c, mux)
}

// follow keeps a key ring up to date. The caller must close it.
func follow(ctx context.Context, c *config, ring string) (*keyring.Refresher, error) {
	source, err := keyring.ParseSource(ring)
	if err != nil {
		return nil, err
	}
	keys, err := keyring.NewRefresher(ctx, source, &keyring.RefresherOptions{Logger: c.log})
	if err != nil {
		return nil, fmt.Errorf("key ring %s: %w", ring, err)
	}
	return keys, nil
}

// openStore opens the store of spent confirmations for clocks as far apart as the
// ring allows: with less, it could forget one that another replica still honours.
// Without a sealer plans and outcomes lie in it as they are.
func openStore(ctx context.Context, path string, keys keyring.Current, sealer *atrest.Sealer) (*sqlite.Store, error) {
	ring, err := keys.Ring()
	if err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, path, &sqlite.Options{Skew: ring.Skew(), AtRest: sealer, PlainAtRest: sealer == nil})
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
