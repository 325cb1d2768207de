// Package labels turns what an Observer is told into labels of metrics: a
// closed set of each, so that no client can make a server keep more series.
package labels

import (
	"context"
	"errors"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/foilmcp/foil"
)

// Other stands for everything that is not in a set.
const Other = "other"

// The sets.
var (
	Methods = []string{foil.MethodToolsCall, foil.MethodPromptsGet, foil.MethodResourcesRead}
	Ops     = []string{"seal", "open", "check", "conclude"}
	Causes  = []string{"unavailable", "canceled", "internal"}
	Reasons = []string{
		string(foil.ReasonTooLarge), string(foil.ReasonAmbiguous), string(foil.ReasonMalformed),
		string(foil.ReasonUnknownKey), string(foil.ReasonTampered), string(foil.ReasonNotYetValid),
		string(foil.ReasonExpired), string(foil.ReasonMethod), string(foil.ReasonTarget),
		string(foil.ReasonArguments), string(foil.ReasonAudience), string(foil.ReasonPrincipalMissing),
		string(foil.ReasonPrincipal), string(foil.ReasonRound), string(foil.ReasonFlowExpired),
		string(foil.ReasonReplayed), string(foil.ReasonRestored), string(foil.ReasonAnswersChanged), string(foil.ReasonUnauthorized),
	}
	Statuses = []string{
		string(foil.OperationStarted), string(foil.OperationResumed), string(foil.OperationRecorded),
		string(foil.OperationInProgress), string(foil.OperationUnknown),
		string(foil.OperationSucceeded), string(foil.OperationFailed), string(foil.OperationLost),
	}
	stores   = []string{"replay", "claimcheck", "ledger", "codec"}
	storeOps = []string{"use", "attempt", "ping", "redeem", "revoke", "begin", "get", "step", "renew", "resume", "finish"}
)

// StoreCalls are the calls that a Guard makes: store and operation.
var StoreCalls = [][2]string{
	{"replay", "use"}, {"replay", "attempt"}, {"replay", "ping"},
	{"claimcheck", "redeem"}, {"claimcheck", "revoke"},
	{"ledger", "begin"}, {"ledger", "get"}, {"ledger", "step"}, {"ledger", "renew"},
	{"ledger", "resume"}, {"ledger", "finish"}, {"ledger", "ping"},
	{"codec", "ping"},
}

// Method is one of Methods, or Other.
func Method(s string) string { return in(Methods, s) }

// Reason is one of Reasons, or Other: a codec may name reasons of its own.
func Reason(r foil.Reason) string { return in(Reasons, string(r)) }

// Status is one of Statuses, or Other.
func Status(s foil.OperationStatus) string { return in(Statuses, string(s)) }

// Op is one of Ops, or Other.
func Op(s string) string { return in(Ops, s) }

// Store is the name of a store, or Other.
func Store(s string) string { return in(stores, s) }

// StoreOp is what was asked of a store, or Other.
func StoreOp(s string) string { return in(storeOps, s) }

// Cause is one of Causes: a caller that hung up, a part that is away and may be
// back, or a mistake.
func Cause(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, foil.ErrUnavailable):
		return "unavailable"
	}
	return "internal"
}

// StoreFailed reports whether a call says that its store is unwell. A caller
// that hung up says nothing of the store.
func StoreFailed(err error) bool { return err != nil && !errors.Is(err, context.Canceled) }

func in(set []string, s string) string {
	if slices.Contains(set, s) {
		return s
	}
	return Other
}

const (
	maxKeys  = 256
	maxKeyID = 64
)

// Keys is the set of key ids seen so far. A ring holds few, but a process may
// live through many rotations, and a codec of somebody else's may name its keys
// without end. The zero Keys is ready; it is safe for concurrent use.
type Keys struct {
	mu   sync.RWMutex
	seen map[string]struct{}
}

// Label is kid, "none" for a token that names no key, or Other for one too many
// and for what is no fit name.
func (k *Keys) Label(kid string) string {
	if kid == "" {
		return "none"
	}
	if len(kid) > maxKeyID || !utf8.ValidString(kid) {
		return Other
	}
	k.mu.RLock()
	_, known := k.seen[kid]
	k.mu.RUnlock()
	if known {
		return kid
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.seen[kid]; !known {
		if len(k.seen) >= maxKeys {
			return Other
		}
		if k.seen == nil {
			k.seen = make(map[string]struct{})
		}
		k.seen[kid] = struct{}{}
	}
	return kid
}
