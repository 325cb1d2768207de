package sdkdoor

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/mcpsdk"
)

const (
	tool      = "act" // the prompt's name too
	otherTool = "note"
	resources = "sdk://act/"
	lookAt    = "sdk://look/"
)

// A world is what the servers act on, and it counts what they did.
type world struct {
	mu     sync.Mutex
	staged int
	acted  map[string]int
}

func newWorld() *world { return &world{acted: map[string]int{}} }

// newServer makes a server that acts on the world.
func (w *world) newServer(guard *foil.Guard, who mcpsdk.PrincipalFunc, log *slog.Logger) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdkdoor", Version: "1"}, &mcp.ServerOptions{Logger: log})
	s.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Principal: who, Logger: log}))
	for _, name := range []string{tool, otherTool} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args struct{ What string }
			_ = json.Unmarshal(req.Params.Arguments, &args) // the other tool takes anything
			d, err := w.decide(ctx, req, req.Params.RequestState, args.What, name == tool)
			if err != nil {
				return nil, err
			}
			if d.questions != nil {
				return &mcp.CallToolResult{InputRequests: d.questions, RequestState: d.state}, nil
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: d.text}}}, nil
		})
	}
	for _, name := range []string{tool, "explain"} {
		s.AddPrompt(&mcp.Prompt{Name: name, Arguments: []*mcp.PromptArgument{{Name: "what"}, {Name: "why"}}}, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			d, err := w.decide(ctx, req, req.Params.RequestState, req.Params.Arguments["what"], name == tool)
			if err != nil {
				return nil, err
			}
			if d.questions != nil {
				return &mcp.GetPromptResult{InputRequests: d.questions, RequestState: d.state}, nil
			}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: d.text}}}}, nil
		})
	}
	for _, prefix := range []string{resources, lookAt} {
		s.AddResourceTemplate(&mcp.ResourceTemplate{Name: prefix, URITemplate: prefix + "{+what}"}, func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			uri := req.Params.URI
			d, err := w.decide(ctx, req, req.Params.RequestState, strings.TrimPrefix(uri, prefix), prefix == resources)
			if err != nil {
				return nil, err
			}
			if d.questions != nil {
				// Contents must not be nil, for clients of older protocols.
				return &mcp.ReadResourceResult{InputRequests: d.questions, RequestState: d.state, Contents: []*mcp.ResourceContents{}}, nil
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: d.text}}}, nil
		})
	}
	return s
}

// A decision is what a handler has to answer: questions and a state, or a text.
type decision struct {
	questions mcp.InputRequestMap
	state     string
	text      string
}

// state is what travels. Its text is long enough to be found in a log.
type state struct {
	Step  int    `json:"step"`
	About string `json:"about"`
}

// decide asks as often as it takes and then acts.
func (w *world) decide(ctx context.Context, req mcp.Request, held, what string, acts bool) (*decision, error) {
	s := state{Step: 1, About: "the state of the call on " + what}
	if held != "" {
		if err := json.Unmarshal([]byte(held), &s); err != nil {
			return nil, fmt.Errorf("sdkdoor: own state: %w", err)
		}
	}
	for last := rounds(what); ; s.Step++ {
		key, q := question(s.Step)
		a, status := mcpsdk.Answer(ctx, req, key, q)
		if status != foil.Answered {
			text, err := json.Marshal(s)
			if err != nil {
				return nil, err
			}
			return &decision{questions: mcp.InputRequestMap{key: q}, state: string(text)}, nil
		}
		if e, ok := a.(*mcp.ElicitResult); !ok || e.Action != "accept" {
			return &decision{text: "nothing was done"}, nil
		}
		if s.Step >= last {
			break
		}
	}
	if acts {
		w.mu.Lock()
		w.acted[what]++
		w.mu.Unlock()
	}
	return &decision{text: "done"}, nil
}

// question is what the server asks at a step.
func question(step int) (string, *mcp.ElicitParams) {
	return fmt.Sprintf("confirm-%d", step), &mcp.ElicitParams{
		Mode: "form", Message: fmt.Sprintf("Do it? (%d)", step), RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	}
}
