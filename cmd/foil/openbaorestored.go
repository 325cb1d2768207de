package main

import (
	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/openbao"
)

func newOpenBaoRestoredCmd() *cobra.Command {
	var layout layoutFlags
	var yes, asJSON bool
	c := &cobra.Command{
		Use:   "restored",
		Short: "Record that the server was restored from a snapshot",
		Long: `Record that the server was restored from a snapshot or lost its data. Log in as the
AppRole of the role sweeper, and run it before any server redeems: one that has
forgotten what was spent would accept it again.

It refuses for good every state that was minted before now and is spent in this
mount. It cannot reach claims by response wrapping, which a snapshot brings back: let
their longest ttl pass.

It may be run again at any time. Without --yes nothing is done, which is exit code 2.`,
		Example: `  foil openbao restored --yes`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !yes {
				return usagef("nothing is done without --yes. With it every state that was minted before now, and is spent in %s, is refused for good", layout.Spent)
			}
			client, err := connectBao(c)
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			s, err := openbao.OpenSweeper(client, layout.Spent, nil)
			if err != nil {
				return usagef("%w", err)
			}
			before, err := s.Restored(c.Context())
			if err != nil {
				return err
			}
			return printRestored(c, asJSON, before, "")
		},
	}
	layout.addSpent(c)
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	addJSON(c, &asJSON)
	return c
}
