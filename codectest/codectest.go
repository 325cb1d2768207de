// Package codectest checks that a [foil.Codec] keeps its promises. Every
// implementation runs it:
//
//	func TestConformance(t *testing.T) {
//		codectest.Run(t, func(t *testing.T) *codectest.Harness { … })
//	}
//
// What a codec cannot do is said in the negative, so that the harness of a new
// codec fails until each point is either there or named.
package codectest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
)

// A Harness is one codec and the handles by which the suite moves the world
// around it.
type Harness struct {
	// Codec is ready to seal and open.
	Codec foil.Codec

	// Peer returns another instance on the same keys, as a second replica has.
	// Ephemeral: the keys die with Codec, and it says so in its KeyLimits.
	Peer      func(t *testing.T) foil.Codec
	Ephemeral bool

	// Other returns a codec of the same format with other keys. It is required.
	Other func(t *testing.T) foil.Codec

	// Foreign returns codecs of other formats, on the same keys where these
	// can be shared. SoleFormat: there are none.
	Foreign    func(t *testing.T) []foil.Codec
	SoleFormat bool

	// Revoke withdraws the key that has sealed so far and puts another one in
	// force. CannotRevoke: the keys stay as they are.
	Revoke       func(t *testing.T)
	CannotRevoke bool

	// Break takes the key source or the backend away until restore is called.
	// CannotBreak: there is nothing that could go away.
	Break       func(t *testing.T) (restore func())
	CannotBreak bool

	// MaxPayload is the size in bytes of the largest payload that is tried;
	// 60,000 if zero.
	MaxPayload int
}

// Run runs the suite. It calls newHarness once for each sub-test.
func Run(t *testing.T, newHarness func(t *testing.T) *Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h *Harness)
	}{
		{"harness is complete", testHarness},
		{"payloads of every size come back", testRoundTrip},
		{"tokens are printable text", testText},
		{"flipped bits are refused", testFlips},
		{"other spellings are refused", testAliases},
		{"cut tokens are refused", testCuts},
		{"longer tokens are refused", testExtensions},
		{"spliced tokens are refused", testSplices},
		{"what is no token is refused", testGarbage},
		{"other formats are refused", testForeign},
		{"other keys are refused", testOtherKeys},
		{"a peer opens", testPeer},
		{"caller may reuse the payload", testPayloadReuse},
		{"payloads are the caller's own", testPayloadOwned},
		{"many callers at once", testConcurrent},
		{"encrypted payloads cannot be seen", testEncrypts},
		{"the key id tells the key alone", testKeyID},
		{"revoked keys open nothing", testRevoke},
		{"no keys is a failure and no refusal", testBroken},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newHarness(t)) })
	}
}

func testHarness(t *testing.T, h *Harness) {
	for _, c := range []struct {
		name         string
		have, excuse bool
	}{
		{"Peer or Ephemeral", h.Peer != nil, h.Ephemeral},
		{"Foreign or SoleFormat", h.Foreign != nil, h.SoleFormat},
		{"Revoke or CannotRevoke", h.Revoke != nil, h.CannotRevoke},
		{"Break or CannotBreak", h.Break != nil, h.CannotBreak},
	} {
		if c.have == c.excuse {
			t.Errorf("harness wants exactly one of %s", c.name)
		}
	}
	if h.Codec == nil {
		t.Error("harness has no Codec")
	}
	if h.Other == nil {
		t.Error("harness has no Other")
	}
	// A Guard accepts a memory of spent tokens that dies with the process only
	// for keys that do.
	l, _ := h.Codec.(foil.KeyLimiter)
	if says := l != nil && l.KeyLimits().Ephemeral; says != h.Ephemeral {
		t.Errorf("codec says Ephemeral %t, harness %t", says, h.Ephemeral)
	}
	if l != nil {
		if k := l.KeyLimits(); k.MaxTTL < 0 || k.Skew < 0 {
			t.Errorf("negative KeyLimits %+v", k)
		}
	}
	if p, ok := h.Codec.(foil.Prefixer); ok {
		if token := h.seal(t, h.Codec, nil); p.Prefix() == "" || !strings.HasPrefix(token, p.Prefix()) {
			t.Errorf("a token does not begin with the Prefix %q", p.Prefix())
		}
	}
}

// expires is far enough away for any test.
func expires() time.Time { return time.Now().Add(10 * time.Minute) }

func (h *Harness) seal(t *testing.T, c foil.Codec, payload []byte) string {
	t.Helper()
	token, err := c.Seal(t.Context(), payload, expires())
	if err != nil {
		t.Fatalf("Seal of %d bytes: %v", len(payload), err)
	}
	return token
}

func (h *Harness) opens(t *testing.T, c foil.Codec, token, payload string) {
	t.Helper()
	got, err := c.Open(t.Context(), token)
	if err != nil {
		t.Fatalf("Open of what was sealed from %d bytes: %v", len(payload), err)
	}
	if string(got) != payload {
		t.Fatalf("Open gave %d bytes that are not the %d sealed ones", len(got), len(payload))
	}
}

// ofCodecs are the reasons that a codec may have; the others are the Guard's.
var ofCodecs = []foil.Reason{
	foil.ReasonMalformed, foil.ReasonUnknownKey, foil.ReasonTampered, foil.ReasonTooLarge, foil.ReasonExpired,
}

// refuses fails unless token is refused, with one of the reasons if any are given,
// without a payload and without telling what was presented.
func (h *Harness) refuses(t *testing.T, c foil.Codec, what, token string, reasons ...foil.Reason) {
	t.Helper()
	payload, err := c.Open(t.Context(), token)
	if len(reasons) == 0 {
		reasons = ofCodecs
	}
	switch {
	case err == nil:
		t.Errorf("%s: opened, want a refusal", what)
	case payload != nil:
		t.Errorf("%s: a payload of %d bytes beside the error", what, len(payload))
	case !errors.Is(err, foil.ErrInvalid):
		t.Errorf("%s: a system failure (%v), want a refusal", what, err)
	case !slices.Contains(reasons, foil.ReasonOf(err)):
		t.Errorf("%s: reason %q, want one of %q", what, foil.ReasonOf(err), reasons)
	case len(token) >= 16 && strings.Contains(err.Error(), token[len(token)-16:]):
		t.Errorf("%s: the error quotes the token", what)
	}
}

// payload is what a Guard would have sealed, of some size.
func payload(size int) []byte {
	const text = `{"v":1,"iat":1790000000.25,"exp":1790000600.25,"m":"tools/call","t":"purge","s":"a state that nobody else may know"}`
	return []byte(strings.Repeat(text, size/len(text)+1)[:size])
}
