package keyring_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
)

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
