package openbao

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/openbao/openbao/api/v2"
)

// maxAnswer bounds an answer of the server, in bytes. A batch of the longest tokens
// there are stays below it.
const maxAnswer = 32 << 20

// idleConns is how many connections are kept for the next calls: as many as a busy
// process has calls under way.
const idleConns = 64

// A Client speaks to one server or cluster in one role. It logs in by itself, renews
// its token before it ends and logs in again when the token is gone. It is safe for
// concurrent use.
type Client struct {
	opts    Options
	api     *api.Client
	http    *http.Client
	log     *slog.Logger
	session session
	calls   atomic.Uint64
}

// Open makes a client and logs in, so that wrong credentials are found at once. The
// caller must Close the client.
func Open(ctx context.Context, opts *Options) (*Client, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	cfg := api.NewConfig()
	if cfg.Error != nil {
		return nil, fmt.Errorf("openbao: %w", cfg.Error)
	}
	cfg.Address = o.Address
	cfg.MaxRetries = 0 // what may be asked twice is decided here, call by call
	cfg.Timeout = 0    // each call has a deadline of its own
	// A server that knows of it lets no standby answer with less than this client
	// has seen; others ignore it.
	cfg.DefaultStrongConsistency = true
	if err := cfg.ConfigureTLS(&api.TLSConfig{
		CACert: o.TLS.CACert, CAPath: o.TLS.CAPath, ClientCert: o.TLS.ClientCert, ClientKey: o.TLS.ClientKey,
		TLSServerName: o.TLS.ServerName, Insecure: o.TLS.SkipVerify,
	}); err != nil {
		return nil, fmt.Errorf("openbao: TLS: %w", err)
	}
	if t, ok := cfg.HttpClient.Transport.(*http.Transport); ok {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConns, idleConns
	}
	inner, err := api.NewClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("openbao: %w", err)
	}
	if o.Namespace != "" {
		inner.SetNamespace(o.Namespace)
	}
	cfg.HttpClient.Transport = &bounded{cfg.HttpClient.Transport}
	c := &Client{opts: o, api: inner, http: cfg.HttpClient, log: o.Logger}
	c.session.start(c)
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	if _, err := c.session.token(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the renewals, revokes the token if the client had logged in for it, and
// closes the connections. Calls after it are ErrClosed. It takes at most Timeout, may
// be called more than once and returns nil.
func (c *Client) Close() error {
	c.session.close()
	c.http.CloseIdleConnections()
	return nil
}

// Ping reports whether the server answers and takes the client's token. It writes
// nothing.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.do(ctx, &request{op: "look up the token", method: "GET", path: "auth/token/lookup-self"})
	return err
}

// Calls returns how many HTTP requests the client has made, logins and renewals
// included.
func (c *Client) Calls() uint64 { return c.calls.Load() }

// Timeout returns the deadline of a call.
func (c *Client) Timeout() time.Duration { return c.opts.Timeout }

// Format keeps what is inside out of every verb.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("openbao.Client")) }

// A request is one call.
type request struct {
	op     string // what errors call it
	method string
	path   string // below /v1/
	body   any    // as JSON; nil for none
	query  url.Values
	wrap   time.Duration // for how long the answer is to be wrapped; 0 for not
	// once: what is asked for happens at most once. It is never repeated when the
	// server may have done it.
	once bool
	// tell: the request holds no secret, so the server's words may be told.
	tell bool
}

// An answer is what the server said, when it was no failure.
type answer struct {
	status int
	body   []byte
}

func (c *Client) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.opts.Timeout, errDeadline)
}

// do makes a call within the client's deadline, under the token of the moment. An
// answer whose status is no success is an *Error; body is then what came with it, for
// those few answers that say more.
func (c *Client) do(ctx context.Context, r *request) (*answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{Op: r.op, cause: err}
	}
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	fresh, again := false, false
	for {
		token, err := c.session.token(ctx)
		if err != nil {
			return nil, err
		}
		a, err := c.attempt(ctx, r, token)
		switch {
		case err == nil:
			return a, nil
		case ctx.Err() != nil:
			return a, err
		case status(err) == http.StatusForbidden && !fresh && c.session.gone(ctx, token):
			// The server refuses a token that is gone before it does anything else,
			// so this is safe even for what happens once.
			fresh = true
		case !r.once && !again && passing(err):
			again = true
			if !pause(ctx, 50*time.Millisecond) {
				return a, err
			}
		default:
			return a, err
		}
	}
}

// passing reports whether a failure may be over in a moment.
func passing(err error) bool {
	e := as(err)
	if e == nil {
		return false
	}
	switch e.Status {
	case 0:
		return e.unsure
	case http.StatusTooManyRequests, http.StatusPreconditionFailed, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// pause waits for d, at random up to as much again, and reports whether ctx lasted.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt makes one HTTP request.
func (c *Client) attempt(ctx context.Context, r *request, token string) (*answer, error) {
	req := c.api.NewRequest(r.method, "/v1/"+r.path)
	req.ClientToken = token
	req.WrapTTL = ""
	if r.wrap > 0 {
		// Whole seconds, rounded up: a claim must not end before its time.
		req.WrapTTL = fmt.Sprint(int64((r.wrap + time.Second - 1) / time.Second))
	}
	if r.query != nil {
		req.Params = r.query
	}
	if r.body != nil {
		if err := req.SetJSONBody(r.body); err != nil {
			return nil, &Error{Op: r.op, hint: "the request cannot be written as JSON", cause: ErrUnavailable}
		}
	}
	c.calls.Add(1)
	resp, err := c.api.RawRequestWithContext(ctx, req)
	if resp == nil || resp.Response == nil {
		return nil, transportError(ctx, r.op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, readErr := io.ReadAll(resp.Body)
	if readErr != nil {
		return nil, transportError(ctx, r.op, readErr)
	}
	a := &answer{status: resp.StatusCode, body: body}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return a, nil
	}
	if bytes.ContainsRune(body, 0) {
		body = nil // no JSON
	}
	messages := messagesOf(body)
	e := &Error{Op: r.op, Status: resp.StatusCode, messages: messages, unsure: resp.StatusCode >= 500}
	e.hint = hintFor(resp.StatusCode, messages, r.tell)
	return a, e
}

// bounded is a transport whose answers end after maxAnswer bytes, with an error.
type bounded struct{ next http.RoundTripper }

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &limited{resp.Body, maxAnswer}
	}
	return resp, err
}

// CloseIdleConnections is what http.Client looks for.
func (b *bounded) CloseIdleConnections() {
	if t, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLong
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.ReadCloser.Read(p)
	l.left -= int64(n)
	return n, err
}

var errLong = errors.New("the answer is too long")
