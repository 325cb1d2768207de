package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/examples/storagejanitor"
)

// Before the attacks the demo does what a person would: with the client of the
// official Go SDK it asks for a purge, reads the question and agrees. The balancer
// sends the confirmation to another replica than the one that asked.

// An introduction is what became of that.
type introduction struct {
	question string
	result   string
	requests int64
	replicas int
}

func introduce(ctx context.Context, bucket *demoBucket, urls []string) (*introduction, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	n := bucket.n.Add(1)
	prefix, decoy := fmt.Sprintf("hello-%d/", n), fmt.Sprintf("hello-keep-%d/", n)
	if err := errors.Join(bucket.fill(prefix, 3), bucket.fill(decoy, 1)); err != nil {
		return nil, err
	}
	in := &introduction{replicas: len(urls)}
	client := mcp.NewClient(&mcp.Implementation{Name: "foil-demo", Version: version().Version}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			in.question = r.Params.Message
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
		},
	})
	turn := &roundRobin{urls: urls}
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: urls[0], HTTPClient: &http.Client{Transport: turn}, MaxRetries: -1}, nil)
	if err != nil {
		return nil, fmt.Errorf("the Go SDK's client cannot connect: %w", err)
	}
	defer session.Close()
	before := turn.n.Load()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: storagejanitor.PurgeTool, Arguments: map[string]any{"prefix": prefix}})
	if err != nil {
		return nil, fmt.Errorf("the Go SDK's client cannot purge: %w", err)
	}
	in.requests = turn.n.Load() - before
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			in.result = t.Text
			break
		}
	}
	purged, err := bucket.purged(prefix, decoy, 3)
	switch {
	case err != nil:
		return nil, err
	case purged != 1 || in.question == "":
		return nil, fmt.Errorf("the Go SDK's client agreed to %q and nothing was purged: %s", in.question, in.result)
	}
	return in, nil
}

// A roundRobin is the balancer in front of the replicas.
type roundRobin struct {
	urls []string
	n    atomic.Int64
}

func (t *roundRobin) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := url.Parse(t.urls[int(t.n.Add(1))%len(t.urls)])
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.URL.Host, req.Host = to.Host, to.Host
	return http.DefaultTransport.RoundTrip(req)
}

func (r *demoReport) introduce(in *introduction) {
	if r.json {
		return
	}
	r.printf("The client of the official Go SDK asks for a purge, in %d requests to %d replicas in turn:\n", in.requests, in.replicas)
	r.printf("   asked:  %s\n   agreed: %s\n\n", in.question, in.result)
}
