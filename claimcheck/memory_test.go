package claimcheck_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/claimcheck/claimchecktest"
)

// clock is not for concurrent use with Advance.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time          { return c.now }
func (c *clock) Advance(d time.Duration) { c.now = c.now.Add(d) }

func newClock() *clock { return &clock{time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func TestMemoryConformance(t *testing.T) {
	claimchecktest.Run(t, func(t *testing.T) *claimchecktest.Harness {
		c := newClock()
		return &claimchecktest.Harness{
			Store:       claimcheck.NewMemory(&claimcheck.MemoryOptions{MaxClaims: 500, Now: c.Now}),
			Advance:     c.Advance,
			MaxPayload:  claimcheck.DefaultMaxPayloadBytes,
			NotDurable:  true,
			NotShared:   true,
			Full:        func(t *testing.T) {},
			CannotBreak: true,
			NoSecret:    true,
		}
	})
}

func TestMemoryBounds(t *testing.T) {
	c := newClock()
	m := claimcheck.NewMemory(&claimcheck.MemoryOptions{MaxPayloadBytes: 60, MaxTotalBytes: 100, MaxClaims: 3, Now: c.Now})
	issue := func(n int, ttl time.Duration, want error) (claim string) {
		t.Helper()
		claim, err := m.Issue(t.Context(), []byte(strings.Repeat("p", n)), ttl)
		if !errors.Is(err, want) {
			t.Fatalf("Issue of %d bytes: error %v, want %v", n, err, want)
		}
		return claim
	}
	issue(61, time.Minute, claimcheck.ErrTooLarge)
	first := issue(60, time.Minute, nil)
	issue(41, time.Minute, claimcheck.ErrFull) // 101 bytes in all
	issue(40, 2*time.Minute, nil)
	if err := m.Ping(t.Context()); !errors.Is(err, claimcheck.ErrFull) {
		t.Errorf("Ping of a full store: %v, want ErrFull", err)
	}
	if err := m.Revoke(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	issue(1, time.Minute, nil)
	issue(1, time.Minute, nil)
	issue(1, time.Minute, claimcheck.ErrFull) // a fourth claim
	if err := m.Ping(t.Context()); !errors.Is(err, claimcheck.ErrFull) {
		t.Errorf("Ping of a store with all its claims: %v, want ErrFull", err)
	}
	c.Advance(time.Minute)
	issue(60, time.Minute, nil) // the two small ones are over
	issue(1, time.Minute, claimcheck.ErrFull)
	c.Advance(time.Hour)
	if err := m.Ping(t.Context()); err != nil {
		t.Errorf("Ping when all has expired: %v", err)
	}
}

func TestKeyIsStrict(t *testing.T) {
	claim := claimcheck.NewClaim()
	key, ok := claimcheck.Key(claim)
	if !ok {
		t.Fatal("Key of a fresh claim is not ok")
	}
	if strings.Contains(claim, string(key[:])) {
		t.Error("key is part of the claim")
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	keys := map[[32]byte]bool{}
	for i := range alphabet { // of 64 last characters, 16 carry no stray bits
		if k, ok := claimcheck.Key(claim[:len(claim)-1] + alphabet[i:i+1]); ok {
			keys[k] = true
		}
	}
	if len(keys) != 16 {
		t.Errorf("%d spellings of the last character are accepted, want 16", len(keys))
	}
	for _, bad := range []string{
		"", claimcheck.Prefix, claim + "=", claim + "\n", claim[:40] + "\n" + claim[40:], claim[:40] + "\r\n" + claim[42:],
		claim[1:], claim + "AAAA", strings.ToUpper(claim), claim[:len(claim)-1] + "+", claim[:len(claim)-1] + "/",
	} {
		if _, ok := claimcheck.Key(bad); ok {
			t.Errorf("Key accepts %q", bad)
		}
	}
}

func TestMemoryPrintsNothing(t *testing.T) {
	m := claimcheck.NewMemory(nil)
	if _, err := m.Issue(t.Context(), []byte("the-payload"), time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(verb, m); got != "claimcheck.Memory" {
			t.Errorf("%s printed %s", verb, got)
		}
	}
}
