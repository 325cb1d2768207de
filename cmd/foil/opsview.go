package main

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/ledger"
)

// shownOperation is an operation as JSON. Times are the store's.
type shownOperation struct {
	ID         string   `json:"id"`
	Flow       string   `json:"flow"`
	Round      int      `json:"round"`
	State      string   `json:"state"`
	Method     wideText `json:"method"`
	Target     wideText `json:"target"`
	Principal  string   `json:"principal_tag,omitempty"` // hex; left out for anonymous callers
	Started    string   `json:"started"`
	LeaseUntil string   `json:"lease_until"`
	Expires    string   `json:"expires"`
	Finished   string   `json:"finished,omitempty"`
	KeptUntil  string   `json:"kept_until,omitempty"`
	Fence      uint64   `json:"fence"`
	ResolvedBy wideText `json:"resolved_by,omitempty"`
	Note       wideText `json:"note,omitempty"`

	Steps []shownStep `json:"steps,omitempty"`
	// Unopened says that steps and outcome are missing here because they could
	// not be opened.
	Unopened    bool `json:"unopened,omitempty"`
	Outcome     any  `json:"outcome,omitempty"` // JSON, or a string if it is none
	OutcomeLost bool `json:"outcome_lost,omitempty"`
}

type shownStep struct {
	Name  wideText `json:"name"`
	State string   `json:"state"`
	Began string   `json:"began,omitempty"`
	Ended string   `json:"ended,omitempty"`
	Fence uint64   `json:"fence"`
}

// showOperation gives all of an operation but its outcome. Results of steps are
// never shown.
func showOperation(op *ledger.Operation) *shownOperation {
	s := &shownOperation{
		ID: idText(op.ID), Flow: idText(op.Flow), Round: op.Round, State: op.State.String(), Method: wideText(op.Method), Target: wideText(op.Target),
		Principal: hex.EncodeToString(op.Principal), Started: exactTime(op.Started), LeaseUntil: exactTime(op.LeaseUntil), Expires: exactTime(op.Expires),
		Finished: exactTime(op.Finished), KeptUntil: exactTime(op.KeptUntil), Fence: op.Fence, ResolvedBy: wideText(op.ResolvedBy), Note: wideText(op.Note),
	}
	for i := range op.Steps {
		step := &op.Steps[i]
		s.Steps = append(s.Steps, shownStep{wideText(step.Name), stepState(op, step), exactTime(step.Began), exactTime(step.Ended), step.Fence})
	}
	return s
}

// stepState tells of a step whether it was done, runs, or began and nobody knows.
func stepState(op *ledger.Operation, step *ledger.Step) string {
	switch {
	case step.Done():
		return "done"
	case op.State == ledger.Executing && step.Fence == op.Fence:
		return "running"
	}
	return "interrupted"
}

// setOutcome adds what was recorded.
func (s *shownOperation) setOutcome(op *ledger.Operation) error {
	if op.Outcome == nil {
		return nil
	}
	result, err := foil.DecodeOutcome(op.Outcome)
	switch {
	case err != nil:
		return err
	case result == nil:
		s.OutcomeLost = true
	case json.Valid(result):
		s.Outcome = json.RawMessage(result)
	default:
		s.Outcome = wideText(result)
	}
	return nil
}

// wideText is text that may hold lone surrogates, which encoding/json would lose.
type wideText string

// MarshalJSON implements json.Marshaler.
func (t wideText) MarshalJSON() ([]byte, error) { return canonjson.AppendString(nil, string(t)), nil }

// printable returns text that a client or an operator chose so that it does
// nothing to a terminal: quoted, if there is anything in it that is not seen.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == '\ufffd' }) {
		return strconv.Quote(s)
	}
	return s
}
