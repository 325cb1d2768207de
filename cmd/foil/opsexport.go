package main

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/ledger"
)

func newOpsExportCmd() *cobra.Command {
	var from storeFlag
	var rest atRestFlag
	var outcomes bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Print all operations, one JSON object a line",
		Long: `Print all operations, one JSON object a line, in the order in which they started. The
members are those of 'foil ops list --json'.

With --outcomes each has its steps and what the client was told, which needs the
--storage-ring of the servers, and asks the store for each operation. One that cannot
be opened has "unopened":true instead, and makes exit code 1 of it.`,
		Example: `  foil ops export --store sqlite:foil.db >operations.jsonl
  foil ops export --outcomes --store sqlite:foil.db --storage-ring file:rows.json >operations.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			o, err := rest.load(c)
			if err != nil {
				return err
			}
			if outcomes && !rest.given() {
				return usagef("--outcomes needs --storage-ring SOURCE, the ring that outcomes are sealed under")
			}
			s, err := from.open(c, o, false)
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			l, w := s.Ledger(), bufio.NewWriter(c.OutOrStdout())
			progress := showsColours(c.ErrOrStderr()) && !isTerminal(c.OutOrStdout())
			n, unopened := 0, 0
			err = eachPage(c.Context(), l, ledger.Query{}, func(page []ledger.Operation) (bool, error) {
				for i := range page {
					shown := showOperation(&page[i])
					if outcomes {
						f, err := getOperation(c.Context(), l, page[i].ID, &page[i])
						switch {
						case errors.Is(err, ledger.ErrNotFound):
							continue // forgotten since
						case err != nil:
							return false, err
						}
						shown = showOperation(f.op)
						if f.unopened != nil || shown.setOutcome(f.op) != nil {
							shown.Unopened = true
							unopened++
						}
					}
					if err := printJSON(w, shown); err != nil {
						return false, err
					}
					n++
				}
				if progress {
					fmt.Fprintf(c.ErrOrStderr(), "\rfoil: %d operations", n)
				}
				return true, w.Flush()
			})
			if progress {
				fmt.Fprintln(c.ErrOrStderr())
			}
			if err == nil && unopened > 0 {
				return refusedf("%d of %d operations could not be opened", unopened, n)
			}
			return err
		},
	}
	from.add(c)
	rest.addPlain(c)
	addJSONAlways(c)
	c.Flags().BoolVar(&outcomes, "outcomes", false, "with steps, and with what clients were told")
	return c
}
