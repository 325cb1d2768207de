//go:build unix

package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/store/redis"
)

// Who looks after a store does not begin one.
func TestExisting(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	existing := func(prefix string) error {
		s, err := redis.Open(t.Context(), srv.URL(), &redis.Options{Prefix: prefix, Existing: true, Timeout: time.Minute, PlainAtRest: true})
		if err != nil {
			return err
		}
		return s.Close()
	}
	if err := existing(""); !errors.Is(err, redis.ErrMissing) {
		t.Errorf("Open of an empty database: %v, want ErrMissing", err)
	}
	if n := srv.Client(t).DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are in the database, want none", n)
	}
	open(t, srv, redis.Options{})
	if err := existing(""); err != nil {
		t.Errorf("Open of a store that is there: %v", err)
	}
	if err := existing("other:"); !errors.Is(err, redis.ErrMissing) {
		t.Errorf("Open under another prefix: %v, want ErrMissing", err)
	}
}
