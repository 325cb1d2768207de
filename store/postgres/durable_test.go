package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// role creates a role with the rights that Grants gives, and returns a DSN for it.
func (w *world) role(t *testing.T, settings ...string) (dsn string) {
	t.Helper()
	name := "Role " + w.schema // one that must be quoted
	grants, err := postgres.Grants(w.schema, name)
	if err != nil {
		t.Fatal(err)
	}
	statements := []string{fmt.Sprintf(`CREATE ROLE "%s" LOGIN PASSWORD 'of the role'`, name)}
	for _, s := range settings {
		statements = append(statements, fmt.Sprintf(`ALTER ROLE "%s" SET %s`, name, s))
	}
	w.sql(t, append(statements, grants)...)
	u, err := url.Parse(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "of the role")
	return u.String()
}

var tables = []string{"mark", "total", "spent", "claim", "handle", "operation", "step"}

// Every transaction that writes is told to wait for the disk, whatever the role
// is told, with no more rights than Grants gives.
func TestEveryWriteIsDurable(t *testing.T) {
	w := newWorld(t, nil)
	w.open(t)
	w.sql(t, `CREATE TABLE {s}.seen (tab text, value text)`,
		`CREATE FUNCTION {s}.see() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO {s}.seen VALUES (TG_TABLE_NAME, current_setting('synchronous_commit')); RETURN NULL; END $$`)
	for _, table := range tables {
		w.sql(t, `CREATE TRIGGER zz_see AFTER INSERT OR UPDATE OR DELETE ON {s}.`+table+` FOR EACH STATEMENT EXECUTE FUNCTION {s}.see()`)
	}
	w.dsn = w.role(t, "synchronous_commit = off")
	w.opts.Migrate = false
	pool, err := pgxpool.New(t.Context(), w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var setting string
	if err := pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&setting); err != nil || setting != "off" {
		t.Fatalf("synchronous_commit of the role = %q, %v; the test relies on off", setting, err)
	}
	s, err := postgres.New(t.Context(), pool, &w.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		first, err := s.Replay().InTx(tx).UseAs(t.Context(), newID(), soon(), newID())
		if err == nil && !first {
			err = fmt.Errorf("not first")
		}
		return err
	}); err != nil {
		t.Errorf("InTx: %v", err)
	}
	useAll(t, s)
	for _, table := range tables {
		var all, on int
		w.scan(t, `SELECT count(*), count(*) FILTER (WHERE value = 'on') FROM {s}.seen WHERE tab = '`+table+`'`, &all, &on)
		if all == 0 || on != all {
			t.Errorf("%d of %d writes to %s had synchronous_commit=on", on, all, table)
		}
	}
	// And no connection goes back to the pool with what the store has set.
	if err := pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&setting); err != nil || setting != "off" {
		t.Errorf("synchronous_commit after the store's transactions = %q, %v; want the role's own", setting, err)
	}
}

// useAll calls every method that a server calls, and Sweep and Restored.
func useAll(t *testing.T, s *postgres.Store) {
	t.Helper()
	ctx := t.Context()
	good := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	r, c, h, l := s.Replay(), s.Claims(), s.Handles(), s.Ledger()
	_, err := r.Use(ctx, newID(), soon())
	good("Use", err)
	_, err = r.UseAs(ctx, newID(), soon(), newID())
	good("UseAs", err)
	_, _, err = r.Attempt(ctx, newID())
	good("Attempt", err)
	claim, err := c.Issue(ctx, []byte("plan"), time.Hour)
	good("Issue", err)
	_, err = c.Redeem(ctx, claim, "one")
	good("Redeem", err)
	good("Revoke", c.Revoke(ctx, claim))
	good("Put", h.Put(ctx, [32]byte{1}, []byte("payload"), soon()))
	_, _, err = h.Get(ctx, [32]byte{1})
	good("Get", err)
	for _, ping := range []func(context.Context) error{r.Ping, c.Ping, h.Ping, l.Ping} {
		good("Ping", ping(ctx))
	}
	a, b := newStart(), newStart()
	b.Lease = time.Millisecond
	for _, start := range []*ledger.Start{a, b} {
		_, _, err = l.Begin(ctx, start)
		good("Begin", err)
	}
	good("Renew", l.Renew(ctx, a.ID, 1, time.Minute))
	_, err = l.BeginStep(ctx, a.ID, 1, "step", time.Minute)
	good("BeginStep", err)
	good("EndStep", l.EndStep(ctx, a.ID, 1, "step", []byte("result"), time.Minute))
	good("Finish", l.Finish(ctx, a.ID, 1, ledger.Finish{State: ledger.Succeeded, Outcome: []byte("outcome")}))
	time.Sleep(20 * time.Millisecond) // past b's lease
	_, err = l.Resume(ctx, b.ID, 1, time.Millisecond)
	good("Resume", err)
	time.Sleep(20 * time.Millisecond)
	good("Resolve", l.Resolve(ctx, b.ID, 2, ledger.Resolution{State: ledger.Failed, By: "operator"}))
	_, err = l.Get(ctx, b.ID)
	good("Get", err)
	_, _, err = l.List(ctx, ledger.Query{})
	good("List", err)
	_, err = l.Counts(ctx)
	good("Counts", err)
	_, err = s.Stats(ctx)
	good("Stats", err)
	_, err = s.Sweep(ctx)
	good("Sweep", err)
	_, err = s.Restored(ctx)
	good("Restored", err)
	good("Fsck", s.Fsck(ctx, problem(t)))
}

// A server that does not sync is refused.
func TestNoFsync(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	dsn := server.Database(t)
	s, err := postgres.Open(t.Context(), dsn, &postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if first, err := s.Replay().Use(t.Context(), newID(), soon()); first || err == nil || !strings.Contains(err.Error(), "fsync") {
		t.Errorf("Use = %v, %v; want an error that names fsync", first, err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := postgres.InTx(tx).UseAs(t.Context(), newID(), soon(), newID())
		return err
	}); err == nil || !strings.Contains(err.Error(), "fsync") {
		t.Errorf("UseAs in a transaction: %v; want an error that names fsync", err)
	}
	told, err := postgres.Open(t.Context(), dsn, &postgres.Options{AcceptNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	if first, err := told.Replay().Use(t.Context(), newID(), soon()); err != nil || !first {
		t.Errorf("Use with AcceptNoFsync = %v, %v", first, err)
	}
}

// Spent stays spent when the server crashes, and the store finds it again.
func TestServerRestarts(t *testing.T) {
	server := pgtest.Start(t)
	s, err := postgres.Open(t.Context(), server.Database(t), &postgres.Options{Migrate: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var spent [][]byte
	for _, end := range []func() error{server.Stop, server.Kill} {
		for range 10 {
			id := newID()
			if first, err := s.Replay().Use(t.Context(), id, soon()); err != nil || !first {
				t.Fatalf("Use = %v, %v", first, err)
			}
			spent = append(spent, id)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		patient := s.SetTimeout(200 * time.Millisecond)
		if first, err := s.Replay().Use(t.Context(), spent[0], soon()); first || err == nil {
			t.Errorf("Use without a server = %v, %v; want an error", first, err)
		}
		patient()
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		for _, id := range spent {
			if first, err := s.Replay().Use(t.Context(), id, soon()); err != nil || first {
				t.Fatalf("Use of a spent id after the server came back = %v, %v; want false", first, err)
			}
		}
	}
}

func TestReadOnlyServer(t *testing.T) {
	w := newWorld(t, nil)
	w.open(t)
	w.opts.Migrate = false
	w.dsn = w.role(t, "default_transaction_read_only = on")
	s := w.open(t)
	if first, err := s.Replay().Use(t.Context(), newID(), soon()); first || err == nil || !strings.Contains(err.Error(), "takes no writes") {
		t.Errorf("Use = %v, %v; want an error that says why", first, err)
	}
	if err := s.Replay().Ping(t.Context()); err == nil {
		t.Error("Ping of a server that takes no writes: no error")
	}
}
