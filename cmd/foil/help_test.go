package main

import (
	"strings"
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

// A lease that has run out does not prove that nothing will happen any more.
func TestResolveAsksForADeadProcess(t *testing.T) {
	code, stdout, stderr := foilRun("ops", "resolve", "--help")
	if code != exitOK || !strings.Contains(stdout, "Make sure first that the process that ran it is dead.") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
