//go:build unix

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/redis"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func port(addr string) string { _, p, _ := net.SplitHostPort(addr); return p }

func millis(t time.Time) string { return fmt.Sprint(t.UnixMilli()) }

func TestServersThatAreRefused(t *testing.T) {
	always := []string{"appendonly yes", "appendfsync always"}
	for _, tc := range []struct {
		name   string
		config []string
		opts   redis.Options
		want   string // in the error; empty: it is accepted
	}{
		{"durable", redistest.Durable, redis.Options{}, ""},
		{"volatile-lru", append([]string{"maxmemory 100mb", "maxmemory-policy volatile-lru"}, always...), redis.Options{}, "maxmemory-policy"},
		{"allkeys-lru", append([]string{"maxmemory 100mb", "maxmemory-policy allkeys-lru"}, always...), redis.Options{Unchecked: true}, "maxmemory-policy"},
		{"allkeys-lru that never evicts", append([]string{"maxmemory 0", "maxmemory-policy allkeys-lru"}, always...), redis.Options{}, ""},
		{"no log", []string{"appendonly no"}, redis.Options{}, "appendonly"},
		{"no log, everysec", []string{"appendonly no"}, redis.Options{Durability: redis.Everysec}, "appendonly"},
		{"no log, none", []string{"appendonly no"}, redis.Options{Durability: redis.None}, ""},
		{"synced every second", []string{"appendonly yes", "appendfsync everysec"}, redis.Options{}, "appendfsync"},
		{"synced every second, everysec", []string{"appendonly yes", "appendfsync everysec"}, redis.Options{Durability: redis.Everysec}, ""},
		{"synced always, everysec", always, redis.Options{Durability: redis.Everysec}, ""},
		{"never synced", []string{"appendonly yes", "appendfsync no"}, redis.Options{Durability: redis.Everysec}, "appendfsync"},
		{"not synced while rewriting", append([]string{"no-appendfsync-on-rewrite yes"}, always...), redis.Options{}, "no-appendfsync-on-rewrite"},
		{"CONFIG forbidden", append([]string{`rename-command CONFIG ""`}, always...), redis.Options{}, "Unchecked"},
		{"CONFIG forbidden, unchecked", append([]string{`rename-command CONFIG ""`}, always...), redis.Options{Unchecked: true}, ""},
		{"no log, unchecked", []string{"appendonly no"}, redis.Options{Unchecked: true}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := redistest.Start(t, tc.config...)
			tc.opts.Timeout, tc.opts.PlainAtRest = time.Minute, true
			s, err := redis.Open(t.Context(), srv.URL(), &tc.opts)
			if tc.want == "" {
				if err != nil {
					t.Fatalf("Open: %v", err)
				}
				use(t, s, freshID(), true)
				_ = s.Close()
				return
			}
			if !errors.Is(err, redis.ErrServer) || !contains(err.Error(), tc.want) {
				t.Fatalf("Open: %v; want ErrServer that names %s", err, tc.want)
			}
			if keys, _ := srv.Client(t).DBSize(t.Context()).Result(); keys != 0 {
				t.Error("Open wrote to a server that it refused")
			}
		})
	}
}

func TestReplicaIsRefused(t *testing.T) {
	primary := redistest.Start(t, redistest.Durable...)
	replica := redistest.StartReplica(t, primary, redistest.Durable...)
	linked(t, primary)
	if _, err := redis.Open(t.Context(), replica.URL(), &redis.Options{Timeout: time.Minute}); !errors.Is(err, redis.ErrServer) || !contains(err.Error(), "role") {
		t.Fatalf("Open of a replica: %v; want ErrServer", err)
	}
	// A primary that is demoted under an open store.
	s := open(t, primary, redis.Options{})
	use(t, s, freshID(), true)
	if err := primary.Client(t).Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if first, err := s.Replay().Use(t.Context(), freshID(), time.Now().Add(time.Hour)); first || err == nil {
		t.Fatalf("Use of a primary that was demoted = %v, %v; want an error", first, err)
	}
	if _, found, err := s.Handles().Get(t.Context(), [32]byte{}); found || err == nil {
		t.Fatalf("Get of a primary that was demoted = %v, %v; want an error", found, err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, redis.ErrServer) {
		t.Fatalf("Ping of a primary that was demoted: %v; want ErrServer", err)
	}
}

// TestServerIsLookedAtAgain changes a server under an open store.
func TestServerIsLookedAtAgain(t *testing.T) {
	set := func(t *testing.T, srv *redistest.Server, name, value string) {
		t.Helper()
		if err := srv.Client(t).ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	refuses := func(t *testing.T, s *redis.Store) {
		t.Helper()
		if first, err := s.Replay().Use(t.Context(), freshID(), time.Now().Add(time.Hour)); first || !errors.Is(err, redis.ErrServer) {
			t.Fatalf("Use = %v, %v; want ErrServer", first, err)
		}
	}
	t.Run("by Ping", func(t *testing.T) {
		srv := redistest.Start(t, redistest.Durable...)
		s := open(t, srv, redis.Options{})
		set(t, srv, "appendfsync", "no")
		for what, ping := range map[string]func(context.Context) error{"Store": s.Ping, "Replay": s.Replay().Ping, "Claims": s.Claims().Ping, "Handles": s.Handles().Ping, "Ledger": s.Ledger().Ping} {
			if err := ping(t.Context()); !errors.Is(err, redis.ErrServer) {
				t.Errorf("%s.Ping: %v; want ErrServer", what, err)
			}
		}
		set(t, srv, "appendfsync", "always")
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("Ping: %v", err)
		}
	})
	t.Run("after a while", func(t *testing.T) {
		srv := redistest.Start(t, redistest.Durable...)
		s := open(t, srv, redis.Options{})
		set(t, srv, "appendfsync", "no")
		s.Forget() // as after some seconds
		refuses(t, s)
	})
	t.Run("on a new connection", func(t *testing.T) {
		srv := redistest.Start(t, redistest.Durable...)
		s := open(t, srv, redis.Options{})
		use(t, s, freshID(), true)
		srv.Stop(t)
		srv.Reconfigure("appendfsync everysec")
		srv.Restart(t)
		refuses(t, s)
	})
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	srv := redistest.Start(t, append([]string{"requirepass another"}, redistest.Durable...)...)
	for _, dsn := range []string{"redis://:" + password + "@" + srv.Addr, "redis://user:" + password + "@" + srv.Addr, "redis://" + srv.Addr, "rediss://:" + password + "@" + srv.Addr} {
		_, err := redis.Open(t.Context(), dsn, &redis.Options{Timeout: 5 * time.Second})
		if err == nil {
			t.Fatal("Open with the wrong password: no error")
		}
		noSecret(t, err)
	}
	s := open(t, srv, redis.Options{})
	for _, v := range []any{s, s.Replay(), s.Claims(), s.Handles(), s.Ledger()} {
		if text := fmt.Sprintf("%v %+v %#v %s", v, v, v, v); contains(text, "another") || contains(text, srv.Addr) {
			t.Errorf("%T shows what is inside", v)
		}
	}
}

// TestLeastUser: the user of the package documentation can do everything.
func TestLeastUser(t *testing.T) {
	srv := redistest.Start(t, append([]string{"user foil on >" + password + " ~{foil:}* +eval +evalsha +script|load +info +config|get +wait +time +type +exists +unlink +@hash +@sortedset"}, redistest.Durable...)...)
	s, err := redis.Open(t.Context(), "redis://foil:"+password+"@"+srv.Addr, &redis.Options{AtRest: sealer(t), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	use(t, s, freshID(), true)
	id := [16]byte(freshID())
	claim := write(t, s, id, [32]byte{}, []byte("content"))
	if _, err := s.Claims().Redeem(t.Context(), claim, "me"); err != nil {
		t.Errorf("Redeem: %v", err)
	}
	if err := s.Claims().Revoke(t.Context(), claim); err != nil {
		t.Errorf("Revoke: %v", err)
	}
	if _, _, err := s.Handles().Get(t.Context(), [32]byte{}); err != nil {
		t.Errorf("Get of a handle: %v", err)
	}
	if _, _, err := s.Ledger().List(t.Context(), ledger.Query{}); err != nil {
		t.Errorf("List: %v", err)
	}
	if _, err := s.Ledger().Counts(t.Context()); err != nil {
		t.Errorf("Counts: %v", err)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	if _, err := s.Stats(t.Context()); err != nil {
		t.Errorf("Stats: %v", err)
	}
	if _, err := s.Restored(t.Context()); err != nil {
		t.Errorf("Restored: %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
	sound(t, s)
	// A user that may not read the configuration is like a managed server.
	if err := srv.Client(t).ACLSetUser(t.Context(), "foil", "-config|get").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, redis.ErrServer) || !contains(err.Error(), "Unchecked") {
		t.Errorf("Ping without CONFIG GET: %v; want ErrServer that names Options.Unchecked", err)
	}
}

func TestNewLooksAtTheClient(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	good := client.Options{Addr: srv.Addr, MaxRetries: -1, ContextTimeoutEnabled: true}
	retries, deaf := good, good
	retries.MaxRetries = 0 // three, that is
	deaf.ContextTimeoutEnabled = false
	for name, o := range map[string]client.Options{"retries": retries, "deaf to contexts": deaf} {
		c := client.NewClient(&o)
		if _, err := redis.New(t.Context(), c, nil); err == nil || !contains(err.Error(), "MaxRetries") {
			t.Errorf("New with a client that %s: %v", name, err)
		}
		_ = c.Close()
	}
	ring := client.NewRing(&client.RingOptions{Addrs: map[string]string{"a": srv.Addr}})
	defer func() { _ = ring.Close() }()
	if _, err := redis.New(t.Context(), ring, nil); err == nil {
		t.Error("New with a Ring: no error")
	}
	c := client.NewClient(&good)
	defer func() { _ = c.Close() }()
	s, err := redis.New(t.Context(), c, &redis.Options{PlainAtRest: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	use(t, s, freshID(), true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Close closed a client that is the caller's: %v", err)
	}
	if _, err := s.Replay().Use(t.Context(), freshID(), time.Now().Add(time.Hour)); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("Use of a closed store: %v", err)
	}
}

func TestCluster(t *testing.T) {
	srv := redistest.Start(t, append([]string{"cluster-enabled yes"}, redistest.Durable...)...)
	direct := srv.Client(t)
	if err := direct.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		if contains(direct.ClusterInfo(t.Context()).Val(), "cluster_state:ok") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	c := client.NewClusterClient(&client.ClusterOptions{Addrs: []string{srv.Addr}, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = c.Close() }()
	s, err := redis.New(t.Context(), c, &redis.Options{AtRest: sealer(t), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	id := freshID()
	use(t, s, id, true)
	use(t, s, id, false)
	op, started, err := s.Ledger().Begin(t.Context(), start(id))
	if err != nil || !started {
		t.Fatalf("Begin: %v", err)
	}
	if _, err := s.Ledger().Get(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	claim, err := s.Claims().Issue(t.Context(), []byte("plan"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Claims().Revoke(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]redis.Options{
		"a brace":                {Prefix: "a{b"},
		"a space":                {Prefix: "a b"},
		"a long prefix":          {Prefix: strings.Repeat("x", 65)},
		"a durability":           {Durability: 3},
		"negative replicas":      {Replicas: -1},
		"a negative skew":        {Skew: -1},
		"a negative limit":       {MaxHandles: -1},
		"sealed and plain":       {AtRest: sealer(t), PlainAtRest: true},
		"a wait beyond timeout":  {Replicas: 1, Timeout: time.Second, WaitTimeout: time.Second},
		"a wait of microseconds": {Replicas: 1, WaitTimeout: time.Microsecond}, // WAIT 0 is for ever
	} {
		if _, err := redis.Open(t.Context(), "redis://127.0.0.1:1", &o); err == nil || contains(err.Error(), "connect") {
			t.Errorf("Open with %s: %v; want an error of the options", name, err)
		}
	}
}
