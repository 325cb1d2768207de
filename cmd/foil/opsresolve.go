package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/dsn"
)

// A finding is what an operator says of an unknown operation.
type finding struct {
	as, by, note string
	file         string // of the result; "" for the default
	state        ledger.State
	result       []byte // of the file
}

func newOpsResolveCmd() *cobra.Command {
	var from storeFlag
	var rest atRestFlag
	var f finding
	var asJSON, dry, unproven bool
	c := &cobra.Command{
		Use:   "resolve ID",
		Short: "Say of an unknown operation what became of it",
		Long: `Say of an unknown operation what became of it, once you have found out at its target.
A client that presents its state again, with the same answers, is then told so, and
nothing is executed: succeeded means that nobody will do it any more, failed that it
must be asked for and approved anew. It cannot be taken back.

The client of a tool is told that an operator resolved it, and whether as an error.
--result tells it something else: a file with one JSON object, the result as the
method has it. For prompts/get and resources/read it is required, as those have no
form for this. --by and --note stay in the store.

What the client is told is sealed under the ring of the servers. A ring under which
no row is sealed is refused; in a store where no row is sealed yet, --unproven-ring
says that it is the right one.

Make sure first that the process that ran it is dead. A lease that has run out does
not prove it: a process that was stopped, or cut off from the store, may go on, and
the effect that is not at the target yet may still come.

An operation whose lease still runs is refused: its process may be at work. So is one
that changed since it was read.`,
		Example: `  foil ops resolve AZ9xk2PvAACrq6urq6urqw --as succeeded --by ann --note 'ticket 4711: the bucket is empty' \
    --store sqlite:foil.db --storage-ring file:rows.json
  foil ops resolve AZ9xk2PvAACrq6urq6urqw --as failed --by ann --note 'nothing was deleted' --dry-run \
    --store sqlite:foil.db --storage-ring file:rows.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) (err error) {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			if err := f.complete(); err != nil {
				return err
			}
			o, err := rest.load(c)
			if err != nil {
				return err
			}
			if !rest.given() {
				return usagef("give --storage-ring SOURCE, the ring of the servers: what the client is told is sealed under it")
			}
			s, err := from.open(c, o, false)
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			stop := busy(c, "comparing the ring with the rows")
			err = sameRing(c.Context(), s, rest.ring, unproven)
			stop()
			if err != nil {
				return err
			}
			r, err := f.resolve(c.Context(), s.Ledger(), id, dry)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), r)
			}
			return r.print(c.OutOrStdout())
		},
	}
	from.add(c)
	rest.addPlain(c)
	addJSON(c, &asJSON)
	flags := c.Flags()
	flags.StringVar(&f.as, "as", "", "succeeded or failed (required)")
	flags.StringVar(&f.by, "by", "", "who says so (required)")
	flags.StringVar(&f.note, "note", "", "how that is known (required)")
	flags.StringVar(&f.file, "result", "", "file with the result that the client is told, a JSON object")
	flags.BoolVar(&unproven, "unproven-ring", false, "take the ring at its word where no row is sealed yet")
	flags.BoolVar(&dry, "dry-run", false, "say what would be done, and do nothing")
	for _, name := range []string{"as", "by", "note"} {
		_ = c.MarkFlagRequired(name) // fails for an unknown flag only
	}
	_ = c.RegisterFlagCompletionFunc("as", cobra.FixedCompletions([]string{"succeeded", "failed"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("by", cobra.NoFileCompletions)
	_ = c.RegisterFlagCompletionFunc("note", cobra.NoFileCompletions)
	return c
}

// complete checks the flags and reads the file.
func (f *finding) complete() error {
	switch f.as {
	case "succeeded":
		f.state = ledger.Succeeded
	case "failed":
		f.state = ledger.Failed
	default:
		return usagef("--as must be succeeded or failed")
	}
	if f.by == "" || f.note == "" {
		return usagef("--by and --note must not be empty: whoever looks later wants to know who found out, and how")
	}
	if len(f.by) > ledger.MaxNote || len(f.note) > ledger.MaxNote {
		return usagef("--by and --note have at most %d bytes each", ledger.MaxNote)
	}
	if f.file == "" {
		return nil
	}
	file, err := os.Open(f.file)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, ledger.DefaultOutcome))
	switch {
	case err != nil:
		return err
	case len(text) >= ledger.DefaultOutcome:
		return usagef("--result: %s has more than %d bytes, which is more than a store keeps", f.file, ledger.DefaultOutcome-1)
	}
	f.result = text
	return nil
}

// told returns the JSON of the result that the client is going to get.
func (f *finding) told(method string) ([]byte, error) {
	if f.file == "" {
		if method != foil.MethodToolsCall {
			return nil, usagef("%s has no result that says that an operator resolved it: give --result FILE", printable(method))
		}
		return json.Marshal(struct {
			Content []any `json:"content"`
			IsError bool  `json:"isError,omitempty"`
		}{[]any{struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{"text", map[ledger.State]string{
			ledger.Succeeded: "This operation was cut off. An operator has looked into it and found that it was carried out. It was not executed again, and its own result is not known.",
			ledger.Failed:    "This operation was cut off. An operator has looked into it and found that it was not carried out. To have it done, ask for it anew.",
		}[f.state]}}, f.state == ledger.Failed})
	}
	isError := false
	var bad error
	err := canonjson.Object(f.result, &inputLimits, func(key string, value []byte) bool {
		switch key {
		case "isError":
			isError = bytes.Equal(value, []byte("true"))
		case "requestState", "inputRequests":
			bad = fmt.Errorf("it asks again, by its member %q: a resolution ends the operation", key)
		case "resultType":
			if !bytes.Equal(value, []byte(`"complete"`)) {
				bad = errors.New("its resultType is not complete")
			}
		}
		return bad == nil
	})
	switch {
	case err != nil:
		return nil, usagef("--result: %s is not one JSON object: %s", f.file, plain(err))
	case bad != nil:
		return nil, usagef("--result: %s: %w", f.file, bad)
	case method == foil.MethodToolsCall && isError != (f.state == ledger.Failed):
		return nil, usagef("--result: %s says isError %t, and --as %s says otherwise: the client would be told the wrong thing", f.file, isError, f.as)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, f.result); err != nil {
		return nil, usagef("--result: %s: %w", f.file, err)
	}
	return b.Bytes(), nil
}

// resolved is what foil ops resolve prints as JSON.
type resolved struct {
	OK     bool            `json:"ok"`
	DryRun bool            `json:"dry_run"`
	ID     string          `json:"id"`
	State  string          `json:"state"`
	Result json.RawMessage `json:"result"`

	op *ledger.Operation
}

// resolve records the finding, with the fence under which the operation was read.
func (f *finding) resolve(ctx context.Context, l ledger.Store, id opID, dry bool) (*resolved, error) {
	op, err := l.Get(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, notAnOperation(ctx, l, id)
	}
	if err != nil {
		return nil, err
	}
	switch op.State {
	case ledger.Unknown:
	case ledger.Executing:
		return nil, refusedf("%s is executing: somebody holds its lease until %s at least. If they have died it is unknown then; look again with foil ops show %s", idText(id), exactTime(op.LeaseUntil), idText(id))
	default:
		return nil, refusedf("%s %s at %s: only what is unknown can be resolved", idText(id), op.State, exactTime(op.Finished))
	}
	result, err := f.told(op.Method)
	if err != nil {
		return nil, err
	}
	r := &resolved{OK: true, DryRun: dry, ID: idText(id), State: f.as, Result: result, op: op}
	if dry {
		return r, nil
	}
	err = l.Resolve(ctx, id, op.Fence, ledger.Resolution{State: f.state, Outcome: foil.EncodeOutcome(result), By: f.by, Note: f.note})
	if errors.Is(err, ledger.ErrFenced) {
		return nil, refusedf("%s has changed meanwhile: somebody took it over, finished or resolved it. Nothing was recorded; look again with foil ops show %s", idText(id), idText(id))
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// notAnOperation names the operations of a flow, if id is one.
func notAnOperation(ctx context.Context, l ledger.Store, id opID) error {
	page, _, err := l.List(ctx, ledger.Query{Flow: id[:], State: ledger.Unknown, Limit: 1})
	switch {
	case err != nil:
		return err
	case len(page) > 0:
		return refusedf("%s is a flow: its operation that is unknown is %s", idText(id), idText(page[0].ID))
	}
	return refusedf("no operation is %s", idText(id))
}

// sameRing refuses a ring that is not that of the servers: what is sealed under it
// they could not open, and the client would never be told. Where nothing is sealed
// yet nobody can tell: then it must be said by name that the ring is theirs.
func sameRing(ctx context.Context, s dsn.Store, ring *keyring.Ring, unproven bool) error {
	st, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	if len(st.Keys) == 0 {
		if ring != nil && !unproven {
			return refusedf("no row of this store is sealed, so it cannot be seen whether its servers have this ring; if they had another, or none, the client would never be told. If it is theirs, say --unproven-ring")
		}
		return nil
	}
	if ring == nil {
		return refusedf("the rows of this store are sealed: --plain-at-rest is not for it, give --storage-ring SOURCE")
	}
	for _, k := range ring.Keys() {
		kid, err := atrest.KeyIDOf(k)
		if err != nil {
			return err
		}
		if st.Keys[kid] > 0 {
			return nil
		}
	}
	return refusedf("no row of this store is sealed under a key of --storage-ring: its servers have another ring and could not read what you resolve")
}

func (r *resolved) print(out io.Writer) error {
	verb, will := "is resolved as", "gets"
	if r.DryRun {
		verb, will = "would be resolved as", "would get"
	}
	_, err := fmt.Fprintf(out, "%s (%s %s) %s %s.\nWho presents its state again, with the same answers, %s this, and nothing is executed:\n%s\n",
		r.ID, printable(r.op.Method), printable(r.op.Target), verb, r.State, will, printable(string(r.Result)))
	return err
}
