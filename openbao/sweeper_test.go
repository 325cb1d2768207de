package openbao_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/openbao"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/replay/replaytest"
)

// TestMarkOnlyRises: neither a clock that is set back nor a restore takes from the mark
// what another has put there.
func TestMarkOnlyRises(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		mount := srv.KV(t)
		c := client(t, srv)
		clock := replaytest.NewClock(time.Now().Truncate(time.Second))
		opts := &openbao.ReplayOptions{Skew: 30 * time.Second, Now: clock.Now}
		spent := must(openbao.OpenReplay(c, mount, opts))(t)
		sweeper := must(openbao.OpenSweeper(c, mount, opts))(t)
		id, expires := []byte("an id that was used"), clock.Now().Add(time.Minute)
		if first, err := spent.Use(t.Context(), id, expires); !first || err != nil {
			t.Fatalf("Use = %v, %v", first, err)
		}
		clock.Advance(time.Hour)
		if n, err := sweeper.Sweep(t.Context()); n != 1 || err != nil {
			t.Fatalf("Sweep = %d, %v; want 1", n, err)
		}
		if _, err := sweeper.Restored(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Advance(-time.Hour)
		for range 2 {
			must(sweeper.Sweep(t.Context()))(t)
		}
		if first, err := spent.Use(t.Context(), id, expires); first || !errors.Is(err, replay.ErrSwept) {
			t.Errorf("Use of a forgotten ID = %v, %v; want ErrSwept", first, err)
		}
		minted := append(make([]byte, 6), "0123456789"...) // in 1970
		if first, err := spent.Use(t.Context(), minted, clock.Now().Add(2*time.Hour)); first || !errors.Is(err, replay.ErrRestored) {
			t.Errorf("Use of an ID from before the restore = %v, %v; want ErrRestored", first, err)
		}
	})
}

// TestSweepReadsEachIDOnce: what is live is not read again at every sweep, and what
// nobody of ours wrote stays.
func TestSweepReadsEachIDOnce(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		mount := srv.KV(t)
		c, p := behind(t, srv, patient)
		clock := replaytest.NewClock(time.Now().Truncate(time.Second))
		opts := &openbao.ReplayOptions{Skew: time.Second, Now: clock.Now}
		spent := must(openbao.OpenReplay(client(t, srv), mount, opts))(t)
		sweeper := must(openbao.OpenSweeper(c, mount, opts))(t)
		for range 20 {
			if first, err := spent.Use(t.Context(), []byte(srv.Name("id")), clock.Now().Add(time.Hour)); !first || err != nil {
				t.Fatalf("Use = %v, %v", first, err)
			}
		}
		srv.Must(t, "POST", mount+"/data/spent/00/odd", map[string]any{"data": map[string]any{"x": 1}})
		for i, want := range []int{21, 1, 1} { // the odd one is looked at each time
			before := p.Seen("/data/spent/")
			if n, err := sweeper.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("Sweep = %d, %v", n, err)
			}
			if n := p.Seen("/data/spent/") - before; n != want {
				t.Errorf("sweep %d reads %d entries, want %d", i+1, n, want)
			}
		}
		clock.Advance(2 * time.Hour)
		if n, err := sweeper.Sweep(t.Context()); n != 20 || err != nil {
			t.Errorf("Sweep = %d, %v; want 20", n, err)
		}
		if n, err := sweeper.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("Sweep of nothing = %d, %v", n, err)
		}
	})
}

// TestWrapsOfOthers: a wrapping token that holds something else hands out nothing.
func TestWrapsOfOthers(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		claims := must(openbao.OpenClaims(client(t, srv), nil))(t)
		for name, body := range map[string]map[string]any{
			"a secret":   {"secret_id": "0123"},
			"nothing":    {},
			"no base64":  {"foil": "foil/claim/v1", "payload": "%"},
			"other kind": {"foil": "foil/claim/v2", "payload": "eA=="},
		} {
			_, doc := srv.Request(t, srv.Token, "POST", "sys/wrapping/wrap", body, map[string]string{"X-Vault-Wrap-TTL": "60"})
			token := doc["wrap_info"].(map[string]any)["token"].(string)
			if got, err := claims.Redeem(t.Context(), openbao.ClaimOf(token), "op"); got != nil || err == nil {
				t.Errorf("%s: Redeem = %q, %v", name, got, err)
			}
		}
		// Neither our own token nor what is none is presented to be unwrapped.
		for _, token := range []string{srv.Token, "", "s.short", "s.with space in it and long enough", "eyJhbGciOiJFUzUxMiJ9.e30.c2ln"} {
			if got, err := claims.Redeem(t.Context(), openbao.ClaimOf(token), "op"); got != nil || err == nil {
				t.Errorf("Redeem of %q = %q, %v", token, got, err)
			}
		}
	})
}

// TestClaimsEnd: the server ends a claim when its ttl has passed, in whole seconds and
// never before.
func TestClaimsEnd(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		c, p := behind(t, srv, patient)
		claims := must(openbao.OpenClaims(c, nil))(t)
		var ttl string
		p.SetFor(func(r *http.Request) baotest.Fault { ttl = r.Header.Get("X-Vault-Wrap-TTL"); return baotest.Fault{} })
		for d, want := range map[time.Duration]string{time.Nanosecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", time.Hour: "3600"} {
			must(claims.Issue(t.Context(), []byte("plan"), d))(t)
			if ttl != want {
				t.Errorf("a ttl of %v goes out as %q, want %q", d, ttl, want)
			}
		}
		claim := must(claims.Issue(t.Context(), []byte("plan"), time.Second))(t)
		time.Sleep(2 * time.Second)
		if got, err := claims.Redeem(t.Context(), claim, "op"); !errors.Is(err, claimcheck.ErrRedeemed) {
			t.Errorf("Redeem after the ttl = %q, %v", got, err)
		}
	})
}
