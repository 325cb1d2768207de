// Package httpdoor takes the battery to MCP servers over stateless Streamable
// HTTP (MCP 2026-07-28, Transports). It writes the JSON text itself, so that
// duplicate keys and odd spellings arrive as the attack has them; only the
// headers that repeat the body, and the members of _meta that every request must
// carry, are added.
package httpdoor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/foilmcp/foil/attack"
)

// Protocol is the protocol version that the door speaks.
const Protocol = "2026-07-28"

// maxReply bounds what is read of a reply.
const maxReply = 8 << 20

// Timeout is how long a request may take.
const Timeout = 30 * time.Second

// A Door sends requests to the replicas of one server, in turn or to a chosen
// one.
type Door struct {
	client *http.Client

	mu   sync.Mutex
	urls []string
	next int
}

var _ attack.Door = (*Door)(nil)

// New returns a door to the replicas at these URLs.
func New(urls ...string) (*Door, error) {
	if len(urls) == 0 {
		return nil, errors.New("httpdoor: no URL")
	}
	return &Door{
		urls: append([]string(nil), urls...),
		client: &http.Client{
			Timeout: Timeout,
			Transport: &http.Transport{
				MaxIdleConns: 256, MaxIdleConnsPerHost: 128, IdleConnTimeout: time.Minute,
			},
			// A redirect would take the bearer token elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close drops idle connections.
func (d *Door) Close() { d.client.CloseIdleConnections() }

// Replicas returns their number.
func (d *Door) Replicas() int { return len(d.urls) }

// Move tells where a replica, from 1, is now.
func (d *Door) Move(replica int, url string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.urls[replica-1] = url
}

// Send posts a request. In turn, a replica that cannot be reached is passed
// over, as a load balancer does.
func (d *Door) Send(ctx context.Context, req *attack.Request) (*attack.Reply, error) {
	body := []byte(Body(req))
	if req.Replica > 0 {
		return d.post(ctx, req, body, req.Replica)
	}
	var err error
	for range d.urls {
		d.mu.Lock()
		n := d.next%len(d.urls) + 1
		d.next++
		d.mu.Unlock()
		var r *attack.Reply
		r, err = d.post(ctx, req, body, n)
		var op *net.OpError
		if err == nil || !errors.As(err, &op) || op.Op != "dial" {
			return r, err
		}
	}
	return nil, err
}

// Body is the text of the JSON-RPC request.
func Body(req *attack.Request) string {
	id := req.ID
	if id == "" {
		id = "1"
	}
	meta := attack.Members{
		attack.M("io.modelcontextprotocol/protocolVersion", `"`+Protocol+`"`),
		attack.M("io.modelcontextprotocol/clientCapabilities", `{"elicitation":{"form":{}}}`),
	}.After(req.Meta...)
	return attack.Members{
		attack.M("jsonrpc", `"2.0"`),
		attack.M("id", id),
		attack.M("method", string(mustJSON(req.Method))),
		attack.M("params", req.Params.Before(attack.M("_meta", meta.JSON())).JSON()),
	}.JSON()
}

func mustJSON(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return b
}

func (d *Door) post(ctx context.Context, req *attack.Request, body []byte, replica int) (*attack.Reply, error) {
	d.mu.Lock()
	url := d.urls[replica-1]
	d.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("httpdoor: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", Protocol)
	r.Header.Set("Mcp-Method", req.Method)
	r.Header.Set("Mcp-Name", req.Target)
	if req.Login.Bearer != "" {
		r.Header.Set("Authorization", "Bearer "+req.Login.Bearer)
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("httpdoor: replica %d: %w", replica, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("httpdoor: replica %d: read reply: %w", replica, err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text = response(text)
	}
	return &attack.Reply{Status: resp.StatusCode, Header: resp.Header, Body: text, Replica: replica}, nil
}

// response finds the response among the messages of an event stream; without
// one it returns the stream.
func response(stream []byte) []byte {
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, maxReply)
	var data []byte
	found := stream
	end := func() {
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if json.Unmarshal(data, &msg) == nil && (msg.Result != nil || msg.Error != nil) {
			found = data
		}
		data = nil
	}
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			end()
			continue
		}
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
		}
	}
	end()
	return found
}
