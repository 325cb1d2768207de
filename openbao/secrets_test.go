package openbao_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/openbao"
)

// TestErrorsRepeatNothing: a server, or whatever is in front of it, that repeats what it
// was sent in its errors does not get it into a log.
func TestErrorsRepeatNothing(t *testing.T) {
	srv := baotest.StandIn(t)
	var log logBuffer
	p := baotest.NewProxy(t, srv)
	var own atomic.Value // our token
	p.SetFor(func(r *http.Request) baotest.Fault { own.Store(r.Header.Get("X-Vault-Token")); return baotest.Fault{} })
	id, secretID := role(t, srv, "", map[string]any{"token_ttl": "3s"})
	kv, transit := srv.KV(t), srv.Transit(t)
	c := open(t, &openbao.Options{Address: p.Addr, Auth: openbao.AppRole(id, secretID, nil), Timeout: patient, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ring := must(keyring.NewRing(time.Now(), nil))(t)
	store := must(openbao.OpenRing(c, kv+"/ring"))(t)
	codec := must(openbao.NewTransit(t.Context(), c, transit, nil))(t)
	claims := must(openbao.OpenClaims(c, nil))(t)
	spent := must(openbao.OpenReplay(c, kv, nil))(t)
	sweeper := must(openbao.OpenSweeper(c, kv, nil))(t)
	const payload = "the payload of the test"
	token := must(codec.Seal(t.Context(), []byte(payload), later))(t)
	claim := must(claims.Issue(t.Context(), []byte(payload), time.Minute))(t)
	for _, status := range []int{400, 403, 404, 412, 429, 500, 503} {
		p.Set(baotest.Fault{Status: status, Echo: true})
		var texts []string
		said := func(what string, err error) {
			if err == nil {
				t.Errorf("%d: %s: no error", status, what)
			}
			texts = append(texts, fmt.Sprintf("%s: %v %+v %#v %s %q", what, err, err, err, err, err))
		}
		said("Create", store.Create(t.Context(), ring))
		_, err := store.Load(t.Context())
		said("Load", err)
		_, err = codec.Seal(t.Context(), []byte(payload), later)
		said("Seal", err)
		_, err = codec.Open(t.Context(), token)
		said("Open", err)
		_, err = claims.Issue(t.Context(), []byte(payload), time.Minute)
		said("Issue", err)
		_, err = claims.Redeem(t.Context(), claim, "op")
		said("Redeem", err)
		_, err = spent.Use(t.Context(), []byte("0123456789abcdef"), later)
		said("Use", err)
		said("Ping", spent.Ping(t.Context()))
		_, err = sweeper.Sweep(t.Context())
		if status != 404 { // nothing is there to be swept
			said("Sweep", err)
		}
		doc := string(ring.Marshal())
		at := strings.Index(doc, `"secret":"`) + len(`"secret":"`)
		raw, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(claim, "foil-claim."))
		for _, text := range append(texts, log.String()) {
			for name, leak := range map[string]string{
				"key": doc[at : at+20], "payload": payload, "payload in base64": base64.StdEncoding.EncodeToString([]byte(payload))[:16],
				"token": token[12:32], "claim": claim[20:], "wrapping token": string(raw), "secret ID": secretID,
				"path of a spent ID": "spent/", "our token": own.Load().(string), "words of the server": "batch_input",
			} {
				if strings.Contains(text, leak) {
					t.Errorf("%d: %s in %s", status, name, text)
				}
			}
		}
		p.Mend()
		eventually(t, "recovery", func() bool { return c.Ping(t.Context()) == nil })
	}
}
