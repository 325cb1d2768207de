package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foilmcp/foil/replay/replaytest"
	"github.com/foilmcp/foil/store"
	"github.com/foilmcp/foil/store/sqlite"
)

// gatedClock is a clock that can be made to hang. A store reads it inside each
// transaction, so the transaction hangs with it.
type gatedClock struct {
	mu   sync.Mutex
	gate chan struct{}
	held chan struct{}
}

func (g *gatedClock) Now() time.Time {
	g.mu.Lock()
	gate, held := g.gate, g.held
	g.mu.Unlock()
	if gate != nil {
		select {
		case held <- struct{}{}:
		default:
		}
		<-gate
	}
	return time.Now()
}

// hang makes the next transaction hang; held is told when it does.
func (g *gatedClock) hang() (held <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gate, g.held = make(chan struct{}), make(chan struct{}, 1)
	return g.held, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.gate)
		g.gate = nil
	}
}

// wait waits until a transaction hangs.
func wait(t *testing.T, held <-chan struct{}) {
	t.Helper()
	select {
	case <-held:
	case <-time.After(time.Minute):
		t.Fatal("no transaction has read the clock")
	}
}

func waitFor(t *testing.T, s *sqlite.Store, waiting int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.Waiting() < waiting; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d calls wait, want %d", s.Waiting(), waiting)
		}
	}
}

func TestCallersShareACommit(t *testing.T) {
	var clock gatedClock
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), &sqlite.Options{Now: clock.Now})
	var batches []int // written by the store's goroutine, read after Close
	s.OnBatch(func(n int) { batches = append(batches, n) })
	held, release := clock.hang()

	const callers, distinct = 100, 40
	ids := make([][]byte, distinct)
	for i := range ids {
		ids[i] = newID()
	}
	var firsts [distinct]atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() { mustUse(t, s, newID(), true) })
	wait(t, held)
	for i := range callers {
		wg.Go(func() {
			first, err := s.Replay().Use(t.Context(), ids[i%distinct], time.Now().Add(time.Minute))
			if err != nil {
				t.Errorf("Use: %v", err)
			}
			if first {
				firsts[i%distinct].Add(1)
			}
		})
	}
	waitFor(t, s, callers)
	release()
	wg.Wait()
	for i := range firsts {
		if n := firsts[i].Load(); n != 1 {
			t.Errorf("%d uses of one id in one batch were first, want 1", n)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(batches) != 2 || batches[0] != 1 || batches[1] != callers {
		t.Errorf("commits answered %v calls, want [1 %d]", batches, callers)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	var clock gatedClock
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), &sqlite.Options{Now: clock.Now})
	largest := 0
	s.OnBatch(func(n int) { largest = max(largest, n) })
	held, release := clock.hang()
	var wg sync.WaitGroup
	wg.Go(func() { mustUse(t, s, newID(), true) })
	wait(t, held)
	const callers = 600
	for range callers {
		wg.Go(func() { mustUse(t, s, newID(), true) })
	}
	waitFor(t, s, callers)
	release()
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if largest != 256 {
		t.Errorf("largest batch is %d, want 256", largest)
	}
}

// Nobody is told true before COMMIT has returned.
func TestTrueOnlyAfterCommit(t *testing.T) {
	var clock gatedClock
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, &sqlite.Options{Now: clock.Now})
	held, release := clock.hang()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		mustUse(t, s, newID(), true)
	}()
	wait(t, held) // the row is written, the transaction open
	select {
	case <-answered:
		t.Error("Use returned before its transaction was committed")
	default:
	}
	var n int
	if err := raw(t, path).QueryRowContext(t.Context(), "SELECT count(*) FROM spent").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows are committed (%v), want 0", n, err)
	}
	release()
	<-answered
}

// An impatient caller is let go while the transaction that it shares goes on.
func TestContextEndsWhileUnderWay(t *testing.T) {
	var clock gatedClock
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), &sqlite.Options{Now: clock.Now})
	held, release := clock.hang()
	ctx, cancel := context.WithCancel(t.Context())
	id, queued := newID(), newID()
	result := make(chan error, 1)
	go func() {
		_, err := s.Replay().Use(ctx, id, time.Now().Add(time.Minute))
		result <- err
	}()
	wait(t, held)
	waiting := make(chan error, 1)
	go func() {
		_, err := s.Replay().Use(ctx, queued, time.Now().Add(time.Minute))
		waiting <- err
	}()
	waitFor(t, s, 1)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "outcome unknown") {
		t.Errorf("Use under way: %v; want context.Canceled and an unknown outcome", err)
	}
	if err := <-waiting; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("Use in the queue: %v; want context.Canceled and nothing written", err)
	}
	release()
	mustUse(t, s, id, false)    // spent, as the error said it might be
	mustUse(t, s, queued, true) // not spent, as the error said
}

// ended is a context that has ended but tells only who asks.
type ended struct{ context.Context }

func (ended) Err() error { return context.Canceled }

// The context is asked before the call joins a transaction: afterwards it would
// depend on chance whether the ID is spent.
func TestContextIsAskedFirst(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), nil)
	id := newID()
	if first, err := s.Replay().Use(ended{t.Context()}, id, time.Now().Add(time.Minute)); first || !errors.Is(err, context.Canceled) {
		t.Fatalf("Use = %v, %v; want context.Canceled", first, err)
	}
	mustUse(t, s, id, true)
}

// The time of the bubble stands still until everybody waits, so the timeout ends
// when the transaction hangs and not before it begins.
func TestTimeoutOfASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock gatedClock
		s := open(t, filepath.Join(t.TempDir(), "foil.db"), &sqlite.Options{Now: clock.Now})
		held, release := clock.hang()
		defer release()
		s.SetTimeout(100 * time.Millisecond)
		result := make(chan error, 1)
		go func() {
			_, err := s.Replay().Use(t.Context(), newID(), time.Now().Add(time.Minute))
			result <- err
		}()
		<-held
		if err := <-result; err == nil || !strings.Contains(err.Error(), "outcome unknown: database is locked, or too slow") {
			t.Errorf("Use: %v; want a timeout with an unknown outcome", err)
		}
	})
}

func TestLockedPastTheDeadline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	unlock := lock(t, path)
	patient := s.SetTimeout(300 * time.Millisecond)
	id := newID()
	begin := time.Now()
	first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Minute))
	if first || err == nil || !strings.Contains(err.Error(), "nothing was written: database is locked") {
		t.Fatalf("Use = %v, %v; want an error that says the database is locked", first, err)
	}
	if took := time.Since(begin); took < 300*time.Millisecond || took > 30*time.Second {
		t.Errorf("Use took %v, want about its timeout", took)
	}
	if err := s.Ping(t.Context()); err == nil {
		t.Error("Ping of a locked database = nil")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Replay().Use(ctx, id, time.Now().Add(time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Use with a deadline of its own: %v, want context.DeadlineExceeded", err)
	}
	unlock()
	patient()
	mustUse(t, s, id, true)
	mustUse(t, s, id, false)
}

func TestLockReleasedInTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	unlock := lock(t, path)
	done := make(chan struct{})
	go func() {
		defer close(done)
		mustUse(t, s, newID(), true)
	}()
	time.AfterFunc(150*time.Millisecond, unlock)
	<-done
}

func TestClose(t *testing.T) {
	var clock gatedClock
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), &sqlite.Options{Now: clock.Now})
	held, release := clock.hang()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		mustUse(t, s, newID(), true)
	}()
	wait(t, held)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for { // until Close has begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		err := s.Ping(ctx)
		cancel()
		if errors.Is(err, sqlite.ErrClosed) {
			break
		}
	}
	select {
	case <-closed:
		t.Error("Close returned while a call was under way")
	default:
	}
	release()
	<-answered
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, sqlite.ErrClosed) {
		t.Errorf("Ping after Close: %v, want ErrClosed", err)
	}
	if _, err := s.Claims().Issue(t.Context(), nil, time.Minute); !errors.Is(err, sqlite.ErrClosed) {
		t.Errorf("Issue after Close: %v, want ErrClosed", err)
	}
}

// Without a sweep by anybody the file stays as large as what is live.
func TestSweepInPassing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	clock := replaytest.NewClock(time.Unix(1_800_000_000, 0))
	s := open(t, path, &sqlite.Options{Now: clock.Now, Skew: time.Second})
	for range 60 {
		clock.Advance(10 * time.Second)
		if _, err := s.Claims().Issue(t.Context(), []byte("plan"), 30*time.Second); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if first, err := s.Replay().Use(t.Context(), newID(), clock.Now().Add(30*time.Second)); !first || err != nil {
				t.Fatalf("Use = %v, %v", first, err)
			}
		}
	}
	var ids, claims int
	c := raw(t, path)
	if err := c.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM spent), (SELECT count(*) FROM claim)").Scan(&ids, &claims); err != nil {
		t.Fatal(err)
	}
	if ids < 30 || ids > 60 || claims < 3 || claims > 6 {
		t.Errorf("file holds %d ids and %d claims of 30 seconds after 10 minutes, want about 40 and 4", ids, claims)
	}
}

func TestSweepCounts(t *testing.T) {
	clock := replaytest.NewClock(time.Unix(1_800_000_000, 0))
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), &sqlite.Options{Now: clock.Now})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 40 {
				if _, err := s.Replay().Use(context.Background(), newID(), clock.Now().Add(time.Minute)); err != nil {
					t.Errorf("Use: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := s.Claims().Issue(t.Context(), []byte("plan"), time.Minute); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Minute + sqlite.DefaultSkew)
	got, err := s.Sweep(t.Context())
	if want := (store.Swept{Spent: 64 * 40, Claims: 1}); err != nil || got != want {
		t.Errorf("Sweep = %+v, %v; want %+v", got, err, want)
	}
	if got, err := s.Sweep(t.Context()); err != nil || got != (store.Swept{}) {
		t.Errorf("second Sweep = %+v, %v; want nothing", got, err)
	}
}
