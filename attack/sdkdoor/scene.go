package sdkdoor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
)

var _ attack.App = (*world)(nil)

// twoRounds marks what the server asks about twice.
const twoRounds = "twice/"

func rounds(what string) int {
	if strings.HasPrefix(what, twoRounds) {
		return 2
	}
	return 1
}

// Stage names something new to act on.
func (w *world) Stage(_ context.Context, rounds int) (*attack.Scene, error) {
	w.mu.Lock()
	w.staged++
	what := fmt.Sprintf("scene-%d", w.staged)
	w.mu.Unlock()
	if rounds > 1 {
		what = twoRounds + what
	}
	call := func(method, target string, args ...attack.Member) attack.Call {
		return attack.Call{Method: method, Target: target, Arguments: args}
	}
	own := attack.Members{attack.M("what", `"`+what+`"`), attack.M("why", `"a test"`)}
	return &attack.Scene{
		Tool:          call(foil.MethodToolsCall, tool, own...),
		Changed:       "what",
		Decoy:         "something else",
		Free:          call(foil.MethodToolsCall, otherTool, attack.M("topic", `"numbers"`)),
		Prompt:        call(foil.MethodPromptsGet, tool, own...),
		OtherPrompt:   call(foil.MethodPromptsGet, "explain", own...),
		Resource:      call(foil.MethodResourcesRead, resources+what),
		OtherResource: call(foil.MethodResourcesRead, lookAt+what),
		Accept:        accept,
		Executed: func() (int, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.acted[what], nil
		},
	}, nil
}

func accept(questions json.RawMessage) (string, error) {
	var qs map[string]json.RawMessage
	if err := json.Unmarshal(questions, &qs); err != nil {
		return "", fmt.Errorf("sdkdoor: %w", err)
	}
	yes := map[string]json.RawMessage{}
	for key := range qs {
		yes[key] = json.RawMessage(yesText)
	}
	answers, err := json.Marshal(yes)
	return string(answers), err
}

const yesText = `{"action":"accept","content":{}}`
