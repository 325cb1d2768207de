package storagejanitor

import (
	"errors"
	"fmt"
	"strings"
	"time"

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
	Deleted Group  `json:"deleted" jsonschema:"by this confirmation, whether or not it was interrupted"`
	Bytes   int64  `json:"bytes" jsonschema:"size of what was deleted"`
	Missing Group  `json:"missing" jsonschema:"planned, but no longer there"`
	Changed Group  `json:"changed" jsonschema:"planned, but changed since the person saw the list, and kept"`
	Failed  Group  `json:"failed" jsonschema:"planned, but could not be deleted"`
	Left    int    `json:"left" jsonschema:"planned, but not reached before the call was cancelled"`

	Interrupted *Interruption `json:"interrupted,omitempty" jsonschema:"the purge was interrupted and carried on: how the deleted objects divide"`
	Unread      *Unread       `json:"unread,omitempty" jsonschema:"what could not be read when the list was made: nothing in it was planned"`
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

// A mark is what became of an object, as a step of the operation keeps it.
type mark string

const (
	markDeleted mark = "deleted"
	markGone    mark = "gone" // missing when a purge was resumed that had begun to delete it
	markMissing mark = "missing"
	markChanged mark = "changed"
	markFailed  mark = "failed"
)

var marks = map[Fate]mark{Deleted: markDeleted, Missing: markMissing, Changed: markChanged, Failed: markFailed}

// count adds an object; before says that an earlier call had been done with it,
// and when.
func (p *PurgeOutput) count(m mark, o Object, before bool, at time.Time) error {
	switch m {
	case markDeleted, markGone:
		p.Deleted.add(o.Name)
		p.Bytes += o.Size
		p.Interrupted.count(m, o, before, at)
	case markMissing:
		p.Missing.add(o.Name)
	case markChanged:
		p.Changed.add(o.Name)
	case markFailed:
		p.Failed.add(o.Name)
	default:
		return errors.New("storagejanitor: a step says of an object what this release does not know")
	}
	return nil
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
	b.WriteString(p.Interrupted.text())
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
