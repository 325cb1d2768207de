package sdkdoor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/httpdoor"
)

// HTTP is the door to replicas behind stateless Streamable HTTP, protocol
// version 2026-07-28. It is the battery's Door and App.
type HTTP struct {
	*httpdoor.Door
	*replicas

	serving sync.Mutex
	servers []*http.Server
}

var (
	_ attack.Door    = (*HTTP)(nil)
	_ attack.App     = (*HTTP)(nil)
	_ attack.Crasher = (*HTTP)(nil)
	_ attack.Blind   = (*HTTP)(nil)
)

// NewHTTP starts n replicas on loopback ports. The caller must Close the door.
func NewHTTP(n int, o *Options) (*HTTP, error) {
	door, err := httpdoor.New(make([]string, n)...)
	if err != nil {
		return nil, err
	}
	d := &HTTP{Door: door, replicas: newReplicas(n, o), servers: make([]*http.Server, n)}
	return d, startAll(d, n)
}

// Replicas returns their number.
func (d *HTTP) Replicas() int { return d.Door.Replicas() }

// Close ends all replicas.
func (d *HTTP) Close() error {
	d.Door.Close()
	return killAll(d, d.Replicas())
}

// Start starts a replica.
func (d *HTTP) Start(_ context.Context, n int) error {
	guard, err := d.start(n)
	if err != nil {
		return err
	}
	server := d.newServer(guard, byHeader, d.o.Logger)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("sdkdoor: %w", err)
	}
	h := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, Logger: d.o.Logger})}
	go func() { _ = h.Serve(listener) }() // ends with Close
	d.serving.Lock()
	defer d.serving.Unlock()
	d.servers[n-1] = h
	d.Move(n, "http://"+listener.Addr().String())
	return nil
}

// Kill ends a replica and everything that it is doing.
func (d *HTTP) Kill(_ context.Context, n int) error {
	d.serving.Lock()
	h := d.servers[n-1]
	d.servers[n-1] = nil
	d.serving.Unlock()
	var err error
	if h != nil {
		err = h.Close()
	}
	return errors.Join(err, d.kill(n))
}

// Blind says what this door cannot show.
func (d *HTTP) Blind(name, kind string) string {
	if kind == foil.MethodPromptsGet {
		return blindPrompts(name)
	}
	return ""
}

// byHeader is a static table in the place of a login server. No credentials are
// somebody too: nobody.
func byHeader(_ context.Context, req mcp.Request) (foil.Principal, error) {
	extra := req.GetExtra()
	if extra == nil {
		return foil.Principal{}, errors.New("not an HTTP request")
	}
	login, ok := attack.LoginFor(strings.TrimPrefix(extra.Header.Get("Authorization"), "Bearer "))
	if !ok {
		return foil.Principal{}, errors.New("unknown login")
	}
	return login.Principal, nil
}
