package main

import (
	"testing"

	"github.com/spf13/cobra"
)

// Every help text has an example.
func TestEveryHelpHasAnExample(t *testing.T) {
	root := newRootCmd()
	addCompletion(root)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Example == "" && !c.Hidden {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if c.Short == "" {
			t.Errorf("%s has no short text", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}
