package figures

import (
	"fmt"
	"unicode/utf8"
)

const maxName = 64

// Names are what a collector tells its stores, or its rings, apart by.
type Names map[string]bool

// Add takes one up: text of 1 to 64 bytes that is not there yet. noun is what has the
// name, for the error.
func (n Names) Add(noun, name string) error {
	switch {
	case name == "" || len(name) > maxName || !utf8.ValidString(name):
		return fmt.Errorf("the name of a %s must be text of 1 to %d bytes", noun, maxName)
	case n[name]:
		return fmt.Errorf("two %ss are called %q", noun, name)
	}
	n[name] = true
	return nil
}
