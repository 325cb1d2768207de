package main

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/internal/logtext"
	"github.com/foilmcp/foil/ledger"
)

// opFilter is what foil ops list shows.
type opFilter struct {
	state, flow, method, target string
	since, until                momentFlag
	principal                   principalFlag
	limit                       int
	methodGiven, targetGiven    bool
}

const allStates = "all"

func (f *opFilter) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.state, "state", ledger.Unknown.String(), "executing, succeeded, failed, unknown or all")
	flags.StringVar(&f.flow, "flow", "", "only of this flow")
	f.since.add(c, "since", "only those that started then or later")
	f.until.add(c, "until", "only those that started before")
	flags.StringVar(&f.method, "method", "", "only of this method, such as tools/call")
	flags.StringVar(&f.target, "target", "", "only of this tool, prompt or resource")
	f.principal.add(c)
	flags.IntVar(&f.limit, "limit", 0, "show no more than so many (default: all)")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"unknown", "executing", "succeeded", "failed", allStates}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("method", cobra.FixedCompletions([]string{"tools/call", "prompts/get", "resources/read"}, cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"flow", "target", "limit"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// query is the part that the store selects by.
func (f *opFilter) query(c *cobra.Command) (q ledger.Query, err error) {
	f.methodGiven, f.targetGiven = c.Flags().Changed("method"), c.Flags().Changed("target")
	if f.state != allStates {
		if q.State, err = ledger.ParseState(f.state); err != nil {
			return q, usagef("--state must be executing, succeeded, failed, unknown or all")
		}
	}
	if c.Flags().Changed("flow") {
		flow, err := parseID(f.flow)
		if err != nil {
			return q, err
		}
		q.Flow = flow[:]
	}
	if f.since.given {
		q.Since = f.since.time
	}
	if f.until.given {
		q.Until = f.until.time
	}
	if f.limit < 0 {
		return q, usagef("--limit must not be negative")
	}
	checked := q
	if err := checked.Check(); err != nil {
		return q, usagef("%w", err)
	}
	return q, nil
}

// selects is the part that the store does not know of.
func (f *opFilter) selects(op *ledger.Operation) bool {
	return (!f.methodGiven || op.Method == f.method) && (!f.targetGiven || op.Target == f.target) && f.principal.selects(op)
}

func newOpsListCmd() *cobra.Command {
	var from storeFlag
	var filter opFilter
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List operations: those of which nobody knows, or others",
		Long: `List operations in the order in which they started: without --state those that are
unknown, which need a person. All filters must match.

--principal is who asked, in the form that the server's login gives it; see 'foil
token --help'. The store has no names, so every row is tried.`,
		Example: `  foil ops list --store sqlite:foil.db
  foil ops list --state all --since 2h --store sqlite:foil.db
  foil ops list --state all --flow AZ9xk2PvAACrq6urq6urqw --store sqlite:foil.db
  foil ops list --principal '["app","https://login.example","alice"]' --target purge --json --store sqlite:foil.db`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			q, err := filter.query(c)
			if err != nil {
				return err
			}
			filter.principal.warn(c)
			s, err := from.open(c, nil, false)
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			var to opLister = &opTable{w: tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)}
			if asJSON {
				to = &opDocument{w: bufio.NewWriter(c.OutOrStdout())}
			}
			n, more := 0, false
			err = eachPage(c.Context(), s.Ledger(), q, func(page []ledger.Operation) (bool, error) {
				for i := range page {
					if !filter.selects(&page[i]) {
						continue
					}
					if more = filter.limit > 0 && n == filter.limit; more {
						return false, nil
					}
					n++
					if err := to.add(showOperation(&page[i])); err != nil {
						return false, err
					}
				}
				return true, to.flush()
			})
			if err != nil {
				return err
			}
			if !asJSON {
				filter.remark(c.ErrOrStderr(), n, more)
			}
			return to.end(more)
		},
	}
	from.add(c)
	filter.add(c)
	addJSON(c, &asJSON)
	return c
}

// remark says what a table does not.
func (f *opFilter) remark(w io.Writer, n int, more bool) {
	switch {
	case more:
		fmt.Fprintf(w, "foil: there are more than the %d of --limit\n", n)
	case n == 0 && f.state == allStates:
		fmt.Fprintln(w, "foil: no such operations")
	case n == 0:
		fmt.Fprintf(w, "foil: no such operations that are %s; --state all shows the others\n", f.state)
	}
}

// An opLister prints operations as they come.
type opLister interface {
	add(*shownOperation) error
	flush() error
	end(more bool) error
}

type opTable struct {
	w    *tabwriter.Writer
	head bool
}

func (t *opTable) add(s *shownOperation) error {
	if !t.head {
		fmt.Fprint(t.w, "ID\tFLOW\tROUND\tSTATE\tSTARTED\tMETHOD\tTARGET\n")
		t.head = true
	}
	_, err := fmt.Fprintf(t.w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", s.ID, s.Flow, s.Round, s.State, s.Started,
		printable(string(s.Method)), printable(logtext.Cut(string(s.Target))))
	return err
}

func (t *opTable) flush() error   { return t.w.Flush() }
func (t *opTable) end(bool) error { return t.w.Flush() }

// opDocument is {"operations":[…],"more":…}, written piece by piece, as there may
// be many.
type opDocument struct {
	w *bufio.Writer
	n int
}

func (d *opDocument) add(s *shownOperation) error {
	if d.n++; d.n == 1 {
		_, _ = d.w.WriteString("{\"operations\":[\n") // a bufio.Writer keeps its error
	} else {
		_ = d.w.WriteByte(',')
	}
	return printJSON(d.w, s)
}

func (d *opDocument) flush() error { return d.w.Flush() }

func (d *opDocument) end(more bool) error {
	if d.n == 0 {
		_, _ = d.w.WriteString(`{"operations":[`)
	}
	fmt.Fprintf(d.w, "],\"more\":%t}\n", more)
	return d.w.Flush()
}
