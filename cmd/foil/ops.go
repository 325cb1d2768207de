package main

import (
	"context"
	"encoding/hex"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/internal/b64u"
	"github.com/foilmcp/foil/ledger"
)

// The commands under foil ops show what became of approvals, and record what a
// person found out about one of which nobody knows.

func newOpsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "ops",
		Short: "List, show, resolve and export operations",
		Long: `Show what became of each approval under Once: Settle, and resolve what is unknown.

An operation is one presentation of one state that may execute something. It is

  executing  somebody holds its lease
  succeeded  it was done, and its outcome is recorded
  failed     it is known to have failed, and its outcome is recorded
  unknown    it was cut off, or could not say what it did: nobody knows

An unknown one is never tried again by itself. Find out at its target whether it was
done, then say so with 'foil ops resolve'.

--store names the store, or FOIL_STORE in the environment, which keeps a password
from who can list this machine's processes; ?foil_schema=NAME or ?foil_prefix=TEXT in
it says where in its database, see 'foil store'. Outcomes are sealed: they are shown only
if asked for, and with the --storage-ring of the servers.`,
		Example: `  foil ops list --store sqlite:foil.db
  foil ops show AZ9xk2PvAACrq6urq6urqw --store sqlite:foil.db
  foil ops resolve AZ9xk2PvAACrq6urq6urqw --as succeeded --by ann --note 'the bucket is empty' \
    --store sqlite:foil.db --storage-ring file:rows.json
  foil ops export --store sqlite:foil.db >operations.jsonl`,
	}
	c.AddCommand(newOpsListCmd(), newOpsShowCmd(), newOpsResolveCmd(), newOpsExportCmd())
	return group(c)
}

// An opID is the ID of an operation or a flow.
type opID = [ledger.IDLen]byte

// parseID reads an ID as it is printed, in logs and by foil ops, or in hex.
func parseID(text string) (opID, error) {
	var b []byte
	var err error
	if len(text) == hex.EncodedLen(ledger.IDLen) {
		b, err = hex.DecodeString(text)
	} else {
		b, err = b64u.Decode(nil, text)
	}
	if err != nil || len(b) != ledger.IDLen {
		return opID{}, usagef("%q is no ID: it has 22 characters of base64url, as 'foil ops list' prints it, or 32 of hex", text)
	}
	return opID(b), nil
}

func idText(id opID) string { return string(b64u.Append(nil, id[:])) }

// eachPage calls fn with all operations that q selects, in the order of when they
// started, until it returns false.
func eachPage(ctx context.Context, l ledger.Store, q ledger.Query, fn func(page []ledger.Operation) (more bool, err error)) error {
	q.Limit = ledger.MaxLimit
	for {
		page, next, err := l.List(ctx, q)
		if err != nil {
			return err
		}
		if more, err := fn(page); err != nil || !more || next == "" {
			return err
		}
		q.After = next
	}
}
