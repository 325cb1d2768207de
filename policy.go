package foil

import (
	"fmt"
	"strings"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// Once says how often a state may be presented.
type Once uint8

const (
	// OnceDefault leaves it to the Guard, and in [Options] is [Redeem].
	OnceDefault Once = iota
	// Redeem spends a state on its first good presentation, whatever the
	// answer was. Every other presentation is refused.
	Redeem
	// Off lets a state be presented until it expires. The specification
	// warns that binding and expiry do not make it single-use.
	Off
	// Settle makes of the first good presentation an operation that is written
	// down in Options.Ledger before the handler runs. The same state with the
	// same answers then gets the recorded outcome and executes nothing; see
	// [Opened.Execution].
	Settle
	// Deferred leaves the spending to the handler, which calls
	// [Opened.Redeem] in a database transaction of its own. Options.Replay must
	// be a [replay.Deferrer].
	Deferred
)

var onceNames = [...]string{OnceDefault: "default", Redeem: "redeem", Off: "off", Settle: "settle", Deferred: "deferred"}

// String gives the name as in flags: redeem, settle, deferred, off.
func (o Once) String() string {
	if int(o) < len(onceNames) {
		return onceNames[o]
	}
	return fmt.Sprintf("Once(%d)", uint8(o))
}

// ParseOnce reads what [Once.String] writes, without default.
func ParseOnce(s string) (Once, error) {
	for o := Redeem; int(o) < len(onceNames); o++ {
		if onceNames[o] == s {
			return o, nil
		}
	}
	return 0, fmt.Errorf("foil: single use is redeem, settle, deferred or off, not %q", s)
}

// A Choice answers a question that has a safe default.
type Choice uint8

const (
	// Default is the safe behaviour that the option's comment names.
	Default Choice = iota
	// Allow lets it pass.
	Allow
	// Refuse rejects it.
	Refuse
)

// Binding is a set of the things a state is bound to.
type Binding uint8

const (
	BindPrincipal Binding = 1 << iota // who asked
	BindExpiry                        // the round's time, the flow's deadline and number of rounds
	BindRequest                       // method, target and arguments
	BindAudience                      // the service
	BindQuestions                     // the questions asked
)

const allBindings = BindPrincipal | BindExpiry | BindRequest | BindAudience | BindQuestions

var bindingNames = []struct {
	b    Binding
	name string
}{
	{BindPrincipal, "principal"},
	{BindExpiry, "expiry"},
	{BindRequest, "request"},
	{BindAudience, "audience"},
	{BindQuestions, "questions"},
}

// Has reports whether all of x are in b.
func (b Binding) Has(x Binding) bool { return b&x == x }

// String lists the names, separated by commas.
func (b Binding) String() string {
	var names []string
	for _, n := range bindingNames {
		if b.Has(n.b) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// ParseBindings reads a list of names separated by commas, as in
// "principal,expiry". The empty string is the empty set.
func ParseBindings(s string) (Binding, error) {
	var b Binding
next:
	for name := range strings.SplitSeq(s, ",") {
		if name == "" && s == "" {
			break
		}
		for _, n := range bindingNames {
			if n.name == name {
				b |= n.b
				continue next
			}
		}
		return 0, fmt.Errorf("foil: no binding is named %q; they are principal, expiry, request, audience, questions", name)
	}
	return b, nil
}

// A Policy is how states of one tool, prompt or resource are treated. A zero
// field takes the Guard's own value.
type Policy struct {
	// TTL is how long one round may take. It is at most the MaxTTL of the
	// codec's keys.
	TTL time.Duration
	// FlowLimit is how long a whole flow may take, from its first question.
	FlowLimit time.Duration
	// MaxRounds is how many times a flow may ask.
	MaxRounds int
	// Once is how often a state may be presented.
	Once Once
	// Without names bindings that Open does not compare. They are minted
	// all the same. They add to those of [Options].
	Without Binding
	// Resumable says, under Settle, that the handler does all of its work in
	// [Execution.Step] and may be called again for an operation that was cut
	// off: the same person's retry, within the flow's deadline, then finishes
	// the rest. Without it an operation that was cut off stays unknown until an
	// operator resolves it.
	Resumable bool
}

// Defaults of [Options].
const (
	DefaultTTL       = 10 * time.Minute
	DefaultFlowLimit = time.Hour
	DefaultMaxRounds = 10
	DefaultSkew      = time.Minute
	DefaultMaxToken  = 64 << 10
	maxMaxToken      = 16 << 20
	// DefaultStoreTimeout bounds each call of the replay store.
	DefaultStoreTimeout = 5 * time.Second
	// DefaultLease is how long a process that executes an operation may be
	// silent before it counts as unknown.
	DefaultLease = 30 * time.Second
	// DefaultMaxExecution is how long a handler may take under Settle.
	DefaultMaxExecution = time.Hour
	// DefaultOutcomeRetention is how long a recorded outcome is kept.
	DefaultOutcomeRetention = 24 * time.Hour
	// DefaultMaxOutcome is how many bytes of a result are recorded.
	DefaultMaxOutcome = ledger.DefaultOutcome
)

func (p Policy) over(base Policy) Policy {
	if p.TTL == 0 {
		p.TTL = base.TTL
	}
	if p.FlowLimit == 0 {
		p.FlowLimit = base.FlowLimit
	}
	if p.MaxRounds == 0 {
		p.MaxRounds = base.MaxRounds
	}
	if p.Once == OnceDefault {
		p.Once = base.Once
	}
	p.Without |= base.Without
	p.Resumable = p.Resumable || base.Resumable
	return p
}

// within fills in the default TTL, which is shorter where the keys demand it.
func (p Policy) within(l KeyLimits) Policy {
	if p.TTL == 0 {
		p.TTL = DefaultTTL
		if l.MaxTTL > 0 {
			p.TTL = min(p.TTL, l.MaxTTL)
		}
	}
	return p
}

// check says what is wrong with a complete policy for keys with these limits.
func (p Policy) check(l KeyLimits, o *Options) error {
	switch {
	case p.TTL < 0 || p.FlowLimit < 0 || p.MaxRounds < 0:
		return fmt.Errorf("foil: TTL, FlowLimit and MaxRounds must not be negative")
	case p.Without&^allBindings != 0:
		return fmt.Errorf("foil: unknown binding in Policy.Without: %#x", uint8(p.Without&^allBindings))
	case p.Once < Redeem || p.Once > Deferred:
		return fmt.Errorf("foil: unknown Once %v", p.Once)
	case p.Resumable && p.Once != Settle:
		return fmt.Errorf("foil: Resumable needs Once: foil.Settle, which remembers the steps")
	case l.MaxTTL > 0 && p.TTL > l.MaxTTL:
		return fmt.Errorf("foil: TTL %v is longer than the ring's max_ttl %v, for which retired keys are kept", p.TTL, l.MaxTTL)
	case p.Once == Redeem && o.Replay == nil:
		return fmt.Errorf("foil: Options.Replay is nil: give a store of spent tokens, or set Once: foil.Off to let a state be replayed until it expires")
	case p.Once != Off && l.Interop && !o.AcceptUnenforcedReplicas:
		return fmt.Errorf("foil: the key ring is shared with replicas that do not enforce single use, so no token of it is single-use: set Once: foil.Off, or AcceptUnenforcedReplicas to enforce it on this side alone")
	case p.Once == Deferred && !canDefer(o.Replay):
		return fmt.Errorf("foil: Once: Deferred needs an Options.Replay whose IDs can be spent in a transaction of the handler's, such as that of store/sqlite or store/postgres")
	case p.Once == Settle:
		return p.checkSettle(l, o)
	}
	return nil
}
