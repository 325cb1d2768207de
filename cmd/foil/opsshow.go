package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/ledger"
)

func newOpsShowCmd() *cobra.Command {
	var from storeFlag
	var rest atRestFlag
	var asJSON, outcome bool
	c := &cobra.Command{
		Use:   "show ID|FLOW",
		Short: "Show all of an operation, or of those of a flow",
		Long: `Show all that the store knows of an operation: which of its steps were done, which
began and nobody knows, and who resolved it. A flow, as clients and logs name it,
selects its operations, one for each round.

What the operation told the client is shown with --outcome alone, which needs the
--storage-ring of the servers. Without the ring the steps of an operation that has
sealed content cannot be shown either. Results of steps are never shown.`,
		Example: `  foil ops show AZ9xk2PvAACrq6urq6urqw --store sqlite:foil.db --storage-ring file:rows.json
  foil ops show AZ9xk2PvAACrq6urq6urqw --outcome --json --store sqlite:foil.db --storage-ring file:rows.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) (err error) {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			o, err := rest.load(c)
			if err != nil {
				return err
			}
			if outcome && !rest.given() {
				return usagef("--outcome needs --storage-ring SOURCE, the ring that outcomes are sealed under")
			}
			s, err := from.open(c, o, false)
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			found, err := findOperations(c.Context(), s.Ledger(), id)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return refusedf("no operation and no flow is %s: it may have been forgotten, or was never begun", idText(id))
			}
			shown, err := showFound(c.ErrOrStderr(), found, outcome, rest.given())
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), struct {
					Operations []*shownOperation `json:"operations"`
				}{shown})
			} else {
				err = printOperations(c.OutOrStdout(), shown)
			}
			if err == nil && outcome && slices.ContainsFunc(shown, func(s *shownOperation) bool { return s.Unopened }) {
				return refusedf("not every outcome could be opened")
			}
			return err
		},
	}
	from.add(c)
	rest.addPlain(c)
	addJSON(c, &asJSON)
	c.Flags().BoolVar(&outcome, "outcome", false, "show what the client was told, or is to be told")
	return c
}

// A foundOperation is an operation; if it could not be opened, without its steps
// and outcome.
type foundOperation struct {
	op       *ledger.Operation
	unopened error
}

// findOperations returns the operation of this ID, and those of the flow of this ID.
func findOperations(ctx context.Context, l ledger.Store, id opID) (found []foundOperation, err error) {
	switch f, err := getOperation(ctx, l, id, nil); {
	case err == nil:
		found = append(found, *f)
	case !errors.Is(err, ledger.ErrNotFound):
		return nil, err
	}
	err = eachPage(ctx, l, ledger.Query{Flow: id[:]}, func(page []ledger.Operation) (bool, error) {
		for i := range page {
			if page[i].ID == id {
				continue
			}
			f, err := getOperation(ctx, l, page[i].ID, &page[i])
			if errors.Is(err, ledger.ErrNotFound) {
				continue // forgotten since
			}
			if err != nil {
				return false, err
			}
			found = append(found, *f)
		}
		return true, nil
	})
	return found, err
}

// getOperation reads an operation. One whose content cannot be opened is taken
// from the list, which has none; listed is it, if it is at hand.
func getOperation(ctx context.Context, l ledger.Store, id opID, listed *ledger.Operation) (*foundOperation, error) {
	op, err := l.Get(ctx, id)
	if err == nil {
		return &foundOperation{op: op}, nil
	}
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	unopened := err
	if listed != nil {
		// The store answers, so it is this operation and not the store.
		if _, _, err := l.List(ctx, ledger.Query{Flow: listed.Flow[:], Limit: 1}); err != nil {
			return nil, unopened
		}
		return &foundOperation{op: listed, unopened: unopened}, nil
	}
	// It did not start before its token was minted, by clocks that may differ.
	q := ledger.Query{Since: ledger.Minted(id).Add(-time.Hour)}
	if checked := q; checked.Check() != nil {
		q.Since = time.Time{}
	}
	err = eachPage(ctx, l, q, func(page []ledger.Operation) (bool, error) {
		i := slices.IndexFunc(page, func(op ledger.Operation) bool { return op.ID == id })
		if i >= 0 {
			listed = &page[i]
		}
		return i < 0, nil
	})
	if err != nil || listed == nil {
		return nil, unopened
	}
	return &foundOperation{op: listed, unopened: unopened}, nil
}

// showFound says on w what could not be opened and why.
func showFound(w io.Writer, found []foundOperation, outcome, given bool) (shown []*shownOperation, err error) {
	for _, f := range found {
		s := showOperation(f.op)
		switch {
		case f.unopened == nil && outcome:
			if err := s.setOutcome(f.op); err != nil {
				return nil, fmt.Errorf("%s: %w", s.ID, err)
			}
		case f.unopened != nil:
			s.Unopened = true
			hint := ""
			if !given {
				hint = "; give --storage-ring SOURCE, or --plain-at-rest if the servers seal nothing"
			}
			fmt.Fprintf(w, "foil: %s: steps and outcome cannot be read: %v%s\n", s.ID, f.unopened, hint)
		}
		shown = append(shown, s)
	}
	return shown, nil
}

var stateWords = map[string]string{
	ledger.Executing.String(): "executing: somebody holds its lease",
	ledger.Succeeded.String(): "succeeded: its outcome is recorded",
	ledger.Failed.String():    "failed: its outcome is recorded",
	ledger.Unknown.String():   "unknown: find out whether it was done, and say so with foil ops resolve",
}

func printOperations(out io.Writer, shown []*shownOperation) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, s := range shown {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "operation\t%s\nflow\t%s, round %d\nstate\t%s\n", s.ID, s.Flow, s.Round, stateWords[s.State])
		fmt.Fprintf(w, "request\t%s %s\n", printable(string(s.Method)), printable(string(s.Target)))
		if s.Principal == "" {
			fmt.Fprintf(w, "principal\tanonymous\n")
		} else {
			fmt.Fprintf(w, "principal\ttag %s\n", s.Principal)
		}
		fmt.Fprintf(w, "started\t%s, had to start by %s\nlease\tuntil %s, fence %d\n", s.Started, s.Expires, s.LeaseUntil, s.Fence)
		if s.Finished != "" {
			fmt.Fprintf(w, "finished\t%s, kept until %s\n", s.Finished, s.KeptUntil)
		}
		if s.ResolvedBy != "" {
			fmt.Fprintf(w, "resolved\tby %s: %s\n", printable(string(s.ResolvedBy)), printable(string(s.Note)))
		}
		switch {
		case s.OutcomeLost:
			fmt.Fprintf(w, "outcome\ttoo large to be kept\n")
		case s.Outcome != nil:
			text, err := oneLine(s.Outcome)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "outcome\t%s\n", printable(text))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, step := range s.Steps {
			fmt.Fprintf(w, "  step\t%s\t%s\tbegan %s\tended %s\n", printable(string(step.Name)), step.State, orDash(step.Began), orDash(step.Ended))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func oneLine(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(b.Bytes())), nil
}
