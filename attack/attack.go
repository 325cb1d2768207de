package attack

import (
	"slices"

	"github.com/foilmcp/foil"
)

// A Mode is how the Guard under attack is set.
type Mode struct {
	Once    foil.Once    // Redeem or Off
	Without foil.Binding // bindings that are switched off
}

// An Attack is one row of the battery.
type Attack struct {
	// Name is stable.
	Name string
	// Does says what the attacker does.
	Does string
	// StoppedBy names the layer to switch off to see the attack succeed; it
	// is empty where nothing is to be stopped.
	StoppedBy string

	must    []string     // the verdicts that are right with everything on
	off     string       // the verdict under Once: Off, if it differs
	binding foil.Binding // the one binding that stops it
	without []string     // the verdicts with that binding off; accepted if nil
	strict  bool         // refused as ambiguous arguments counts as refused
	foreign bool         // so does an error of the server itself
	run     func(*bout) (verdict string, err error)
}

// Expect returns the verdicts that are right in this mode.
func (a *Attack) Expect(m Mode) []string {
	switch {
	case a.binding != 0 && m.Without.Has(a.binding):
		if a.without != nil {
			return slices.Clone(a.without)
		}
		return []string{Accepted}
	case m.Once == foil.Off && a.off != "":
		return []string{a.off}
	}
	return slices.Clone(a.must)
}

// Battery returns all attacks, in their fixed order.
func Battery() []Attack {
	return slices.Concat(
		harmless(), integrity(), principals(), expiry(), requests(), parsing(), audience(), keys(),
		replays(), rounds(), answers(), limits(), lookouts(),
	)
}

// Named returns the attacks of the battery with these names, in its order.
func Named(names ...string) []Attack {
	return slices.DeleteFunc(Battery(), func(a Attack) bool { return !slices.Contains(names, a.Name) })
}
