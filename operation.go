package foil

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// ErrOperation is matched by an [OperationError]: the state is good, and its
// operation is under way, or nobody knows how it ended.
var ErrOperation = errors.New("foil: the operation has no outcome")

// An OperationError is what [Guard.Open] returns under Settle for a state whose
// operation has no outcome yet. It is neither a refusal nor a failure of the
// server: tell the client [Wire] of it.
type OperationError struct {
	// State is ledger.Executing or ledger.Unknown.
	State ledger.State
	// Flow names the flow, for the operator who resolves an unknown operation.
	Flow string
	// RetryAfter is when to ask again, while it is executing.
	RetryAfter time.Duration
}

func (e *OperationError) Error() string {
	if e.State == ledger.Executing {
		return "foil: the operation of flow " + e.Flow + " is in progress: ask again in " + e.RetryAfter.String()
	}
	return "foil: whether the operation of flow " + e.Flow + " was done is unknown: see foil ops show, and resolve it"
}

// Is reports whether target is [ErrOperation].
func (e *OperationError) Is(target error) bool { return target == ErrOperation }

func wireOperation(err error) *WireError {
	e, ok := errors.AsType[*OperationError](err)
	if ok && e.State == ledger.Executing {
		return &WireError{-32000, "Operation in progress", json.RawMessage(
			fmt.Sprintf(`{"reason":"operation_in_progress","retry_after_ms":%d}`, e.RetryAfter.Milliseconds()))}
	}
	flow := ""
	if ok {
		flow = e.Flow
	}
	return &WireError{-32000, "Operation outcome unknown", json.RawMessage(
		fmt.Sprintf(`{"reason":"operation_unknown","flow":%q}`, flow))}
}

// An OperationStatus is a turn in the life of an operation.
type OperationStatus string

// What [Observer.Operation] is told. The texts are stable.
const (
	OperationStarted    OperationStatus = "started"     // by this presentation
	OperationResumed    OperationStatus = "resumed"     // by this presentation, after it was cut off
	OperationRecorded   OperationStatus = "recorded"    // the recorded outcome was told again
	OperationInProgress OperationStatus = "in_progress" // asked for while it runs
	OperationUnknown    OperationStatus = "unknown"     // asked for while its outcome is unknown
	OperationSucceeded  OperationStatus = "succeeded"   // ended, and the outcome is recorded
	OperationFailed     OperationStatus = "failed"      // ended, and the failure is recorded
	OperationLost       OperationStatus = "lost"        // ended, and the outcome is unknown
)

// statusOf is what an Open has to tell of an operation, "" if there is none.
func statusOf(o *Opened, err error) OperationStatus {
	if e, ok := errors.AsType[*OperationError](err); ok {
		if e.State == ledger.Executing {
			return OperationInProgress
		}
		return OperationUnknown
	}
	switch {
	case err != nil || o == nil:
		return ""
	case o.recorded != nil:
		return OperationRecorded
	case o.exec == nil:
		return ""
	case o.exec.resumed:
		return OperationResumed
	}
	return OperationStarted
}
