package foil

import (
	"encoding/json"
	"errors"
)

// ErrInvalid is matched by every error of [Guard.Open] and [Guard.Check] that
// a client could have caused. An error that does not match it is a system
// failure: the state may be good and the caller must not treat it as refused.
//
// Under it lies a [*RejectedError] with the reason, for logs and metrics. The
// reason must never reach the client: tell it [Wire] of the error.
var ErrInvalid = errors.New("foil: invalid or expired requestState")

// ErrAmbiguous is matched by the refusal of arguments that two JSON parsers
// may read differently: duplicate keys, keys equal but for case, and documents
// beyond the limits. It also matches [ErrInvalid].
var ErrAmbiguous = errors.New("foil: ambiguous arguments")

// ErrUnavailable is matched by an error of [Guard.Open] or [Guard.Seal] that is
// returned because a key source or a store cannot answer now. The same call may
// succeed later.
var ErrUnavailable = errors.New("foil: request state unavailable")

// A Reason says why a state was refused. It is for operators: logs, metrics,
// foil token. Its text is stable.
type Reason string

// The reasons, in the order in which [Guard.Open] looks for them.
const (
	ReasonTooLarge         Reason = "too_large"           // longer than Options.MaxToken
	ReasonAmbiguous        Reason = "ambiguous_arguments" // arguments that parsers may read differently
	ReasonMalformed        Reason = "malformed"           // not a token of this format and version
	ReasonUnknownKey       Reason = "unknown_key"         // sealed under a key that is foreign, retired or revoked
	ReasonTampered         Reason = "tampered"            // authentication failed
	ReasonNotYetValid      Reason = "not_yet_valid"       // minted in the future
	ReasonExpired          Reason = "expired"             // the round's time is over
	ReasonMethod           Reason = "method"              // minted for another method
	ReasonTarget           Reason = "target"              // minted for another tool, prompt or resource
	ReasonArguments        Reason = "arguments"           // minted for other arguments
	ReasonAudience         Reason = "audience"            // minted by another service
	ReasonPrincipalMissing Reason = "principal_missing"   // the request names no principal and is not anonymous by name
	ReasonPrincipal        Reason = "principal"           // minted for somebody else
	ReasonRound            Reason = "round"               // more rounds than the limit
	ReasonFlowExpired      Reason = "flow_expired"        // the flow's deadline is over
	ReasonReplayed         Reason = "replayed"            // spent already
	ReasonRestored         Reason = "restored"            // minted before the store was restored from a backup
	ReasonAnswersChanged   Reason = "answers_changed"     // settled with other answers
	ReasonUnauthorized     Reason = "unauthorized"        // Options.Authorize withholds the outcome
)

// A RejectedError carries the reason of a refusal. It matches [ErrInvalid], and
// [ErrAmbiguous] for [ReasonAmbiguous]. Its text holds the reason alone.
type RejectedError struct {
	Reason Reason
}

// Reject returns a refusal for r, for use by a [Codec].
func Reject(r Reason) error { return &RejectedError{Reason: r} }

func (e *RejectedError) Error() string { return "foil: request state refused: " + string(e.Reason) }

// Is reports whether e belongs to target, one of this package's sentinels.
func (e *RejectedError) Is(target error) bool {
	return target == ErrInvalid || target == ErrAmbiguous && e.Reason == ReasonAmbiguous
}

// ReasonOf returns the reason under err, or "" if err is no refusal.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*RejectedError](err); ok {
		return r.Reason
	}
	return ""
}

// A WireError is what a client may learn of a failure, as a JSON-RPC 2.0 error.
// There is one for every refusal of a state, whatever the cause, so that a
// client cannot ask which check failed.
type WireError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *WireError) Error() string { return e.Message }

// Wire returns the frozen error to send to the client for err: one for every
// refused state, one for ambiguous arguments, one for an operation in progress
// and one for an operation whose outcome is unknown, one for everything else. A
// nil err gives nil. Each call returns a fresh value.
//
// The refusal equals that of the MCP Python SDK byte for byte.
func Wire(err error) *WireError {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrAmbiguous):
		return &WireError{-32602, "Invalid params", json.RawMessage(`{"reason":"ambiguous_arguments"}`)}
	case errors.Is(err, ErrInvalid):
		return &WireError{-32602, "Invalid or expired requestState", json.RawMessage(`{"reason":"invalid_request_state"}`)}
	case errors.Is(err, ErrOperation):
		return wireOperation(err)
	default:
		return &WireError{-32603, "Internal error", json.RawMessage(`{"reason":"request_state_unavailable"}`)}
	}
}

// An unavailableError wraps a system failure once. The cause's text is kept for
// the operator; a context error stays recognisable.
type unavailableError struct {
	what  string
	cause error
}

// unavailable reports that what cannot be done now. It never lets a cause through that would read as the client's fault.
func unavailable(what string, cause error) error {
	if errors.Is(cause, ErrInvalid) {
		cause = errors.New("a part below reported a refusal where only a failure is possible")
	}
	return &unavailableError{what, cause}
}

func (e *unavailableError) Error() string   { return "foil: " + e.what + ": " + e.cause.Error() }
func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.cause} }

// codecFailure sorts an error of a codec: a refusal passes through, all else is
// a system failure, even one that wraps ErrInvalid without a reason.
func codecFailure(err error) error {
	if r, ok := errors.AsType[*RejectedError](err); ok {
		return r
	}
	if errors.Is(err, ErrInvalid) {
		return &RejectedError{Reason: ReasonMalformed}
	}
	return unavailable("codec", err)
}
