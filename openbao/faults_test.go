package openbao_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/openbao"
)

// soon is the deadline of a call in a test that provokes it.
const soon = 3 * time.Second

// A fleet is all that a server may use, through one client behind a proxy.
type fleet struct {
	srv    *baotest.Server
	proxy  *baotest.Proxy
	ring   *openbao.Ring
	codec  *openbao.Transit
	claims *openbao.Claims
	spent  *openbao.Replay
}

func newFleet(t *testing.T, srv *baotest.Server, timeout time.Duration) *fleet {
	t.Helper()
	f := &fleet{srv: srv, proxy: baotest.NewProxy(t, srv)}
	id, secret := role(t, srv, `path "*" { capabilities = ["create", "read", "update", "delete", "list"] }`, nil)
	kv, spent, transit := srv.KV(t), srv.KV(t), srv.Transit(t)
	c := open(t, &openbao.Options{Address: f.proxy.Addr, Auth: openbao.AppRole(id, secret, nil), Timeout: timeout, Logger: slog.New(slog.DiscardHandler)})
	f.ring = must(openbao.OpenRing(c, kv+"/ring"))(t)
	if err := f.ring.Create(t.Context(), must(keyring.NewRing(time.Now(), nil))(t)); err != nil {
		t.Fatal(err)
	}
	f.codec = must(openbao.NewTransit(t.Context(), c, transit, nil))(t)
	f.claims = must(openbao.OpenClaims(c, nil))(t)
	f.spent = must(openbao.OpenReplay(c, spent, nil))(t)
	return f
}

// calls makes every kind of call that needs the server, with what it needs.
func (f *fleet) calls(ctx context.Context, token, claim string, id []byte) map[string]error {
	errs := make(map[string]error)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for what, call := range map[string]func() error{
		"ring.Load":     func() error { _, err := f.ring.Load(ctx); return err },
		"ring.Update":   func() error { _, err := f.ring.Update(ctx, rotate); return err },
		"codec.Seal":    func() error { _, err := f.codec.Seal(ctx, []byte("x"), later); return err },
		"codec.Open":    func() error { _, err := f.codec.Open(ctx, token); return err },
		"codec.Ping":    func() error { return f.codec.Ping(ctx) },
		"claims.Issue":  func() error { _, err := f.claims.Issue(ctx, []byte("x"), time.Minute); return err },
		"claims.Redeem": func() error { _, err := f.claims.Redeem(ctx, claim, "op"); return err },
		"claims.Revoke": func() error { return f.claims.Revoke(ctx, claim) },
		"claims.Ping":   func() error { return f.claims.Ping(ctx) },
		"spent.Ping":    func() error { return f.spent.Ping(ctx) },
		"spent.Use": func() error {
			first, err := f.spent.Use(ctx, id, later)
			if first {
				err = errors.New("reported as first")
			}
			return err
		},
	} {
		wg.Go(func() {
			err := call()
			mu.Lock()
			defer mu.Unlock()
			errs[what] = err
		})
	}
	wg.Wait()
	return errs
}

// TestFaults takes the server away in every way there is. Each call must say so within
// its deadline, nothing may be spent, and all must work again afterwards, in the same
// process.
func TestFaults(t *testing.T) {
	answer := func(status int, body string) func(*fleet, testing.TB) {
		return func(f *fleet, _ testing.TB) { f.proxy.Set(baotest.Fault{Status: status, Body: body}) }
	}
	mend := func(f *fleet, _ testing.TB) { f.proxy.Mend() }
	for _, tc := range []struct {
		name        string
		begin, over func(*fleet, testing.TB)
	}{
		{"away", func(f *fleet, _ testing.TB) { f.proxy.Set(baotest.Fault{Cut: true}) }, mend},
		{"slow", func(f *fleet, _ testing.TB) { f.proxy.Set(baotest.Fault{Slow: time.Hour}) }, mend},
		{"sealed", func(f *fleet, t testing.TB) { f.srv.Seal(t) }, func(f *fleet, t testing.TB) { f.srv.Unseal(t) }},
		{"429", answer(429, `{"errors":["request path: rate limit quota exceeded"]}`), mend},
		{"500", answer(500, `{"errors":["internal error"]}`), mend},
		{"502 of a balancer", answer(502, "<html>bad gateway</html>"), mend},
		{"503", answer(503, ``), mend},
		{"504", answer(504, ``), mend},
		{"nonsense", answer(200, "<html>welcome</html>"), mend},
		{"an empty answer", answer(200, ""), mend},
		{"another document", answer(200, `{"data":{"x":1}}`), mend},
	} {
		t.Run(tc.name, func(t *testing.T) {
			each := baotest.Each
			if tc.name == "sealed" {
				each = baotest.EachOwn
			}
			each(t, func(t *testing.T, srv *baotest.Server) {
				timeout := patient
				if tc.name == "slow" {
					timeout = soon
				}
				f := newFleet(t, srv, timeout)
				token := must(f.codec.Seal(t.Context(), []byte("payload"), later))(t)
				claim := must(f.claims.Issue(t.Context(), []byte("plan"), time.Hour))(t)
				id := []byte(srv.Name("id"))

				tc.begin(f, t)
				for what, err := range f.calls(t.Context(), token, claim, id) {
					nonsense := tc.name == "nonsense" || strings.HasPrefix(tc.name, "an")
					if nonsense && strings.HasPrefix(what, "claims.Re") && errors.Is(err, claimcheck.ErrRedeemed) {
						continue // the token is in the answer or nowhere: it says that it is gone
					}
					if nonsense && (what == "claims.Ping" || what == "claims.Revoke") {
						continue // any answer will do
					}
					if err == nil || !errors.Is(err, openbao.ErrUnavailable) && !nonsense {
						t.Errorf("%s: %v, want ErrUnavailable", what, err)
					}
					if errors.Is(err, foil.ErrInvalid) || errors.Is(err, claimcheck.ErrRedeemed) {
						t.Errorf("%s: %v: a refusal", what, err)
					}
				}
				tc.over(f, t)
				f.recovered(t, token, claim, id)
			})
		})
	}
}

// recovered fails unless everything works and is spent once.
func (f *fleet) recovered(t *testing.T, token, claim string, id []byte) {
	t.Helper()
	ctx := t.Context()
	eventually(t, "recovery", func() bool { return f.codec.Ping(ctx) == nil && f.spent.Ping(ctx) == nil })
	if got, err := f.codec.Open(ctx, token); err != nil || string(got) != "payload" {
		t.Errorf("Open afterwards = %q, %v", got, err)
	}
	// A call that failed did not reach the server, so nothing is spent.
	if got, err := f.claims.Redeem(ctx, claim, "op"); err != nil || string(got) != "plan" {
		t.Errorf("Redeem afterwards = %q, %v", got, err)
	}
	if got, err := f.claims.Redeem(ctx, claim, "op"); !errors.Is(err, claimcheck.ErrRedeemed) {
		t.Errorf("second Redeem = %q, %v", got, err)
	}
	if first, err := f.spent.Use(ctx, id, later); err != nil || !first {
		t.Errorf("Use afterwards = %v, %v", first, err)
	}
	if first, err := f.spent.Use(ctx, id, later); err != nil || first {
		t.Errorf("second Use = %v, %v", first, err)
	}
	must(f.ring.Load(ctx))(t)
	must(f.ring.Update(ctx, rotate))(t)
}

// only lets a fault happen to requests whose path contains part, the first n of them.
func only(p *baotest.Proxy, part string, n int, fault baotest.Fault) {
	var mu sync.Mutex
	p.SetFor(func(r *http.Request) baotest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if n > 0 && strings.Contains(r.URL.Path, part) {
			n--
			return fault
		}
		return baotest.Fault{}
	})
}

// TestRedemptionsAreNeverRepeated: whatever became of it, a redemption is one request.
func TestRedemptionsAreNeverRepeated(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		f := newFleet(t, srv, patient)
		for name, fault := range map[string]baotest.Fault{
			"lost": {Lose: true}, "cut": {Cut: true}, "500": {Status: 500, Body: `{"errors":["internal error"]}`}, "502": {Status: 502},
			"503": {Status: 503, Body: `{"errors":["Vault is sealed"]}`}, "429": {Status: 429}, "412": {Status: 412},
		} {
			claim := must(f.claims.Issue(t.Context(), []byte("plan"), time.Hour))(t)
			before := f.proxy.Seen("/unwrap")
			only(f.proxy, "/unwrap", 1, fault)
			if got, err := f.claims.Redeem(t.Context(), claim, "op"); got != nil || !errors.Is(err, openbao.ErrUnavailable) {
				t.Errorf("%s: Redeem = %q, %v; want ErrUnavailable", name, got, err)
			}
			if n := f.proxy.Seen("/unwrap") - before; n != 1 {
				t.Errorf("%s: %d requests, want 1", name, n)
			}
			// What the server has done it has done once.
			got, err := f.claims.Redeem(t.Context(), claim, "op")
			if gone := errors.Is(err, claimcheck.ErrRedeemed); gone != (name == "lost") || !gone && string(got) != "plan" {
				t.Errorf("%s: Redeem again = %q, %v", name, got, err)
			}
		}
	})
}

// TestReadsAreRepeatedOnce: a passing failure of a read is not seen at all.
func TestReadsAreRepeatedOnce(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		f := newFleet(t, srv, patient)
		for name, fault := range map[string]baotest.Fault{"cut": {Cut: true}, "lost": {Lose: true}, "503": {Status: 503}, "429": {Status: 429}, "500": {Status: 500}} {
			only(f.proxy, "/data/ring", 1, fault)
			if _, err := f.ring.Load(t.Context()); err != nil {
				t.Errorf("%s once: %v", name, err)
			}
			before := f.proxy.Seen("/data/ring")
			only(f.proxy, "/data/ring", 9, fault)
			if _, err := f.ring.Load(t.Context()); err == nil {
				t.Errorf("%s for long: no error", name)
			}
			// Go's transport itself asks again when an idle connection turns out dead.
			if n := f.proxy.Seen("/data/ring") - before; n != 2 && !(n == 3 && fault.Status == 0) {
				t.Errorf("%s for long: %d requests, want 2", name, n)
			}
		}
		only(f.proxy, "/data/ring", 9, baotest.Fault{Status: 400, Body: `{"errors":["no"]}`})
		before := f.proxy.Seen("/data/ring")
		if _, err := f.ring.Load(t.Context()); err == nil || f.proxy.Seen("/data/ring")-before != 1 {
			t.Errorf("a bad request: %v, after %d requests", err, f.proxy.Seen("/data/ring")-before)
		}
	})
}

// TestLostAnswerOfSpending: the write was done, and the call finds out.
func TestLostAnswerOfSpending(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		f := newFleet(t, srv, patient)
		id := []byte(srv.Name("id"))
		only(f.proxy, "/data/spent/", 1, baotest.Fault{Lose: true})
		if first, err := f.spent.Use(t.Context(), id, later); err != nil || !first {
			t.Errorf("Use whose answer was lost = %v, %v; want true", first, err)
		}
		only(f.proxy, "/data/spent/", 1, baotest.Fault{Lose: true})
		if first, err := f.spent.Use(t.Context(), id, later); err != nil || first {
			t.Errorf("second Use, whose answer was lost = %v, %v; want false", first, err)
		}
		// Not even a look: it may be spent, and is never reported as first.
		id = []byte(srv.Name("id"))
		only(f.proxy, "/data/spent/", 3, baotest.Fault{Lose: true})
		if first, err := f.spent.Use(t.Context(), id, later); err == nil || first {
			t.Errorf("Use of which nothing is known = %v, %v; want an error", first, err)
		}
		f.proxy.Mend()
		if first, err := f.spent.Use(t.Context(), id, later); err != nil || first {
			t.Errorf("Use after that = %v, %v; want false", first, err)
		}
		// The write that did not arrive: nothing is decided, and the ID is free.
		id = []byte(srv.Name("id"))
		only(f.proxy, "/data/spent/", 1, baotest.Fault{Cut: true})
		if first, err := f.spent.Use(t.Context(), id, later); err == nil || first {
			t.Errorf("Use that did not arrive = %v, %v; want an error", first, err)
		}
		if first, err := f.spent.Use(t.Context(), id, later); err != nil || !first {
			t.Errorf("Use after that = %v, %v; want true", first, err)
		}
		// Without the mark nobody can say that the ID was not forgotten.
		id = []byte(srv.Name("id"))
		only(f.proxy, "/data/mark", 9, baotest.Fault{Cut: true})
		if first, err := f.spent.Use(t.Context(), id, later); err == nil || first {
			t.Errorf("Use without the mark = %v, %v; want an error", first, err)
		}
	})
}

// TestLateByTheServersClock: should a standby show an older mark, the server's own time
// tells a call that comes after its entry was forgotten.
func TestLateByTheServersClock(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		mount := srv.KV(t)
		c := client(t, srv)
		spent := must(openbao.OpenReplay(c, mount, &openbao.ReplayOptions{Skew: time.Minute}))(t)
		for ago, want := range map[time.Duration]bool{30 * time.Second: true, 2 * time.Minute: false} {
			first, err := spent.Use(t.Context(), []byte(srv.Name("id")), time.Now().Add(-ago))
			if first != want || (err == nil) != want {
				t.Errorf("Use of what expired %v ago = %v, %v; want %v", ago, first, err, want)
			}
		}
	})
}

// TestMarkThatIsGone: without its mark a mount may have forgotten anything.
func TestMarkThatIsGone(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		mount := srv.KV(t)
		c := client(t, srv)
		spent := must(openbao.OpenReplay(c, mount, nil))(t)
		sweeper := must(openbao.OpenSweeper(c, mount, nil))(t)
		must(sweeper.Sweep(t.Context()))(t)
		for name, spoil := range map[string]func(){
			"deleted": func() { srv.Must(t, "DELETE", mount+"/data/mark", nil) },
			"another": func() { srv.Must(t, "POST", mount+"/data/mark", map[string]any{"data": map[string]any{"x": 1}}) },
			"text": func() {
				srv.Must(t, "POST", mount+"/data/mark", map[string]any{"data": map[string]any{"swept": "1", "restored": 0}})
			},
		} {
			spoil()
			if first, err := spent.Use(t.Context(), []byte(srv.Name("id")), later); first || !errors.Is(err, openbao.ErrUnavailable) {
				t.Errorf("%s: Use = %v, %v; want ErrUnavailable", name, first, err)
			}
			if _, err := sweeper.Sweep(t.Context()); err == nil {
				t.Errorf("%s: Sweep works", name)
			}
		}
	})
}
