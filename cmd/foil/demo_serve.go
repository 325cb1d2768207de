package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/httpdoor"
)

// serveDemo keeps the fleet up behind one address until ctx ends, and tells how
// to get there.
func serveDemo(ctx context.Context, f *demoFleet, mode attack.Mode, format *tokenFormat, out io.Writer) error {
	scene, err := f.bucket.Stage(ctx, 1)
	if err != nil {
		return err
	}
	prefix, _ := scene.Tool.Arguments.Get("prefix")
	if _, err := f.bucket.Stage(ctx, 2); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	front := &http.Server{Handler: demoFront(f), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- front.Serve(listener) }() // ends with Close

	addr := "http://" + listener.Addr().String() + demoPath
	_, err = fmt.Fprintf(out, `The storage janitor is up on %d replicas, %s.

  URL       %s
            Streamable HTTP, stateless, protocol %s; requests go to the replicas in turn
  Replicas  %s
            metrics for Prometheus at /metrics of each
  Bucket    %s

Credentials are optional: Authorization: Bearer TOKEN, with one of these tokens.
`, len(f.URLs()), demoMode(mode, format), addr, httpdoor.Protocol, joinLines(f.URLs(), 12), f.bucket.dir)
	if err == nil {
		for _, l := range attack.Cast() {
			if l.Bearer == "" {
				_, err = fmt.Fprintf(out, "  %-18s  %s\n", "(none)", "nobody: anonymous")
				continue
			}
			_, err = fmt.Fprintf(out, "  %-18s  %s\n", l.Bearer, l.Name)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "\nTry the tool %s with {\"prefix\":%s}. Ctrl-C ends it and removes everything.\n", scene.Tool.Target, prefix)
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-served:
		}
	}
	return errors.Join(err, front.Close())
}

func joinLines(lines []string, indent int) (s string) {
	for i, l := range lines {
		if i > 0 {
			s += fmt.Sprintf("\n%*s", indent, "")
		}
		s += l
	}
	return s
}

// demoFront hands requests to the replicas in turn.
func demoFront(f *demoFleet) http.Handler {
	var turn atomic.Uint64
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		urls := f.URLs()
		target, err := url.Parse(urls[int(turn.Add(1)-1)%len(urls)])
		if err != nil {
			return // a replica's own report; the proxy answers with 502
		}
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		r.Out.Host = target.Host
	}}
}
