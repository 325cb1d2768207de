package pgtest_test

import (
	"net/url"
	"os"
	"testing"

	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func query(t *testing.T, dsn, sql string) (out string, err error) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		return "", err
	}
	defer c.Close(t.Context())
	err = c.QueryRow(t.Context(), sql).Scan(&out)
	return out, err
}

func TestDatabasesAreApart(t *testing.T) {
	one, two := pgtest.Database(t), pgtest.Database(t)
	a, err := query(t, one, "SELECT current_database()")
	if err != nil {
		t.Fatal(err)
	}
	b, err := query(t, two, "SELECT current_database()")
	if err != nil || a == b {
		t.Fatalf("databases %q and %q, %v; want two", a, b, err)
	}
}

func TestServerEndsAndComesBack(t *testing.T) {
	s := pgtest.Start(t, "work_mem=7MB")
	dsn := s.Database(t)
	if got, err := query(t, dsn, "SHOW work_mem"); err != nil || got != "7MB" {
		t.Fatalf("work_mem = %q, %v; want what Start was told", got, err)
	}
	for _, end := range []func() error{s.Stop, s.Kill} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if _, err := query(t, dsn, "SELECT ''"); err == nil {
			t.Fatal("a server that was ended answers")
		}
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		if _, err := query(t, dsn, "SELECT ''"); err != nil {
			t.Fatalf("after the server came back: %v", err)
		}
	}
}

func TestPasswordIsAsked(t *testing.T) {
	u, err := url.Parse(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("postgres", "not it")
	if _, err := query(t, u.String(), "SELECT ''"); err == nil {
		t.Fatal("a wrong password was let in")
	}
}
