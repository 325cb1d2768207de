package baotest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Proxy stands between a client and a server and lets things go wrong when told.
type Proxy struct {
	Addr string

	target string
	mu     sync.Mutex
	rule   func(r *http.Request) Fault
	seen   map[string]int
	last   map[string]string // bodies
}

// A Fault is what happens to a request; the zero value is nothing.
type Fault struct {
	// Cut ends the connection before the server hears of the request.
	Cut bool
	// Lose ends the connection after the server has done what it was asked.
	Lose bool
	// Slow waits, as long as the client does, before the server hears of it.
	Slow time.Duration
	// Status and Body are an answer that the server does not give. With Echo the
	// answer is an error that repeats the request, token and all.
	Status int
	Body   string
	Echo   bool
}

// NewProxy starts a proxy before a server and ends it with the test.
func NewProxy(t testing.TB, srv *Server) *Proxy {
	t.Helper()
	p := &Proxy{target: srv.Addr, seen: make(map[string]int), last: make(map[string]string)}
	s := httptest.NewServer(p)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	p.Addr = s.URL
	return p
}

// Set lets every request from now on have a fault.
func (p *Proxy) Set(f Fault) { p.SetFor(func(*http.Request) Fault { return f }) }

// SetFor lets rule decide for each request.
func (p *Proxy) SetFor(rule func(r *http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// Mend undoes Set.
func (p *Proxy) Mend() { p.SetFor(nil) }

// Seen returns how many requests came whose path contains part.
func (p *Proxy) Seen(part string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for path, c := range p.seen {
		if strings.Contains(path, part) {
			n += c
		}
	}
	return n
}

// Last returns the body of the last request to path, without /v1/.
func (p *Proxy) Last(path string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last["/v1/"+path]
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	p.seen[r.URL.Path]++
	p.last[r.URL.Path] = string(body)
	var f Fault
	if p.rule != nil {
		f = p.rule(r)
	}
	p.mu.Unlock()
	if f.Slow > 0 {
		select {
		case <-time.After(f.Slow):
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.Cut {
		panic(http.ErrAbortHandler)
	}
	if f.Echo {
		text, _ := json.Marshal(map[string][]string{"errors": {r.URL.Path, r.Header.Get("X-Vault-Token"), string(body)}})
		f.Body = string(text)
	}
	if f.Status != 0 {
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)
		return
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	req.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || f.Lose {
		panic(http.ErrAbortHandler)
	}
	for k, v := range resp.Header {
		if k != "Content-Length" {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer)
}
