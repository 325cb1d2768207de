package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/dsn"
)

// The commands under foil store look after a whole store. What it keeps is shown
// by none of them.

func newStoreCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Migrate, count, sweep, check and restore a store",
		Long: `Look after the store that the servers share: sqlite:FILE, postgres://… or redis://….

--store names it, or FOIL_STORE in the environment, which keeps a password from who
can list this machine's processes. All of it works while servers use the store,
except 'foil store restored', which is to come before they start.

A store that is not there is an error, and made by migrate alone: a SQLite file, and
what foil keeps in a Redis database. Where the servers set Options.Schema or
Options.Prefix, the DSN has it too: postgres://…?foil_schema=NAME or
redis://…?foil_prefix=TEXT.`,
		Example: `  foil store migrate --store postgres://foil@db.example/foil
  foil store stats --store sqlite:foil.db --storage-ring file:rows.json
  foil store sweep --store sqlite:foil.db
  foil store fsck --store sqlite:foil.db --storage-ring file:rows.json
  foil store restored --yes --store sqlite:foil.db`,
	}
	c.AddCommand(newStoreMigrateCmd(), newStoreStatsCmd(), newStoreSweepCmd(), newStoreFsckCmd(), newStoreRestoredCmd())
	return group(c)
}

func newStoreMigrateCmd() *cobra.Command {
	var from storeFlag
	var asJSON bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables of a store, or bring them up to date",
		Long: `Create the tables of a PostgreSQL store, or bring them up to date, in one transaction.
The role needs to own the schema foil, or to be allowed to create it; servers need
neither. Once it is done it does nothing.

A SQLite file is made and migrated by whoever uses it first, so also by this. In Redis
there is nothing to migrate; it begins a store in a database that has none. Prints the
version of the schema.`,
		Example: `  FOIL_STORE=postgres://owner:…@db.example/foil foil store migrate
  foil store migrate --store sqlite:foil.db --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			s, err := from.open(c, &dsn.Options{Migrate: true}, true)
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			stop := busy(c, "reading the store")
			st, err := s.Stats(c.Context())
			stop()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), struct {
					OK      bool   `json:"ok"`
					Backend string `json:"backend"`
					Schema  int    `json:"schema"`
				}{true, st.Backend, st.Schema})
			}
			words := map[string]string{
				dsn.SQLite:   "the file is there and up to date",
				dsn.Postgres: "the tables are up to date",
				dsn.Redis:    "nothing to migrate, the store is there",
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s, schema version %d: %s\n", st.Backend, st.Schema, words[st.Backend])
			return err
		},
	}
	from.add(c)
	addJSON(c, &asJSON)
	return c
}

func newStoreSweepCmd() *cobra.Command {
	var from storeFlag
	var asJSON bool
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Forget now what may be forgotten",
		Long: `Forget now everything whose time has come, and remember durably up to when: no clock
that is set back revives a spent state. Servers do the same in passing, a little at a
time, so nobody needs to run this; it gives room back at a chosen moment. SQLite uses
the room again and does not shrink its file. Unknown operations are never forgotten.`,
		Example: `  foil store sweep --store sqlite:foil.db
  FOIL_STORE=redis://:…@cache.example foil store sweep --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			s, err := from.open(c, nil, false)
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			stop := busy(c, "sweeping")
			n, err := s.Sweep(c.Context())
			stop()
			words := fmt.Sprintf("swept %d spent, %d claims, %d handles, %d operations", n.Spent, n.Claims, n.Handles, n.Operations)
			switch {
			case err != nil && n != (store.Swept{}):
				return fmt.Errorf("%s, and then: %w", words, err)
			case err != nil:
				return err
			case asJSON:
				return printJSON(c.OutOrStdout(), n)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), words)
			return err
		},
	}
	from.add(c)
	addJSON(c, &asJSON)
	return c
}

const restoredDoes = `it refuses for good every state that was minted before now (and the
largest difference of clocks), as it may have been spent since the backup was made;
it deletes parked plans and handles, of which some may have been redeemed since;
it makes what was executing unknown, and shuts out who executed it`

func newStoreRestoredCmd() *cobra.Command {
	var from storeFlag
	var asJSON, yes bool
	c := &cobra.Command{
		Use:   "restored",
		Short: "Record that the store was restored from a backup",
		Long: `Record that the store was restored from a backup, lost its data, or was taken over by
a replica that may lack the last writes. Run it before any server starts on it: a
store that has forgotten what was spent would accept it again.

Durably and for every server, ` + restoredDoes + `.

A Redis server that came back empty has no store: run 'foil store migrate' before it.

Flows under way begin again. It may be run again at any time. Without --yes nothing
is done, which is exit code 2.`,
		Example: `  foil store restored --store sqlite:foil.db
  foil store restored --yes --store sqlite:foil.db`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			s, err := from.open(c, nil, false)
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			if !yes {
				return usagef("nothing is done without --yes. With it, durably and for every server, %s", restoredDoes)
			}
			stop := busy(c, "recording it")
			before, err := s.Restored(c.Context())
			stop()
			if err != nil {
				return err
			}
			return printRestored(c, asJSON, before, "; operations that were executing are unknown, see foil ops list")
		},
	}
	from.add(c)
	addJSON(c, &asJSON)
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

// printRestored tells before when states are refused now, and in words what more.
func printRestored(c *cobra.Command, asJSON bool, before time.Time, more string) error {
	if asJSON {
		return printJSON(c.OutOrStdout(), struct {
			OK     bool   `json:"ok"`
			Before string `json:"refused_before"`
		}{true, exactTime(before)})
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "recorded: states minted before %s are refused%s\n", exactTime(before), more)
	return err
}

// exactTime writes a time of a store, to its millisecond, and nothing for the zero
// time.
func exactTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
