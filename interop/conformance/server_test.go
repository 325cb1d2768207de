package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/foilmcp/foil/store/sqlite"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server is the fixture behind Protect, on a port of this machine.
type server struct {
	url   string
	codec *aesgcm.Codec
	log   *logged
}

// protect starts the fixture with every binding and single use: a login, an
// audience, the default times, a ring, and a store on disk.
//
// The suite sends no Authorization. A hop in front of the login does it in its
// place, with a token that it renews for each request, as some proxies do.
func protect(t *testing.T, bare foil.Choice) *server {
	t.Helper()
	ring, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "foil.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	lines := &logged{}
	logger := slog.New(slog.NewJSONHandler(lines, nil))
	guard, err := foil.New(codec, &foil.Options{Audience: "conformance-fixture", Replay: store.Replay(), Claims: store.Claims(), Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	s := fixture()
	s.AddReceivingMiddleware(mcpsdk.Protect(guard, &mcpsdk.Options{Issuer: "https://as.test", BareAnswers: bare, Logger: logger}))

	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		user, _, _ := strings.Cut(token, "#")
		return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour), Extra: map[string]any{"client_id": "suite"}}, nil
	}
	login := auth.RequireBearerToken(verify, nil)(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	var n atomic.Int64
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", fmt.Sprintf("Bearer alice#%d", n.Add(1)))
		}
		login.ServeHTTP(w, r)
	}))
	t.Cleanup(ts.Close)
	return &server{url: ts.URL, codec: codec, log: lines}
}

// logged keeps what was logged.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// refusals is the target and the reason of each state that the guard refused.
func (l *logged) refusals() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for line := range bytes.Lines(l.buf.Bytes()) {
		var entry struct{ Msg, Target, Reason string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "request state refused" {
			all = append(all, entry.Target+" "+entry.Reason)
		}
	}
	return all
}
