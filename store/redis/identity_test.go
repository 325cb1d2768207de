//go:build unix

package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/redis"
)

func TestEmptiedDatabaseIsNoticed(t *testing.T) {
	for name, spoil := range map[string][]any{
		"flushed":     {"FLUSHALL"},
		"deleted":     {"DEL", "{foil:}meta"},
		"another one": {"HSET", "{foil:}meta", "id", "00112233445566778899aabbccddeeff"},
		"migrated":    {"HSET", "{foil:}meta", "schema", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t, redistest.Durable...)
			s := open(t, srv, redis.Options{})
			id := freshID()
			use(t, s, id, true)
			if err := srv.Client(t).Do(t.Context(), spoil...).Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Hour)); first || !errors.Is(err, redis.ErrReplaced) {
					t.Fatalf("Use = %v, %v; want ErrReplaced", first, err)
				}
			}
			if err := s.Ping(t.Context()); !errors.Is(err, redis.ErrReplaced) {
				t.Fatalf("Ping: %v; want ErrReplaced", err)
			}
			_, err := redis.Open(t.Context(), srv.URL(), &redis.Options{Timeout: time.Minute})
			if newer := name == "migrated"; newer != (err != nil && contains(err.Error(), "newer")) {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

func TestForeignDataIsRefused(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	for _, command := range [][]any{{"SET", "{foil:}meta", "x"}, {"HSET", "{foil:}meta", "x", "y"}} {
		c := srv.Client(t)
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := redis.Open(t.Context(), srv.URL(), &redis.Options{Timeout: time.Minute}); err == nil || !contains(err.Error(), "another program") {
			t.Errorf("Open over another program's data: %v", err)
		}
	}
}

// TestTakenIDsAreNoticed: whoever deletes spent IDs, or a server that evicts, must
// not make tokens good again.
func TestTakenIDsAreNoticed(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	for _, key := range []string{"spent", "due"} {
		s := open(t, srv, redis.Options{Prefix: key})
		id := freshID()
		use(t, s, id, true)
		if err := srv.Client(t).Del(t.Context(), "{"+key+"}"+key).Err(); err != nil {
			t.Fatal(err)
		}
		for _, id := range [][]byte{freshID(), id} {
			first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Hour))
			if first || err == nil && key == "spent" {
				t.Errorf("Use after %s was deleted = %v, %v; want an error", key, first, err)
			}
		}
	}
}

// TestNothingHasATimeToLive: Redis would forget it without raising the mark.
func TestNothingHasATimeToLive(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	s := open(t, srv, redis.Options{})
	use(t, s, freshID(), true)
	write(t, s, [16]byte(freshID()), [32]byte{}, []byte("content"))
	c := srv.Client(t)
	keys, err := c.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) < 8 {
		t.Fatalf("KEYS = %d keys, %v", len(keys), err)
	}
	for _, key := range keys {
		if ttl := c.TTL(t.Context(), key).Val(); ttl != -1 {
			t.Errorf("%.20q lives for %v", key, ttl)
		}
		if !contains(key, "{foil:}") {
			t.Errorf("%.20q is not under the prefix", key)
		}
	}
}

func TestExpiredIsRefusedByTheServersClock(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	s := open(t, srv, redis.Options{Skew: time.Second})
	id := freshID()
	for range 2 {
		// A SET NX with a past expiry would succeed each time.
		if first, err := s.Replay().Use(t.Context(), id, time.Now().Add(-2*time.Second)); first || !errors.Is(err, replay.ErrSwept) {
			t.Fatalf("Use of an expired id = %v, %v; want ErrSwept", first, err)
		}
	}
	if n := srv.Client(t).HLen(t.Context(), "{foil:}spent").Val(); n != 0 {
		t.Errorf("%d expired IDs were kept", n)
	}
	if first, err := s.Replay().Use(t.Context(), id, time.Now().Add(-time.Second/2)); err != nil || !first {
		t.Fatalf("Use within the skew = %v, %v; want true", first, err)
	}
}
