package codectest_test

import (
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/codectest"
	"github.com/foilmcp/foil/internal/faulttest"
)

// faults names each fault and the sub-tests that must find it.
var faults = map[string][]string{
	"trims payloads":             {"payloads of every size come back"},
	"takes 1000 bytes":           {"payloads of every size come back"},
	"breaks lines":               {"tokens are printable text"},
	"ignores the tag's last bit": {"flipped bits are refused"},
	"ignores the tag's end":      {"flipped bits are refused"},
	"key id is not covered":      {"flipped bits are refused"},
	"body is not covered":        {"flipped bits are refused", "spliced tokens are refused"},
	"payload beside the error":   {"flipped bits are refused"},
	"refuses without a reason":   {"flipped bits are refused"},
	"tampered is a failure":      {"flipped bits are refused"},
	"reason of the Guard's":      {"flipped bits are refused"},
	"quotes the token":           {"flipped bits are refused", "other spellings are refused"},
	"accepts padding":            {"other spellings are refused"},
	"skips line ends":            {"other spellings are refused"},
	"skips stray bits":           {"other spellings are refused"},
	"takes both alphabets":       {"other spellings are refused"},
	"trims space":                {"other spellings are refused"},
	"prefix in any case":         {"other spellings are refused"},
	"unquotes":                   {"other spellings are refused"},
	"ignores the prefix":         {"flipped bits are refused", "other spellings are refused", "cut tokens are refused", "other formats are refused"},
	"adds a prefix":              {"other spellings are refused", "cut tokens are refused"},
	"reads to the first dot":     {"longer tokens are refused"},
	"reads to the first NUL":     {"other spellings are refused"},
	"seals in pieces":            {"cut tokens are refused", "spliced tokens are refused"},
	"garbage is a failure":       {"what is no token is refused"},
	"garbage is nothing":         {"what is no token is refused", "cut tokens are refused"},
	"takes what is unsigned":     {"what is no token is refused"},
	"opens every format":         {"other formats are refused"},
	"one key for everybody":      {"other keys are refused"},
	"foreign keys are a failure": {"other keys are refused"},
	"a key of its own":           {"a peer opens"},
	"keeps the payload":          {"caller may reuse the payload"},
	"encrypts in place":          {"caller may reuse the payload"},
	"one buffer for all":         {"payloads are the caller's own"},
	"remembers what it opened":   {"payloads are the caller's own"},
	"one caller at a time":       {"many callers at once"},
	"only says that it encrypts": {"encrypted payloads cannot be seen"},
	"one nonce":                  {"encrypted payloads cannot be seen"},
	"one keystream":              {"encrypted payloads cannot be seen"},
	"key id tells the token":     {"the key id tells the key alone"},
	"key id of anything":         {"the key id tells the key alone"},
	"one key id":                 {"the key id tells the key alone"},
	"no key id":                  {"the key id tells the key alone"},
	"revoked keys open":          {"revoked keys open nothing"},
	"revoked is malformed":       {"revoked keys open nothing"},
	"no keys is a refusal":       {"no keys is a failure and no refusal"},
	"opens without keys":         {"no keys is a failure and no refusal"},
	"token beside the error":     {"no keys is a failure and no refusal"},
	"stays broken":               {"no keys is a failure and no refusal"},
	"says it is ephemeral":       {"harness is complete"},
	"prefix is a lie":            {"harness is complete"},
	"harness lacks a point":      {"harness is complete"},
}

func newHarness(fault string) *codectest.Harness {
	shared := newKeys()
	instance := func(prefix string, k *keys) *fake {
		return &fake{fault: fault, prefix: prefix, keys: k, sealed: map[string][]byte{}}
	}
	f := instance("f1.", shared)
	h := &codectest.Harness{
		Codec: f,
		Peer: func(*testing.T) foil.Codec {
			if fault == "a key of its own" {
				return instance("f1.", newKeys())
			}
			return instance("f1.", shared)
		},
		Other:   func(*testing.T) foil.Codec { return instance("f1.", newKeys()) },
		Foreign: func(*testing.T) []foil.Codec { return []foil.Codec{instance("g1.", shared)} },
		Revoke:  func(*testing.T) { shared.rotate() },
		Break: func(*testing.T) func() {
			away := func(b bool) { shared.mu.Lock(); shared.away = b; shared.mu.Unlock() }
			away(true)
			f.broken = fault == "stays broken"
			return func() { away(false) }
		},
	}
	if fault == "harness lacks a point" {
		h.Break = nil
	}
	return h
}

// TestFaulty runs the suite against a fault, in a process of its own.
func TestFaulty(t *testing.T) {
	fault := faulttest.Fault() // none: the suite can be passed in full
	codectest.Run(t, func(*testing.T) *codectest.Harness { return newHarness(fault) })
}

func TestSuiteFindsEveryFault(t *testing.T) { faulttest.Find(t, faults) }
