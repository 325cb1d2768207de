package storagejanitor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/mcpsdk"
)

// SettlePolicy is the foil.Options.PolicyFor of a server with these tools that
// remembers what it did: the Guard needs a ledger. purge_objects deletes in steps
// and nowhere else, so the same person's retry may finish a purge that was cut
// off. It says so of no other tool: whether one that a server adds may be called
// again in the middle of its work is that tool's to say.
func SettlePolicy(method, target string) foil.Policy {
	if method == foil.MethodToolsCall && target == PurgeTool {
		return foil.Policy{Once: foil.Settle, Resumable: true}
	}
	return foil.Policy{}
}

// What a client learns of a purge that had to stop.
var (
	errUnwritten = errors.New("what this purge does cannot be written down at the moment; nothing was deleted, start over later")
	errCutOff    = errors.New("the purge was cut off in the middle, as what it does cannot be written down at the moment; the same call with the same answer, sent again, finishes it and tells what was deleted")
	errRest      = errors.New("the purge was interrupted, and this server cannot read what was left to do; nothing was deleted by this call")
)

// stepBegin is the step that is done once the person's yes was found good and
// before anything is deleted. Without it nothing was deleted; with it the
// question is settled, and a retry only has to carry on.
const stepBegin = "begin"

func begun(e *foil.Execution) bool {
	_, ok := e.Done(stepBegin)
	return ok
}

// deletion names the step of one object. The name is in the ledger for an
// operator to see, and object names may be secret or long: it holds a hash, of
// more than the name alone, so that the name cannot be guessed either.
func deletion(i int, o Object) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "storagejanitor/deletion/v1 %q %d %d %q", o.Name, o.Size, o.Modified.UnixNano(), o.ID))
	return fmt.Sprintf("delete %d %s", i, hex.EncodeToString(sum[:12]))
}

// carryOut spends the confirmation and deletes what was planned. Redeeming a claim
// is final: of any number of presentations of this state, on any number of
// replicas, one gets the list. A plan in the state has only the Guard for that.
//
// Under foil.Settle every deletion is a step of the operation: it is written down
// that it begins, and what became of the object. Who resumes the operation does the
// steps that are left. In every other mode there is no operation, and a step is
// its function.
func (j *Janitor) carryOut(ctx context.Context, s *state) (*mcp.CallToolResult, *PurgeOutput, error) {
	e := mcpsdk.Opened(ctx).Execution()
	objects, err := planned(ctx, s)
	if err == nil && len(objects) != s.Objects {
		err = fmt.Errorf("%w: not the one that was shown", errPlan)
	}
	switch {
	case err == nil:
	case errors.Is(err, ledger.ErrFenced):
		return nil, nil, j.stopped(ctx, err, true)
	case begun(e):
		return nil, nil, j.broken(ctx, errRest, err)
	case errors.Is(err, claimcheck.ErrRedeemed):
		j.o.Logger.WarnContext(ctx, "purge refused: the claim is spent or has expired")
		return refused("REFUSED: this confirmation was already used or has expired. Nothing was deleted by this call; start over.")
	case errors.Is(err, errPlan):
		return nil, nil, j.undone(ctx, errors.New("the plan cannot be read; nothing was deleted, start over"), err)
	case errors.Is(err, ledger.ErrTooLarge):
		return nil, nil, j.undone(ctx, errors.New("the list of the objects is too long to keep; nothing was deleted, start over with a longer prefix"), err)
	default:
		return nil, nil, j.undone(ctx, errClaims, err)
	}
	out, err := j.deleteAll(ctx, e, objects)
	if err != nil {
		return nil, nil, err
	}
	out.Unread = s.Unread
	j.o.Logger.InfoContext(ctx, "purged", "deleted", out.Deleted.Count, "bytes", out.Bytes, "missing", out.Missing.Count,
		"changed", out.Changed.Count, "failed", out.Failed.Count, "left", out.Left, "resumed", e.Resumed())
	return finished(out, out.text())
}

// deleteAll deletes the objects, one step each. After an error it is for the retry
// to go on.
func (j *Janitor) deleteAll(ctx context.Context, e *foil.Execution, objects []Object) (*PurgeOutput, error) {
	out := &PurgeOutput{Outcome: OutcomePurged}
	if e.Resumed() {
		out.Interrupted = &Interruption{}
	}
	touched := begun(e) // it is not certain that nothing was deleted
	_, err := e.Step(ctx, stepBegin, func(context.Context) ([]byte, error) {
		return []byte(strconv.Itoa(len(objects))), nil
	})
	if err != nil {
		return nil, j.stopped(ctx, err, touched)
	}
	for i, o := range objects {
		if ctx.Err() != nil {
			if e != nil { // the operation is no longer this call's
				return nil, j.stopped(ctx, context.Cause(ctx), touched)
			}
			out.Left = len(objects) - i // the client cancelled the call: stop at once
			break
		}
		name := deletion(i, o)
		at, before := e.Done(name)
		interrupted := e.Interrupted(name)
		result, err := e.Step(ctx, name, func(ctx context.Context) ([]byte, error) {
			touched = true
			return []byte(j.delete(ctx, o, interrupted)), nil
		})
		if err != nil {
			return nil, j.stopped(ctx, err, touched)
		}
		if err := out.count(mark(result), o, before, at); err != nil {
			return nil, j.broken(ctx, errRest, err)
		}
	}
	return out, nil
}

// delete deletes one object and says what became of it. One that an interrupted
// call was at and that is gone was most likely deleted by that call.
func (j *Janitor) delete(ctx context.Context, o Object, interrupted bool) mark {
	fate, err := j.bucket.Delete(o)
	if err != nil {
		j.o.Logger.ErrorContext(ctx, "purge: object not deleted", "object", o.Name, "err", err)
	}
	if fate == Deleted && j.o.OnDelete != nil {
		j.o.OnDelete(o.Name)
	}
	if fate == Missing && interrupted {
		return markGone
	}
	return marks[fate]
}

// stopped returns the error of a purge that has to stop. If somebody else has
// taken the operation over it is that alone.
func (j *Janitor) stopped(ctx context.Context, err error, touched bool) error {
	switch {
	case errors.Is(err, ledger.ErrFenced):
		j.o.Logger.ErrorContext(ctx, "purge stopped: another call has taken it over")
		return err
	case touched:
		return j.broken(ctx, errCutOff, err)
	}
	return j.undone(ctx, errUnwritten, err)
}
