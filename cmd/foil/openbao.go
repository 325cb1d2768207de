package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/openbao"
)

// baoTimeout bounds each call of a command to OpenBao.
const baoTimeout = 15 * time.Second

func newOpenBaoCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "openbao",
		Short: "Set OpenBao up for foil, print its policies, look after spent IDs",
		Long: `Set an OpenBao server (or HashiCorp Vault, which has the same API) up for foil: the
engines, the Transit key, a policy for each role and an AppRole to log in with.

The server and the login are taken from the environment variables that bao itself
reads: BAO_ADDR, BAO_NAMESPACE, BAO_CACERT, BAO_TOKEN or BAO_ROLE_ID with
BAO_SECRET_ID_FILE, and so on; VAULT_ in place of BAO_ works too.

The roles are ` + strings.Join(baoRoles(), ", ") + `.`,
		Example: `  foil openbao setup --dry-run
  foil openbao setup --approle janitor=ring-reader,spender
  foil openbao policy ring-reader
  foil openbao sweep --every 1m`,
	}
	c.AddCommand(newOpenBaoSetupCmd(), newOpenBaoPolicyCmd(), newOpenBaoSweepCmd(), newOpenBaoRestoredCmd())
	return group(c)
}

func baoRoles() []string {
	var names []string
	for _, r := range openbao.Roles() {
		names = append(names, string(r))
	}
	return names
}

// connectBao logs in as the environment says.
func connectBao(c *cobra.Command) (*openbao.Client, error) { return dialBao(c.Context(), nil) }

// dialBao is connectBao with a logger, which is told of logins that fail.
func dialBao(ctx context.Context, log *slog.Logger) (*openbao.Client, error) {
	o, err := openbao.FromEnv()
	if err != nil {
		return nil, usagef("%w", err)
	}
	if o.Timeout == 0 {
		o.Timeout = baoTimeout
	}
	o.Logger = log
	return openbao.Open(ctx, o)
}

// layoutFlags say where things are in the server.
type layoutFlags struct{ openbao.Layout }

func (l *layoutFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&l.Ring, "ring", openbao.DefaultRingPath, "MOUNT/PATH of the key ring")
	f.StringVar(&l.Transit, "transit", openbao.DefaultTransitPath, "MOUNT/KEY of the Transit key")
	l.addSpent(c)
	f.StringVar(&l.Prefix, "prefix", openbao.DefaultPrefix, "begins the names of policies and AppRoles")
}

func (l *layoutFlags) addSpent(c *cobra.Command) {
	c.Flags().StringVar(&l.Spent, "spent", openbao.DefaultSpentMount, "mount of the IDs of spent tokens, which nothing else uses")
}

func newOpenBaoPolicyCmd() *cobra.Command {
	var layout layoutFlags
	c := &cobra.Command{
		Use:   "policy ROLE",
		Short: "Print the policy of a role",
		Long: `Print the policy of a role, as setup writes it. No server is asked.

The roles are ` + strings.Join(baoRoles(), ", ") + `.`,
		Example: `  foil openbao policy ring-reader
  foil openbao policy transit-user --transit transit/mcp | bao policy write mcp-transit -`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(baoRoles(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := openbao.Policy(&layout.Layout, openbao.Role(args[0]))
			if err != nil {
				return usagef("%w", err)
			}
			_, err = fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
	layout.add(c)
	return c
}
