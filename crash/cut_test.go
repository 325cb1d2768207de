//go:build unix

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/store/dsn"
)

// A cutter stands between a store and its server. The answer that it is told to lose
// is lost together with its connection: the server has done what it was asked.
type cutter struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	lose  int // counts down to the answer that is lost; 0 for none
	away  bool
	stay  bool // lets no connection up after the loss
	conns []net.Conn
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, target: target}
	var wg sync.WaitGroup
	wg.Go(func() { c.accept(&wg) })
	t.Cleanup(func() {
		_ = l.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		wg.Wait()
	})
	return c
}

func (c *cutter) accept(wg *sync.WaitGroup) {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.target)
		c.mu.Lock()
		if err != nil || c.away {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			c.mu.Unlock()
			continue
		}
		c.conns = append(c.conns, client, server)
		c.mu.Unlock()
		both := func() { _ = client.Close(); _ = server.Close() }
		wg.Go(func() { defer both(); _, _ = io.Copy(server, client) })
		wg.Go(func() { defer both(); c.answers(client, server) })
	}
}

func (c *cutter) answers(client, server net.Conn) {
	buf := make([]byte, 1<<16)
	for {
		n, err := server.Read(buf)
		if err != nil || c.loses() {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (c *cutter) loses() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lose == 0 {
		return false
	}
	if c.lose--; c.lose > 0 {
		return false
	}
	if c.away = c.stay; c.away {
		for _, conn := range c.conns { // others may be up
			_ = conn.Close()
		}
	}
	return true
}

func (c *cutter) arm(n int, stay bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose, c.stay = n, stay
}

// mend lets everything through, and reports whether an answer was lost.
func (c *cutter) mend() (lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost = c.lose == 0
	c.lose, c.away = 0, false
	return lost
}

// TestCutAfterCommit loses each answer of the server in turn, during all of what a
// Guard asks of the store for one approval. With and without a server that can be
// reached again, nothing is done twice, and no honest token is lost without a word.
func TestCutAfterCommit(t *testing.T) {
	for _, b := range []struct {
		name string
		dsn  func(*testing.T) string
	}{
		{"postgres", func(t *testing.T) string { return pgtest.Start(t).Database(t) }},
		{"redis", func(t *testing.T) string { return redistest.Start(t, redistest.Durable...).URL() }},
	} {
		t.Run(b.name, func(t *testing.T) {
			direct := b.dsn(t)
			var wg sync.WaitGroup
			for _, once := range []foil.Once{foil.Redeem, foil.Settle} {
				for _, stay := range []bool{false, true} {
					for n := 1; n <= 12; n++ {
						c, u := cutFor(t, direct)
						wg.Go(func() {
							lost, err := cutOne(t.Context(), direct, u, c, once, n, stay)
							if err != nil {
								t.Errorf("%v, answer %d lost, server away after that: %v: %v", once, n, stay, err)
							}
							if !lost && n == 1 {
								t.Errorf("%v: no answer was lost", once)
							}
						})
					}
				}
			}
			wg.Wait()
		})
	}
}

func cutFor(t *testing.T, direct string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	c := newCutter(t, u.Host)
	u.Host = c.listener.Addr().String()
	return c, u.String()
}

// A carrier is a Guard over a store, and the provider that its handler calls.
type carrier struct {
	guard *foil.Guard
	calls *[]string
}

func newCarrier(ctx context.Context, name string, codec foil.Codec, once foil.Once, calls *[]string) (*carrier, func(), error) {
	store, err := dsn.Open(ctx, name, &dsn.Options{PlainAtRest: true, Migrate: true, Timeout: 3 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	g, err := foil.New(codec, &foil.Options{
		Audience: "crash", Once: once, Replay: store.Replay(), Ledger: store.Ledger(), Lease: lease, Resumable: once == foil.Settle,
		StoreTimeout: 3 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	return &carrier{g, calls}, func() { _ = store.Close() }, err
}

// carry is what a client sees of one presentation.
func (c *carrier) carry(ctx context.Context, token string) (result string, err error) {
	o, err := c.guard.Open(ctx, approval(), token)
	if err != nil {
		return "", err
	}
	if r, ok := o.Recorded(); ok {
		return string(r.Result), nil
	}
	if ctx, err = o.Dispatch(ctx); err != nil {
		return "", err
	}
	// In the mode without operations Step calls its function, and that is all.
	for _, name := range []string{"a", "b"} {
		_, serr := o.Execution().Step(ctx, name, func(context.Context) ([]byte, error) {
			*c.calls = append(*c.calls, name+" "+o.IdempotencyKey(name, "provider"))
			return nil, nil
		})
		if err = serr; err != nil {
			break
		}
	}
	end := foil.Conclusion{Result: []byte("done"), Err: err}
	if cerr := o.Conclude(ctx, end); cerr != nil {
		return "", cerr
	}
	return "done", err
}

func approval() foil.Request {
	return foil.Request{
		Method: foil.MethodToolsCall, Target: "tool", Arguments: []byte(`{}`), Principal: foil.Fixed("ann"),
		Answers: []byte(`{"confirm":{"action":"accept","content":{"ok":true}}}`),
	}
}

func ask(ctx context.Context, g *foil.Guard) (string, error) {
	return g.Seal(ctx, approval(), foil.Outgoing{
		Questions: []byte(`{"confirm":{"method":"elicitation/create","params":{"message":"Do it?"}}}`),
	})
}

func cutOne(ctx context.Context, direct, through string, c *cutter, once foil.Once, n int, stay bool) (lost bool, err error) {
	codec := aesgcm.Ephemeral()
	var calls []string
	cut, closeCut, err := newCarrier(ctx, through, codec, once, &calls)
	if err != nil {
		return false, err
	}
	defer closeCut()
	other, closeOther, err := newCarrier(ctx, direct, codec, once, &calls)
	if err != nil {
		return false, err
	}
	defer closeOther()
	// A first approval: connections are up, and the statements prepared.
	warm, err := ask(ctx, cut.guard)
	if err == nil {
		_, err = cut.carry(ctx, warm)
	}
	if err != nil {
		return false, fmt.Errorf("without a loss: %w", err)
	}
	calls = nil
	token, err := ask(ctx, cut.guard)
	if err != nil {
		return false, err
	}
	c.arm(n, stay)
	first, err := cut.carry(ctx, token)
	lost = c.mend()
	told := err == nil
	switch {
	case told && lost && stay && n == 1:
		return lost, errors.New("nobody can know that the token was spent or the operation begun, and it is executed")
	case told:
	case errors.Is(err, foil.ErrInvalid):
		return lost, fmt.Errorf("an honest token is refused, and nobody says that the store failed: %w", err)
	case !lost:
		return lost, fmt.Errorf("nothing was lost: %w", err)
	case !errors.Is(err, foil.ErrUnavailable) && !errors.Is(err, foil.ErrOperation):
		return lost, fmt.Errorf("a failure of the store is told as %w", err)
	}
	before := len(calls)
	again, err := other.carry(ctx, token)
	for end := time.Now().Add(time.Minute); errors.Is(err, foil.ErrOperation) && time.Now().Before(end); again, err = other.carry(ctx, token) {
		time.Sleep(100 * time.Millisecond)
	}
	if once == foil.Redeem {
		// Whoever was told of the failure may find the token spent or not, and
		// whoever had the result finds it spent.
		if told && !errors.Is(err, foil.ErrInvalid) || err != nil && !errors.Is(err, foil.ErrInvalid) || before > 0 && len(calls) > before || len(calls) > 2 {
			return lost, fmt.Errorf("told %v, then %q, %v; calls %v, %d of them before", told, again, err, calls, before)
		}
		return lost, nil
	}
	if err != nil || again != "done" || told && (first != again || len(calls) != before) {
		return lost, fmt.Errorf("told %v %q, then %q, %v; calls %v, %d of them before", told, first, again, err, calls, before)
	}
	return lost, onceEach(calls)
}

// onceEach checks that both steps were done, each under one key, and that only one
// of which nobody knew was asked for again.
func onceEach(calls []string) error {
	distinct := slices.Compact(slices.Sorted(slices.Values(calls)))
	if len(distinct) != 2 || !strings.HasPrefix(distinct[0], "a ") || !strings.HasPrefix(distinct[1], "b ") || len(calls) > 3 {
		return fmt.Errorf("calls %v", calls)
	}
	return nil
}
