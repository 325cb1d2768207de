package foil_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/codectest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/signed"
)

// twoCodecs are the codecs of one service's two formats.
func (b *bench) twoCodecs(t *testing.T, ring *keyring.Ring) (*aesgcm.Codec, *signed.Codec) {
	t.Helper()
	v1, err := aesgcm.New(keyring.Fixed(ring), &aesgcm.Options{Now: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	h1, err := signed.New(keyring.Fixed(ring), &signed.Options{Now: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	return v1, h1
}

func newRing(t *testing.T) *keyring.Ring { return ringOf(t, epoch) }

// startedRing is one for the clock on the wall.
func startedRing(t *testing.T) *keyring.Ring { return ringOf(t, time.Now()) }

func ringOf(t *testing.T, now time.Time) *keyring.Ring {
	t.Helper()
	r, err := keyring.NewRing(now, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bench) migrate(t *testing.T, to, from foil.Codec, until time.Time) *foil.Migration {
	t.Helper()
	m, err := foil.Migrate(to, from, until, &foil.MigrateOptions{Now: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMigrateUntilTheDate(t *testing.T) {
	b := newBench(t, nil)
	v1, h1 := b.twoCodecs(t, newRing(t))
	until := epoch.Add(5 * time.Minute)
	store := durable{replay.NewMemory(&replay.MemoryOptions{Now: b.clock})}
	with := func(c foil.Codec) *foil.Guard {
		return b.guard(t, c, func(o *foil.Options) { o.Replay = store })
	}
	old, moving := with(h1), with(b.migrate(t, v1, h1, until))
	seal := func(g *foil.Guard) string {
		token, err := g.Seal(ctx, purge(), confirm())
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	open := func(g *foil.Guard, token string) error {
		_, err := g.Open(ctx, purge(), token)
		return err
	}

	first, second, third := seal(old), seal(old), seal(old)
	fresh := seal(moving)
	if !strings.HasPrefix(first, "h1.") || !strings.HasPrefix(fresh, "v1.") {
		t.Fatalf("the old format begins %.3s, the new one %.3s", first, fresh)
	}
	for _, token := range []string{first, fresh} {
		if err := open(moving, token); err != nil {
			t.Errorf("%.3s: %v", token, err)
		}
		wantReason(t, open(moving, token), foil.ReasonReplayed) // single use is over both formats
	}
	wantReason(t, open(old, seal(moving)), foil.ReasonMalformed) // why the order of a rollout matters

	b.now = until.Add(-time.Nanosecond)
	if err := open(moving, second); err != nil {
		t.Errorf("just before the date: %v", err)
	}
	b.now = until
	b.log.Reset()
	wantReason(t, open(moving, third), foil.ReasonMalformed)
	if kid := h1.KeyID(third); !strings.Contains(b.log.String(), "kid="+kid) {
		t.Errorf("the log does not name the old format's key: %s", b.log.String())
	}
	if err := open(moving, seal(moving)); err != nil {
		t.Errorf("the new format after the date: %v", err)
	}
	if err := open(old, third); err != nil { // it was not spent
		t.Errorf("the old Guard: %v", err)
	}
}

// The first step of a rollout: seal as before, open what is to come.
func TestMigrateBothWays(t *testing.T) {
	b := newBench(t, nil)
	v1, h1 := b.twoCodecs(t, newRing(t))
	step1, step2 := b.migrate(t, h1, v1, epoch.Add(time.Hour)), b.migrate(t, v1, h1, epoch.Add(time.Hour))
	for _, pair := range [][2]foil.Codec{{step1, step2}, {step2, step1}, {h1, step1}, {h1, step2}, {v1, step2}, {step1, h1}, {step2, v1}} {
		token, err := pair[0].Seal(ctx, []byte("x"), epoch)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pair[1].Open(ctx, token); err != nil || string(got) != "x" {
			t.Errorf("%v to %v: %q, %v", pair[0], pair[1], got, err)
		}
	}
}

// A prefix chooses among the two formats and enables no third one.
func TestMigrateOpensNoOtherFormat(t *testing.T) {
	b := newBench(t, nil)
	v1, h1 := b.twoCodecs(t, newRing(t))
	m := b.migrate(t, v1, h1, epoch.Add(time.Hour))
	token, err := v1.Seal(ctx, []byte("x"), epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "v", "v1", "h1", "r1." + token[3:], "V1." + token[3:], " " + token, "vault:v1:AAAA", forge("x"), token[3:]} {
		payload, err := m.Open(ctx, text)
		if payload != nil || foil.ReasonOf(err) != foil.ReasonMalformed {
			t.Errorf("%q: %q, %v", text, payload, err)
		}
		if kid := m.KeyID(text); kid != "" {
			t.Errorf("KeyID(%q) = %q", text, kid)
		}
	}
	wantReason(t, second(m.Open(ctx, "h1."+token[3:])), foil.ReasonMalformed)
}

func second(_ []byte, err error) error { return err }

// What seals decides whether a claim check may be in a state.
func TestMigrateEncryptsAsItSeals(t *testing.T) {
	b := newBench(t, nil)
	v1, h1 := b.twoCodecs(t, newRing(t))
	claim := foil.Outgoing{State: claimcheck.Prefix + "x"}
	toV1 := b.guard(t, b.migrate(t, v1, h1, epoch.Add(time.Hour)), nil)
	if _, err := toV1.Seal(ctx, purge(), claim); err != nil {
		t.Errorf("to the encrypting codec: %v", err)
	}
	toH1 := b.guard(t, b.migrate(t, h1, v1, epoch.Add(time.Hour)), nil)
	if token, err := toH1.Seal(ctx, purge(), claim); err == nil || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("to the readable codec: %q, %v; want a server's mistake", token, err)
	}
}

// limited is a codec that only has limits.
type limited struct {
	foil.Codec
	prefix string
	limits foil.KeyLimits
}

func (l limited) Prefix() string            { return l.prefix }
func (l limited) KeyLimits() foil.KeyLimits { return l.limits }

func TestMigrateKeyLimits(t *testing.T) {
	type limits = foil.KeyLimits
	for _, test := range []struct{ to, from, want limits }{
		{limits{}, limits{}, limits{}},
		{limits{MaxTTL: 5, Skew: 2}, limits{MaxTTL: 7, Skew: 1}, limits{MaxTTL: 5, Skew: 2}},
		{limits{MaxTTL: 7, Skew: 1}, limits{MaxTTL: 5, Skew: 2}, limits{MaxTTL: 5, Skew: 2}},
		{limits{MaxTTL: 7}, limits{}, limits{MaxTTL: 7}},
		{limits{}, limits{MaxTTL: 7}, limits{MaxTTL: 7}},
		{limits{Interop: true}, limits{}, limits{Interop: true}},
		{limits{}, limits{Interop: true}, limits{Interop: true}},
		{limits{Ephemeral: true}, limits{}, limits{}},
		{limits{}, limits{Ephemeral: true}, limits{}},
		{limits{Ephemeral: true}, limits{Ephemeral: true}, limits{Ephemeral: true}},
	} {
		b := newBench(t, nil)
		m := b.migrate(t, limited{nil, "a.", test.to}, limited{nil, "b.", test.from}, epoch.Add(time.Hour))
		if got := m.KeyLimits(); got != test.want {
			t.Errorf("to %+v from %+v: %+v, want %+v", test.to, test.from, got, test.want)
		}
		b.now = epoch.Add(time.Hour)
		if got := m.KeyLimits(); got != test.to {
			t.Errorf("to %+v from %+v, after the date: %+v", test.to, test.from, got)
		}
	}
	// A Guard goes by them: the memory store would forget what the old keys open.
	b := newBench(t, nil)
	_, h1 := b.twoCodecs(t, newRing(t))
	m := b.migrate(t, aesgcm.Ephemeral(), h1, epoch.Add(time.Hour))
	if _, err := foil.New(m, &foil.Options{Audience: "storage", Replay: replay.NewMemory(nil)}); err == nil {
		t.Error("a memory of spent tokens with keys that outlive it")
	}
}

func TestMigrateRefusesWhatIsUnclear(t *testing.T) {
	b := newBench(t, nil)
	v1, h1 := b.twoCodecs(t, newRing(t))
	until := epoch.Add(time.Hour)
	for _, test := range []struct {
		name     string
		to, from foil.Codec
		until    time.Time
		want     string
	}{
		{"no date", v1, h1, time.Time{}, "date"},
		{"no new codec", nil, h1, until, "nil"},
		{"no old codec", v1, nil, until, "nil"},
		{"no prefix", plain{}, h1, until, "prefix"},
		{"no prefix either", v1, plain{}, until, "prefix"},
		{"empty prefix", v1, limited{prefix: ""}, until, "prefix"},
		{"one format", v1, aesgcm.Ephemeral(), until, "rotate its ring"},
		{"prefix of the other", limited{prefix: "v1.x"}, v1, until, "apart"},
		{"the other's prefix", v1, limited{prefix: "v1.x"}, until, "apart"},
		{"two at once", v1, b.migrate(t, v1, h1, until), until, "prefix"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := foil.Migrate(test.to, test.from, test.until, nil)
			if m != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, %v; want an error with %q", m, err, test.want)
			}
		})
	}
	if _, err := foil.Migrate(v1, h1, time.Unix(1, 0), nil); err != nil {
		t.Errorf("a date that is over: %v", err)
	}
}

func TestMigrationPrintsNoKey(t *testing.T) {
	b := newBench(t, nil)
	v1, h1 := b.twoCodecs(t, newRing(t))
	m := b.migrate(t, v1, h1, epoch.Add(time.Hour))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if s := fmt.Sprintf(verb, m); s != "foil.Migration to v1. from h1." {
			t.Errorf("%s prints %q", verb, s)
		}
	}
}

func TestMigrationConformance(t *testing.T) {
	for name, swap := range map[string]bool{"to aesgcm": false, "to signed": true} {
		t.Run(name, func(t *testing.T) {
			codectest.Run(t, func(t *testing.T) *codectest.Harness {
				open := func(ring *keyring.Ring) foil.Codec {
					v1, err := aesgcm.New(keyring.Fixed(ring), nil)
					if err != nil {
						t.Fatal(err)
					}
					h1, err := signed.New(keyring.Fixed(ring), nil)
					if err != nil {
						t.Fatal(err)
					}
					to, from := foil.Codec(v1), foil.Codec(h1)
					if swap {
						to, from = from, to
					}
					m, err := foil.Migrate(to, from, time.Now().Add(time.Hour), nil)
					if err != nil {
						t.Fatal(err)
					}
					return m
				}
				ring := startedRing(t)
				return &codectest.Harness{
					Codec: open(ring),
					Peer:  func(*testing.T) foil.Codec { return open(ring) },
					Other: func(*testing.T) foil.Codec { return open(startedRing(t)) },
					// Rings and sources are the parts' own, and tested there.
					SoleFormat: true, CannotRevoke: true, CannotBreak: true,
				}
			})
		})
	}
}
