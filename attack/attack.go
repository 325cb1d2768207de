package attack

import (
	"cmp"
	"slices"

	"github.com/foilmcp/foil"
)

// A Mode is how the Guard under attack is set, and which calls are attacked.
type Mode struct {
	Once    foil.Once    // Redeem, Off, Settle or Deferred
	Without foil.Binding // bindings that are switched off
	// Kind is the method of the calls that the attacks are on: tools/call if
	// empty, prompts/get or resources/read. An attack that takes a token from
	// one kind of call to another does so whatever it is.
	Kind string
}

func (m Mode) kind() string { return cmp.Or(m.Kind, foil.MethodToolsCall) }

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
	settle  []string     // the verdicts under Once: Settle, if they differ
	binding foil.Binding // the one binding that stops it
	without []string     // the verdicts with that binding off; accepted if nil
	strict  bool         // refused as ambiguous arguments counts as refused
	foreign bool         // so does an error of the server itself
	// hidden says of kinds of calls why they cannot show the attack.
	hidden map[string]string
	unseen func(Mode) (reason string) // so for a mode; may be nil
	// envelope: where there are no arguments, only members of the params are
	// attacked, and a server may read one of them and never see the other.
	envelope bool
	run      func(*bout) (verdict string, err error)
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
	case m.Once == foil.Settle && a.settle != nil:
		return slices.Clone(a.settle)
	case a.envelope && m.kind() == foil.MethodResourcesRead:
		return append(slices.Clone(a.must), NotVisible)
	}
	return slices.Clone(a.must)
}

// Battery returns all attacks, in their fixed order.
func Battery() []Attack {
	return slices.Concat(
		harmless(), integrity(), principals(), expiry(), requests(), parsing(), audience(), keys(),
		replays(), settled(), rounds(), answers(), limits(), lookouts(), outages(), leak(),
	)
}

// Named returns the attacks of the battery with these names, in its order.
func Named(names ...string) []Attack {
	return slices.DeleteFunc(Battery(), func(a Attack) bool { return !slices.Contains(names, a.Name) })
}
