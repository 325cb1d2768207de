package python_test

import (
	"math/rand/v2"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/canonjson/jsongen"
)

// TestDigestsAgree seals 10,000 generated argument documents on both sides and
// compares the digests in the tokens.
func TestDigestsAgree(t *testing.T) {
	const n, seed = 10_000, 20261130
	t.Logf("seed %d", seed)
	py := thePeer(t)
	r := rand.New(rand.NewPCG(seed, seed))
	c := call{secrets: []string{secretA}, now: epoch, method: foil.MethodToolsCall, target: "t", state: "s"}
	guard, codec := c.guardOf(t, c.ring(t), func(o *foil.Options) {
		o.AmbiguousArguments = foil.Refuse
		o.MaxToken = 1 << 20
	})
	digests := make([]string, n)
	requests := make([]request, n)
	for i := range n {
		c.arguments = string(jsongen.Document(r))
		token, err := guard.Seal(ctx, c.request(), foil.Outgoing{State: c.state})
		if err != nil {
			t.Fatalf("document %d: %v\n%.500s", i, err, c.arguments)
		}
		payload, err := codec.Open(ctx, token)
		if err != nil {
			t.Fatal(err)
		}
		digests[i] = string(member(t, payload, "a"))
		requests[i] = c.python("seal", "")
	}
	wrong, distinct := 0, map[string]bool{}
	for i, reply := range py.ask(t, requests...) {
		distinct[digests[i]] = true
		if got := string(member(t, reply.Claims, "a")); got != digests[i] {
			if wrong++; wrong <= 5 {
				t.Errorf("document %d: foil %s, Python %s\n%.500s", i, digests[i], got, requests[i].Params)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d digests differ", wrong, n)
	}
	// Small documents repeat; were all alike, the comparison would say nothing.
	if len(distinct) < n/2 {
		t.Errorf("only %d distinct digests", len(distinct))
	}
}
