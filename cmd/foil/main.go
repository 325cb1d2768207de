// Command foil protects the requestState of MCP servers: it demonstrates the
// library, keeps its keys, and explains its tokens. Each command is in a file
// of its own; this one starts them and turns what they return into an exit code.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes of every command.
const (
	exitOK      = 0
	exitRefused = 1 // refused, or not as expected
	exitUsage   = 2
	exitSystem  = 3
)

// An exitError is an error with the exit code it stands for. Commands return
// one through refusedf or usagef; any other error is a system failure.
type exitError struct {
	code int
	err  error // nil: what is to be said has been printed
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// refusedf is a refusal, or a result that is not as expected.
func refusedf(format string, args ...any) error {
	return &exitError{exitRefused, fmt.Errorf(format, args...)}
}

// usagef is a mistake in how the command was called.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// errRefused ends a command whose output already tells the refusal.
var errRefused = &exitError{code: exitRefused}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCmd()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root)
	started := markStart(root)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{exitSystem, err}
		if !*started { // cobra found fault with flags or arguments
			exit.code = exitUsage
		}
	}
	if exit.err != nil {
		// Errors of the package of that name have it already.
		fmt.Fprintln(stderr, "foil:", strings.TrimPrefix(exit.err.Error(), "foil: "))
	}
	if exit.code == exitUsage {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return exit.code
}

// stoppable gives c a context that ends with an interrupt, for commands that have
// something to clean up. All others end at once, even while they wait for input.
func stoppable(c *cobra.Command) (stop func()) {
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	c.SetContext(ctx)
	return stop
}

// markStart makes every command note that it began to run: an error before that
// is one of usage.
func markStart(root *cobra.Command) *bool {
	started := new(bool)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if inner := c.RunE; inner != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				*started = true
				return inner(c, args)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return started
}
