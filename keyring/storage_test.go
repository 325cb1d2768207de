package keyring_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

// storageDoc returns the document of a storage ring.
func storageDoc(serial int, keys string) string {
	return fmt.Sprintf(`{"version":1,"serial":%d,"interop":false,"storage":true,"propagation":300,"skew":60,"max_ttl":600,"keep":0,"keys":%s,"revoked":[]}`, serial, keys)
}

func newStorage(t *testing.T) *keyring.Ring {
	t.Helper()
	return newRing(t, &keyring.RingOptions{Storage: true})
}

func drop(t *testing.T, r *keyring.Ring, now time.Time, id string) *keyring.Change {
	t.Helper()
	c, err := r.Drop(now, id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStorageDocument(t *testing.T) {
	r := newStorage(t)
	if !r.Storage() || r.Interop() || r.Keep() != 0 {
		t.Errorf("storage %t, interop %t, keep %v", r.Storage(), r.Interop(), r.Keep())
	}
	again := mustParse(t, string(r.Marshal()))
	if !again.Storage() || string(again.Marshal()) != string(r.Marshal()) {
		t.Errorf("reads back as\n%s", again.Marshal())
	}
	// Documents from before there were storage rings mean what they meant.
	plain := mustParse(t, doc(oneKey(`,"seal_from":1`)))
	if plain.Storage() || strings.Contains(string(plain.Marshal()), "storage") {
		t.Errorf("a ring for tokens: storage %t\n%s", plain.Storage(), plain.Marshal())
	}
	good := storageDoc(7, oneKey(`,"seal_from":1`))
	if !mustParse(t, good).Storage() || mustParse(t, strings.Replace(good, "true", "false", 1)).Storage() {
		t.Error("storage is not what the document says")
	}
	for _, tc := range []struct{ name, old, new, says string }{
		{"number", `"storage":true`, `"storage":1`, "storage must be true or false"},
		{"null", `"storage":true`, `"storage":null`, "storage must be true or false"},
		{"text", `"storage":true`, `"storage":"true"`, "storage must be true or false"},
		{"twice", `"storage":true`, `"storage":true,"storage":true`, "duplicate"},
		{"interop", `"interop":false`, `"interop":true`, "exclude each other"},
		{"keep", `"keep":0`, `"keep":86400`, "keep must be 0"},
		{"open_until", `"seal_from":1`, `"seal_from":1,"open_until":2`, "open_until is not for a storage ring"},
		{"staged", `,"seal_from":1`, ``, "seal_from is missing"},
	} {
		if _, err := keyring.Parse([]byte(strings.Replace(good, tc.old, tc.new, 1))); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want an error that says %q", tc.name, err, tc.says)
		}
	}
	for _, o := range []keyring.RingOptions{
		{Storage: true, Interop: true}, {Storage: true, MaxTTL: time.Minute}, {Storage: true, Keep: time.Hour},
	} {
		if _, err := keyring.NewRing(start, &o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// Each key opens for good; each seals from when every replica knows it.
func TestStorageRotate(t *testing.T) {
	r := newStorage(t)
	now := start
	for _, id := range []string{"2026-11-30b", "2026-11-30c", "2026-11-30d"} {
		now = now.Add(time.Hour)
		c := rotate(t, r, now)
		if c.Added != id || !c.SealFrom.Equal(now.Add(lead)) || len(c.Removed) != 0 {
			t.Errorf("%+v", c)
		}
		if got := sealing(t, c.Ring, now.Add(lead-time.Second)); got == id {
			t.Errorf("%s seals before every replica knows it", got)
		}
		if got := sealing(t, c.Ring, now.Add(lead)); got != id {
			t.Errorf("%s seals, want %s", got, id)
		}
		r = c.Ring
	}
	// Rotations of a century take no key away.
	late := start.AddDate(100, 0, 0)
	r = rotate(t, r, late).Ring
	if len(r.Keys()) != 5 {
		t.Errorf("keys %s", ids(r))
	}
	for _, k := range r.Keys() {
		if _, ok := k.OpenUntil(); ok || !k.Opens(late) || !k.Opens(late.AddDate(100, 0, 0)) {
			t.Errorf("%v does not open for good", k)
		}
	}
	if c, err := r.Rotate(late.Add(time.Hour), 24*time.Hour); err != nil || c.Changed() {
		t.Errorf("rotated early: %+v, %v", c, err)
	}
	for _, step := range []func(time.Time) (*keyring.Change, error){r.Stage, r.Activate} {
		if _, err := step(late); !errors.Is(err, keyring.ErrInterop) {
			t.Errorf("a step of an interop ring: %v", err)
		}
	}
	if text, err := r.ExportPython(late); text != "" || !errors.Is(err, keyring.ErrInterop) {
		t.Errorf("export: %v", err)
	}
}

func TestDrop(t *testing.T) {
	const a, b = "2026-11-30a", "2026-11-30b"
	r := newStorage(t)
	wants := func(what string, r *keyring.Ring, now time.Time, id string, want error) {
		t.Helper()
		before := string(r.Marshal())
		if c, err := r.Drop(now, id); c != nil || !errors.Is(err, want) {
			t.Errorf("%s: %+v, %v; want %v", what, c, err, want)
		}
		if string(r.Marshal()) != before {
			t.Errorf("%s: the ring changed", what)
		}
	}
	wants("the only key", r, start.AddDate(1, 0, 0), a, keyring.ErrNoStep)
	wants("unknown", r, start, "nope", keyring.ErrUnknownKey)
	wants("a ring for tokens", newRing(t, nil), start, a, keyring.ErrStorage)

	r = rotate(t, r, start).Ring
	from := start.Add(lead)
	wants("sealing, with a successor", r, from.Add(-time.Second), a, keyring.ErrTooEarly)
	wants("pending", r, from.Add(-time.Second), b, keyring.ErrNoStep)
	wants("sealing", r, from.AddDate(1, 0, 0), b, keyring.ErrNoStep)
	wants("superseded a moment ago", r, from, a, keyring.ErrTooEarly)
	safe := from.Add(r.Propagation() + r.Skew())
	wants("a late replica may seal", r, safe.Add(-time.Second), a, keyring.ErrTooEarly)
	c := drop(t, r, safe, a)
	if !c.Changed() || ids(c.Ring) != "b" || c.Ring.Serial() != r.Serial()+1 || len(c.Removed) != 1 || c.Removed[0] != a || c.Revoked != "" {
		t.Errorf("%+v: keys %s", c, ids(c.Ring))
	}
	if err := keyring.CheckUpdate(r, c.Ring); err != nil {
		t.Error(err)
	}
	if sealing(t, c.Ring, safe) != b || ids(r) != "a b" {
		t.Errorf("%s seals; the old ring has %s", sealing(t, c.Ring, safe), ids(r))
	}
}

// A key that was superseded never seals again, whatever is dropped.
func TestDropRevoked(t *testing.T) {
	const a, b, last = "2026-11-30a", "2026-11-30b", "2026-11-30c"
	r := rotate(t, newStorage(t), start).Ring
	now := start.Add(time.Hour)
	c, err := r.RevokeStored(now, b)
	if err != nil {
		t.Fatal(err)
	}
	r = c.Ring
	if _, err := r.Drop(now, b); !errors.Is(err, keyring.ErrTooEarly) {
		t.Errorf("the key that was revoked a moment ago: %v", err)
	}
	now = now.Add(time.Hour)
	r = drop(t, r, now, b).Ring
	if ids(r) != "a c" || sealing(t, r, now) != last {
		t.Errorf("keys %s, %s seals", ids(r), sealing(t, r, now))
	}
	if got := r.RevokedIDs(); len(got) != 1 || got[0] != b {
		t.Errorf("revoked %v", got)
	}
	r = drop(t, r, now, a).Ring
	if ids(r) != "c" || sealing(t, r, now) != last {
		t.Errorf("keys %s, %s seals", ids(r), sealing(t, r, now))
	}
	// In force, revoked, and nothing after it: without it its predecessor would seal.
	two := mustParse(t, strings.Replace(storageDoc(7, `[{"id":"a","secret":"`+b64(1)+`","seal_from":1},{"id":"b","secret":"`+b64(2)+`","seal_from":2}]`),
		`"revoked":[]`, `"revoked":["b"]`, 1))
	if _, err := two.Drop(now, "b"); !errors.Is(err, keyring.ErrNoStep) {
		t.Errorf("the key in force, revoked: %v", err)
	}
}

func TestRevokeStored(t *testing.T) {
	const a, b = "2026-11-30a", "2026-11-30b"
	r := newStorage(t)
	now := start.Add(time.Hour)
	if c, err := r.Revoke(now, a); c != nil || !errors.Is(err, keyring.ErrStorage) {
		t.Errorf("Revoke of a storage ring: %+v, %v", c, err)
	}
	if c, err := newRing(t, nil).RevokeStored(now, a); c != nil || !errors.Is(err, keyring.ErrStorage) {
		t.Errorf("RevokeStored of a ring for tokens: %+v, %v", c, err)
	}
	if _, err := r.Revoke(now, "nope"); !errors.Is(err, keyring.ErrUnknownKey) {
		t.Errorf("Revoke of an unknown key: %v", err)
	}
	c, err := r.RevokeStored(now, a)
	if err != nil {
		t.Fatal(err)
	}
	if c.Revoked != a || c.Added != b || !c.SealFrom.Equal(now.Add(-time.Minute)) || c.Lost != 0 {
		t.Errorf("%+v", c)
	}
	if k := c.Ring.Key(a); !k.Revoked() || k.Opens(now) || sealing(t, c.Ring, now) != b {
		t.Errorf("%v opens %t, %s seals", k, k.Opens(now), sealing(t, c.Ring, now))
	}
	if until := until(t, c.Ring, a); !until.IsZero() {
		t.Errorf("the revoked key got an open_until of %v", until)
	}
	if c, err := c.Ring.RevokeStored(now, a); err != nil || c.Changed() {
		t.Errorf("again: %+v, %v", c, err)
	}
	if _, err := c.Ring.RevokeStored(now, "nope"); !errors.Is(err, keyring.ErrUnknownKey) {
		t.Errorf("unknown: %v", err)
	}
	// One that does not seal yet leaves at once; its predecessor goes on.
	r = rotate(t, r, now).Ring
	if c, err = r.RevokeStored(now, b); err != nil {
		t.Fatal(err)
	}
	if ids(c.Ring) != "a" || sealing(t, c.Ring, now.Add(24*time.Hour)) != a {
		t.Errorf("keys %s", ids(c.Ring))
	}
}
