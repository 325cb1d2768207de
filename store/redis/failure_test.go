//go:build unix

package redis_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/redis"
)

// freshID is minted in the far future, so that no restore mark concerns it.
func freshID() []byte {
	id := make([]byte, 16)
	rand.Read(id)
	id[0] |= 0x80
	return id
}

func use(t *testing.T, s *redis.Store, id []byte, want bool) {
	t.Helper()
	if first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Hour)); err != nil || first != want {
		t.Fatalf("Use = %v, %v; want %v", first, err, want)
	}
}

func start(id []byte) *ledger.Start {
	return &ledger.Start{ID: [16]byte(id), Round: 1, Method: "tools/call", Expires: time.Now().Add(time.Hour), Keep: time.Now().Add(time.Hour), Lease: time.Hour}
}

func TestKilledServerForgetsNothing(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	a, b := open(t, srv, redis.Options{}), open(t, srv, redis.Options{})
	var mu sync.Mutex
	var spent [][]byte
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			s := a
			if i%2 == 1 {
				s = b
			}
			for {
				id := freshID()
				first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Hour))
				if err != nil {
					return
				}
				if !first {
					t.Error("Use of a fresh id = false")
					return
				}
				mu.Lock()
				spent = append(spent, id)
				mu.Unlock()
			}
		})
	}
	for n := 0; n < 1000; {
		time.Sleep(time.Millisecond)
		mu.Lock()
		n = len(spent)
		mu.Unlock()
	}
	srv.Kill(t) // while callers are on their way
	wg.Wait()
	srv.Restart(t)
	again := open(t, srv, redis.Options{})
	for _, id := range spent {
		use(t, again, id, false)
	}
}

func TestLostAnswerIsFoundOut(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	proxy := redistest.NewProxy(t, srv.Addr)
	direct := open(t, srv, redis.Options{})
	s, err := redis.Open(t.Context(), proxy.URL(), &redis.Options{AtRest: sealer(t), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ctx := t.Context()
	lose := func() {
		t.Helper()
		use(t, s, freshID(), true) // a connection is up, and the last answer is read
		proxy.LoseAnswers(1)
	}
	lost := func() {
		t.Helper()
		if proxy.Lost() != 0 {
			t.Fatal("no answer was lost: the test tests nothing")
		}
	}

	lose()
	id := freshID()
	use(t, s, id, true)
	lost()
	use(t, direct, id, false)
	use(t, s, id, false)

	lose()
	use(t, s, id, false) // another's mark stands
	lost()

	lose()
	id = freshID()
	if _, started, err := s.Ledger().Begin(ctx, start(id)); err != nil || !started {
		t.Fatalf("Begin whose answer was lost: started %v, %v; want true", started, err)
	}
	lost()
	lose()
	if _, started, err := s.Ledger().Begin(ctx, start(id)); err != nil || started {
		t.Fatalf("Begin of another's operation, whose answer was lost: started %v, %v; want false", started, err)
	}
	lost()

	lose()
	claim, err := s.Claims().Issue(ctx, []byte("plan"), time.Hour)
	lost()
	if err != nil {
		t.Fatalf("Issue whose answer was lost: %v", err)
	}
	lose()
	if got, err := s.Claims().Redeem(ctx, claim, "me"); err != nil || string(got) != "plan" {
		t.Fatalf("Redeem whose answer was lost: %v", err)
	}
	lost()

	lose()
	key := [32]byte(append(freshID(), freshID()...))
	if err := s.Handles().Put(ctx, key, []byte("x"), time.Now().Add(time.Hour)); err != nil {
		t.Fatalf("Put whose answer was lost: %v", err)
	}
	lost()

	// Twice is enough to give up: then it is an error, and never true.
	lose()
	proxy.LoseAnswers(1000)
	if first, err := s.Replay().Use(ctx, freshID(), time.Now().Add(time.Hour)); err == nil || first {
		t.Fatalf("Use with no answer at all = %v, %v; want an error", first, err)
	}
}

// What may not be asked again is an error after a lost answer, and its effect stands.
func TestLostAnswerOfWhatRaisesTheFence(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	proxy := redistest.NewProxy(t, srv.Addr)
	s, err := redis.Open(t.Context(), proxy.URL(), &redis.Options{AtRest: sealer(t), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	id := freshID()
	if _, _, err := s.Ledger().Begin(t.Context(), start(id)); err != nil {
		t.Fatal(err)
	}
	if err := s.Ledger().Finish(t.Context(), [16]byte(id), 1, ledger.Finish{State: ledger.Unknown}); err != nil {
		t.Fatal(err)
	}
	proxy.LoseAnswers(1)
	if op, err := s.Ledger().Resume(t.Context(), [16]byte(id), 1, time.Hour); err == nil || errors.Is(err, ledger.ErrFenced) {
		t.Fatalf("Resume whose answer was lost = %v, %v; want an error that does not say fenced", op, err)
	}
	if op, err := s.Ledger().Get(t.Context(), [16]byte(id)); err != nil || op.Fence != 2 {
		t.Fatalf("Get = %v, %v; want fence 2", op, err)
	}
}

func linked(t *testing.T, primary *redistest.Server) {
	t.Helper()
	c := primary.Client(t)
	for range 3000 {
		info, err := c.InfoMap(t.Context(), "replication").Result()
		if err != nil {
			t.Fatal(err)
		}
		if r := info["Replication"]["slave0"]; len(r) > 0 && contains(r, "state=online") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the replica does not come online")
}

// failover starts a primary with one replica, whose link is cut before fn runs; then
// the primary dies and the replica is promoted.
func failover(t *testing.T, fn func(primary *redistest.Server, cut func())) (promoted *redistest.Server) {
	primary := redistest.Start(t, redistest.Durable...)
	link := redistest.NewProxy(t, primary.Addr)
	replica := redistest.Start(t, append([]string{"replicaof 127.0.0.1 " + port(link.Addr)}, redistest.Durable...)...)
	linked(t, primary)
	fn(primary, link.Cut)
	primary.Kill(t)
	if err := replica.Client(t).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	return replica
}

// TestFailoverForgets shows the weakness that the package documentation names.
func TestFailoverForgets(t *testing.T) {
	id := freshID()
	promoted := failover(t, func(primary *redistest.Server, cut func()) {
		s := open(t, primary, redis.Options{Replicas: 1, WaitTimeout: 20 * time.Second})
		use(t, s, freshID(), true) // what the replica has
		alone := open(t, primary, redis.Options{})
		cut()
		use(t, alone, id, true)
	})
	after := open(t, promoted, redis.Options{})
	use(t, after, id, true) // the same token, a second time
}

func TestReplicasMakeItAnErrorInstead(t *testing.T) {
	id, before := freshID(), freshID()
	promoted := failover(t, func(primary *redistest.Server, cut func()) {
		patient := open(t, primary, redis.Options{Replicas: 1, WaitTimeout: 20 * time.Second})
		use(t, patient, before, true)
		cut()
		s := open(t, primary, redis.Options{Replicas: 1, WaitTimeout: 50 * time.Millisecond})
		first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Hour))
		if first || !errors.Is(err, redis.ErrReplicas) {
			t.Fatalf("Use that no replica has = %v, %v; want ErrReplicas", first, err)
		}
		// It is in the primary: the token counts as spent there.
		use(t, open(t, primary, redis.Options{}), id, false)
		// Nor is anything that was read of it passed on as lasting.
		if first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Hour)); first || !errors.Is(err, redis.ErrReplicas) {
			t.Fatalf("Use of what no replica has = %v, %v; want ErrReplicas", first, err)
		}
		if _, started, err := s.Ledger().Begin(t.Context(), start(freshID())); started || !errors.Is(err, redis.ErrReplicas) {
			t.Fatalf("Begin that no replica has: started %v, %v; want ErrReplicas", started, err)
		}
		if _, err := s.Claims().Issue(t.Context(), []byte("plan"), time.Hour); !errors.Is(err, redis.ErrReplicas) {
			t.Fatalf("Issue that no replica has: %v; want ErrReplicas", err)
		}
		if err := s.Ping(t.Context()); !errors.Is(err, redis.ErrReplicas) {
			t.Fatalf("Ping: %v; want ErrReplicas", err)
		}
	})
	after := open(t, promoted, redis.Options{})
	use(t, after, before, false)
	use(t, after, id, true) // nobody was told that it was spent
}

// TestWaitCoversWhatOthersWrote: of what is read, too, the quorum has to be sure.
func TestWaitCoversWhatOthersWrote(t *testing.T) {
	primary := redistest.Start(t, redistest.Durable...)
	replica := redistest.StartReplica(t, primary, redistest.Durable...)
	linked(t, primary)
	alone := open(t, primary, redis.Options{})
	patient := open(t, primary, redis.Options{Replicas: 1, WaitTimeout: 20 * time.Second})
	hasty := open(t, primary, redis.Options{Replicas: 1, WaitTimeout: 50 * time.Millisecond})
	replica.Pause(t) // its link is up, and it confirms nothing
	id, op, key := freshID(), [16]byte(freshID()), [32]byte{1}
	use(t, alone, id, true)
	write(t, alone, op, key, []byte("content"))
	first, err := hasty.Replay().Use(t.Context(), id, time.Now().Add(time.Hour))
	if first || !errors.Is(err, redis.ErrReplicas) {
		t.Errorf("Use of what no replica has = %v, %v; want ErrReplicas", first, err)
	}
	if _, err := hasty.Ledger().Get(t.Context(), op); !errors.Is(err, redis.ErrReplicas) {
		t.Errorf("Get of an operation that no replica has: %v; want ErrReplicas", err)
	}
	if _, _, err := hasty.Handles().Get(t.Context(), key); !errors.Is(err, redis.ErrReplicas) {
		t.Errorf("Get of a handle that no replica has: %v; want ErrReplicas", err)
	}
	replica.Resume(t)
	use(t, patient, id, false)
}

// TestLostAnswerLooksAgain: whoever answers next may be another server.
func TestLostAnswerLooksAgain(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	proxy := redistest.NewProxy(t, srv.Addr)
	c := client.NewClient(&client.Options{Addr: proxy.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = c.Close() }()
	s, err := redis.New(t.Context(), c, &redis.Options{PlainAtRest: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	use(t, s, freshID(), true)
	if err := srv.Client(t).ConfigSet(t.Context(), "appendfsync", "no").Err(); err != nil {
		t.Fatal(err)
	}
	proxy.LoseAnswers(1)
	if first, err := s.Replay().Use(t.Context(), freshID(), time.Now().Add(time.Hour)); first || !errors.Is(err, redis.ErrServer) {
		t.Fatalf("Use = %v, %v; want ErrServer", first, err)
	}
}

func TestSlowServerIsAnError(t *testing.T) {
	srv := redistest.Start(t, redistest.Durable...)
	s, hasty := open(t, srv, redis.Options{}), open(t, srv, redis.Options{})
	use(t, s, freshID(), true)
	use(t, hasty, freshID(), true)
	hasty.SetTimeout(100 * time.Millisecond)
	srv.Pause(t)
	defer srv.Resume(t)
	id := freshID()
	if first, err := hasty.Replay().Use(t.Context(), id, time.Now().Add(time.Hour)); err == nil || first {
		t.Fatalf("Use of a server that stands still = %v, %v; want an error", first, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if first, err := s.Replay().Use(ctx, freshID(), time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) || first {
		t.Fatalf("Use that was cancelled = %v, %v; want context.Canceled", first, err)
	}
}

func TestFullServer(t *testing.T) {
	w := newWorld(t)
	b := w.bench(t)
	ctx := t.Context()
	running := [16]byte(freshID())
	if _, _, err := b.s.Ledger().Begin(ctx, start(running[:])); err != nil {
		t.Fatal(err)
	}
	id := freshID()
	for range 200 { // what a sweep can make room of
		if _, err := b.s.Replay().Use(ctx, freshID(), b.now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	b.full(t)
	// Small rows until nothing fits.
	var err error
	for range 100_000 {
		if _, err = b.s.Replay().Use(ctx, freshID(), b.now().Add(time.Hour)); err != nil {
			break
		}
	}
	if !errors.Is(err, replay.ErrFull) {
		t.Fatalf("Use of a full server: %v; want ErrFull", err)
	}
	noSecret(t, err)
	if err := b.s.Replay().Ping(ctx); !errors.Is(err, replay.ErrFull) {
		t.Errorf("Ping of a full server: %v; want ErrFull", err)
	}
	if _, _, err := b.s.Ledger().Begin(ctx, start(id)); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("Begin in a full server: %v; want ErrFull", err)
	}
	// What has begun may still end.
	if err := b.s.Ledger().EndStep(ctx, running, 1, "step", []byte("result"), time.Hour); err != nil {
		t.Errorf("EndStep in a full server: %v", err)
	}
	if err := b.s.Ledger().Finish(ctx, running, 1, ledger.Finish{State: ledger.Succeeded, Outcome: []byte("outcome")}); err != nil {
		t.Errorf("Finish in a full server: %v", err)
	}
	if op, err := b.s.Ledger().Get(ctx, running); err != nil || string(op.Outcome) != "outcome" {
		t.Errorf("Get in a full server: %v", err)
	}
	// A call that finds no room sweeps, and only what is due.
	b.clock.Advance(time.Minute + redis.DefaultSkew + time.Second)
	if err := w.srv.Client(t).ConfigSet(ctx, "maxmemory", "1mb").Err(); err != nil { // full, whatever is swept
		t.Fatal(err)
	}
	if _, err := b.s.Replay().Use(ctx, freshID(), b.now().Add(time.Hour)); !errors.Is(err, replay.ErrFull) {
		t.Fatalf("Use of a full server: %v; want ErrFull", err)
	}
	if n := w.srv.Client(t).ZCount(ctx, b.key("due"), "-inf", "("+millis(b.now())).Val(); n != 0 {
		t.Errorf("%d IDs whose time has come were left", n)
	}
	if n := w.srv.Client(t).HLen(ctx, b.key("spent")).Val(); n == 0 {
		t.Error("live IDs were forgotten to make room")
	}
}
