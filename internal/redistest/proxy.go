//go:build unix

package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A Proxy stands between a client, or a replica, and a server, and takes the line
// away when told.
type Proxy struct {
	Addr string

	target   string
	listener net.Listener
	dead     atomic.Bool
	swallow  atomic.Int32 // how many answers of the server are still to be lost

	mu    sync.Mutex
	conns []net.Conn
}

// NewProxy starts a proxy before the server at target and ends it with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l}
	var done sync.WaitGroup
	done.Go(p.serve)
	t.Cleanup(func() { _ = l.Close(); p.Cut(); done.Wait() })
	return p
}

// URL is how a program says where the proxy is.
func (p *Proxy) URL() string { return "redis://" + p.Addr }

// Cut ends every connection and lets none come up until Mend.
func (p *Proxy) Cut() {
	p.dead.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// Mend lets new connections come up again.
func (p *Proxy) Mend() { p.dead.Store(false) }

// LoseAnswers lets the next n answers of the server get lost, each together with its
// connection: the server has done what it was asked, and nobody learns of it.
func (p *Proxy) LoseAnswers(n int) { p.swallow.Store(int32(n)) }

// Lost reports how many answers are still to be lost.
func (p *Proxy) Lost() int { return int(p.swallow.Load()) }

func (p *Proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.connect(in) {
			_ = in.Close()
		}
	}
}

func (p *Proxy) connect(in net.Conn) bool {
	out, err := net.Dial("tcp", p.target)
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Load() {
		_ = out.Close()
		return false
	}
	p.conns = append(p.conns, in, out)
	end := func() { _ = in.Close(); _ = out.Close() }
	go p.relay(out, in, end, nil)
	go p.relay(in, out, end, func() bool {
		for {
			n := p.swallow.Load()
			if n <= 0 {
				return false
			}
			if p.swallow.CompareAndSwap(n, n-1) {
				return true
			}
		}
	})
	return true
}

func (p *Proxy) relay(to, from net.Conn, end func(), lose func() bool) {
	defer end()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if lose != nil && lose() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
