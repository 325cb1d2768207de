package keyring_test

import (
	"errors"
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

func TestInteropRotation(t *testing.T) {
	r := newRing(t, &keyring.RingOptions{Interop: true})
	seals := func(r *keyring.Ring, now time.Time, want string) {
		t.Helper()
		if got := sealing(t, r, now); got != "2026-11-30"+want {
			t.Errorf("seals %s, want %s", got, want)
		}
		py, err := r.ExportPython(now)
		if err != nil || !strings.Contains(py, "# 2026-11-30"+want+", seals") {
			t.Errorf("export does not seal with %s: %v", want, err)
		}
	}
	if _, err := r.Rotate(start, 0); !errors.Is(err, keyring.ErrInterop) {
		t.Error(err)
	}
	if _, err := r.Activate(start); !errors.Is(err, keyring.ErrNoStep) {
		t.Error("activate without stage:", err)
	}
	if _, err := r.Retire(start.Add(time.Hour), false); !errors.Is(err, keyring.ErrNoStep) {
		t.Error("retire without activate:", err)
	}

	staged, err := r.Stage(start)
	if err != nil {
		t.Fatal(err)
	}
	b := staged.Ring.Key("2026-11-30b")
	if staged.Ring.Serial() != 2 || !b.SealFrom().IsZero() || !b.Opens(start) || !staged.SealFrom.IsZero() {
		t.Errorf("%+v", staged)
	}
	seals(staged.Ring, start.Add(10000*time.Hour), "a")
	if _, err := staged.Ring.Stage(start); !errors.Is(err, keyring.ErrNoStep) {
		t.Error("staged twice:", err)
	}

	now := start.Add(time.Hour)
	active, err := staged.Ring.Activate(now)
	if err != nil {
		t.Fatal(err)
	}
	if active.Ring.Serial() != 3 || active.Added != "2026-11-30b" || !active.SealFrom.Equal(now.Add(lead)) || !until(t, active.Ring, "2026-11-30a").IsZero() {
		t.Errorf("%+v", active)
	}
	if sealing(t, active.Ring, now) != "2026-11-30a" {
		t.Error("a replica that refreshes late may not know the staged key yet")
	}
	if py, _ := active.Ring.ExportPython(now); !strings.Contains(py, "30b, seals") || !strings.Contains(py, "30a, opens") {
		t.Error("a replica that is restarted now must be given the new key first")
	}
	seals(active.Ring, active.SealFrom, "b")
	if _, err := active.Ring.Stage(now); !errors.Is(err, keyring.ErrNoStep) {
		t.Error("staged while one waits:", err)
	}
	safe := active.SealFrom.Add(11 * time.Minute)
	for _, at := range []time.Time{now, active.SealFrom, safe.Add(-1)} {
		if _, err := active.Ring.Retire(at, false); !errors.Is(err, keyring.ErrTooEarly) {
			t.Errorf("retire at %v: %v", at, err)
		}
	}
	if _, err := active.Ring.Retire(now, true); !errors.Is(err, keyring.ErrTooEarly) {
		t.Error("force retires the key in force:", err)
	}
	if c, err := active.Ring.Retire(active.SealFrom, true); err != nil || ids(c.Ring) != "b" {
		t.Error("force does not retire:", err)
	}
	retired, err := active.Ring.Retire(safe, false)
	if err != nil {
		t.Fatal(err)
	}
	if ids(retired.Ring) != "b" || !slices.Equal(retired.Removed, []string{"2026-11-30a"}) || retired.Ring.Serial() != 4 {
		t.Errorf("%+v", retired)
	}
	seals(retired.Ring, safe, "b")

	for name, step := range map[string]func(*keyring.Ring) error{
		"stage":    func(r *keyring.Ring) error { _, err := r.Stage(start); return err },
		"activate": func(r *keyring.Ring) error { _, err := r.Activate(start); return err },
		"retire":   func(r *keyring.Ring) error { _, err := r.Retire(start, true); return err },
		"export":   func(r *keyring.Ring) error { _, err := r.ExportPython(start); return err },
	} {
		if err := step(newRing(t, nil)); !errors.Is(err, keyring.ErrInterop) {
			t.Errorf("%s on a ring that is not interop: %v", name, err)
		}
	}
}

// At every step, with replicas on the lists of this step and of the one before, what
// one seals every other opens.
func TestInteropStepsAreSafe(t *testing.T) {
	r := newRing(t, &keyring.RingOptions{Interop: true})
	a := r
	b, _ := a.Stage(start)
	c, _ := b.Ring.Activate(start.Add(time.Hour))
	now := c.SealFrom.Add(time.Hour)
	d, err := c.Ring.Retire(now, false)
	if err != nil {
		t.Fatal(err)
	}
	rings := []*keyring.Ring{a, b.Ring, c.Ring, d.Ring}
	for i := 1; i < len(rings); i++ {
		for _, pair := range [][2]*keyring.Ring{{rings[i-1], rings[i]}, {rings[i], rings[i-1]}} {
			py, err := pair[0].ExportPython(now)
			if err != nil {
				t.Fatal(err)
			}
			line := strings.Split(py, "\n")[2] // the first key
			id := line[strings.Index(line, "# ")+2 : strings.Index(line, ", seals")]
			if k := pair[1].Key(id); k == nil || !k.Opens(now) {
				t.Errorf("step %d: %s seals and the other replica does not open it", i, id)
			}
		}
	}
}

func TestInteropRevoke(t *testing.T) {
	r := newRing(t, &keyring.RingOptions{Interop: true})
	now := start.Add(time.Hour)
	c := revoke(t, r, now, "2026-11-30a")
	if sealing(t, c.Ring, now) != "2026-11-30b" {
		t.Error("no key took over")
	}
	py, _ := c.Ring.ExportPython(now)
	if strings.Contains(py, "2026-11-30a") || !strings.Contains(py, "b, seals") {
		t.Error(py)
	}
	// A staged key may be known to all already; it takes over.
	staged, _ := r.Stage(start)
	c = revoke(t, staged.Ring, now, "2026-11-30a")
	if sealing(t, c.Ring, now.Add(-time.Minute)) != "2026-11-30b" || len(c.Ring.Keys()) != 2 || c.Added != "2026-11-30b" {
		t.Errorf("%s", c.Ring.Marshal())
	}
	// The staged key itself.
	c = revoke(t, staged.Ring, now, "2026-11-30b")
	if ids(c.Ring) != "a" || sealing(t, c.Ring, now) != "2026-11-30a" || c.Lost != 0 {
		t.Errorf("%+v", c)
	}
	if again, err := c.Ring.Stage(now); err != nil || again.Added != "2026-11-30c" {
		t.Error("cannot stage another:", err)
	}
	// Activated and not in force yet.
	active, _ := staged.Ring.Activate(now)
	c = revoke(t, active.Ring, now, "2026-11-30b")
	if ids(c.Ring) != "a" || sealing(t, c.Ring, now.Add(time.Hour)) != "2026-11-30a" {
		t.Errorf("%+v", c)
	}
}

func TestExportPython(t *testing.T) {
	r, err := keyring.FromSecrets([]byte(strings.Repeat("k", 32)), []byte(strings.Repeat("m", 33)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.ExportPython(start)
	want := `# ring serial 1, 2026-11-30T12:00:00Z
RequestStateSecurity(keys=[
    bytes.fromhex("` + strings.Repeat("6b", 32) + `"),  # secret-1, seals
    bytes.fromhex("` + strings.Repeat("6d", 33) + `"),  # secret-2, opens
])
`
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
}
