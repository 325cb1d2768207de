package keyring_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

func TestRevokeSealing(t *testing.T) {
	r := newRing(t, nil)
	now := start.Add(time.Hour)
	c := revoke(t, r, now, "2026-11-30a")
	if c.Ring.Serial() != 2 || c.Revoked != "2026-11-30a" || c.Added != "2026-11-30b" || !c.SealFrom.Equal(now.Add(-time.Minute)) {
		t.Errorf("%+v", c)
	}
	if k := c.Ring.Key("2026-11-30a"); !k.Revoked() || k.Opens(now) {
		t.Error("the revoked key opens")
	}
	for _, skew := range []time.Duration{-time.Minute, 0, time.Minute} {
		if got := sealing(t, c.Ring, now.Add(skew)); got != "2026-11-30b" {
			t.Errorf("on a clock off by %v seals %s", skew, got)
		}
	}
	// The tokens of the last MaxTTL, and those until every replica knows.
	if c.Lost != 15*time.Minute || c.LostMinutes() != 15 {
		t.Errorf("lost %v", c.Lost)
	}
	if r.Key("2026-11-30a").Revoked() {
		t.Error("the old ring changed")
	}
	// Made a moment ago, the key has few tokens to lose; and the new one must win
	// over it although now - skew is before its seal_from.
	c = rotate(t, r, now)
	at := c.SealFrom.Add(10 * time.Second)
	c = revoke(t, c.Ring, at, "2026-11-30b")
	if c.Lost != 10*time.Second+5*time.Minute || sealing(t, c.Ring, at) != "2026-11-30c" || c.LostMinutes() != 6 {
		t.Errorf("%+v seals %s", c, sealing(t, c.Ring, at))
	}
	// Again, and unknown.
	if again := revoke(t, c.Ring, now, "2026-11-30b"); again.Changed() || again.Ring != c.Ring {
		t.Error("revoking twice changes something")
	}
	if _, err := c.Ring.Revoke(now, "nope"); !errors.Is(err, keyring.ErrUnknownKey) {
		t.Error(err)
	}
}

// With a key pending, the new one bridges the time until then and closes after.
func TestRevokeSealingBeforeAPendingKey(t *testing.T) {
	c := rotate(t, newRing(t, nil), start.Add(time.Hour))
	pending := c.SealFrom
	now := start.Add(time.Hour + time.Minute)
	c = revoke(t, c.Ring, now, "2026-11-30a")
	if got := sealing(t, c.Ring, now); got != "2026-11-30c" {
		t.Errorf("seals %s", got)
	}
	if got := sealing(t, c.Ring, pending); got != "2026-11-30b" {
		t.Errorf("later seals %s", got)
	}
	if !until(t, c.Ring, "2026-11-30c").Equal(pending.Add(10*time.Minute+24*time.Hour)) || !until(t, c.Ring, "2026-11-30b").IsZero() {
		t.Errorf("%s", c.Ring.Marshal())
	}
}

func TestRevokeSuperseded(t *testing.T) {
	c := rotate(t, newRing(t, nil), start)
	from := c.SealFrom
	for _, tc := range []struct {
		after time.Duration
		lost  time.Duration
		added string
	}{
		{30 * time.Second, 8*time.Minute + 40*time.Second, "2026-11-30c"}, // made 9:10 ago; a slow clock still seals with it
		{4 * time.Minute, 6 * time.Minute, ""},
		{10 * time.Minute, 0, ""},
		{20 * time.Hour, 0, ""},
	} {
		got := revoke(t, c.Ring, from.Add(tc.after), "2026-11-30a")
		if got.Lost != tc.lost || got.Added != tc.added || !got.Ring.Key("2026-11-30a").Revoked() {
			t.Errorf("after %v: lost %v, added %q", tc.after, got.Lost, got.Added)
		}
		if sealing(t, got.Ring, from.Add(tc.after)) != "2026-11-30b" {
			t.Errorf("after %v another key seals", tc.after)
		}
	}
	// On a clock that has not reached the successor, sealing goes on as well.
	got := revoke(t, c.Ring, from.Add(30*time.Second), "2026-11-30a")
	if s := sealing(t, got.Ring, from.Add(-30*time.Second)); s != "2026-11-30c" {
		t.Errorf("the slow clock seals %s", s)
	}
}

// A pending key that is revoked must not come into force, and sealing goes on.
func TestRevokePending(t *testing.T) {
	c := rotate(t, newRing(t, nil), start.Add(time.Hour))
	now := start.Add(time.Hour + time.Minute)
	c = revoke(t, c.Ring, now, "2026-11-30b")
	if ids(c.Ring) != "a c" || !slices.Equal(c.Ring.RevokedIDs(), []string{"2026-11-30b"}) || c.Lost != 0 || !c.SealFrom.Equal(now.Add(lead)) {
		t.Errorf("%+v\n%s", c, c.Ring.Marshal())
	}
	for at := now; at.Before(now.Add(48 * time.Hour)); at = at.Add(time.Minute) {
		if sealing(t, c.Ring, at) == "none" {
			t.Fatalf("nothing seals at %v", at)
		}
	}
	// Without Keep the old key closes too soon for that: the replacement takes the
	// place of the revoked key, and the change says what that costs.
	short := rotate(t, newRing(t, &keyring.RingOptions{Keep: -1}), start.Add(time.Hour))
	c = revoke(t, short.Ring, now, "2026-11-30b")
	if !c.SealFrom.Equal(short.SealFrom) || c.Lost != time.Minute {
		t.Errorf("%+v", c)
	}
}

// A writer whose clock is ahead revokes the key in force; for one whose clock is
// behind neither that key nor its replacement seals yet. When it revokes the latter
// too, the former must not be what comes into force.
func TestRevokeOnClocksApart(t *testing.T) {
	c := rotate(t, newRing(t, nil), start.Add(time.Hour))
	from := c.SealFrom
	c = revoke(t, c.Ring, from.Add(10*time.Second), "2026-11-30b")
	c = revoke(t, c.Ring, from.Add(-5*time.Second), c.Added)
	for at := from.Add(-time.Minute); at.Before(from.Add(time.Hour)); at = at.Add(time.Second) {
		if sealing(t, c.Ring, at) == "none" {
			t.Fatalf("nothing seals at %v\n%s", at, c.Ring.Marshal())
		}
	}
	if !slices.Equal(c.Removed, []string{"2026-11-30b", "2026-11-30c"}) {
		t.Errorf("removed %v", c.Removed)
	}
}
