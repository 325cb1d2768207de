package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/keyring"
)

func newKeysDropCmd() *cobra.Command {
	var ring ringFlag
	var asJSON, yes bool
	c := &cobra.Command{
		Use:   "drop KEY",
		Short: "Take a key out of a storage ring that no row uses any more",
		Long: `Take a superseded or revoked key out of a storage ring. Every row that is still
sealed under it can never be read again, so see first that there is none: 'foil store
stats' tells which keys the rows of a store use. The ring cannot know.

KEY is the key's name in 'foil keys show'. The key that seals or is going to is not
dropped, nor one that a server which is late may still seal under.`,
		Example: `  foil keys show --ring file:rows.json
  foil keys drop 2026-11-30a --yes --ring file:rows.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return ring.change(c, asJSON, func(r *keyring.Ring, now time.Time) (*keyring.Change, error) {
				ch, err := r.Drop(now, args[0])
				switch {
				case errors.Is(err, keyring.ErrUnknownKey):
					if err := ring.notKID(r, "drop", args[0]); err != nil {
						return nil, err
					}
				case err == nil && !yes:
					return nil, usagef("every row that is still sealed under %s is lost when it is dropped: see in 'foil store stats' that there is none, then add --yes", args[0])
				}
				return ch, err
			}, func(ch *keyring.Change) string { return "dropped key " + args[0] })
		},
	}
	ring.add(c)
	addJSON(c, &asJSON)
	c.Flags().BoolVar(&yes, "yes", false, "no row uses the key")
	return c
}
