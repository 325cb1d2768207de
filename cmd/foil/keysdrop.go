package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/keyring"
)

func newKeysDropCmd() *cobra.Command {
	var ring ringFlag
	var asJSON, yes bool
	var stores []string
	c := &cobra.Command{
		Use:   "drop KEY",
		Short: "Take a key out of a storage ring that no row uses any more",
		Long: `Take a superseded or revoked key out of a storage ring. Every row that is still
sealed under it can never be read again. --store names each store that is sealed under
the ring, or FOIL_STORE in the environment the only one: the key is dropped if no row
of any uses it, expired rows included. The ring cannot know of a store that is not
named, and each schema or prefix in a database is one of its own. --yes drops the key
without asking a store.

KEY is the key's name in 'foil keys show'. The key that seals or is going to is not
dropped, nor one that a server which is late may still seal under.

Of a Transit key KEY is a version that was revoked: it is destroyed, with all other
revoked ones.`,
		Example: `  foil keys drop 2026-11-30a --ring file:rows.json --store sqlite:foil.db
  foil keys show --ring file:rows.json
  foil keys drop 2026-11-30a --yes --ring file:rows.json
  foil keys drop 3 --yes --ring transit:transit/state`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if path, ok := ring.transitPath(); ok {
				if len(stores) > 0 {
					return usagef("--store is for storage rings: no row is sealed under a Transit key")
				}
				return dropTransit(c, asJSON, path, args[0], yes)
			}
			for _, name := range stores {
				warnPassword(c, name)
			}
			if env := os.Getenv(storeVariable); len(stores) == 0 && env != "" && !yes {
				stores = []string{env}
			}
			drop := func(r *keyring.Ring, now time.Time) (*keyring.Change, error) {
				ch, err := r.Drop(now, args[0])
				switch {
				case errors.Is(err, keyring.ErrUnknownKey):
					if err := ring.notKID(r, "drop", args[0]); err != nil {
						return nil, err
					}
				case err == nil && !yes && len(stores) == 0:
					return nil, usagef("every row that is still sealed under %s is lost when it is dropped: name the stores with --store, or see in 'foil store stats' that there is none, then add --yes", args[0])
				}
				return ch, err
			}
			if len(stores) > 0 {
				// It may be dropped by the ring before the rows are counted, so no
				// server seals under it any more; and counting is not done while
				// others wait for the ring.
				r, err := ring.load(c.Context())
				if err != nil {
					return err
				}
				if _, err := drop(r, time.Now()); err != nil {
					return ringError(err)
				}
				if err := noRow(c, r.Key(args[0]), stores); err != nil {
					return err
				}
			}
			return ring.change(c, asJSON, drop, func(ch *keyring.Change) string { return "dropped key " + args[0] })
		},
	}
	ring.add(c)
	addJSON(c, &asJSON)
	c.Flags().StringArrayVar(&stores, "store", nil, "a store that is sealed under the ring, which is asked whether a row uses the key; repeatable")
	completeStore(c)
	c.Flags().BoolVar(&yes, "yes", false, "no row uses the key: no store is asked")
	c.MarkFlagsMutuallyExclusive("store", "yes")
	return c
}

// noRow refuses if a row of a store is sealed under the key.
func noRow(c *cobra.Command, key *keyring.Key, stores []string) error {
	kid, err := atrest.KeyIDOf(key)
	if err != nil {
		return err
	}
	for i, name := range stores {
		n, err := rowsUnder(c, name, kid)
		if err != nil {
			return err
		}
		if n > 0 {
			return refusedf("rows of store number %d that are sealed under %s: %d. Wait until they have expired, run foil store sweep, and try again", i+1, key.ID(), n)
		}
	}
	return nil
}

func rowsUnder(c *cobra.Command, name, kid string) (n int64, err error) {
	s, err := openStore(c, name, nil, false)
	if err != nil {
		return 0, err
	}
	defer closeStore(s, &err)
	defer busy(c, "counting")()
	st, err := s.Stats(c.Context())
	return st.Keys[kid], err
}
