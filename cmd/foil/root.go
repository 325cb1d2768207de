package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "foil",
		Short: "Protect the requestState of MCP servers",
		Long: `foil protects the requestState that an MCP server hands to its client and gets
back: it seals it, binds it to who asked for what, and redeems it once.

Exit codes: 0 ok, 1 refused or not as expected, 2 usage, 3 system failure.`,
		Example: `  foil demo
  foil keys new --ring file:ring.json
  foil token inspect <request.json`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newDemoCmd(), newKeysCmd(), newTokenCmd(), newVersionCmd())
	return group(root)
}

// group makes a command that only has subcommands say so when it gets none.
func group(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("%s has no command %q", c.CommandPath(), args[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		_ = c.Help()
		return usagef("name a command")
	}
	return c
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
			_, err := fmt.Fprintf(c.OutOrStdout(), "foil %s %s\n", v.Version, v.Go)
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
