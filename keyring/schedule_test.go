package keyring_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

const lead = 300*time.Second + 100*time.Second + 60*time.Second // of the default ring

func rotate(t *testing.T, r *keyring.Ring, now time.Time) *keyring.Change {
	t.Helper()
	c, err := r.Rotate(now, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func revoke(t *testing.T, r *keyring.Ring, now time.Time, id string) *keyring.Change {
	t.Helper()
	c, err := r.Revoke(now, id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func until(t *testing.T, r *keyring.Ring, id string) time.Time {
	t.Helper()
	k := r.Key(id)
	if k == nil {
		t.Fatalf("no key %s", id)
	}
	u, _ := k.OpenUntil()
	return u
}

func ids(r *keyring.Ring) string {
	var s []string
	for _, k := range r.Keys() {
		s = append(s, strings.TrimPrefix(k.ID(), "2026-11-30"))
	}
	return strings.Join(s, " ")
}

func TestRotate(t *testing.T) {
	r := newRing(t, nil)
	before := string(r.Marshal())
	now := start.Add(time.Hour)
	c := rotate(t, r, now)
	if string(r.Marshal()) != before {
		t.Error("the old ring changed")
	}
	from := now.Add(lead)
	if !c.Changed() || c.Ring.Serial() != 2 || ids(c.Ring) != "a b" || c.Added != "2026-11-30b" || !c.SealFrom.Equal(from) || c.Lost != 0 {
		t.Errorf("%+v\n%s", c, c.Ring.Marshal())
	}
	if got := until(t, c.Ring, "2026-11-30a"); !got.Equal(from.Add(10*time.Minute + 24*time.Hour)) {
		t.Errorf("open_until of the old key is %v", got)
	}
	if got := until(t, c.Ring, "2026-11-30b"); !got.IsZero() {
		t.Errorf("open_until of the new key is %v", got)
	}
	for at, want := range map[time.Time]string{now: "a", from.Add(-1): "a", from: "b", from.Add(time.Hour): "b"} {
		if got := sealing(t, c.Ring, at); got != "2026-11-30"+want {
			t.Errorf("at %v seals %s", at, got)
		}
	}

	// Again while b is pending: b is closed as well, a is not moved.
	aUntil := until(t, c.Ring, "2026-11-30a")
	c2 := rotate(t, c.Ring, now.Add(time.Minute))
	if got := until(t, c2.Ring, "2026-11-30a"); !got.Equal(aUntil) {
		t.Errorf("open_until of a moved to %v", got)
	}
	if got := until(t, c2.Ring, "2026-11-30b"); !got.Equal(aUntil.Add(time.Minute)) {
		t.Errorf("open_until of the pending key is %v", got)
	}

	// A key leaves only when it is past its open_until by more than skew.
	c3 := rotate(t, c2.Ring, aUntil.Add(time.Minute))
	if len(c3.Removed) != 0 || c3.Ring.Key("2026-11-30a") == nil {
		t.Error("a left within skew")
	}
	c3 = rotate(t, c2.Ring, aUntil.Add(time.Minute+time.Second))
	if !slices.Equal(c3.Removed, []string{"2026-11-30a"}) || c3.Ring.Key("2026-11-30a") != nil {
		t.Error("a did not leave")
	}
	if c3.Added != "2026-12-01a" {
		t.Errorf("id of the next day is %s", c3.Added)
	}
}

// Times that are not whole seconds round up: later is safe, earlier is not.
func TestRotateRoundsUp(t *testing.T) {
	r := newRing(t, &keyring.RingOptions{Propagation: 100 * time.Second}) // a third is 33.3 s
	c := rotate(t, r, start)
	if want := start.Add(194 * time.Second); !c.SealFrom.Equal(want) {
		t.Errorf("seal_from %v, want %v", c.SealFrom, want)
	}
}

// A writer whose clock is behind does not schedule its key before one that another
// writer has scheduled.
func TestRotateKeepsTheOrder(t *testing.T) {
	c := rotate(t, newRing(t, nil), start)
	c2 := rotate(t, c.Ring, start.Add(-time.Minute))
	if !c2.SealFrom.Equal(c.SealFrom) || sealing(t, c2.Ring, c.SealFrom) != c2.Added {
		t.Errorf("seal_from %v after %v", c2.SealFrom, c.SealFrom)
	}
}

func TestRotateEvery(t *testing.T) {
	r := newRing(t, nil)
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{
		{0, false}, {time.Hour, false}, {23 * time.Hour, false},
		{24*time.Hour - time.Minute, true}, // by timer, a little early
		{24 * time.Hour, true}, {48 * time.Hour, true},
	} {
		c, err := r.Rotate(start.Add(tc.after+lead-time.Minute), 24*time.Hour) // new is counted from seal_from - lead
		if err != nil || c.Changed() != tc.want || (c.Ring == r) == tc.want {
			t.Errorf("after %v: changed %v, %v", tc.after, c.Changed(), err)
		}
	}
	// The pending key counts: all other replicas find it and leave it at that.
	now := start.Add(30 * time.Hour)
	c, _ := r.Rotate(now, 24*time.Hour)
	for _, d := range []time.Duration{-time.Minute, 0, time.Minute, time.Hour, 23 * time.Hour} {
		if again, err := c.Ring.Rotate(now.Add(d), 24*time.Hour); err != nil || again.Changed() {
			t.Errorf("%v later: rotated again, %v", d, err)
		}
	}
	// A timer with the same period rotates each time, not every second time.
	for range 5 {
		now = now.Add(24*time.Hour - 3*time.Second)
		if c, _ = c.Ring.Rotate(now, 24*time.Hour); !c.Changed() {
			t.Fatal("a daily timer missed its turn")
		}
	}
	if _, err := r.Rotate(start, -1); err == nil {
		t.Error("a negative period is accepted")
	}
}

// If nothing seals and nothing is going to, the new key does at once.
func TestRotateAfterAnOutage(t *testing.T) {
	dead := mustParse(t, doc(`[{"id":"a","secret":"`+b64(1)+`","seal_from":100,"open_until":900}]`))
	c := rotate(t, dead, start)
	if sealing(t, c.Ring, start) != c.Added || ids(c.Ring) != "a" {
		t.Errorf("%s", c.Ring.Marshal())
	}
	ahead := mustParse(t, doc(`[{"id":"a","secret":"`+b64(1)+`","seal_from":1796100000}]`))
	if c := rotate(t, ahead, start); c.SealFrom.Unix() < 1796100000 {
		t.Error("a key was put before the one that is scheduled")
	}
}

func TestIDsAfterZ(t *testing.T) {
	r := newRing(t, nil)
	for range 27 {
		r = rotate(t, r, start).Ring
	}
	if k := r.Keys(); k[25].ID() != "2026-11-30z" || k[26].ID() != "2026-11-30aa" || k[27].ID() != "2026-11-30ab" {
		t.Error(ids(r))
	}
}
