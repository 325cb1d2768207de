package openbao_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/openbao"
)

var later = time.Now().Add(time.Hour)

// gathered lets callers come while one call is held up, so that all of them share the
// next ones. It returns how many calls there were for them.
func gathered(t *testing.T, p *baotest.Proxy, path string, callers int, do func(i int)) int {
	t.Helper()
	before := p.Seen(path)
	var held sync.WaitGroup
	release := make(chan struct{})
	var once sync.Once
	held.Add(1)
	p.SetFor(func(r *http.Request) baotest.Fault {
		if strings.Contains(r.URL.Path, path) {
			once.Do(func() { held.Done() })
			select {
			case <-release:
			default:
				return baotest.Fault{Slow: 200 * time.Millisecond}
			}
		}
		return baotest.Fault{}
	})
	defer p.Mend()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { do(i) })
	}
	held.Wait()
	close(release)
	wg.Wait()
	return p.Seen(path) - before
}

func TestCallersShareCalls(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		c, p := behind(t, srv, patient)
		codec := must(openbao.NewTransit(t.Context(), c, srv.Transit(t), nil))(t)
		const callers = 64
		tokens := make([]string, callers)
		text := func(i int) []byte { return fmt.Appendf(nil, "payload %d", i) }
		seals := gathered(t, p, "/encrypt/", callers, func(i int) {
			token, err := codec.Seal(t.Context(), text(i), later)
			if err != nil {
				t.Errorf("Seal: %v", err)
			}
			tokens[i] = token
		})
		opens := gathered(t, p, "/decrypt/", callers, func(i int) {
			got, err := codec.Open(t.Context(), tokens[i])
			if err != nil || string(got) != string(text(i)) {
				t.Errorf("Open = %q, %v", got, err)
			}
		})
		if seals > callers/4 || opens > callers/4 {
			t.Errorf("%d calls to seal and %d to open for %d callers at once", seals, opens, callers)
		}
	})
}

// TestWhatABatchSays: associated data counts in an item alone, and without the code an
// answer in which one item failed is a 400, like one in which all did.
func TestWhatABatchSays(t *testing.T) {
	srv := baotest.StandIn(t)
	c, p := behind(t, srv, patient)
	path := srv.Transit(t)
	codec := must(openbao.NewTransit(t.Context(), c, path, nil))(t)
	must(codec.Open(t.Context(), must(codec.Seal(t.Context(), []byte("x"), later))(t)))(t)
	for _, verb := range []string{"encrypt", "decrypt"} {
		var body struct {
			Items          []map[string]string `json:"batch_input"`
			Code           int                 `json:"partial_failure_response_code"`
			AssociatedData string              `json:"associated_data"`
		}
		text := p.Last(strings.Replace(path, "/", "/"+verb+"/", 1))
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		want := base64.StdEncoding.EncodeToString([]byte("foil/request-state/transit/v1"))
		if len(body.Items) != 1 || body.Items[0]["associated_data"] != want || body.Code != 200 || body.AssociatedData != "" {
			t.Errorf("%s: %s", verb, text)
		}
	}
}

// TestHostileTokenFailsAlone puts one bad token of each kind among 63 good ones.
func TestHostileTokenFailsAlone(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		path := srv.Transit(t)
		c, p := behind(t, srv, patient)
		codec := must(openbao.NewTransit(t.Context(), c, path, nil))(t)
		key := must(openbao.OpenTransitKey(c, path))(t)
		seal := func() string { return must(codec.Seal(t.Context(), []byte("honest"), later))(t) }
		old := seal()
		must(key.Revoke(t.Context(), 1))(t)
		codec = must(openbao.NewTransit(t.Context(), c, path, nil))(t)
		good := seal()
		flip := func(token string) string {
			i := len(token) - 10
			c := byte('A')
			if token[i] == c {
				c = 'B'
			}
			return token[:i] + string([]byte{c}) + token[i+1:]
		}
		// Sealed by somebody else who may use the key, for another purpose.
		other := srv.Must(t, "POST", strings.Replace(path, "/", "/encrypt/", 1), map[string]any{"batch_input": []map[string]string{
			{"plaintext": "aG9uZXN0", "associated_data": base64.StdEncoding.EncodeToString([]byte("something else"))}, {"plaintext": "aG9uZXN0"}}})
		results := other["data"].(map[string]any)["batch_results"].([]any)
		foreign := func(i int) string { return results[i].(map[string]any)["ciphertext"].(string) }

		for name, tc := range map[string]struct {
			token  string
			reason foil.Reason
		}{
			"tampered":                   {flip(good), foil.ReasonTampered},
			"of a revoked version":       {old, foil.ReasonUnknownKey},
			"of a version to come":       {strings.Replace(good, "vault:v2:", "vault:v3:", 1), foil.ReasonUnknownKey},
			"of no version":              {strings.Replace(good, "vault:v2:", "vault:v0:", 1), foil.ReasonMalformed},
			"with a leading zero":        {strings.Replace(good, "vault:v2:", "vault:v02:", 1), foil.ReasonMalformed},
			"with a sign":                {strings.Replace(good, "vault:v2:", "vault:v+2:", 1), foil.ReasonMalformed},
			"with a line feed":           {good[:30] + "\n" + good[30:], foil.ReasonMalformed},
			"for another purpose":        {foreign(0), foil.ReasonTampered},
			"without associated data":    {foreign(1), foil.ReasonTampered},
			"of a huge version":          {strings.Replace(good, "vault:v2:", "vault:v999999999:", 1), foil.ReasonUnknownKey},
			"of a version past all ints": {strings.Replace(good, "vault:v2:", "vault:v99999999999999999999:", 1), foil.ReasonMalformed},
			"short":                      {"vault:v2:" + base64.StdEncoding.EncodeToString(make([]byte, 27)), foil.ReasonMalformed},
		} {
			const callers = 64
			calls := gathered(t, p, "/decrypt/", callers, func(i int) {
				if i == 40 {
					got, err := codec.Open(t.Context(), tc.token)
					if got != nil || foil.ReasonOf(err) != tc.reason {
						t.Errorf("%s: Open = %q, %v; want %s", name, got, err, tc.reason)
					}
					return
				}
				if got, err := codec.Open(t.Context(), good); err != nil || string(got) != "honest" {
					t.Errorf("beside one that is %s: Open = %q, %v", name, got, err)
				}
			})
			if calls > callers/4 {
				t.Errorf("%s: %d calls for %d callers at once", name, calls, callers)
			}
		}
	})
}

// TestLocalStrictness: the server takes other spellings of a token. None reaches it.
func TestLocalStrictness(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		c, p := behind(t, srv, patient)
		path := srv.Transit(t)
		codec := must(openbao.NewTransit(t.Context(), c, path, nil))(t)
		good := must(codec.Seal(t.Context(), []byte("x"), later))(t)
		body := strings.TrimPrefix(good, "vault:v1:")
		before := p.Seen("")
		for _, bad := range []string{
			"", "vault:", "vault:v1", "vault:v1:", "vault:v:" + body, "vault:v01:" + body, "vault:v+1:" + body, "vault:v-1:" + body, "vault:v1 :" + body,
			"vault:v１:" + body, "Vault:v1:" + body, " " + good, good + " ", good + "\n", "vault:v1:\n" + body, "vault:v1:" + body[:8] + "\r\n" + body[8:],
			strings.TrimRight(good, "="), good + "=", "vault:v1:" + strings.NewReplacer("+", "-", "/", "_").Replace(body) + "-", "v1." + body,
			"vault:v0x1:" + body, "vault:v1e0:" + body, "vault:v1_0:" + body,
		} {
			if got, err := codec.Open(t.Context(), bad); got != nil || foil.ReasonOf(err) != foil.ReasonMalformed {
				t.Errorf("Open(%q) = %q, %v; want malformed", bad, got, err)
			}
		}
		if n := p.Seen("") - before; n != 0 {
			t.Errorf("the server was asked %d times", n)
		}
		// A version that is not there costs one look at the key, and no decryption.
		if _, err := codec.Open(t.Context(), "vault:v7:"+body); foil.ReasonOf(err) != foil.ReasonUnknownKey {
			t.Errorf("Open of a version to come: %v", err)
		}
		if looks, opens := p.Seen("/keys/")-1, p.Seen("/decrypt/"); looks != 1 || opens != 0 {
			t.Errorf("%d looks at the key and %d decryptions, want 1 and 0", looks, opens)
		}
	})
}

func TestRotationNeedsNobody(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		path := srv.Transit(t)
		c := client(t, srv)
		a := must(openbao.NewTransit(t.Context(), c, path, nil))(t)
		b := must(openbao.NewTransit(t.Context(), client(t, srv), path, nil))(t)
		key := must(openbao.OpenTransitKey(c, path))(t)
		before := must(a.Seal(t.Context(), []byte("before"), later))(t)
		s := must(key.Rotate(t.Context()))(t)
		if s.Latest != 2 || len(s.Versions) != 2 || s.Versions[1].Created.Before(time.Now().Add(-time.Hour)) {
			t.Errorf("status after a rotation: %+v", s)
		}
		after := must(a.Seal(t.Context(), []byte("after"), later))(t)
		if b.KeyID(before) != "v1" || b.KeyID(after) != "v2" {
			t.Errorf("key ids %q, %q", b.KeyID(before), b.KeyID(after))
		}
		for token, want := range map[string]string{before: "before", after: "after"} {
			if got, err := b.Open(t.Context(), token); err != nil || string(got) != want {
				t.Errorf("a peer that knew nothing of the rotation: Open = %q, %v", got, err)
			}
		}
		s = must(key.Revoke(t.Context(), 1))(t)
		if s.MinDecryption != 2 || s.Latest != 2 {
			t.Errorf("status after revoking version 1: %+v", s)
		}
		for _, codec := range []*openbao.Transit{a, b} {
			if _, err := codec.Open(t.Context(), before); foil.ReasonOf(err) != foil.ReasonUnknownKey {
				t.Errorf("Open under a revoked version: %v", err)
			}
			if _, err := codec.Open(t.Context(), after); err != nil {
				t.Errorf("Open under the one after it: %v", err)
			}
		}
		// Revoking what seals makes another version first.
		s = must(key.Revoke(t.Context(), 2))(t)
		if s.MinDecryption != 3 || s.Latest != 3 {
			t.Errorf("status after revoking the version that seals: %+v", s)
		}
		if got, err := b.Open(t.Context(), must(a.Seal(t.Context(), []byte("anew"), later))(t)); err != nil || string(got) != "anew" {
			t.Errorf("Open = %q, %v", got, err)
		}
		if s, err := key.Revoke(t.Context(), 1); err != nil || s.MinDecryption != 3 || s.Latest != 3 {
			t.Errorf("revoking again: %+v, %v", s, err)
		}
		for _, none := range []int{0, -1, 4} {
			if _, err := key.Revoke(t.Context(), none); !errors.Is(err, openbao.ErrVersion) {
				t.Errorf("Revoke(%d): %v", none, err)
			}
		}
		for range 2 {
			s = must(key.Trim(t.Context()))(t)
			if s.MinAvailable != 3 || s.MinEncryption != 3 {
				t.Errorf("status after trimming: %+v", s)
			}
		}
		if s = must(key.Revoke(t.Context(), 3))(t); s.MinDecryption != 4 || s.MinEncryption != 4 {
			t.Errorf("status after revoking where what seals is pinned: %+v", s)
		}
		if s = must(key.AutoRotate(t.Context(), 24*time.Hour))(t); s.AutoRotate != 24*time.Hour {
			t.Errorf("status after AutoRotate: %+v", s)
		}
		if _, err := key.AutoRotate(t.Context(), time.Minute); err == nil {
			t.Error("the server rotates by itself every minute")
		}
	})
}

func TestUnfitTransitKeys(t *testing.T) {
	srv := baotest.Real(t)
	c := client(t, srv)
	mount, _, _ := strings.Cut(srv.Transit(t), "/")
	for name, body := range map[string]map[string]any{
		"derived":    {"derived": true},
		"exportable": {"exportable": true},
		"backup":     {"allow_plaintext_backup": true},
		"rsa":        {"type": "rsa-2048"},
		"ed25519":    {"type": "ed25519"},
	} {
		srv.Must(t, "POST", mount+"/keys/"+name, body)
		if _, err := openbao.NewTransit(t.Context(), c, mount+"/"+name, nil); err == nil {
			t.Errorf("a key that is %s is taken", name)
		}
	}
	if _, err := openbao.NewTransit(t.Context(), c, mount+"/none", nil); err == nil || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("a key that is not there: %v", err)
	}
}

// TestCallersLeave: who gives up does not take others along, and is not held up by them.
func TestCallersLeave(t *testing.T) {
	srv := baotest.StandIn(t)
	c, p := behind(t, srv, patient)
	codec := must(openbao.NewTransit(t.Context(), c, srv.Transit(t), nil))(t)
	p.SetFor(func(r *http.Request) baotest.Fault { return baotest.Fault{Slow: 500 * time.Millisecond} })
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := codec.Seal(ctx, []byte("x"), later); !errors.Is(err, context.Canceled) {
				t.Errorf("Seal of a caller who left: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := codec.Seal(t.Context(), []byte("x"), later); err != nil {
				t.Errorf("Seal beside a caller who left: %v", err)
			}
		})
	}
	cancel()
	wg.Wait()
}
