package foil

import (
	"context"
	"time"
)

// A Codec protects a payload on its way through the client.
//
// Open of anything that Seal did not return, byte for byte, fails with an error
// that matches [ErrInvalid]; use [Reject] to name the reason. Every other error
// is a system failure. A codec has one spelling for each token: an alias of a
// valid token (padding, white space, another alphabet, stray bits) is refused.
//
// Seal must not keep payload after it returned, nor change it.
//
// expires is the last moment at which the token may still be read. A codec that
// keeps nothing may ignore it.
//
// An error must hold no payload, token or key: it is logged.
//
// A Codec must be safe for concurrent use.
type Codec interface {
	Seal(ctx context.Context, payload []byte, expires time.Time) (token string, err error)
	Open(ctx context.Context, token string) (payload []byte, err error)
}

// An Encrypter is a [Codec] that says whether a client can read its payloads. A
// codec that does not say so is taken to be readable.
type Encrypter interface {
	Encrypts() bool
}

// A Prefixer is a [Codec] whose tokens all begin with one text, such as "v1.",
// that no token of another format begins with. [Migrate] tells formats apart by
// it.
type Prefixer interface {
	Prefix() string
}

// A Pinger is a [Codec] that needs a backend for every Open, and can tell whether
// the backend answers now. While it is known not to, the Guard asks it at most
// once a second and gives every token the same answer, whatever it is worth.
type Pinger interface {
	Ping(ctx context.Context) error
}

// A KeyIdentifier is a [Codec] that can tell, without opening it, which key a
// token names. The answer goes to logs; it must not contain anything else of
// the token, and is "" for text that names none.
type KeyIdentifier interface {
	KeyID(token string) string
}

// A KeyLimiter is a [Codec] whose keys set bounds for the Guard.
type KeyLimiter interface {
	KeyLimits() KeyLimits
}

// KeyLimits are what a codec's keys demand of the Guard that uses them. They
// are asked for on every call, since keys may be replaced while a Guard runs.
type KeyLimits struct {
	// MaxTTL is the longest life of a token for which retired keys are
	// kept. Zero sets no bound.
	MaxTTL time.Duration
	// Keep is for how long after a token's life the key that sealed it still
	// opens it, so that an outcome can be asked for. Zero sets no bound.
	Keep time.Duration
	// Skew is the largest difference between two clocks of the fleet. Zero
	// leaves it to Options.Skew.
	Skew time.Duration
	// Interop is whether the keys are shared with replicas that do not
	// enforce single use and flow limits, such as the MCP Python SDK's.
	Interop bool
	// Ephemeral is whether the keys die with this process.
	Ephemeral bool
}

func limitsOf(c Codec) KeyLimits {
	if l, ok := c.(KeyLimiter); ok {
		return l.KeyLimits()
	}
	return KeyLimits{}
}

func encrypts(c Codec) bool {
	e, ok := c.(Encrypter)
	return ok && e.Encrypts()
}
