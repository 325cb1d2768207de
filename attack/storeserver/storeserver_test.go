package storeserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/storeserver"
	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/foilmcp/foil/store/redis"
)

var id = []byte("0123456789abcdef")

// check takes a store away and gives it back.
func check(t *testing.T, seam attack.Store, spent replay.Store) {
	t.Helper()
	restore, err := seam.Outage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if first, err := spent.Use(limited, id, time.Now().Add(time.Hour)); err == nil {
		t.Errorf("the store answers: %t", first)
	}
	// The attack may be over when the store is given back.
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if first, err := spent.Use(t.Context(), []byte("another-of-these"), time.Now().Add(time.Hour)); !first || err != nil {
		t.Errorf("afterwards: %t, %v", first, err)
	}
	if _, err := seam.Sweep(t.Context(), time.Now()); err == nil {
		t.Error("it swept by a clock that cannot be set")
	}
	blind := seam.(attack.Blind)
	if blind.Blind("replay-swept", "") == "" || blind.Blind("store-down", "") != "" {
		t.Error("it is blind to the wrong rows")
	}
}

func TestPostgres(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	s, err := postgres.Open(t.Context(), dsn, &postgres.Options{Migrate: true, PlainAtRest: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check(t, storeserver.Postgres{DSN: dsn}, s.Replay())
}

func TestRedis(t *testing.T) {
	url := redistest.Start(t, redistest.Durable...).URL()
	s, err := redis.Open(t.Context(), url, &redis.Options{PlainAtRest: true, Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check(t, storeserver.Redis{URL: url}, s.Replay())
}

// TestSilent shows that no error tells how to get in.
func TestSilent(t *testing.T) {
	for _, seam := range []attack.Store{
		storeserver.Postgres{DSN: "postgres://me:hunter2@127.0.0.1:1/x"},
		storeserver.Postgres{DSN: "postgres://me:hunter2@%zz/x"},
		storeserver.Redis{URL: "redis://me:hunter2@127.0.0.1:1"},
		storeserver.Redis{URL: "redis://me:hunter2@%zz"},
	} {
		_, err := seam.Outage(t.Context())
		if err == nil || strings.Contains(err.Error(), "hunter2") || errors.Is(err, context.Canceled) {
			t.Errorf("%T: %v", seam, err)
		}
	}
}
