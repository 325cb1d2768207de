package postgres_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a store and its server, and cuts connections when told.
type proxy struct {
	t      testing.TB
	ln     net.Listener
	target string

	mu    sync.Mutex
	pairs map[*pair]bool
	away  bool
	fault fault
	// thenAway lets no connection through after the fault.
	thenAway bool
	hit      chan struct{} // closed when the fault has struck
	wg       sync.WaitGroup
}

// What a proxy does to the next request, once.
type fault int

const (
	none         fault = iota
	beforeServer       // the request is lost, and the connection
	afterCommit        // the server carries it out; the answer is lost, and the connection
	midway             // the client loses the connection while the server is at it
)

type pair struct {
	client, server net.Conn
	swallow        atomic.Bool   // the answer must not reach the client
	answered       chan struct{} // closed when no more answers are read
}

func (p *pair) close() { _ = p.client.Close(); _ = p.server.Close() }

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, ln: ln, target: target, pairs: make(map[*pair]bool)}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

// through returns dsn by way of the proxy.
func (p *proxy) through(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		p.t.Fatal(err)
	}
	u.Host = p.ln.Addr().String()
	return u.String()
}

func (p *proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		away := p.away
		p.mu.Unlock()
		server, err := net.Dial("tcp", p.target)
		if away || err != nil {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		both := &pair{client: client, server: server, answered: make(chan struct{})}
		p.mu.Lock()
		p.pairs[both] = true
		p.mu.Unlock()
		p.wg.Go(func() { p.requests(both) })
		p.wg.Go(func() { p.answers(both) })
	}
}

// refuse lets no new connection through until admit.
func (p *proxy) refuse() { p.set(true) }
func (p *proxy) admit()  { p.set(false) }

func (p *proxy) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// takeAway ends every connection and lets no other through.
func (p *proxy) takeAway() (restore func()) {
	p.refuse()
	p.cut()
	return p.admit
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for both := range p.pairs {
		both.close()
	}
}

// arm makes f strike at the next request.
func (p *proxy) arm(f fault) (hit <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.hit = f, make(chan struct{})
	return p.hit
}

// strike returns the fault, if one is armed, and disarms it.
func (p *proxy) strike() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fault
	p.fault = none
	if f != none {
		p.away = p.thenAway
		close(p.hit)
	}
	return f
}

func (p *proxy) requests(both *pair) {
	defer both.close()
	buf := make([]byte, 1<<16)
	for {
		n, err := both.client.Read(buf)
		if err != nil {
			return
		}
		if bytes.HasPrefix(buf[:n], cancel) {
			return // the network that lost the connection loses this too
		}
		f := p.strike()
		if f == beforeServer {
			return
		}
		both.swallow.Store(f != none)
		if _, err := both.server.Write(buf[:n]); err != nil {
			return
		}
		if f == midway {
			_ = both.client.Close()
			<-both.answered
			return
		}
	}
}

// cancel begins a request to cancel another connection's statement, by which the
// driver ends a call that it gives up.
var cancel = []byte{0, 0, 0, 16, 4, 210, 22, 46}

// idle is how an answer ends that leaves the connection outside of a transaction.
var idle = []byte{'Z', 0, 0, 0, 5, 'I'}

func (p *proxy) answers(both *pair) {
	defer both.close()
	defer close(both.answered)
	buf := make([]byte, 1<<16)
	for {
		n, err := both.server.Read(buf)
		if err != nil {
			return
		}
		if both.swallow.Load() {
			if bytes.HasSuffix(buf[:n], idle) {
				return // the server has committed
			}
			continue
		}
		if _, err := both.client.Write(buf[:n]); err != nil {
			return
		}
	}
}
