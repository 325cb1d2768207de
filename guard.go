package foil

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
)

// Options configure a [Guard]. Audience or NoAudience, and Replay or Once: Off,
// must be given; every other zero field is a safe default.
type Options struct {
	// Audience names the service: the same on all of its replicas, and
	// another for every service that shares its keys. Never a host name.
	Audience string
	// NoAudience does without: for keys that no other service has.
	NoAudience bool

	// Replay remembers spent states. It must be seen by every replica and
	// must outlive no key: a store that dies with the process is accepted
	// only with keys that do.
	Replay replay.Store
	// Once is how often a state may be presented; the default is Redeem.
	Once Once
	// StoreTimeout bounds each call of Replay and Ledger; DefaultStoreTimeout
	// if zero. Make it no shorter than the store's own timeout: a store that
	// goes on after the Guard has given up spends the state unexecuted, and
	// leaves an operation that nobody runs and that reads as unknown.
	StoreTimeout time.Duration

	// Ledger remembers operations, for Once: Settle. What is said of Replay
	// holds for it.
	Ledger ledger.Store
	// Lease is how long a process that executes an operation may be silent
	// before it counts as unknown; DefaultLease if zero. It is renewed while
	// the handler runs.
	Lease time.Duration
	// MaxExecution is how long a handler may take under Settle;
	// DefaultMaxExecution if zero. Then its context ends, its lease is no longer
	// renewed, and unless it returns before the lease is over its operation is
	// unknown: one that hangs must not be executing for ever.
	MaxExecution time.Duration
	// OutcomeRetention is how long a recorded outcome is kept, at least the
	// flow limit and at most the ring's keep, after which no key opens the
	// token that asks for it; by default DefaultOutcomeRetention, or the ring's
	// keep if that is shorter.
	OutcomeRetention time.Duration
	// MaxOutcome is how many bytes of a result are recorded;
	// DefaultMaxOutcome if zero. A longer result is sent once and cannot be
	// repeated.
	MaxOutcome int
	// Authorize is asked, under Settle, before a recorded outcome is told
	// again: may this caller still see it? An error refuses it. It may be nil.
	Authorize func(ctx context.Context, req Request, o *Opened) error
	// SettleAnonymous accepts Settle for requests that are Anonymous by name:
	// whoever holds a state then gets its outcome.
	SettleAnonymous bool

	// Claims is the store of claim checks that handlers redeem through
	// [Opened.Claims]. It may be nil.
	Claims claimcheck.Store

	// TTL, FlowLimit, MaxRounds, Without and Resumable are the Guard's own policy; see
	// [Policy] and the constants DefaultTTL, DefaultFlowLimit,
	// DefaultMaxRounds.
	TTL       time.Duration
	FlowLimit time.Duration
	MaxRounds int
	Without   Binding
	Resumable bool
	// PolicyFor gives a policy of its own to a tool, prompt or resource. It
	// is called with the request's method and target on every Seal and
	// Open, must be fast, and must give the same answer on every replica.
	PolicyFor func(method, target string) Policy

	// AmbiguousArguments: by default, arguments that two JSON parsers may
	// read differently are refused ([ErrAmbiguous]). Allow lets duplicate
	// keys and keys equal but for case pass; the limits stay.
	AmbiguousArguments Choice
	// AcceptUnenforcedReplicas accepts single use with an interop ring,
	// whose other replicas do not enforce it.
	AcceptUnenforcedReplicas bool

	// Skew is the largest difference between any two clocks of the fleet,
	// the store's included. By default it is that of the codec's keys, else
	// DefaultSkew.
	Skew time.Duration
	// MaxToken is the longest token in bytes, at most 16 MiB;
	// DefaultMaxToken if zero.
	MaxToken int

	// Logger gets a line for each refusal and failure: reason, method,
	// target, key id, flow, and a fingerprint of the token; never a token,
	// a state, an argument or a principal. Nil is slog.Default().
	Logger *slog.Logger
	// Observer is told what happens, for metrics and traces. It may be nil.
	Observer Observer
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// A Guard seals and opens request states. It is safe for concurrent use.
type Guard struct {
	codec  Codec
	o      Options
	base   Policy
	limits canonjson.Limits
	store  health
	ledger health
	tokens health // of the codec, if it says that it depends on a backend
	old    health // of the codec that a Migration moves away from
}

// New returns a Guard that seals with codec. It fails for options that would
// leave a state open to replay or to another service without having said so by
// name; the error tells which option to set.
func New(codec Codec, opts *Options) (*Guard, error) {
	if codec == nil {
		return nil, errors.New("foil: codec is nil: use aesgcm.New with a key ring, or aesgcm.Ephemeral for a single process")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case strings.TrimSpace(o.Audience) == "" && !o.NoAudience:
		return nil, errors.New("foil: Options.Audience is empty: name the service, or set NoAudience if no other service has its keys")
	case o.Audience != "" && o.NoAudience:
		return nil, errors.New("foil: Options.Audience and NoAudience exclude each other")
	case !canonjson.ValidWTF8(o.Audience):
		return nil, errors.New("foil: Options.Audience is not valid UTF-8")
	case o.AmbiguousArguments > Refuse:
		return nil, fmt.Errorf("foil: unknown AmbiguousArguments %d", o.AmbiguousArguments)
	case o.MaxToken > maxMaxToken:
		return nil, fmt.Errorf("foil: Options.MaxToken is more than %d", maxMaxToken)
	case o.Without&^allBindings != 0:
		return nil, fmt.Errorf("foil: unknown binding in Options.Without: %#x", uint8(o.Without&^allBindings))
	case o.Skew < 0 || o.MaxToken < 0 || o.StoreTimeout < 0 || o.Lease < 0 || o.MaxExecution < 0 || o.OutcomeRetention < 0 || o.MaxOutcome < 0:
		return nil, errors.New("foil: Skew, MaxToken, StoreTimeout, Lease, MaxExecution, OutcomeRetention and MaxOutcome must not be negative")
	case o.Lease > 0 && o.Lease < time.Second:
		return nil, errors.New("foil: Options.Lease is less than a second, which a pause of the process would exceed")
	}
	if o.MaxToken == 0 {
		o.MaxToken = DefaultMaxToken
	}
	if o.StoreTimeout == 0 {
		o.StoreTimeout = DefaultStoreTimeout
	}
	if o.MaxExecution == 0 {
		o.MaxExecution = DefaultMaxExecution
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.MaxOutcome == 0 {
		o.MaxOutcome = DefaultMaxOutcome
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Guard{codec: codec, o: o}
	g.base = Policy{TTL: o.TTL, FlowLimit: o.FlowLimit, MaxRounds: o.MaxRounds, Once: o.Once, Without: o.Without, Resumable: o.Resumable}.
		over(Policy{FlowLimit: DefaultFlowLimit, MaxRounds: DefaultMaxRounds, Once: Redeem})
	l := limitsOf(codec)
	if err := g.base.within(l).check(l, &g.o); err != nil {
		return nil, err
	}
	if e, ok := o.Replay.(replay.Ephemeral); ok && e.Ephemeral() && !l.Ephemeral {
		return nil, errors.New("foil: a memory of spent tokens that dies with the process needs keys that do: use aesgcm.Ephemeral, or a durable store that all replicas share")
	}
	if e, ok := o.Ledger.(ledger.Ephemeral); ok && e.Ephemeral() && !l.Ephemeral {
		return nil, errors.New("foil: a memory of operations that dies with the process needs keys that do: use aesgcm.Ephemeral, or a durable ledger that all replicas share")
	}
	if e, ok := o.Claims.(claimcheck.Ephemeral); ok && e.Ephemeral() && !l.Ephemeral {
		// It fails closed, so it is no error: what is lost are honest flows.
		o.Logger.Warn("claim checks die with this process and keys do not: what one replica parks, or a restart forgets, cannot be redeemed; give Options.Claims a store that all replicas share")
	}
	g.store.name, g.ledger.name = "replay", "ledger"
	g.store.pinger, _ = o.Replay.(replay.Pinger)
	g.ledger.pinger, _ = o.Ledger.(ledger.Pinger)
	g.tokens.name, g.old.name = "codec", "codec"
	if m, ok := codec.(*Migration); ok {
		g.tokens.pinger, _ = m.to.(Pinger)
		g.old.pinger, _ = m.from.(Pinger)
	} else {
		g.tokens.pinger, _ = codec.(Pinger)
	}
	return g, nil
}

// terms are what holds for one call: the policy, and what the keys demand now.
type terms struct {
	Policy
	keys KeyLimits
}

// terms returns what holds for a request, or says what is wrong with it.
func (g *Guard) terms(req *Request) (terms, error) {
	t := terms{g.base, limitsOf(g.codec)}
	if g.o.PolicyFor != nil {
		t.Policy = g.o.PolicyFor(req.Method, req.Target).over(g.base)
	}
	t.Policy = t.within(t.keys)
	return t, t.check(t.keys, &g.o)
}

func (g *Guard) skew(t *terms) time.Duration {
	switch {
	case g.o.Skew > 0:
		return g.o.Skew
	case t.keys.Skew > 0:
		return t.keys.Skew
	}
	return DefaultSkew
}

// Check refuses arguments that two JSON parsers may read differently, with an
// error that matches [ErrAmbiguous]. Call it before any handler for a request
// without a state; [Guard.Open] does it for one that has a state.
func (g *Guard) Check(ctx context.Context, req Request) error {
	_, err := g.sums(&req)
	if err != nil {
		g.report(ctx, "check", &req, "", nil, time.Time{}, err)
	}
	return err
}

// String tells nothing of the keys.
func (g *Guard) String() string { return "foil.Guard" }

// Format prints what String gives, under every verb.
func (g *Guard) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(g.String())) }
