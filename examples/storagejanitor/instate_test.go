package storagejanitor_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/signed"
)

// planInState sets a fixture up to let the client carry the plan.
func (f *fixture) planInState(t testing.TB, codec foil.Codec) {
	t.Helper()
	f.janitor.Claims, f.janitor.PlanInState = nil, true
	f.seal(t, codec)
}

func (f *fixture) seal(t testing.TB, codec foil.Codec) {
	t.Helper()
	var err error
	f.guard, err = foil.New(codec, &foil.Options{
		Audience: "storage-janitor", Replay: replay.NewMemory(nil), Claims: f.claims, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// readable is what anyone can read of a token.
func readable(token string) string {
	s := token
	for part := range strings.SplitSeq(token, ".") {
		raw, _ := base64.RawURLEncoding.DecodeString(part)
		s += string(raw)
	}
	return s
}

func TestPlanInState(t *testing.T) {
	for _, tc := range []struct {
		name  string
		codec foil.Codec
		read  bool
	}{
		{"signed", signed.Ephemeral(), true},
		{"aesgcm", aesgcm.Ephemeral(), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.planInState(t, tc.codec)
			a := logs(t, f)
			cs := f.manual(t)
			asked := purge(t, cs, a)
			if _, message := question(t, asked); message != threeLogs {
				t.Errorf("asked %q", message)
			}
			if got := strings.Contains(readable(asked.RequestState), "logs/b.log"); got != tc.read {
				t.Errorf("the client can read the plan: %t, want %t", got, tc.read)
			}
			f.write(t, "logs/late.log")
			res := mustRetry(t, cs, a, asked, yes(""))
			output(t, res, storagejanitor.OutcomePurged)
			f.wasDeleted(t, "logs/a.log", "logs/b.log", "logs/c.log")
			f.keeps(t, "logs/late.log", "logs-old/a.log", "secrets/key")
			_, err := retry(t, cs, a, asked, yes(""))
			frozen(t, err)
			if f.claims.issued != 0 || f.claims.redeems != 0 {
				t.Errorf("%d claims issued, %d redeemed", f.claims.issued, f.claims.redeems)
			}
		})
	}
}

func TestPlanInStateDeclined(t *testing.T) {
	f := newFixture(t, nil)
	f.planInState(t, signed.Ephemeral())
	a := logs(t, f)
	cs := f.manual(t)
	asked := purge(t, cs, a)
	output(t, mustRetry(t, cs, a, asked, &mcp.ElicitResult{Action: "decline"}), storagejanitor.OutcomeDeclined)
	_, err := retry(t, cs, a, asked, yes(""))
	frozen(t, err)
	f.wasDeleted(t)
}

// A long plan goes through both rounds, on other replicas.
func TestPlanInStateAsksTwice(t *testing.T) {
	f := newFixture(t, nil)
	f.planInState(t, signed.Ephemeral())
	var names []string
	for i := range storagejanitor.DefaultAskTwiceAbove + 1 {
		names = append(names, fmt.Sprintf("many/%03d-é\"<>&", i))
	}
	f.write(t, names...)
	a := args{"prefix": "many/"}
	one := purge(t, f.manual(t), a)
	two := mustRetry(t, f.manual(t), a, one, yes(""))
	if key, _ := question(t, two); key != "count" {
		t.Fatalf("round 2 asks for %q", key)
	}
	output(t, mustRetry(t, f.manual(t), a, two, accept(map[string]any{"count": len(names)})), storagejanitor.OutcomePurged)
	f.wasDeleted(t, names...)
}

// What is as long as may be still fits into a token, whatever the names; what is
// longer is refused in words before anything is asked.
func TestPlanInStateIsBounded(t *testing.T) {
	for _, tail := range []string{"x", `"`, "é", "\u2028", "😀"} {
		f := newFixture(t, nil)
		f.planInState(t, signed.Ephemeral())
		name := strings.Repeat(tail, 100/len(tail))
		asked, n := (*mcp.CallToolResult)(nil), 0
		cs := f.manual(t)
		for {
			f.write(t, fmt.Sprintf("many/%03d-%s", n, name))
			n++
			if n%10 != 0 {
				continue
			}
			res := purge(t, cs, args{"prefix": "many/"})
			if len(res.InputRequests) == 0 {
				output(t, res, storagejanitor.OutcomeRefused)
				if !strings.Contains(textOf(res), "too long") {
					t.Errorf("%q: refused with %q", tail, textOf(res))
				}
				break
			}
			if asked = res; n > 1000 {
				t.Fatalf("%q: a plan of %d objects", tail, n)
			}
		}
		if asked == nil {
			t.Fatalf("%q: refused a plan of %d objects", tail, n)
		}
		if l := len(asked.RequestState); l > foil.DefaultMaxToken || l < foil.DefaultMaxToken*3/4 {
			t.Errorf("%q: the longest token has %d bytes for %d objects", tail, l, n-1)
		}
	}
}

// A state of a server that keeps its plans elsewhere is no plan: it asks again.
func TestPlanElsewhereIsPlannedAgain(t *testing.T) {
	f := newFixture(t, nil)
	codec := aesgcm.Ephemeral()
	f.seal(t, codec)
	a := logs(t, f)
	parked := f.manual(t)
	f.janitor.Claims, f.janitor.PlanInState = nil, true
	carried := f.manual(t)
	for _, cs := range [][2]*mcp.ClientSession{{parked, carried}, {carried, parked}} {
		again := mustRetry(t, cs[1], a, purge(t, cs[0], a), yes(""))
		if _, message := question(t, again); message != threeLogs {
			t.Errorf("asked %q", message)
		}
	}
	f.wasDeleted(t)
}

// With a codec that can be read, a claim does not get out.
func TestClaimsNeedAnEncryptingCodec(t *testing.T) {
	f := newFixture(t, nil)
	f.seal(t, signed.Ephemeral())
	a := logs(t, f)
	cs := f.manual(t)
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: storagejanitor.PurgeTool, Arguments: a})
	if err == nil {
		t.Fatalf("asked with %q", readable(res.RequestState))
	}
	if strings.Contains(err.Error(), claimcheck.Prefix) {
		t.Error("the error tells the claim")
	}
	f.wasDeleted(t)
}
