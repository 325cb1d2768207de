package storagejanitor

import (
	"fmt"
	"strings"
	"time"
)

// An Interruption tells of a purge that was cut off and carried on, once or more
// often: when each of the deleted objects was deleted.
type Interruption struct {
	Before   Group     `json:"before" jsonschema:"deleted before the purge was interrupted for the last time"`
	From     time.Time `json:"from,omitzero" jsonschema:"when the first of these is known to have been deleted"`
	Until    time.Time `json:"until,omitzero" jsonschema:"when the last of these is known to have been deleted"`
	Probably Group     `json:"probably" jsonschema:"those of before that are gone and that the interrupted call was about to delete: probably it did, and could not say so"`
	Now      Group     `json:"now" jsonschema:"deleted by this call"`
}

// count adds a deleted object. A nil Interruption is that of a purge that was not
// interrupted.
func (n *Interruption) count(m mark, o Object, before bool, at time.Time) {
	switch {
	case n == nil:
		return
	case m == markGone:
		n.Probably.add(o.Name)
	case !before:
		n.Now.add(o.Name)
		return
	default:
		at = at.UTC()
		if n.From.IsZero() || at.Before(n.From) {
			n.From = at
		}
		if at.After(n.Until) {
			n.Until = at
		}
	}
	n.Before.add(o.Name)
}

// text is empty, or sentences that follow others.
func (n *Interruption) text() string {
	if n == nil {
		return ""
	}
	if n.Before.Count == 0 {
		return " The purge was interrupted before it had deleted anything, and was carried on now."
	}
	var b strings.Builder
	fmt.Fprintf(&b, " The purge was interrupted and carried on: %d deleted before", n.Before.Count)
	switch from, until := n.From.Format(time.RFC3339), n.Until.Format(time.RFC3339); {
	case n.From.IsZero():
	case from == until:
		fmt.Fprintf(&b, ", at %s", from)
	default:
		fmt.Fprintf(&b, ", from %s to %s", from, until)
	}
	fmt.Fprintf(&b, ": %s.", n.Before.text())
	if n.Probably.Count > 0 {
		fmt.Fprintf(&b, " Of these, %d gone, probably by the interrupted call, which could not say so: %s.", n.Probably.Count, n.Probably.text())
	}
	fmt.Fprintf(&b, " %d deleted now", n.Now.Count)
	if n.Now.Count > 0 {
		fmt.Fprintf(&b, ": %s", n.Now.text())
	}
	b.WriteByte('.')
	return b.String()
}
