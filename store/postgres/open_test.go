package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// No error of Open tells the password, nor holds it.
func TestOpenErrors(t *testing.T) {
	server := pgtest.Shared(t)
	host, port, _ := net.SplitHostPort(server.Addr())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, closed, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close()
	const secret = "S3cr3tPassw0rd"
	for name, dsn := range map[string]string{
		"wrong password, url":       "postgres://postgres:" + secret + "@" + server.Addr() + "/postgres?sslmode=disable",
		"wrong password, keywords":  fmt.Sprintf("host=%s port=%s user=postgres password=%s dbname=postgres sslmode=disable", host, port, secret),
		"no such role":              "postgres://nobody:" + secret + "@" + server.Addr() + "/postgres?sslmode=disable",
		"unreachable, url":          "postgres://postgres:" + secret + "@127.0.0.1:" + closed + "/postgres",
		"unreachable, keywords":     fmt.Sprintf("host=127.0.0.1 port=%s user=postgres password=%s", closed, secret),
		"bad port, url":             "postgres://postgres:" + secret + "@127.0.0.1:port/postgres",
		"bad port, keywords":        "host=127.0.0.1 port=port password=" + secret,
		"unescaped slash":           "postgres://postgres:" + secret + "/x@" + server.Addr() + "/postgres",
		"unescaped slash after":     "postgres://postgres:x/" + secret + "@" + server.Addr() + "/postgres",
		"unescaped hash":            "postgres://postgres:1#" + secret + "@" + server.Addr() + "/postgres",
		"unescaped percent":         "postgres://postgres:%" + secret + "@" + server.Addr() + "/postgres",
		"unescaped question mark":   "postgres://postgres:1?" + secret + "@" + server.Addr() + "/postgres",
		"unquoted space":            fmt.Sprintf("host=%s port=%s user=postgres password=%s %s dbname=postgres sslmode=disable", host, port, server.Password, secret),
		"unterminated quote":        "host=127.0.0.1 password='" + secret,
		"bad setting":               "postgres://postgres:" + secret + "@" + server.Addr() + "/postgres?sslmode=" + secret,
		"bad size of the pool, url": "postgres://postgres:" + secret + "@" + server.Addr() + "/postgres?pool_max_conns=many",
	} {
		for _, migrate := range []bool{false, true} {
			s, err := postgres.Open(t.Context(), dsn, &postgres.Options{Schema: "none", Migrate: migrate})
			checkOpenError(t, name, secret, s, err)
		}
		checkOpenError(t, name+", Migrate", secret, nil, postgres.Migrate(t.Context(), dsn, ""))
	}
	t.Setenv("PGPASSWORD", secret)
	s, err := postgres.Open(t.Context(), "postgres://postgres@"+server.Addr()+"/postgres?sslmode=disable", nil)
	checkOpenError(t, "PGPASSWORD", secret, s, err)
}

func checkOpenError(t *testing.T, name, secret string, s *postgres.Store, err error) {
	t.Helper()
	if err == nil || s != nil {
		t.Errorf("%s: Open = %v, %v; want an error", name, s, err)
		return
	}
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, secret) || !strings.HasPrefix(text, "postgres: ") {
		t.Errorf("%s: the error tells the password, or does not begin with the package", name)
	}
	var connecting *pgconn.ConnectError // has the configuration, with the password
	var parsing *pgconn.ParseConfigError
	if errors.As(err, &connecting) || errors.As(err, &parsing) {
		t.Errorf("%s: the error holds the password", name)
	}
}

func TestOptions(t *testing.T) {
	w := newWorld(t, nil)
	for _, o := range []postgres.Options{
		{Timeout: -1}, {MaxConns: -1}, {Skew: -1}, {MaxClaimBytes: -1}, {MaxClaims: -1}, {MaxClaimTotalBytes: -1}, {MaxHandles: -1}, {MaxHandleTotalBytes: -1}, {MaxOutcome: -1},
		{Schema: "Foil"}, {Schema: "foil; DROP"}, {Schema: `fo"il`}, {Schema: "pg_foil"}, {Schema: "1foil"}, {Schema: strings.Repeat("x", 64)},
	} {
		if s, err := postgres.Open(t.Context(), w.direct, &o); err == nil || s != nil {
			t.Errorf("Open with %+v: no error", o)
		}
	}
	if s, err := postgres.New(t.Context(), nil, nil); err == nil || s != nil {
		t.Error("New without a pool: no error")
	}
	s := w.open(t)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", s, s, s), fmt.Sprintf("%+v", s.Replay()), fmt.Sprintf("%+v", s.Claims()), fmt.Sprintf("%#v", s.Handles()), fmt.Sprintf("%+v", s.Ledger())} {
		if strings.Contains(text, pgtest.Shared(t).Password) || !strings.Contains(text, "postgres.") || len(text) > 100 {
			t.Errorf("prints as %q", text)
		}
	}
}

func TestMigrate(t *testing.T) {
	w := newWorld(t, nil)
	w.opts.Migrate = false
	open := func() error {
		s, err := postgres.Open(t.Context(), w.direct, &w.opts)
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "foil store migrate") {
		t.Errorf("Open without a schema: %v", err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := postgres.Migrate(context.Background(), w.direct, w.schema); err != nil {
				t.Errorf("Migrate: %v", err)
			}
		})
	}
	wg.Wait()
	if err := open(); err != nil {
		t.Errorf("Open after Migrate: %v", err)
	}
	w.sql(t, `UPDATE {s}.schema_version SET version = 99`)
	for name, err := range map[string]error{"Open": open(), "Migrate": postgres.Migrate(t.Context(), w.direct, w.schema)} {
		if err == nil || !strings.Contains(err.Error(), "newer than this program knows") {
			t.Errorf("%s of a newer schema: %v", name, err)
		}
	}
	var version int
	w.scan(t, `SELECT version FROM {s}.schema_version`, &version)
	if version != 99 {
		t.Errorf("the newer schema has version %d now", version)
	}
	w.sql(t, `DELETE FROM {s}.schema_version`)
	if err := open(); err == nil {
		t.Error("Open of a schema without its version: no error")
	}

	foreign := newWorld(t, nil)
	foreign.sql(t, `CREATE SCHEMA {s}`, `CREATE TABLE {s}.theirs ()`)
	if err := postgres.Migrate(t.Context(), foreign.direct, foreign.schema); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("Migrate of another program's schema: %v", err)
	}
	var n int
	foreign.scan(t, `SELECT count(*) FROM pg_class WHERE relnamespace = '{s}'::regnamespace`, &n)
	if n != 1 {
		t.Errorf("another program's schema has %d relations now", n)
	}

	// A failure leaves nothing behind.
	half := newWorld(t, nil)
	half.sql(t, `CREATE SCHEMA {s}`, `CREATE FUNCTION {s}.count_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	if err := postgres.Migrate(t.Context(), half.direct, half.schema); err == nil {
		t.Error("Migrate over a function that is there: no error")
	}
	half.scan(t, `SELECT count(*) FROM pg_class WHERE relnamespace = '{s}'::regnamespace`, &n)
	if n != 0 {
		t.Errorf("a migration that failed left %d relations", n)
	}
}

// What a server's role may do is what Grants says: it can do neither less nor,
// in what matters, more.
func TestGrants(t *testing.T) {
	w := newWorld(t, nil)
	w.open(t)
	conn, err := pgx.Connect(t.Context(), w.role(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, s := range []string{
		`CREATE TABLE {s}.mine ()`, `UPDATE {s}.schema_version SET version = 1`, `DELETE FROM {s}.mark`, `INSERT INTO {s}.total VALUES ('claim', 1, 1, 1)`, `TRUNCATE {s}.spent`, `DROP TABLE {s}.spent`,
	} {
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(s, "{s}", w.schema)); err == nil {
			t.Errorf("the role may %s", s)
		}
	}
	for _, c := range [][2]string{{"Foil", "role"}, {"foil", ""}, {"foil", "a\x00b"}} {
		if text, err := postgres.Grants(c[0], c[1]); err == nil {
			t.Errorf("Grants(%q, %q) = %q", c[0], c[1], text)
		}
	}
}

func TestClose(t *testing.T) {
	w := newWorld(t, nil)
	pool, err := pgxpool.New(t.Context(), w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := postgres.New(t.Context(), pool, &w.opts)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := s.Replay().Use(t.Context(), newID(), soon()); !errors.Is(err, postgres.ErrClosed) {
		t.Errorf("Use after Close: %v, want ErrClosed", err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the caller's pool after Close: %v", err)
	}
	own := w.open(t)
	_ = own.Close()
	if err := own.Ledger().Ping(t.Context()); !errors.Is(err, postgres.ErrClosed) {
		t.Errorf("Ping after Close: %v, want ErrClosed", err)
	}
}

// A call ends by its timeout, on the server too, and its connection is good.
func TestTimeout(t *testing.T) {
	w := newWorld(t, nil)
	s := w.warm(t)
	unlock := w.lock(t, "spent")
	patient := s.SetTimeout(300 * time.Millisecond)
	id := newID()
	if first, err := s.Replay().Use(t.Context(), id, soon()); first || err == nil {
		t.Errorf("Use of a locked table = %v, %v; want an error", first, err)
	}
	patient()
	var n int
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		w.scan(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"{s}"%'`, &n)
		if n == 0 {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatal("the server still waits for a call that has ended")
		}
	}
	unlock()
	if first, err := s.Replay().Use(t.Context(), id, soon()); err != nil || !first {
		t.Errorf("Use = %v, %v; want true", first, err)
	}
}

// withParam is dsn with one parameter more.
func withParam(t *testing.T, dsn, name, value string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// Every way of the driver to send statements carries them out alike.
func TestExecModes(t *testing.T) {
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, nil)
			w.dsn = withParam(t, w.dsn, "default_query_exec_mode", mode)
			useAll(t, w.open(t))
		})
	}
}
