package storagejanitor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/mcpsdk"
)

// The steps of a purge, named for the question that is open. They are the keys of
// the questions too.
const (
	stepConfirm = "confirm"
	stepCount   = "count"
)

// A state is what travels, sealed, as requestState: where the purge is, the claim
// of its plan or the plan itself, and all that the questions say. What they say
// must not be found out again on the retry, since the bucket may have changed.
type state struct {
	Step    string   `json:"step"`
	Claim   string   `json:"claim,omitempty"`
	Plan    *plan    `json:"plan,omitempty"`
	Objects int      `json:"objects"`
	Bytes   int64    `json:"bytes"`
	First   []string `json:"first"` // names, as shown
	Unread  *Unread  `json:"unread,omitempty"`
}

// firstNames is how many names the question shows: as many as a person reads before
// saying yes. Of more they are a sample.
const firstNames = 20

func newState(objects []Object) *state {
	s := &state{Step: stepConfirm, Objects: len(objects)}
	for i, o := range objects {
		s.Bytes += o.Size
		if i < firstNames {
			s.First = append(s.First, shown(o.Name))
		}
	}
	return s
}

// parseState reads what ask wrote. It reports false for a first call, whose state
// is empty, and for a state of a release that wrote another form, or of a server
// that keeps its plans elsewhere.
func parseState(text string, planInState bool) (*state, bool) {
	if text == "" {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	var s state
	err := d.Decode(&s)
	return &s, err == nil && (s.Step == stepConfirm || s.Step == stepCount) && s.Objects > 0 &&
		(s.Plan != nil) == planInState && (s.Claim == "") == planInState
}

// ask returns the result that asks the question of the step. The middleware seals
// the state.
func (s *state) ask(ctx context.Context, req *mcp.CallToolRequest, prefix string) (*mcp.CallToolResult, *PurgeOutput, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	question := s.question(prefix)
	// A client of an older protocol answers within this call: let the
	// middleware note what it is asked.
	mcpsdk.Answer(ctx, req, s.Step, question)
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{s.Step: question},
		RequestState:  string(text),
	}, nil, nil
}

// carried is how many bytes the state takes up in the payload of a token, which
// is JSON in ASCII (docs/wire.md) and holds the state as a string.
func (s *state) carried() (n int, err error) {
	text, err := json.Marshal(s)
	for _, r := range string(text) {
		switch {
		case r == '"' || r == '\\':
			n += 2
		case ' ' <= r && r < 0x7f:
			n++
		case r <= 0xffff:
			n += len(`\u0000`)
		default:
			n += len(`\u0000\u0000`)
		}
	}
	return n, err
}

// question returns the question of the step. It depends on the state and the
// arguments alone, so that the retry can make it again and compare.
func (s *state) question(prefix string) *mcp.ElicitParams {
	names := strings.Join(s.First, ", ")
	if more := s.Objects - len(s.First); more > 0 {
		names += fmt.Sprintf(", … and %d more", more)
	}
	message := fmt.Sprintf("Purge %d object(s) %s? %s (%d bytes in all)", s.Objects, where(prefix), names, s.Bytes)
	if s.Unread != nil {
		message += "." + strings.TrimSuffix(s.Unread.text(), ".")
	}
	if s.Step == stepCount {
		return form(message+". Type the number of objects to delete them for good.",
			stepCount, map[string]any{"type": "integer", "title": "Number of objects"})
	}
	return form(message, stepConfirm, map[string]any{"type": "boolean", "title": "Delete these objects for good"})
}

func where(prefix string) string {
	if prefix == "" {
		return "in the whole bucket"
	}
	return "under '" + strings.ReplaceAll(cut(visible(prefix), shownRunes), "'", `\'`) + "'"
}

// form is a question with one field.
func form(message, field string, schema map[string]any) *mcp.ElicitParams {
	return &mcp.ElicitParams{
		Mode:    "form",
		Message: message,
		RequestedSchema: map[string]any{
			"type":       "object",
			"properties": map[string]any{field: schema},
			"required":   []string{field},
		},
	}
}

// A verdict is what a person's answer means.
type verdict uint8

const (
	unclear verdict = iota // neither yes nor no: ask again
	no
	yes
)

// verdict reads the answer to the question of the step. Only the exact answer is
// a yes; closing the form is a no.
func (s *state) verdict(answer mcp.InputResponse) verdict {
	a, ok := answer.(*mcp.ElicitResult)
	if !ok || a == nil {
		return unclear
	}
	switch a.Action {
	case "decline", "cancel":
		return no
	case "accept":
	default:
		return unclear
	}
	if s.Step == stepCount {
		n, ok := a.Content[stepCount].(float64)
		if ok && n == float64(s.Objects) {
			return yes
		}
		return unclear
	}
	switch v, ok := a.Content[stepConfirm].(bool); {
	case !ok:
		return unclear
	case v:
		return yes
	}
	return no
}
