package python_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/keyring"
)

// restarted is a Python replica that reads the ring's export when it starts, and
// never again.
func restarted(t *testing.T, ring *keyring.Ring, now time.Time) *peer {
	t.Helper()
	py := newPeer(t)
	export, err := ring.ExportPython(now)
	if err != nil {
		t.Fatal(err)
	}
	py.ask1(t, request{Op: "start", Export: []byte(export)})
	return py
}

func interopRing(t *testing.T, now time.Time) *keyring.Ring {
	t.Helper()
	ring, err := keyring.NewRing(now, &keyring.RingOptions{Interop: true})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// A generation is what replicas have that know one version of the ring.
type generation struct {
	ring *keyring.Ring
	py   *peer
}

// A minted token is one on its way through a client.
type minted struct {
	token string
	by    string
	until time.Time
}

// TestRotationByHand runs a fleet of Python and Go replicas through stage,
// activate and retire. While a step is rolled out, some replicas have the list of
// the step before and some the new one; every token that any of them seals must
// open on all of them until it expires.
func TestRotationByHand(t *testing.T) {
	environment(t)
	c := bases()[0]
	now := epoch
	var live []minted
	opened := 0

	// traffic lets every replica seal a token and open all live ones.
	traffic := func(step string, fleet ...generation) {
		t.Helper()
		c.now = now
		var alive []minted
		for _, m := range live {
			if now.Before(m.until) {
				alive = append(alive, m)
			}
		}
		live = alive
		for _, g := range fleet {
			seal := c.python("seal", "")
			seal.Keys = nil
			live = append(live, minted{g.py.ask1(t, seal).Token, step + ", Python", now.Add(ttl)})
			guard, _ := c.guardOf(t, g.ring, nil)
			token, err := guard.Seal(ctx, c.request(), foil.Outgoing{State: c.state})
			if err != nil {
				t.Fatalf("%s: foil seals: %v", step, err)
			}
			live = append(live, minted{token, step + ", foil", now.Add(ttl)})
		}
		for _, g := range fleet {
			guard, _ := c.guardOf(t, g.ring, nil)
			var requests []request
			for _, m := range live {
				if _, err := guard.Open(ctx, c.request(), m.token); err != nil {
					t.Errorf("%s: serial %d on foil refuses a token of %s: %v", step, g.ring.Serial(), m.by, err)
				}
				open := c.python("open", m.token)
				open.Keys = nil
				requests = append(requests, open)
			}
			for i, r := range g.py.ask(t, requests...) {
				if r.Refused != "" {
					t.Errorf("%s: serial %d on Python refuses a token of %s: %s", step, g.ring.Serial(), live[i].by, r.Refused)
				}
				opened += 2
			}
		}
	}
	must := func(ch *keyring.Change, err error) *keyring.Ring {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return ch.Ring
	}
	// rollOut runs the fleet while it moves from one generation to the next.
	rollOut := func(step string, old generation, ring *keyring.Ring) generation {
		t.Helper()
		fresh := generation{ring, restarted(t, ring, now)}
		for range 3 {
			traffic(step, old, fresh)
			now = now.Add(2 * time.Minute)
		}
		if old.ring.Serial() > 1 { // the first is needed at the end
			old.py.stop()
		}
		for range 6 {
			traffic("after "+step, fresh)
			now = now.Add(2 * time.Minute)
		}
		return fresh
	}

	ring := interopRing(t, now)
	g := generation{ring, restarted(t, ring, now)}
	traffic("start", g)
	first := g
	g = rollOut("stage", g, must(g.ring.Stage(now)))
	g = rollOut("activate", g, must(g.ring.Activate(now)))
	if _, err := g.ring.Retire(now, false); !errors.Is(err, keyring.ErrTooEarly) {
		t.Errorf("retire while tokens of the old key may be under way: %v", err)
	}
	now = now.Add(time.Minute) // from here on it is allowed
	g = rollOut("retire", g, must(g.ring.Retire(now, false)))
	if keys := g.ring.Keys(); len(keys) != 1 || keys[0].ID() == first.ring.Keys()[0].ID() {
		t.Errorf("the rotation ends with %d keys", len(keys))
	}
	t.Logf("%d openings", opened)

	// The test can fail: a replica that missed the steps opens nothing new.
	open := c.python("open", live[len(live)-1].token)
	open.Keys = nil
	wantRefused(t, "a replica that was never restarted", first.py.ask1(t, open), "unknown key")
}

// What is exported opens what the ring seals, and the other way round.
func TestExportedRing(t *testing.T) {
	py := thePeer(t)
	staged, err := interopRing(t, epoch).Stage(epoch)
	if err != nil {
		t.Fatal(err)
	}
	ring := staged.Ring
	export, err := ring.ExportPython(epoch)
	if err != nil || strings.Count(export, "bytes.fromhex") != 2 {
		t.Fatalf("the export has not both keys: %v", err)
	}
	py.ask1(t, request{Op: "start", Export: []byte(export)})
	for _, c := range calls() {
		if c.principal != nil { // the export leaves the binding to the login
			continue
		}
		c.now = epoch
		guard, _ := c.guardOf(t, ring, nil)
		token, err := guard.Seal(ctx, c.request(), foil.Outgoing{State: c.state, Questions: []byte(c.questions)})
		if err != nil {
			t.Fatal(err)
		}
		open, seal := c.python("open", token), c.python("seal", "")
		open.Keys, seal.Keys = nil, nil
		replies := py.ask(t, open, seal)
		wantState(t, replies[0], c.state)
		if o, err := guard.Open(ctx, c.request(), replies[1].Token); err != nil || o.State() != c.state {
			t.Errorf("%s: foil opens: %v", c.name, err)
		}
	}
}
