package main

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/store"
)

func newStoreStatsCmd() *cobra.Command {
	var from storeFlag
	var rest atRestFlag
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats",
		Short: "Count what a store holds, and under which keys it is sealed",
		Long: `Count what a store holds, as of one moment, and how many rows are sealed under each
key of the storage ring, by the KID of 'foil keys show'. With --storage-ring the keys
have their names, and those of the ring that no row uses are shown too: they may be
dropped once they are superseded.

It reads every row, which takes a while in a large store.`,
		Example: `  foil store stats --store sqlite:foil.db
  foil store stats --store sqlite:foil.db --storage-ring file:rows.json --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			o, err := rest.load(c)
			if err != nil {
				return err
			}
			s, err := from.open(c, o, false)
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			stop := busy(c, "counting")
			st, err := s.Stats(c.Context())
			stop()
			if err != nil {
				return err
			}
			shown := &shownStats{Stats: st}
			if rest.ring != nil {
				if shown.Ring, err = usedKeys(rest.ring, st.Keys, time.Now()); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), shown)
			}
			return shown.print(c)
		},
	}
	from.add(c)
	rest.add(c)
	addJSON(c, &asJSON)
	return c
}

type shownStats struct {
	store.Stats
	Ring []usedKey `json:"ring,omitempty"` // with --storage-ring
}

// A usedKey is a key of the storage ring and how many rows are sealed under it.
type usedKey struct {
	ID    string `json:"id"`
	KID   string `json:"kid_at_rest"`
	State string `json:"state"`
	Rows  int64  `json:"rows"`
}

func usedKeys(ring *keyring.Ring, rows map[string]int64, now time.Time) (all []usedKey, err error) {
	for _, k := range ring.Keys() {
		kid, err := atrest.KeyIDOf(k)
		if err != nil {
			return nil, err
		}
		all = append(all, usedKey{k.ID(), kid, keyState(ring, k, now), rows[kid]})
	}
	return all, nil
}

func (s *shownStats) print(c *cobra.Command) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s, schema version %d, %d bytes\n\n", s.Backend, s.Schema, s.SizeBytes)
	fmt.Fprintf(w, "spent\t%d\nclaims\t%d\tof %d bytes\nhandles\t%d\n", s.Spent, s.Claims, s.ClaimBytes, s.Handles)
	fmt.Fprintf(w, "operations\t%d\t%d executing, %d succeeded, %d failed, %d unknown\n",
		s.Executing+s.Succeeded+s.Failed+s.Unknown, s.Executing, s.Succeeded, s.Failed, s.Unknown)
	fmt.Fprintf(w, "swept until\t%s\nrestored\t%s\n", orDash(exactTime(s.SweptUntil)), orDash(exactTime(s.RestoredAt)))
	if err := w.Flush(); err != nil {
		return err
	}
	if len(s.Keys)+len(s.Ring) == 0 {
		_, err := fmt.Fprintln(c.OutOrStdout(), "\nNo row is sealed.")
		return err
	}
	fmt.Fprint(w, "\nKID\tROWS\tKEY\tSTATE\n")
	other := maps.Clone(s.Keys)
	for _, k := range s.Ring {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", k.KID, k.Rows, k.ID, k.State)
		delete(other, k.KID)
	}
	unknown := "-"
	if len(s.Ring) > 0 {
		unknown = "not in this ring: cannot be read with it"
	}
	for _, kid := range slices.Sorted(maps.Keys(other)) {
		fmt.Fprintf(w, "%s\t%d\t-\t%s\n", kid, other[kid], unknown)
	}
	return w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
