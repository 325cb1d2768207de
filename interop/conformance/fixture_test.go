//lint:file-ignore SA1019 sampling and roots are deprecated and still part of the protocol

package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools, prompts and resources that the suite calls, by the names that it
// knows them by. None of them knows of foil but through mcpsdk.Answer, and all
// state here is plain text.

func form(message, property, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{property: map[string]any{"type": kind}}, "required": []string{property},
	}}
}

func sample(text string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}
}

// A step is what a handler does on one call: it asks and leaves a state, or it
// says something.
type step struct {
	asks  mcp.InputRequestMap
	state string
	says  string
}

type asker func(ctx context.Context, req *mcp.CallToolRequest) (step, error)

// answers reads the answer to each question, and reports whether all are there.
func answers(ctx context.Context, req mcp.Request, asks mcp.InputRequestMap) (map[string]mcp.InputResponse, bool) {
	got := make(map[string]mcp.InputResponse)
	for key, question := range asks {
		if a, status := mcpsdk.Answer(ctx, req, key, question); status == foil.Answered {
			got[key] = a
		}
	}
	return got, len(got) == len(asks)
}

// entered is a property of an accepted form; ok is false for anything else.
func entered[T any](answer mcp.InputResponse, property string) (v T, ok bool) {
	e, is := answer.(*mcp.ElicitResult)
	if !is || e.Action != "accept" {
		return v, false
	}
	v, ok = e.Content[property].(T)
	return v, ok
}

var tools = []struct {
	name string
	run  asker
}{
	{"test_input_required_result_elicitation", func(ctx context.Context, req *mcp.CallToolRequest) (step, error) {
		asks := mcp.InputRequestMap{"user_name": form("What is your name?", "name", "string")}
		got, _ := answers(ctx, req, asks)
		if name, ok := entered[string](got["user_name"], "name"); ok {
			return step{says: "Hello, " + name + "!"}, nil
		}
		return step{asks: asks}, nil
	}},
	{"test_input_required_result_sampling", func(ctx context.Context, req *mcp.CallToolRequest) (step, error) {
		asks := mcp.InputRequestMap{"capital_question": sample("What is the capital of France?")}
		got, ok := answers(ctx, req, asks)
		if !ok {
			return step{asks: asks}, nil
		}
		said, err := json.Marshal(got["capital_question"])
		return step{says: "the model says " + string(said)}, err
	}},
	{"test_input_required_result_list_roots", func(ctx context.Context, req *mcp.CallToolRequest) (step, error) {
		asks := mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}
		got, ok := answers(ctx, req, asks)
		if !ok {
			return step{asks: asks}, nil
		}
		var uris []string
		for _, r := range got["client_roots"].(*mcp.ListRootsResult).Roots {
			uris = append(uris, r.URI)
		}
		return step{says: "roots: " + strings.Join(uris, " ")}, nil
	}},
	{"test_input_required_result_request_state", confirm("the state of this tool")},
	{"test_input_required_result_tampered_state", confirm("the state of that tool")},
	{"test_input_required_result_multiple_inputs", func(ctx context.Context, req *mcp.CallToolRequest) (step, error) {
		asks := mcp.InputRequestMap{
			"user_name":    form("What is your name?", "name", "string"),
			"greeting":     sample("Generate a greeting"),
			"client_roots": &mcp.ListRootsParams{},
		}
		got, ok := answers(ctx, req, asks)
		name, named := entered[string](got["user_name"], "name")
		if !ok || !named || req.Params.RequestState != "three questions" {
			return step{asks: asks, state: "three questions"}, nil
		}
		return step{says: name + " answered everything"}, nil
	}},
	{"test_input_required_result_multi_round", func(ctx context.Context, req *mcp.CallToolRequest) (step, error) {
		name, second := strings.CutPrefix(req.Params.RequestState, "name=")
		if !second {
			asks := mcp.InputRequestMap{"step1": form("Step 1: What is your name?", "name", "string")}
			got, _ := answers(ctx, req, asks)
			if name, second = entered[string](got["step1"], "name"); !second {
				return step{asks: asks, state: "step 1"}, nil
			}
		}
		asks := mcp.InputRequestMap{"step2": form("Step 2: What is your favorite color?", "color", "string")}
		got, _ := answers(ctx, req, asks)
		color, ok := entered[string](got["step2"], "color")
		if !ok {
			return step{asks: asks, state: "name=" + name}, nil
		}
		return step{says: name + " likes " + color}, nil
	}},
	{"test_input_required_result_capabilities", func(ctx context.Context, req *mcp.CallToolRequest) (step, error) {
		asks := mcp.InputRequestMap{}
		if c := req.ClientCapabilities(); c != nil {
			if c.Elicitation != nil {
				asks["user_name"] = form("What is your name?", "name", "string")
			}
			if c.Sampling != nil {
				asks["greeting"] = sample("Generate a greeting")
			}
		}
		if _, ok := answers(ctx, req, asks); ok {
			return step{says: "nothing left to ask"}, nil
		}
		return step{asks: asks}, nil
	}},
	{"test_simple_text", func(context.Context, *mcp.CallToolRequest) (step, error) {
		return step{says: "This is a simple text response for testing."}, nil
	}},
	{"test_error_handling", func(context.Context, *mcp.CallToolRequest) (step, error) {
		return step{}, errors.New("this tool always fails")
	}},
}

// confirm is a tool that goes on only with its state and a yes.
func confirm(state string) asker {
	return func(ctx context.Context, req *mcp.CallToolRequest) (step, error) {
		asks := mcp.InputRequestMap{"confirm": form("Please confirm", "ok", "boolean")}
		got, _ := answers(ctx, req, asks)
		if yes, ok := entered[bool](got["confirm"], "ok"); !ok || !yes || req.Params.RequestState != state {
			return step{asks: asks, state: state}, nil
		}
		return step{says: "state-ok"}, nil
	}
}

// fixture is the server, not yet protected.
func fixture() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "conformance-fixture", Version: "1"}, nil)
	for _, tool := range tools {
		mcp.AddTool(s, &mcp.Tool{Name: tool.name, Description: "For the conformance suite"},
			func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				did, err := tool.run(ctx, req)
				if err != nil {
					return nil, nil, err
				}
				if did.asks != nil {
					return &mcp.CallToolResult{InputRequests: did.asks, RequestState: did.state}, nil, nil
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: did.says}}}, nil, nil
			})
	}

	says := func(format string, args ...any) *mcp.GetPromptResult {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}}
	}
	s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for its context"},
		func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			asks := mcp.InputRequestMap{"user_context": form("What context should the prompt use?", "context", "string")}
			got, _ := answers(ctx, req, asks)
			if text, ok := entered[string](got["user_context"], "context"); ok {
				return says("In the context of %s.", text), nil
			}
			return &mcp.GetPromptResult{InputRequests: asks}, nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "test_simple_prompt", Description: "Asks nothing"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return says("This is a simple prompt for testing."), nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_arguments", Description: "Repeats its arguments", Arguments: []*mcp.PromptArgument{
		{Name: "arg1", Description: "First", Required: true}, {Name: "arg2", Description: "Second", Required: true},
	}}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		a := req.Params.Arguments
		return says("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"]), nil
	})

	read := func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
		text, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "application/json", Text: string(text)}}}, err
	}
	s.AddResource(&mcp.Resource{URI: "test://static-text", Name: "static", Description: "A text", MIMEType: "application/json"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"}, read)
	return s
}
