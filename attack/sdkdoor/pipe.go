package sdkdoor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/httpdoor"
)

// A Pipe is the door to servers on pipes, one line a message, as on stdio. Each
// request has a session of its own, and each login a server of its own, as the
// user of a server on stdio is whoever has started it.
//
// With a protocol version before 2026-07-28 a state is presented by a client of
// that version. Such a client is never given one, since the SDK asks it within
// the call; so the first call, which has no state, is made by a newer client, and
// so is what leads up to a later round.
type Pipe struct {
	*replicas
	version string

	servers sync.Map // *mcp.Server, by user
}

// A user is somebody with a replica.
type user struct {
	guard *foil.Guard
	login string
}

// serverOf returns the server that a login has started on a replica.
func (d *Pipe) serverOf(guard *foil.Guard, login attack.Login) *mcp.Server {
	key := user{guard, login.Name}
	if s, ok := d.servers.Load(key); ok {
		return s.(*mcp.Server)
	}
	who := func(context.Context, mcp.Request) (foil.Principal, error) { return login.Principal, nil }
	s, _ := d.servers.LoadOrStore(key, d.newServer(guard, who, d.o.Logger))
	return s.(*mcp.Server)
}

var (
	_ attack.Door    = (*Pipe)(nil)
	_ attack.App     = (*Pipe)(nil)
	_ attack.Crasher = (*Pipe)(nil)
	_ attack.Blind   = (*Pipe)(nil)
)

// NewPipe starts n replicas. The caller must Close the door.
func NewPipe(n int, version string, o *Options) (*Pipe, error) {
	d := &Pipe{replicas: newReplicas(n, o), version: version}
	return d, startAll(d, n)
}

// Close ends all replicas.
func (d *Pipe) Close() error { return killAll(d, d.Replicas()) }

// Start starts a replica.
func (d *Pipe) Start(_ context.Context, n int) error {
	_, err := d.start(n)
	return err
}

// Kill ends a replica.
func (d *Pipe) Kill(_ context.Context, n int) error { return d.kill(n) }

func (d *Pipe) legacy() bool { return d.version < httpdoor.Protocol }

// Blind says what this door cannot show.
func (d *Pipe) Blind(name, kind string) string {
	if name == "token-refresh" {
		return "on stdio there is no bearer token that could be renewed"
	}
	if d.legacy() {
		switch name {
		case "fork", "pre-answered":
			return "the SDK asks a client of this version within the call, and once: there is no second round"
		case "reworded-question", "other-kind":
			return "the SDK asks a client of this version again within the call, and no reply tells of it"
		case "no-state":
			return "a client of this version never has a state: the SDK asks it within the call"
		}
	}
	if kind == foil.MethodPromptsGet {
		return blindPrompts(name)
	}
	return ""
}

// Send sends a request in a session of its own.
func (d *Pipe) Send(ctx context.Context, req *attack.Request) (*attack.Reply, error) {
	n, guard, err := d.pick(req.Replica)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, d.serverOf(guard, req.Login))
	if err != nil {
		return nil, err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	body := httpdoor.Body(req)
	if _, ok := req.Params.Get("requestState"); ok && d.legacy() && !req.Prelude {
		if err := c.handshake(d.version); err != nil {
			return nil, err
		}
		body = legacyBody(req)
	}
	reply, err := c.call(body)
	if errors.Is(err, errHungUp) && ctx.Err() == nil {
		return &attack.Reply{HungUp: true, Replica: n}, nil
	}
	if err != nil {
		return nil, err
	}
	return &attack.Reply{Body: reply, Replica: n}, nil
}

// legacyBody is the request as a client of an older version writes it.
func legacyBody(req *attack.Request) string {
	id := req.ID
	if id == "" {
		id = "1"
	}
	params := req.Params
	if len(req.Meta) > 0 {
		params = params.Before(attack.M("_meta", req.Meta.JSON()))
	}
	method, _ := json.Marshal(req.Method) // a string always marshals
	return attack.Members{
		attack.M("jsonrpc", `"2.0"`), attack.M("id", id), attack.M("method", string(method)), attack.M("params", params.JSON()),
	}.JSON()
}

// A conn is the client's end of a session.
type conn struct {
	to      io.WriteCloser
	from    io.ReadCloser
	in      *json.Decoder
	session *mcp.ServerSession
}

func dial(ctx context.Context, s *mcp.Server) (*conn, error) {
	serverIn, to := io.Pipe()
	from, serverOut := io.Pipe()
	session, err := s.Connect(ctx, &mcp.IOTransport{Reader: serverIn, Writer: serverOut}, nil)
	if err != nil {
		return nil, fmt.Errorf("sdkdoor: connect: %w", err)
	}
	return &conn{to, from, json.NewDecoder(from), session}, nil
}

// close hangs up and waits until the session has ended.
func (c *conn) close() {
	_ = c.to.Close()
	_ = c.from.Close()
	_ = c.session.Wait()
}

// errHungUp says that the session ended before there was a reply. So the SDK
// does with messages that it cannot read, such as very deep ones.
var errHungUp = errors.New("sdkdoor: the server has ended the session")

// A message is one that the server sent.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// call sends a request and returns the response. Questions that the SDK asks on
// the way are answered with yes.
func (c *conn) call(body string) ([]byte, error) {
	// A line is a message. Outside of its strings JSON has no use for line
	// ends, and inside it may not have them.
	line := strings.NewReplacer("\n", " ", "\r", " ").Replace(body) + "\n"
	sent := make(chan error, 1)
	go func() { // ends when the server has read it, or the session ends
		_, err := io.WriteString(c.to, line)
		sent <- err
	}()
	for {
		var raw json.RawMessage
		if err := c.in.Decode(&raw); err != nil {
			return nil, errors.Join(errHungUp, err, c.to.Close(), <-sent)
		}
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, fmt.Errorf("sdkdoor: reply: %w", err)
		}
		switch m.Method {
		case "":
			return raw, nil
		case "elicitation/create":
			if _, err := fmt.Fprintf(c.to, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, yesText); err != nil {
				return nil, fmt.Errorf("sdkdoor: answer: %w", err)
			}
		}
	}
}

// handshake begins a session of an older version.
func (c *conn) handshake(version string) error {
	raw, err := c.call(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{"elicitation":{}},"clientInfo":{"name":"sdkdoor","version":"1"}}}`)
	if err != nil {
		return err
	}
	var m struct {
		Result struct{ ProtocolVersion string }
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.Result.ProtocolVersion != version {
		return fmt.Errorf("sdkdoor: the server does not speak %s: %s", version, raw)
	}
	if _, err := io.WriteString(c.to, `{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}`+"\n"); err != nil {
		return fmt.Errorf("sdkdoor: %w", err)
	}
	return nil
}
