package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "foil",
		Short: "Protect the requestState of MCP servers",
		Long: `foil protects the requestState that an MCP server hands to its client and gets
back: it seals it, binds it to who asked for what, and redeems it once.

Results are on standard output. Errors and warnings are text on standard error,
with --json too.

Exit codes: 0 ok, 1 refused or not as expected, 2 usage, 3 system failure.`,
		Example: `  foil demo
  foil keys new --ring file:ring.json
  foil token inspect <request.json`,
		Version:       version().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("foil {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newDemoCmd(), newKeysCmd(), newLabCmd(), newOpenBaoCmd(), newOpsCmd(), newStoreCmd(), newTokenCmd(), newVersionCmd())
	root.SetHelpCommand(newHelpCmd())
	return group(root)
}

// group makes a command that only has subcommands say so when it gets none.
func group(c *cobra.Command) *cobra.Command {
	c.Args = noOtherCommand
	c.RunE = func(c *cobra.Command, _ []string) error {
		_ = c.Help()
		return usagef("name a command")
	}
	return c
}

// noOtherCommand is for commands that have others below them: an argument is a
// misspelt one.
func noOtherCommand(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return noCommand(c, args[0])
	}
	return nil
}

func noCommand(c *cobra.Command, name string) error {
	where, hint := "", ""
	if c.HasParent() {
		where = " in " + c.CommandPath()
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return usagef("no command %q%s%s", name, where, hint)
}

// flagError says that a command is misspelt where pflag only sees a flag that
// would have been its.
func flagError(c *cobra.Command, err error) error {
	if rest := c.Flags().Args(); c.HasSubCommands() && len(rest) > 0 {
		return noCommand(c, rest[0])
	}
	return err
}

func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about any command",
		Example: "  foil help\n  foil help token open",
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			switch {
			case err != nil:
				return usagef("%w", err)
			case len(rest) > 0:
				return noCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag()
			of.InitDefaultVersionFlag()
			return of.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			if of, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), begin) {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// addCompletion adds cobra's command of that name, which takes no shell and any
// shell for a request for help. It must run when the output is set.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	c, _, err := root.Find([]string{"completion"})
	if err != nil {
		return // a test finds that it is missing
	}
	const shells = "bash, zsh, fish or powershell"
	c.Example = "  source <(foil completion bash)\n  foil completion zsh >\"${fpath[1]}/_foil\""
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("no completion for the shell %q: name %s", args[0], shells)
		}
		return nil
	}
	c.RunE = func(*cobra.Command, []string) error { return usagef("name a shell: %s", shells) }
	for shell, example := range map[string]string{
		"bash":       "source <(foil completion bash)",
		"zsh":        "source <(foil completion zsh)",
		"fish":       "foil completion fish | source",
		"powershell": "foil completion powershell | Out-String | Invoke-Expression",
	} {
		if sub, _, err := root.Find([]string{"completion", shell}); err == nil {
			sub.Example = "  " + example
		}
	}
}

func newVersionCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  foil version\n  foil version --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v := version()
			if asJSON {
				return printJSON(c.OutOrStdout(), v)
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), "foil", v)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func (v versionInfo) String() string { return strings.TrimSpace(v.Version + " " + v.Go) }

func version() versionInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versionInfo{Version: "unknown"}
	}
	v := versionInfo{Version: info.Main.Version, Go: info.GoVersion}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	return v
}

// printJSON writes one line of JSON without HTML escapes.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
