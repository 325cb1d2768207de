package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/openbao"
	"github.com/foilmcp/foil/replay"
)

func newOpenBaoSweepCmd() *cobra.Command {
	var layout layoutFlags
	var every, skew time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Forget the IDs of spent tokens whose time is over",
		Long: `Forget the IDs of spent tokens whose time is over by twice the skew. Log in as the
AppRole of the role sweeper, which no server that spends tokens has: to forget an ID is
to free it.

Without --every it sweeps once. With it, it goes on until it is interrupted; errors are
reported and tried again.`,
		Example: `  foil openbao sweep
  foil openbao sweep --every 1m`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < 0 || c.Flags().Changed("every") && every < time.Second || skew <= 0 {
				return usagef("--every must be a second or more, and --skew more than nothing")
			}
			stop := stoppable(c)
			defer stop()
			client, err := connectBao(c)
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			s, err := openbao.OpenSweeper(client, layout.Spent, &openbao.ReplayOptions{Skew: skew})
			if err != nil {
				return usagef("%w", err)
			}
			if every > 0 {
				s.Run(c.Context(), every)
				return nil
			}
			n, err := s.Sweep(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), struct {
					OK        bool `json:"ok"`
					Forgotten int  `json:"forgotten"`
				}{true, n})
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %d forgotten\n", layout.Spent, n)
			return err
		},
	}
	layout.addSpent(c)
	f := c.Flags()
	f.DurationVar(&every, "every", 0, "sweep again after this time, until interrupted")
	f.DurationVar(&skew, "skew", replay.DefaultSkew, "largest difference between any two clocks; the same as the servers'")
	addJSON(c, &asJSON)
	return c
}
