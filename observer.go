package foil

import (
	"context"
	"time"
)

// An Observer is told what a [Guard] does, for metrics and traces. Its methods
// are called in the caller's goroutine, after the fact, must be fast and safe
// for concurrent use, and must not call the Guard.
//
// Embed [NoObserver] to be ready for methods of later versions.
type Observer interface {
	// Sealed is called for each token that Seal returned.
	Sealed(ctx context.Context, e Event)
	// Opened is called for each state that Open returned.
	Opened(ctx context.Context, e Event)
	// Rejected is called for each refusal that a client could have caused.
	Rejected(ctx context.Context, e Event, reason Reason)
	// Failed is called for each failure of the server: a store or a key
	// source that is away, or a mistake in a handler or an option.
	Failed(ctx context.Context, e Event, err error)
	// StoreCall is called for each call of a store.
	StoreCall(ctx context.Context, c StoreCall)
	// Operation is called for each turn in the life of an operation under
	// Settle.
	Operation(ctx context.Context, e Event, status OperationStatus)
}

// An Event says what was sealed or opened. It holds nothing secret. Target is as
// the client sent it, of any length and number: it must not become a label of a
// metric.
type Event struct {
	Op     string // seal, open, check or conclude
	Method string
	Target string
	KeyID  string // as in the token's clear part; "" if it names none
	Flow   string // "" if the token could not be read
	Round  int    // 0 if the token could not be read
	Bytes  int    // length of the token; 0 if there is none
	Took   time.Duration
}

// A StoreCall is one call of a store.
type StoreCall struct {
	Store string // replay, claimcheck, ledger or codec
	Op    string // use, attempt, ping; redeem, revoke; begin, get, step, renew, resume, finish
	Took  time.Duration
	Err   error // of the store; a refusal is none
}

// NoObserver observes nothing.
type NoObserver struct{}

var _ Observer = NoObserver{}

// Sealed does nothing.
func (NoObserver) Sealed(context.Context, Event) {}

// Opened does nothing.
func (NoObserver) Opened(context.Context, Event) {}

// Rejected does nothing.
func (NoObserver) Rejected(context.Context, Event, Reason) {}

// Failed does nothing.
func (NoObserver) Failed(context.Context, Event, error) {}

// StoreCall does nothing.
func (NoObserver) StoreCall(context.Context, StoreCall) {}

// Operation does nothing.
func (NoObserver) Operation(context.Context, Event, OperationStatus) {}
