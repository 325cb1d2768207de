package python_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/canonjson"
)

// TestVectors runs the recorded cases through the SDK as it is now: it opens
// each token at its time, and mints the same claims again. If a newer SDK fails
// here, its format has changed and both must be looked at.
func TestVectors(t *testing.T) {
	py := thePeer(t)
	text, err := os.ReadFile("../../testdata/vectors/python-sdk.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name      string   `json:"name"`
		Keys      []string `json:"keys_hex"`
		Now       float64  `json:"now_unix"`
		TTL       float64  `json:"ttl_s"`
		Method    string   `json:"method"`
		Params    string   `json:"params_json"`
		Principal *string  `json:"principal"`
		Audience  *string  `json:"audience"`
		Token     string   `json:"token"`
		Claims    string   `json:"claims_json"`
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	if len(list) < 24 {
		t.Fatalf("%d vectors, want 24", len(list))
	}
	for i, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			// Read here, as encoding/json would lose lone surrogates.
			state, _, err := canonjson.DecodeString(member(t, raw[i], "state"))
			if err != nil {
				t.Fatal(err)
			}
			r := request{
				Op: "open", Keys: v.Keys, TTL: v.TTL, Now: v.Now, Method: v.Method, Params: []byte(v.Params),
				Token: []byte(v.Token), State: []byte(state),
			}
			if v.Principal != nil {
				r.Principal = append([]byte{}, *v.Principal...)
			}
			if v.Audience != nil {
				r.Audience = append([]byte{}, *v.Audience...)
			}
			late, seal := r, r
			late.Now += v.TTL
			seal.Op = "seal"
			replies := py.ask(t, r, late, seal)
			wantState(t, replies[0], state)
			wantRefused(t, "at exp", replies[1], "expired")
			mask := func(claims string) string { return principalClaim.ReplaceAllString(claims, `,"p":"salted"`) }
			if got, want := mask(string(replies[2].Claims)), mask(v.Claims); got != want {
				t.Errorf("Python mints %.500s\nrecorded %.500s", got, want)
			}

			// And foil opens what the SDK mints now.
			c := call{now: unix(v.Now), principal: v.Principal, audience: v.Audience, method: v.Method}
			for _, k := range v.Keys {
				b, err := hex.DecodeString(k)
				if err != nil {
					t.Fatal(err)
				}
				c.secrets = append(c.secrets, string(b))
			}
			req := c.request()
			var params struct {
				Name, URI string
				Arguments json.RawMessage
			}
			if err := json.Unmarshal([]byte(v.Params), &params); err != nil {
				t.Fatal(err)
			}
			req.Target, req.Arguments = params.Name+params.URI, params.Arguments
			guard, _ := c.guardOf(t, c.ring(t), func(o *foil.Options) { o.MaxToken = 1 << 20 })
			o, err := guard.Open(ctx, req, replies[2].Token)
			if err != nil || o.State() != state {
				t.Errorf("foil opens what Python mints now: %v", err)
			}
		})
	}
}
