package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/store"
)

func newStoreFsckCmd() *cobra.Command {
	var from storeFlag
	var rest atRestFlag
	var asJSON bool
	c := &cobra.Command{
		Use:   "fsck",
		Short: "Prove what must hold in a store",
		Long: `Prove what must hold in a store, and list what does not, one problem a line: exit
code 1 if there is any. Nothing is changed. With --storage-ring every sealed row is
opened, so that one that was changed, or moved from another row, is found; without,
that is not looked at.

It reads everything, so choose a quiet hour.`,
		Example: `  foil store fsck --store sqlite:foil.db --storage-ring file:rows.json
  foil store fsck --store sqlite:foil.db --json`,
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
			out := c.OutOrStdout()
			problems := []store.Problem{}
			n := 0
			stop := func() {}
			if asJSON || !isTerminal(out) { // or the lines would get mixed up
				stop = busy(c, "checking")
			}
			err = s.Fsck(c.Context(), func(p store.Problem) error {
				n++
				if asJSON {
					problems = append(problems, p)
					return nil
				}
				_, err := fmt.Fprintln(out, printable(p.String()))
				return err
			})
			stop()
			if err != nil {
				return err
			}
			if rest.ring == nil {
				fmt.Fprintln(c.ErrOrStderr(), "foil: sealed rows were not opened, as there is no --storage-ring")
			}
			if asJSON {
				err = printJSON(out, struct {
					OK       bool            `json:"ok"`
					Opened   bool            `json:"sealed_opened"`
					Problems []store.Problem `json:"problems"`
				}{n == 0, rest.ring != nil, problems})
			} else if n == 0 {
				_, err = fmt.Fprintln(out, "no problems")
			}
			switch {
			case err != nil:
				return err
			case n == 0:
				return nil
			case asJSON:
				return errRefused
			case n == 1:
				return refusedf("1 problem")
			}
			return refusedf("%d problems", n)
		},
	}
	from.add(c)
	rest.add(c)
	addJSON(c, &asJSON)
	return c
}
