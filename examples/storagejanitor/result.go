package storagejanitor

import (
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The outcomes of purge_objects.
const (
	OutcomePurged   = "purged"
	OutcomeNothing  = "nothing_to_purge"
	OutcomeDeclined = "declined"
	OutcomeRefused  = "refused"
)

// PurgeOutput is the result of purge_objects.
type PurgeOutput struct {
	Outcome string `json:"outcome" jsonschema:"purged, nothing_to_purge, declined or refused"`
	Deleted Group  `json:"deleted"`
	Bytes   int64  `json:"bytes" jsonschema:"size of what was deleted"`
	Missing Group  `json:"missing" jsonschema:"planned, but no longer there"`
	Changed Group  `json:"changed" jsonschema:"planned, but changed since the person saw the list, and kept"`
	Failed  Group  `json:"failed" jsonschema:"planned, but could not be deleted"`
	Left    int    `json:"left" jsonschema:"planned, but not reached before the call was cancelled"`

	Unread *Unread `json:"unread,omitempty" jsonschema:"what could not be read when the list was made: nothing in it was planned"`
}

// A Group is objects that met the same fate.
type Group struct {
	Count int      `json:"count"`
	Names []string `json:"names,omitempty" jsonschema:"the first of them, with characters that do not print written as escapes"`
}

// namesInResult bounds the names in each Group.
const namesInResult = 100

func (g *Group) add(name string) {
	g.Count++
	if len(g.Names) < namesInResult {
		g.Names = append(g.Names, visible(name))
	}
}

func (p *PurgeOutput) count(fate Fate, o Object) {
	switch fate {
	case Deleted:
		p.Deleted.add(o.Name)
		p.Bytes += o.Size
	case Missing:
		p.Missing.add(o.Name)
	case Changed:
		p.Changed.add(o.Name)
	default:
		p.Failed.add(o.Name)
	}
}

// text tells what happened in sentences.
func (p *PurgeOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Purged %d object(s)", p.Deleted.Count)
	if p.Deleted.Count > 0 {
		fmt.Fprintf(&b, ": %s", p.Deleted.text())
	}
	b.WriteString(".")
	for _, g := range []struct {
		*Group
		what string
	}{
		{&p.Missing, "were already gone"},
		{&p.Changed, "changed since they were shown and were kept"},
		{&p.Failed, "could not be deleted"},
	} {
		if g.Count > 0 {
			fmt.Fprintf(&b, " %d %s: %s.", g.Count, g.what, g.text())
		}
	}
	if p.Left > 0 {
		fmt.Fprintf(&b, " The call was cancelled with %d left.", p.Left)
	}
	b.WriteString(p.Unread.text())
	return b.String()
}

func (g *Group) text() string {
	n := min(len(g.Names), firstNames)
	s := strings.Join(g.Names[:n], ", ")
	if more := g.Count - n; more > 0 {
		s += fmt.Sprintf(", … and %d more", more)
	}
	return s
}

// finished is the result of a call that went its way, also to a no.
func finished(out *PurgeOutput, text string) (*mcp.CallToolResult, *PurgeOutput, error) {
	return &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: text}},
		IsError: out.Outcome == OutcomeRefused || out.Failed.Count > 0 || out.Left > 0,
	}, out, nil
}

// refused is a result that the model should read and act on, such as to start
// over. Nothing was deleted.
func refused(text string) (*mcp.CallToolResult, *PurgeOutput, error) {
	return finished(&PurgeOutput{Outcome: OutcomeRefused}, text)
}
