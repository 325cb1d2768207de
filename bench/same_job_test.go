package bench

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// The comparison is worth nothing if a peer is let off a part of the work.

func TestReferenceRequest(t *testing.T) {
	if len(state) != 120 {
		t.Errorf("the state has %d bytes, want 120", len(state))
	}
	var arguments map[string]any
	if err := json.Unmarshal(reference.arguments, &arguments); err != nil || len(arguments) != 4 {
		t.Errorf("%d arguments, %v; want 4", len(arguments), err)
	}
}

func TestEveryContestantRefuses(t *testing.T) {
	ctx := context.Background()
	with := func(change func(*request)) *request {
		r := reference
		change(&r)
		return &r
	}
	for _, c := range contestants {
		t.Run(c.name, func(t *testing.T) {
			s, err := c.make()
			if err != nil {
				t.Fatal(err)
			}
			token, err := s.seal(ctx, &reference, state)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.open(ctx, &reference, token); err != nil || got != state {
				t.Fatalf("open = %q, %v", got, err)
			}
			if strings.Contains(token, "bucket") {
				t.Error("the state can be read")
			}
			middle := len(token) / 2
			for name, bad := range map[string]struct {
				req   *request
				token string
			}{
				"method": {with(func(r *request) { r.method = "prompts/get" }), token},
				"target": {with(func(r *request) { r.target = "purge_everything" }), token},
				"argument": {with(func(r *request) {
					r.arguments = []byte(`{"prefix":"logs/","max_bytes":1048576,"older_than":"720h","dry_run":false}`)
				}), token},
				"number": {with(func(r *request) {
					r.arguments = []byte(strings.Replace(string(reference.arguments), "1048576", "1048577", 1))
				}), token},
				"duplicate":    {with(func(r *request) { r.arguments = []byte(`{"a":1,"a":1}`) }), token},
				"principal":    {with(func(r *request) { r.principal = strings.Replace(r.principal, "4711", "4712", 1) }), token},
				"changed byte": {&reference, token[:middle] + flip(token[middle]) + token[middle+1:]},
				"cut":          {&reference, token[:len(token)-4]},
			} {
				if got, err := s.open(ctx, bad.req, bad.token); err == nil {
					t.Errorf("%s: opened %q", name, got)
				}
			}
		})
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// Peers encode the claims that foil encodes.
func TestPeersEncodeTheSameClaims(t *testing.T) {
	payload, err := referencePayload()
	if err != nil {
		t.Fatal(err)
	}
	peers, err := encode(&reference, state)
	if err != nil {
		t.Fatal(err)
	}
	keys := func(text []byte) []string {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(m))
	}
	if a, b := keys(payload), keys(peers); !slices.Equal(a, b) {
		t.Errorf("foil has %v, its peers %v", a, b)
	}
	// Base64 with padding is all that makes one longer than the other, and
	// the peers' times may have a few digits more or less.
	if d := len(peers) - len(payload); d < -32 || d > 32 {
		t.Errorf("foil encodes %d bytes, its peers %d", len(payload), len(peers))
	}
}

func TestPeersRefuseWhatIsTooOld(t *testing.T) {
	change := map[string]func(*wire){
		"expired":     func(w *wire) { w.Expires = seconds(time.Now()) },
		"flow":        func(w *wire) { w.Deadline = seconds(time.Now()) },
		"from later":  func(w *wire) { w.IssuedAt = seconds(time.Now().Add(skew + time.Minute)) },
		"round":       func(w *wire) { w.Round = maxRounds + 1 },
		"audience":    func(w *wire) { w.Audience = "payments" },
		"exact":       func(w *wire) { w.Exact[0]++ },
		"no identity": func(w *wire) { w.Principal = nil },
		"version":     func(w *wire) { w.Version++ },
	}
	for name, f := range change {
		w, err := mint(&reference, state)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.check(&reference); err != nil {
			t.Fatal(err)
		}
		if f(w); w.check(&reference) == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// The floor does all that it says.
func TestFloor(t *testing.T) {
	f, err := newFloor()
	if err != nil {
		t.Fatal(err)
	}
	token := slices.Clone(f.seal())
	g, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	real, err := g.Seal(context.Background(), f.payload, time.Time{})
	if err != nil || len(token) != len(real) {
		t.Errorf("the floor's token has %d bytes, foil's %d, %v", len(token), len(real), err)
	}
	payload, err := f.open(token)
	if err != nil || string(payload) != string(f.payload) {
		t.Fatalf("open = %q, %v", payload, err)
	}
	sums, err := digest(reference.arguments)
	if err != nil || f.sums[0] != sums.Python || f.sums[1] != sums.Exact {
		t.Errorf("sums %x are not foil's, %v", f.sums, err)
	}
	token[len(token)/2] ^= 1
	if _, err := f.open(token); err == nil {
		t.Error("a changed token was opened")
	}
	if n := testing.AllocsPerRun(10, func() { f.open(f.seal()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
