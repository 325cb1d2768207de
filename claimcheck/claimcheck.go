// Package claimcheck parks a payload and hands out a claim for it, the way a
// cloakroom hands out a ticket. A claim is redeemed once.
//
// A tool parks what it is going to do (the exact objects, the exact amount) and
// lets only the claim travel inside the sealed state. [Store] is the seam,
// [Memory] a bounded store inside one process, claimchecktest the suite that
// every implementation runs.
package claimcheck

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"time"
)

// Prefix begins every claim, whatever the store. It is reserved: a claim is a
// bearer secret, so a Guard whose codec does not encrypt refuses a state that
// contains Prefix.
const Prefix = "foil-claim."

// claimBytes is the length of the random part: whoever knows a claim may redeem
// it, so it must not be guessed.
const claimBytes = 32

var (
	// ErrRedeemed says that a claim cannot be redeemed: it was redeemed by
	// another, revoked, has expired, was never issued, or is not a claim at all.
	// It does not say which.
	ErrRedeemed = errors.New("claimcheck: claim was already used or has expired")

	// ErrFull says that the store has no room for another payload. It drops
	// nothing before its time to make room.
	ErrFull = errors.New("claimcheck: store is full")

	// ErrTooLarge says that the payload is longer than the store takes.
	ErrTooLarge = errors.New("claimcheck: payload is too large")
)

// A Store keeps payloads until they are redeemed, revoked or expire.
//
// Implementations must be safe for concurrent use, by as many processes as the
// store serves. They keep SHA-256 of a claim and never the claim, and no error
// or log line of theirs contains a claim, a payload, a by, or what the store
// authenticates to its backend with. A claim ends when its ttl has passed by the
// store's clock, to the unit in which the store counts and never before. Any error but the
// ones named here means that the store is unwell.
type Store interface {
	// Issue parks payload for ttl and returns a fresh claim for it. A ttl of
	// zero or less is an error. The store keeps no reference to payload. It may
	// return ErrFull or ErrTooLarge; then nothing is parked.
	Issue(ctx context.Context, payload []byte, ttl time.Duration) (claim string, err error)

	// Redeem returns the payload of claim and binds the claim to by, the name
	// of one operation or one presentation. It is idempotent for one by: until
	// the ttl ends, the same by gets the payload again. It is final for any
	// other: ErrRedeemed, whatever the cause. Of any number of concurrent calls
	// with different by, exactly one gets the payload.
	//
	// An empty by is an error, and not ErrRedeemed: it would let two operations
	// share one claim. After an error other than ErrRedeemed the claim may or
	// may not be bound to by; calling again with the same by is safe.
	Redeem(ctx context.Context, claim, by string) (payload []byte, err error)

	// Revoke ends claim for everybody and drops its payload: every later Redeem
	// is ErrRedeemed, also for the by that had redeemed it before. A person who
	// declines is thereby believed, whatever else is under way. Revoking what is
	// unknown, spent, expired or not a claim is no error.
	Revoke(ctx context.Context, claim string) error
}

// IdempotentRedeemer is implemented by stores that say whether Redeem is
// idempotent for one by. A store that does not implement it is taken to say no:
// some backends hand out a payload exactly once, whoever asks.
type IdempotentRedeemer interface {
	IdempotentRedeem() bool
}

// A Pinger is a Store that can tell whether Issue and Redeem could succeed now.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Ephemeral is implemented by stores whose memory may die with the process.
type Ephemeral interface {
	Ephemeral() bool
}

// NewClaim returns a fresh random claim: [Prefix] and 32 random bytes in
// base64url without padding. It is for implementations of [Store].
func NewClaim() string {
	var b [claimBytes]byte
	rand.Read(b[:]) // never fails, as documented
	return Prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Key returns the key under which a store keeps claim, SHA-256 of its text, and
// whether claim is well formed. There is one spelling of a claim: padding,
// another alphabet, line breaks and stray trailing bits are not well formed. It
// is for implementations of [Store].
func Key(claim string) (key [sha256.Size]byte, ok bool) {
	text, ok := strings.CutPrefix(claim, Prefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(claimBytes) {
		return key, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	// The decoder lets stray bits, CR and LF through, in its strict form CR and
	// LF; encoding again lets nothing through.
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != text {
		return key, false
	}
	return sha256.Sum256([]byte(claim)), true
}

// ByKey returns what a store keeps of a by, which names an operation and is
// nobody else's business: SHA-256 of its text. It is an error if by is empty.
// It is for implementations of [Store].
func ByKey(by string) (key [sha256.Size]byte, err error) {
	if by == "" {
		return key, errors.New("claimcheck: by is empty")
	}
	return sha256.Sum256([]byte(by)), nil
}
