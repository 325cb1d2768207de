package claimchecktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
)

func testClaims(t *testing.T, h *Harness) {
	seen := map[string]bool{}
	for range 50 {
		claim := issue(t, h.Store, "the same payload")
		if !strings.HasPrefix(claim, claimcheck.Prefix) {
			t.Fatal("claim does not begin with the reserved prefix")
		}
		if seen[claim] {
			t.Fatal("claim was issued twice")
		}
		seen[claim] = true
		if strings.ContainsAny(claim, " \t\r\n\"\\") || len(claim) > 200 {
			t.Fatal("claim is not one short word that needs no escaping in JSON")
		}
	}
}

func testRoundTrip(t *testing.T, h *Harness) {
	payloads := []string{"", "x", "\x00", "plan: \xff\xfe not UTF-8", strings.Repeat("long ", 200)}
	if !h.Unlimited {
		payloads = append(payloads, strings.Repeat("m", h.MaxPayload))
	}
	var claims []string
	for _, p := range payloads {
		claims = append(claims, issue(t, h.Store, p))
	}
	for i, claim := range claims {
		redeem(t, h.Store, claim, fmt.Sprint("operation ", i), payloads[i])
	}
}

func testSameBy(t *testing.T, h *Harness) {
	claim := issue(t, h.Store, "plan")
	redeem(t, h.Store, claim, "operation", "plan")
	for range 3 {
		if h.OnceOnly {
			refused(t, h.Store, claim, "operation")
		} else {
			redeem(t, h.Store, claim, "operation", "plan")
		}
	}
}

func testOtherBy(t *testing.T, h *Harness) {
	claim := issue(t, h.Store, "plan")
	redeem(t, h.Store, claim, "operation", "plan")
	for _, other := range []string{"Operation", "operation ", "operation\x00", "o", "other", strings.Repeat("long", 1000)} {
		refused(t, h.Store, claim, other)
	}
	if !h.OnceOnly {
		redeem(t, h.Store, claim, "operation", "plan")
	}
}

func testEmptyBy(t *testing.T, h *Harness) {
	claim := issue(t, h.Store, "plan")
	if got, err := h.Store.Redeem(t.Context(), claim, ""); got != nil || err == nil || errors.Is(err, claimcheck.ErrRedeemed) {
		t.Fatalf("Redeem by nobody = %d bytes, %v; want an error that is not ErrRedeemed", len(got), err)
	}
	redeem(t, h.Store, claim, "operation", "plan")
}

// race lets 64 operations at once redeem each of some claims.
func race(t *testing.T, h *Harness, stores ...claimcheck.Store) {
	t.Helper()
	const callers, rounds = 64, 10
	for round := range rounds {
		claim := issue(t, h.Store, "plan")
		var wins, winner atomic.Int32
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				<-start
				got, err := stores[i%len(stores)].Redeem(t.Context(), claim, fmt.Sprint("operation ", i))
				switch {
				case err == nil && string(got) == "plan":
					wins.Add(1)
					winner.Store(int32(i))
				case got != nil || !errors.Is(err, claimcheck.ErrRedeemed):
					t.Errorf("Redeem = %d bytes, %v; want the payload or ErrRedeemed", len(got), err)
				}
			})
		}
		close(start)
		wg.Wait()
		if n := wins.Load(); n != 1 {
			t.Fatalf("round %d: %d of %d operations got the payload, want 1", round, n, callers)
		}
		if !h.OnceOnly {
			redeem(t, stores[0], claim, fmt.Sprint("operation ", winner.Load()), "plan")
		}
	}
}

func testConcurrent(t *testing.T, h *Harness) { race(t, h, h.Store) }

func testMalformed(t *testing.T, h *Harness) {
	claim := issue(t, h.Store, "plan")
	bad := append(aliases(claim), "", claimcheck.Prefix, "plan", strings.Repeat("x", 1<<16),
		claimcheck.NewClaim(), claim[:len(claim)-2]+"__")
	var first error
	for _, c := range bad {
		got, err := h.Store.Redeem(t.Context(), c, "operation")
		if got != nil || !errors.Is(err, claimcheck.ErrRedeemed) {
			t.Fatalf("Redeem of a bad claim of %d bytes = %d bytes, %v; want ErrRedeemed", len(c), len(got), err)
		}
		if first == nil {
			first = err
		}
		if err.Error() != first.Error() {
			t.Errorf("errors differ: %q and %q", err, first)
		}
	}
	redeem(t, h.Store, claim, "operation", "plan")
}

func testSliceReuse(t *testing.T, h *Harness) {
	payload := []byte("plan")
	claim, err := h.Store.Issue(t.Context(), payload, ttl)
	if err != nil {
		t.Fatalf("Issue: %v", err)
	}
	copy(payload, "evil")
	got, err := h.Store.Redeem(t.Context(), claim, "operation")
	if err != nil || string(got) != "plan" {
		t.Fatalf("Redeem = %q, %v; want the payload as it was issued", got, err)
	}
	copy(got, "evil")
	if !h.OnceOnly {
		redeem(t, h.Store, claim, "operation", "plan")
	}
}

func testBadIssue(t *testing.T, h *Harness) {
	for _, bad := range []time.Duration{0, -1, -time.Hour} {
		if claim, err := h.Store.Issue(t.Context(), []byte("plan"), bad); claim != "" || err == nil {
			t.Errorf("Issue with a ttl of %v: error %v, want one and no claim", bad, err)
		}
	}
	if h.Unlimited {
		return
	}
	claim, err := h.Store.Issue(t.Context(), bytes.Repeat([]byte("m"), h.MaxPayload+1), ttl)
	if claim != "" || !errors.Is(err, claimcheck.ErrTooLarge) {
		t.Errorf("Issue of a long payload: error %v, want ErrTooLarge and no claim", err)
	}
}

func testExpired(t *testing.T, h *Harness) {
	h.needClock(t)
	late, early := issue(t, h.Store, "late"), issue(t, h.Store, "early")
	h.Advance(ttl - time.Second)
	redeem(t, h.Store, early, "operation", "early")
	h.Advance(2 * time.Second)
	refused(t, h.Store, late, "operation")
	h.Advance(24 * time.Hour)
	refused(t, h.Store, late, "operation")
}

// testExpiryMoment: a store that counts in coarser units than nanoseconds rounds
// up, and on a whole second has nothing to round.
func testExpiryMoment(t *testing.T, h *Harness) {
	h.needClock(t)
	late, redeemed := issue(t, h.Store, "late"), issue(t, h.Store, "redeemed")
	h.Advance(ttl - time.Nanosecond)
	redeem(t, h.Store, redeemed, "operation", "redeemed")
	h.Advance(time.Nanosecond) // exactly at the expiry of both
	refused(t, h.Store, late, "operation")
	refused(t, h.Store, redeemed, "operation")
	for _, fraction := range []time.Duration{time.Nanosecond, 400 * time.Microsecond, 999_999_999 * time.Nanosecond} {
		h.Advance(fraction)
		claim := issue(t, h.Store, "between seconds")
		h.Advance(ttl - time.Nanosecond)
		redeem(t, h.Store, claim, "operation", "between seconds")
		h.Advance(2*time.Second + time.Nanosecond - fraction) // on a whole second again
		refused(t, h.Store, claim, "operation")
	}
}

func testExpiredSameBy(t *testing.T, h *Harness) {
	h.needClock(t)
	claim := issue(t, h.Store, "plan")
	redeem(t, h.Store, claim, "operation", "plan")
	h.Advance(ttl - time.Second)
	if !h.OnceOnly {
		redeem(t, h.Store, claim, "operation", "plan")
	}
	refused(t, h.Store, claim, "other")
	h.Advance(2 * time.Second)
	refused(t, h.Store, claim, "operation")
}

func testRevoked(t *testing.T, h *Harness) {
	fresh, redeemed := issue(t, h.Store, "fresh"), issue(t, h.Store, "redeemed")
	redeem(t, h.Store, redeemed, "operation", "redeemed")
	for _, claim := range []string{fresh, redeemed} {
		for range 2 { // the second time it is unknown, which is no error
			if err := h.Store.Revoke(t.Context(), claim); err != nil {
				t.Fatalf("Revoke: %v", err)
			}
			refused(t, h.Store, claim, "operation")
			refused(t, h.Store, claim, "other")
		}
	}
}

func testRevokeNothing(t *testing.T, h *Harness) {
	for _, claim := range []string{"", "plan", claimcheck.Prefix, claimcheck.NewClaim()} {
		if err := h.Store.Revoke(t.Context(), claim); err != nil {
			t.Errorf("Revoke of a claim that is none: %v", err)
		}
	}
}

func testRevokeOther(t *testing.T, h *Harness) {
	kept, revoked := issue(t, h.Store, "kept"), issue(t, h.Store, "revoked")
	for _, claim := range append(aliases(kept), revoked) {
		if err := h.Store.Revoke(t.Context(), claim); err != nil {
			t.Fatalf("Revoke: %v", err)
		}
	}
	redeem(t, h.Store, kept, "operation", "kept")
}

func testContext(t *testing.T, h *Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if claim, err := h.Store.Issue(ctx, []byte("plan"), ttl); claim != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("Issue with a cancelled context: error %v, want context.Canceled and no claim", err)
	}
	claim := issue(t, h.Store, "plan")
	if err := h.Store.Revoke(ctx, claim); !errors.Is(err, context.Canceled) {
		t.Errorf("Revoke with a cancelled context: error %v, want context.Canceled", err)
	}
	if got, err := h.Store.Redeem(ctx, claim, "operation"); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Redeem with a cancelled context: error %v, want context.Canceled", err)
	}
	redeem(t, h.Store, claim, "other", "plan")
}

func testErrors(t *testing.T, h *Harness) {
	const secret, by = "the-parked-payload", "the-operation"
	claim := issue(t, h.Store, secret)
	redeem(t, h.Store, claim, by, secret)
	_, err := h.Store.Redeem(t.Context(), claim, "other")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, cancelled := h.Store.Redeem(ctx, claim, by)
	_, nobody := h.Store.Redeem(t.Context(), claim, "")
	texts := []string{
		fmt.Sprintf("%v %+v %#v", err, err, err), fmt.Sprint(cancelled), fmt.Sprint(nobody),
		fmt.Sprintf("%v %+v %#v %s %q", h.Store, h.Store, h.Store, h.Store, h.Store),
	}
	if h.Break != nil {
		restore := h.Break(t)
		_, redeeming := h.Store.Redeem(t.Context(), claim, by)
		_, issuing := h.Store.Issue(t.Context(), []byte(secret), ttl)
		revoking := h.Store.Revoke(t.Context(), claim)
		restore()
		for _, err := range []error{redeeming, issuing, revoking} {
			texts = append(texts, fmt.Sprintf("%v %+v %#v", err, err, err))
		}
	}
	leaks := []string{claim, strings.TrimPrefix(claim, claimcheck.Prefix), secret, by}
	if h.Secret != "" {
		leaks = append(leaks, h.Secret)
	}
	for _, text := range texts {
		for _, leak := range leaks {
			if strings.Contains(text, leak) {
				t.Errorf("text contains what must stay secret: %s", strings.ReplaceAll(text, leak, "[leak]"))
			}
		}
	}
}

func testFull(t *testing.T, h *Harness) {
	if h.Full == nil {
		t.Skip("needs a store that can be filled: set Harness.Full")
	}
	h.Full(t)
	payload := strings.Repeat("p", 1<<10)
	var claims []string
	for range 1000 {
		claim, err := h.Store.Issue(t.Context(), []byte(payload), ttl)
		if err != nil {
			if claim != "" || !errors.Is(err, claimcheck.ErrFull) {
				t.Fatalf("Issue in a full store: error %v, want ErrFull and no claim", err)
			}
			break
		}
		claims = append(claims, claim)
	}
	if len(claims) == 1000 {
		t.Fatal("store took a thousand claims; it does not refuse, or the harness does not fill it")
	}
	// Revoking makes room where redeeming would have to write.
	if len(claims) > 0 {
		if err := h.Store.Revoke(t.Context(), claims[0]); err != nil {
			t.Fatalf("Revoke in a full store: %v", err)
		}
		claims = claims[1:]
	}
	for i, claim := range claims {
		redeem(t, h.Store, claim, fmt.Sprint("operation ", i), payload)
	}
}

func testRestart(t *testing.T, h *Harness) {
	if h.Reopen == nil {
		t.Skip("needs a durable store: set Harness.Reopen")
	}
	fresh, redeemed, revoked := issue(t, h.Store, "fresh"), issue(t, h.Store, "redeemed"), issue(t, h.Store, "revoked")
	redeem(t, h.Store, redeemed, "operation", "redeemed")
	if err := h.Store.Revoke(t.Context(), revoked); err != nil {
		t.Fatalf("Revoke: %v", err)
	}
	again := h.Reopen(t)
	redeem(t, again, fresh, "operation", "fresh")
	refused(t, again, redeemed, "other")
	if !h.OnceOnly {
		redeem(t, again, redeemed, "operation", "redeemed")
	}
	refused(t, again, revoked, "operation")
}

func (h *Harness) peer(t *testing.T) claimcheck.Store {
	t.Helper()
	if h.Peer == nil {
		t.Skip("needs a store that replicas share: set Harness.Peer")
	}
	return h.Peer(t)
}

func testPeer(t *testing.T, h *Harness) {
	peer := h.peer(t)
	claim, revoked := issue(t, h.Store, "plan"), issue(t, h.Store, "revoked")
	redeem(t, peer, claim, "operation", "plan")
	refused(t, h.Store, claim, "other")
	if !h.OnceOnly {
		redeem(t, h.Store, claim, "operation", "plan")
	}
	if err := peer.Revoke(t.Context(), revoked); err != nil {
		t.Fatalf("Revoke: %v", err)
	}
	refused(t, h.Store, revoked, "operation")
}

func testPeerConcurrent(t *testing.T, h *Harness) { race(t, h, h.Store, h.peer(t)) }

func testBroken(t *testing.T, h *Harness) {
	if h.Break == nil {
		t.Skip("needs a backend that can be taken away: set Harness.Break")
	}
	claim := issue(t, h.Store, "plan")
	restore := h.Break(t)
	if got, err := h.Store.Redeem(t.Context(), claim, "operation"); got != nil || err == nil || errors.Is(err, claimcheck.ErrRedeemed) {
		t.Errorf("Redeem without a backend = %d bytes, %v; want an error that is not ErrRedeemed", len(got), err)
	}
	if c, err := h.Store.Issue(t.Context(), []byte("plan"), ttl); c != "" || err == nil {
		t.Errorf("Issue without a backend: error %v, want one and no claim", err)
	}
	if err := h.Store.Revoke(t.Context(), claim); err == nil {
		t.Error("Revoke without a backend = nil, want an error")
	}
	restore()
	if !h.OnceOnly {
		redeem(t, h.Store, claim, "operation", "plan")
	}
}
