// Package claimchecktest checks that a [claimcheck.Store] keeps its promises.
// Every implementation runs it:
//
//	func TestConformance(t *testing.T) {
//		claimchecktest.Run(t, func(t *testing.T) *claimchecktest.Harness { … })
//	}
//
// What a store cannot do is said in the negative, so that the harness of a new
// store fails until each point is either there or named.
package claimchecktest

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
)

// A Harness is one empty store and the handles by which the suite moves the
// world around it.
type Harness struct {
	// Store is empty and ready.
	Store claimcheck.Store

	// Advance moves the clock of Store, back if d is negative; until it is called
	// the clock stands at a whole second. Leave it nil with NoClock if the store
	// goes by the clock of a server.
	Advance func(d time.Duration)
	NoClock bool

	// MaxPayload is the length of the longest payload that Store takes, at
	// least 1 KiB. Unlimited: the backend's limit cannot be reached in a test.
	MaxPayload int
	Unlimited  bool

	// Reopen ends Store, as abruptly as the test can, and returns a store on
	// the same data, as after a restart. NotDurable: the data dies with Store.
	Reopen     func(t *testing.T) claimcheck.Store
	NotDurable bool

	// Peer returns another store on the same data, as a second replica has.
	// NotShared: there can be none.
	Peer      func(t *testing.T) claimcheck.Store
	NotShared bool

	// Full makes Store so small that it is full after at most a thousand claims
	// more. Unbounded: the backend's limit cannot be reached in a test.
	Full      func(t *testing.T)
	Unbounded bool

	// Break takes the backend away until restore is called. CannotBreak: there
	// is nothing that could go away.
	Break       func(t *testing.T) (restore func())
	CannotBreak bool

	// Secret is what Store authenticates to its backend with, such as the
	// password in a DSN; it must stay out of errors. NoSecret: there is none.
	Secret   string
	NoSecret bool

	// OnceOnly: a payload is handed out exactly once, whoever asks again. The
	// store must then not say that its Redeem is idempotent.
	OnceOnly bool
}

// Run runs the suite. It calls newHarness once for each sub-test.
func Run(t *testing.T, newHarness func(t *testing.T) *Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h *Harness)
	}{
		{"harness is complete", testHarness},
		{"claims are random and well formed", testClaims},
		{"redeem returns the payload", testRoundTrip},
		{"redeem again by the same returns it again", testSameBy},
		{"redeem by another is refused", testOtherBy},
		{"empty by is an error", testEmptyBy},
		{"one of 64 concurrent redeemers wins", testConcurrent},
		{"unknown and malformed claims are refused alike", testMalformed},
		{"caller may reuse the payload slices", testSliceReuse},
		{"bad ttl and long payloads are refused", testBadIssue},
		{"expired claim is refused", testExpired},
		{"claim ends when its ttl has passed, and not before", testExpiryMoment},
		{"expiry ends a redeemed claim too", testExpiredSameBy},
		{"revoked claim is refused for everybody", testRevoked},
		{"revoking nothing is no error", testRevokeNothing},
		{"revoke touches no other claim", testRevokeOther},
		{"ended context changes nothing", testContext},
		{"claims and payloads stay out of errors", testErrors},
		{"full store refuses and drops nothing", testFull},
		{"redeemed survives a restart", testRestart},
		{"redeemed is seen by a peer", testPeer},
		{"one of 64 concurrent redeemers over two peers wins", testPeerConcurrent},
		{"broken backend is an error and loses nothing", testBroken},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newHarness(t)) })
	}
}

func testHarness(t *testing.T, h *Harness) {
	for _, c := range []struct {
		name         string
		have, excuse bool
	}{
		{"Advance or NoClock", h.Advance != nil, h.NoClock},
		{"MaxPayload or Unlimited", h.MaxPayload >= 1<<10, h.Unlimited},
		{"Reopen or NotDurable", h.Reopen != nil, h.NotDurable},
		{"Peer or NotShared", h.Peer != nil, h.NotShared},
		{"Full or Unbounded", h.Full != nil, h.Unbounded},
		{"Break or CannotBreak", h.Break != nil, h.CannotBreak},
		{"Secret or NoSecret", h.Secret != "", h.NoSecret},
	} {
		if c.have == c.excuse {
			t.Errorf("harness wants exactly one of %s", c.name)
		}
	}
	if h.Store == nil {
		t.Error("harness has no Store")
	}
	if e, ok := h.Store.(claimcheck.Ephemeral); h.NotDurable && (!ok || !e.Ephemeral()) {
		t.Error("store whose data dies with it does not say that it is Ephemeral")
	} else if ok && e.Ephemeral() && !h.NotDurable {
		t.Error("store says that it is Ephemeral, harness that it is durable")
	}
	i, ok := h.Store.(claimcheck.IdempotentRedeemer)
	if says := ok && i.IdempotentRedeem(); says == h.OnceOnly {
		t.Errorf("IdempotentRedeem says %v, harness has OnceOnly %v", says, h.OnceOnly)
	}
	if p, ok := h.Store.(claimcheck.Pinger); ok {
		if err := p.Ping(t.Context()); err != nil {
			t.Errorf("Ping: %v", err)
		}
	}
}

const ttl = 10 * time.Minute

func issue(t *testing.T, s claimcheck.Store, payload string) string {
	t.Helper()
	claim, err := s.Issue(t.Context(), []byte(payload), ttl)
	if err != nil {
		t.Fatalf("Issue: %v", err)
	}
	return claim
}

func redeem(t *testing.T, s claimcheck.Store, claim, by, want string) {
	t.Helper()
	got, err := s.Redeem(t.Context(), claim, by)
	if err != nil {
		t.Fatalf("Redeem by %s: %v", by, err)
	}
	if !bytes.Equal(got, []byte(want)) {
		t.Fatalf("Redeem by %s returned %d bytes that are not the payload", by, len(got))
	}
}

func refused(t *testing.T, s claimcheck.Store, claim, by string) {
	t.Helper()
	if got, err := s.Redeem(t.Context(), claim, by); got != nil || !errors.Is(err, claimcheck.ErrRedeemed) {
		t.Fatalf("Redeem by %s = %d bytes, %v; want ErrRedeemed", by, len(got), err)
	}
}

func (h *Harness) needClock(t *testing.T) {
	t.Helper()
	if h.Advance == nil {
		t.Skip("needs a store with a clock of its own: set Harness.Advance")
	}
}

// aliases returns other spellings of claim that a lax decoder would accept.
func aliases(claim string) []string {
	body := strings.TrimPrefix(claim, claimcheck.Prefix)
	// 32 bytes leave two bits of the last character unused.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, body[len(body)-1])
	out := []string{
		body, claim + "=", claim + "\n", claim + "\r\n", "\n" + claim, " " + claim, claim + " ", claim + "A", claim[:len(claim)-1],
		claim + "\x00", claimcheck.Prefix + "\n" + body, claimcheck.Prefix + body[:20] + "\r\n" + body[20:],
		strings.ToUpper(claimcheck.Prefix) + body, claimcheck.Prefix + claim, `"` + claim + `"`,
		strings.Replace(claim, ".", "%2E", 1),
	}
	for i := range len(alphabet) {
		if i != last && i>>2 == last>>2 {
			out = append(out, claim[:len(claim)-1]+alphabet[i:i+1])
		}
	}
	for _, swap := range []string{"-+", "_/"} {
		if strings.Contains(body, swap[:1]) {
			out = append(out, claimcheck.Prefix+strings.ReplaceAll(body, swap[:1], swap[1:]))
		}
	}
	return out
}
