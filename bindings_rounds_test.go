package foil_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
)

// everyRound are the first round, one that follows another, and the last.
var everyRound = []int{1, 2, foil.DefaultMaxRounds}

// inRound returns the token of a flow that has asked that often, each time the same.
func (b *bench) inRound(t *testing.T, req foil.Request, out foil.Outgoing, round int) string {
	t.Helper()
	free := b.guard(t, b.codec, func(o *foil.Options) { o.Once = foil.Off })
	return chain(t, free, req, out, round)
}

func chain(t *testing.T, g *foil.Guard, req foil.Request, out foil.Outgoing, round int) string {
	t.Helper()
	for n := 1; ; n++ {
		token, err := g.Seal(ctx, req, out)
		if err != nil {
			t.Fatal(err)
		}
		if n == round {
			return token
		}
		if out.Prev, err = g.Open(ctx, req, token); err != nil {
			t.Fatal(err)
		}
	}
}

// near are texts that a careless comparison takes for another one.
func near(text string) map[string]string {
	return map[string]string{
		"shorter": text[:len(text)-1], "longer": text + "2", "in other letters": strings.ToUpper(text),
		"empty": "", "white space before": " " + text, "white space behind": text + " ",
	}
}

// Each binding holds in every round as in the first, and for names that are nearly
// the right ones, whichever of token and request has them. A refusal never spends
// the token.
func TestBindingsInEveryRound(t *testing.T) {
	type form struct {
		name   string
		change func(*foil.Request)
		after  time.Duration
		want   foil.Reason
	}
	forms := []form{
		{"at exp", nil, 10 * time.Minute, foil.ReasonExpired},
		{"from the future", nil, -61 * time.Second, foil.ReasonNotYetValid},
		{"other method", func(r *foil.Request) { r.Method = foil.MethodPromptsGet }, 0, foil.ReasonMethod},
		{"resource", func(r *foil.Request) { r.Method = foil.MethodResourcesRead }, 0, foil.ReasonMethod},
		{"changed argument", func(r *foil.Request) { r.Arguments = []byte(`{"prefix":"secrets/","max_bytes":9007199254740992}`) }, 0, foil.ReasonArguments},
		{"another integer", func(r *foil.Request) { r.Arguments = []byte(`{"prefix":"logs/","max_bytes":9007199254740993}`) }, 0, foil.ReasonArguments},
		{"no arguments", func(r *foil.Request) { r.Arguments = nil }, 0, foil.ReasonArguments},
		{"other user", func(r *foil.Request) { r.Principal = foil.OAuth("app", "https://issuer.example", "bob") }, 0, foil.ReasonPrincipal},
		{"fixed", func(r *foil.Request) { r.Principal = foil.Fixed("alice") }, 0, foil.ReasonPrincipal},
		{"anonymous", func(r *foil.Request) { r.Principal = foil.Anonymous() }, 0, foil.ReasonPrincipal},
		{"unknown", func(r *foil.Request) { r.Principal = foil.Principal{} }, 0, foil.ReasonPrincipalMissing},
	}
	for how, x := range near("purge_objects") {
		forms = append(forms, form{"target " + how, func(r *foil.Request) { r.Target = x }, 0, foil.ReasonTarget})
	}
	for how, x := range near(foil.MethodToolsCall) {
		forms = append(forms, form{"method " + how, func(r *foil.Request) { r.Method = x }, 0, foil.ReasonMethod})
	}
	for how, x := range near("alice") {
		forms = append(forms, form{"subject " + how, func(r *foil.Request) { r.Principal = foil.OAuth("app", "https://issuer.example", x) }, 0, foil.ReasonPrincipal})
	}
	for how, x := range near("https://issuer.example") {
		forms = append(forms, form{"issuer " + how, func(r *foil.Request) { r.Principal = foil.OAuth("app", x, "alice") }, 0, foil.ReasonPrincipal})
	}
	for how, x := range near("app") {
		forms = append(forms, form{"client " + how, func(r *foil.Request) { r.Principal = foil.OAuth(x, "https://issuer.example", "alice") }, 0, foil.ReasonPrincipal})
	}
	for _, round := range everyRound {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			b := newBench(t, nil)
			token := b.inRound(t, purge(), confirm(), round)
			for _, f := range forms {
				other := purge()
				if f.change != nil {
					f.change(&other)
				}
				b.now = epoch.Add(f.after)
				_, err := b.Open(ctx, other, token)
				if foil.ReasonOf(err) != f.want {
					t.Errorf("%s: %v, want %s", f.name, err, f.want)
				}
				b.now = epoch
				if f.after != 0 || other.Principal.IsZero() {
					continue
				}
				// The other way about: the token is of what the request is not.
				_, err = b.Open(ctx, purge(), b.inRound(t, other, confirm(), round))
				if foil.ReasonOf(err) != f.want {
					t.Errorf("a token of %s: %v, want %s", f.name, err, f.want)
				}
			}
			o, err := b.Open(ctx, purge(), token)
			if err != nil || o.Round() != round {
				t.Errorf("after all that: %v, %v", o, err)
			}
		})
	}
}

func TestAudiencesInEveryRound(t *testing.T) {
	for _, round := range everyRound {
		b := newBench(t, nil)
		token := b.inRound(t, purge(), confirm(), round)
		guards := map[string]*foil.Guard{"none": b.guard(t, b.codec, func(o *foil.Options) { o.Audience, o.NoAudience, o.Once = "", true, foil.Off })}
		for how, x := range near("storage") {
			if x != "" {
				guards[how] = b.guard(t, b.codec, func(o *foil.Options) { o.Audience, o.Once = x, foil.Off })
			}
		}
		for how, g := range guards {
			_, err := g.Open(ctx, purge(), token)
			if foil.ReasonOf(err) != foil.ReasonAudience {
				t.Errorf("round %d, to a service that is %s: %v", round, how, err)
			}
			_, err = b.Open(ctx, purge(), chain(t, g, purge(), confirm(), round))
			if foil.ReasonOf(err) != foil.ReasonAudience {
				t.Errorf("round %d, of a service that is %s: %v", round, how, err)
			}
		}
		if _, err := b.Open(ctx, purge(), token); err != nil {
			t.Errorf("round %d: the service itself: %v", round, err)
		}
	}
	// An audience that is there and empty is none that a Guard would take or mint.
	g := newBench(t, nil).guard(t, plain{}, func(o *foil.Options) { o.Once = foil.Off })
	token, err := g.Seal(ctx, purge(), confirm())
	if err != nil {
		t.Fatal(err)
	}
	payload := payloadOf(t, token)
	for _, claim := range []string{`"aud":"",`, ``} {
		forged := strings.Replace(payload, `"aud":"storage",`, claim, 1)
		if _, err := g.Open(ctx, purge(), forge(forged)); foil.ReasonOf(err) != foil.ReasonAudience {
			t.Errorf("with the claim %q: %v", claim, err)
		}
	}
}

func payloadOf(t *testing.T, token string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "p."))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFlowLimitsInEveryRound(t *testing.T) {
	for _, round := range everyRound {
		b := newBench(t, nil)
		b.Guard = b.guard(t, b.codec, func(o *foil.Options) { o.Once, o.FlowLimit = foil.Off, 5*time.Minute })
		token := chain(t, b.Guard, purge(), confirm(), round)
		b.now = epoch.Add(5*time.Minute - time.Millisecond)
		if _, err := b.Open(ctx, purge(), token); err != nil {
			t.Errorf("round %d, before the deadline: %v", round, err)
		}
		b.now = epoch.Add(5 * time.Minute)
		_, err := b.Open(ctx, purge(), token)
		wantReason(t, err, foil.ReasonFlowExpired)
		b.now = epoch
		few := b.guard(t, b.codec, func(o *foil.Options) { o.Once, o.MaxRounds = foil.Off, max(1, round-1) })
		if _, err := few.Open(ctx, purge(), token); (foil.ReasonOf(err) == foil.ReasonRound) != (round > 1) {
			t.Errorf("round %d of %d: %v", round, max(1, round-1), err)
		}
	}
}

// What ties the rounds of a flow together goes on, and what must be new is new.
func TestClaimsOfLaterRounds(t *testing.T) {
	b := newBench(t, nil)
	g := b.guard(t, plain{}, func(o *foil.Options) { o.Once = foil.Off })
	out := confirm()
	seen := map[string]bool{}
	var first struct {
		Flow     string          `json:"fid"`
		Deadline json.RawMessage `json:"dl"`
	}
	for round := 1; round <= foil.DefaultMaxRounds; round++ {
		b.now = epoch.Add(time.Duration(round) * time.Minute)
		token, err := g.Seal(ctx, purge(), out)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Flow     string            `json:"fid"`
			Deadline json.RawMessage   `json:"dl"`
			Round    int               `json:"rnd"`
			ID       string            `json:"jti"`
			Holder   string            `json:"p"`
			Audience string            `json:"aud"`
			Method   string            `json:"m"`
			Target   string            `json:"t"`
			Exact    string            `json:"ax"`
			Asked    map[string]string `json:"k"`
			Issued   float64           `json:"iat"`
			Expires  float64           `json:"exp"`
		}
		if err := json.Unmarshal([]byte(payloadOf(t, token)), &c); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			first.Flow, first.Deadline = c.Flow, c.Deadline
		}
		if c.Flow != first.Flow || !bytes.Equal(c.Deadline, first.Deadline) || c.Round != round {
			t.Errorf("round %d has flow %s, deadline %s, round %d; the first one %s, %s", round, c.Flow, c.Deadline, c.Round, first.Flow, first.Deadline)
		}
		if c.Audience != "storage" || c.Method != foil.MethodToolsCall || c.Target != "purge_objects" || c.Exact == "" || c.Asked["confirm"] == "" {
			t.Errorf("round %d is bound to %+v", round, c)
		}
		if d := c.Expires - c.Issued; d != 600 {
			t.Errorf("round %d lives %v seconds", round, d)
		}
		for _, fresh := range []string{c.ID, c.Holder} {
			if fresh == "" || seen[fresh] {
				t.Errorf("round %d has %q a second time", round, fresh)
			}
			seen[fresh] = true
		}
		if out.Prev, err = g.Open(ctx, purge(), token); err != nil {
			t.Fatal(err)
		}
	}
}

// Nobody can tell from two tokens that one person holds them, even who can read
// their claims; and no nonce comes twice.
func TestTokensOfOnePerson(t *testing.T) {
	const n = 50
	b := newBench(t, nil)
	g := b.guard(t, plain{}, func(o *foil.Options) { o.Once = foil.Off })
	salts, tags, ids := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for range n {
		token, err := g.Seal(ctx, purge(), confirm())
		if err != nil {
			t.Fatal(err)
		}
		var c struct{ P, JTI, FID string }
		if err := json.Unmarshal([]byte(payloadOf(t, token)), &c); err != nil {
			t.Fatal(err)
		}
		p, err := base64.RawURLEncoding.DecodeString(c.P)
		if err != nil || len(p) != 24 {
			t.Fatalf("p is %d bytes, %v", len(p), err)
		}
		salts[string(p[:8])], tags[string(p[8:])], ids[c.JTI], ids[c.FID] = true, true, true, true
	}
	if len(salts) != n || len(tags) != n || len(ids) != 2*n {
		t.Errorf("%d salts, %d tags and %d identities of %d tokens", len(salts), len(tags), len(ids), n)
	}
	ring, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	nonces := map[string]bool{}
	for range n {
		token, err := codec.Seal(ctx, []byte("the same claims"), time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "v1."))
		if err != nil || len(raw) < 16 {
			t.Fatal(err)
		}
		nonces[string(raw[4:16])] = true
	}
	if len(nonces) != n {
		t.Errorf("%d nonces of %d tokens", len(nonces), n)
	}
}
