package openbao_test

import (
	"os"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/openbao"
)

func TestMain(m *testing.M) {
	if os.Getenv(redeemerEnv) != "" {
		os.Exit(redeemer())
	}
	os.Exit(baotest.Main(m))
}

// patient is the deadline of a call where nothing is to go wrong: the machine may be
// busy.
const patient = time.Minute

// client returns a client of a server, as root.
func client(t testing.TB, srv *baotest.Server) *openbao.Client {
	t.Helper()
	return clientAt(t, srv.Addr, srv.Token)
}

func clientAt(t testing.TB, addr, token string) *openbao.Client {
	t.Helper()
	return open(t, &openbao.Options{Address: addr, Auth: openbao.Token(token), Timeout: patient})
}

func open(t testing.TB, o *openbao.Options) *openbao.Client {
	t.Helper()
	c, err := openbao.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// behind returns a client behind a proxy, whose calls end soon, and the proxy.
func behind(t testing.TB, srv *baotest.Server, timeout time.Duration) (*openbao.Client, *baotest.Proxy) {
	t.Helper()
	p := baotest.NewProxy(t, srv)
	return open(t, &openbao.Options{Address: p.Addr, Auth: openbao.Token(srv.Token), Timeout: timeout}), p
}
