package guarddoor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
)

const (
	tool      = "act"
	resources = "guard://act/"
)

// twoRounds marks what the server asks about twice.
const twoRounds = "twice/"

// subject is what a request acts on. ok is false for a request that only asks.
func subject(req *foil.Request) (what string, ok bool) {
	if req.Method == foil.MethodResourcesRead {
		return strings.CutPrefix(req.Target, resources)
	}
	var args struct{ What string }
	_ = json.Unmarshal(req.Arguments, &args) // other calls have other arguments
	return args.What, req.Target == tool
}

func rounds(what string) int {
	if strings.HasPrefix(what, twoRounds) {
		return 2
	}
	return 1
}

// Stage names something new to act on.
func (d *Door) Stage(_ context.Context, rounds int) (*attack.Scene, error) {
	d.mu.Lock()
	d.staged++
	what := fmt.Sprintf("scene-%d", d.staged)
	d.mu.Unlock()
	if rounds > 1 {
		what = twoRounds + what
	}
	call := func(method, target string, args ...attack.Member) attack.Call {
		return attack.Call{Method: method, Target: target, Arguments: args}
	}
	text, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	own := attack.Members{attack.M("what", string(text)), attack.M("why", `"a test"`)}
	return &attack.Scene{
		Tool:          call(foil.MethodToolsCall, tool, own...),
		Changed:       "what",
		Decoy:         "something else",
		Free:          call(foil.MethodToolsCall, "note", attack.M("topic", `"numbers"`)),
		Prompt:        call(foil.MethodPromptsGet, tool, own...),
		OtherPrompt:   call(foil.MethodPromptsGet, "explain", own...),
		Resource:      call(foil.MethodResourcesRead, resources+what),
		OtherResource: call(foil.MethodResourcesRead, "guard://look/"+what),
		Accept:        accept,
		Executed: func() (int, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.acted[what], nil
		},
	}, nil
}

func accept(questions json.RawMessage) (string, error) {
	var qs map[string]json.RawMessage
	if err := json.Unmarshal(questions, &qs); err != nil {
		return "", fmt.Errorf("guarddoor: %w", err)
	}
	yes := map[string]any{}
	for key := range qs {
		yes[key] = map[string]any{"action": "accept", "content": map[string]any{}}
	}
	answers, err := json.Marshal(yes)
	return string(answers), err
}
