package foil_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
)

func TestReplayRace(t *testing.T) {
	b := newBench(t, nil)
	token := b.seal(t, purge(), confirm())
	var passed, refused atomic.Int32
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			switch _, err := b.Open(ctx, purge(), token); {
			case err == nil:
				passed.Add(1)
			case foil.ReasonOf(err) == foil.ReasonReplayed:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 1 || refused.Load() != 63 {
		t.Errorf("%d of 64 passed, %d refused", passed.Load(), refused.Load())
	}
}

func TestOff(t *testing.T) {
	b := newBench(t, func(o *foil.Options) { o.Once = foil.Off; o.Replay = nil })
	token := b.seal(t, purge(), confirm())
	for range 5 {
		if _, err := b.Open(ctx, purge(), token); err != nil {
			t.Fatal(err)
		}
	}
}

// Round 1 stays spent after round 2 was minted from it.
func TestFork(t *testing.T) {
	b := newBench(t, nil)
	one := b.seal(t, purge(), confirm())
	o, err := b.Open(ctx, purge(), one)
	if err != nil {
		t.Fatal(err)
	}
	out := confirm()
	out.Prev = o
	two := b.seal(t, purge(), out)
	_, err = b.Open(ctx, purge(), one)
	wantReason(t, err, foil.ReasonReplayed)
	if _, err := b.Open(ctx, purge(), two); err != nil {
		t.Errorf("round 2: %v", err)
	}
}

// A scripted store does as it is told and counts.
type scripted struct {
	use  func(ctx context.Context, id []byte, expires time.Time) (bool, error)
	ping func(ctx context.Context) error
	uses atomic.Int32
}

func (s *scripted) Use(ctx context.Context, id []byte, expires time.Time) (bool, error) {
	s.uses.Add(1)
	return s.use(ctx, id, expires)
}

func (s *scripted) Ping(ctx context.Context) error { return s.ping(ctx) }

var errDisk = errors.New("disk is gone")

func TestStoreFailureIsNoRefusal(t *testing.T) {
	for name, storeErr := range map[string]error{
		"plain":           errDisk,
		"full":            replay.ErrFull,
		"swept":           replay.ErrSwept,
		"looks invalid":   foil.Reject(foil.ReasonReplayed),
		"first and error": errDisk,
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{
				use:  func(context.Context, []byte, time.Time) (bool, error) { return name == "first and error", storeErr },
				ping: func(context.Context) error { return nil },
			}
			b := newBench(t, func(o *foil.Options) { o.Replay = s })
			o, err := b.Open(ctx, purge(), b.seal(t, purge(), confirm()))
			if o != nil || !errors.Is(err, foil.ErrUnavailable) || errors.Is(err, foil.ErrInvalid) {
				t.Errorf("opened %v, error %v; want unavailable", o, err)
			}
			if w := foil.Wire(err); w.Code != -32603 || string(w.Data) != `{"reason":"request_state_unavailable"}` {
				t.Errorf("wire %+v", w)
			}
		})
	}
}

// While the store is known to be down, a forged state gets the same answer as a
// good one, and nothing is asked of the store more than once a second.
func TestKnownDown(t *testing.T) {
	var down atomic.Bool
	var pings atomic.Int32
	s := &scripted{
		use: func(context.Context, []byte, time.Time) (bool, error) {
			if down.Load() {
				return false, errDisk
			}
			return true, nil
		},
		ping: func(context.Context) error {
			pings.Add(1)
			if down.Load() {
				return errDisk
			}
			return nil
		},
	}
	b := newBench(t, func(o *foil.Options) {
		o.Replay = s
		o.PolicyFor = func(_, target string) foil.Policy {
			if target == "cheap" {
				return foil.Policy{Once: foil.Off}
			}
			return foil.Policy{}
		}
	})
	good := b.seal(t, purge(), confirm())
	unavailable := func(what, token string) {
		t.Helper()
		if _, err := b.Open(ctx, purge(), token); !errors.Is(err, foil.ErrUnavailable) {
			t.Errorf("%s: %v, want unavailable", what, err)
		}
	}
	_, err := b.Open(ctx, purge(), "v1.forged")
	wantReason(t, err, foil.ReasonMalformed)

	down.Store(true)
	unavailable("good", good)
	uses := s.uses.Load()
	unavailable("good again", good)
	unavailable("forged", "v1.forged")
	if s.uses.Load() != uses || pings.Load() != 0 {
		t.Errorf("the store was asked within the second: %d uses, %d pings", s.uses.Load()-uses, pings.Load())
	}
	cheap := purge()
	cheap.Target = "cheap"
	if _, err := b.Open(ctx, cheap, b.seal(t, cheap, confirm())); err != nil {
		t.Errorf("a tool that needs no store: %v", err)
	}

	b.now = b.now.Add(time.Second)
	unavailable("forged after a second", "v1.forged")
	unavailable("forged at once after the ping", "v1.forged")
	if pings.Load() != 1 {
		t.Errorf("%d pings, want 1", pings.Load())
	}

	down.Store(false)
	b.now = b.now.Add(time.Second)
	_, err = b.Open(ctx, purge(), "v1.forged")
	wantReason(t, err, foil.ReasonMalformed)
	if _, err := b.Open(ctx, purge(), good); err != nil {
		t.Errorf("the same token when the store is back: %v", err)
	}
}

// A client that hangs up, or that presents what the store has swept, must not
// make the store look down to others.
func TestClientsCannotTakeTheStoreDown(t *testing.T) {
	s := &scripted{ping: func(context.Context) error { return nil }}
	b := newBench(t, func(o *foil.Options) { o.Replay = s })
	token := b.seal(t, purge(), confirm())

	canceled, cancel := context.WithCancel(ctx)
	s.use = func(ctx context.Context, _ []byte, _ time.Time) (bool, error) {
		cancel()
		<-ctx.Done()
		return false, ctx.Err()
	}
	if _, err := b.Open(canceled, purge(), token); !errors.Is(err, context.Canceled) || errors.Is(err, foil.ErrInvalid) {
		t.Errorf("hang-up: %v", err)
	}
	s.use = func(context.Context, []byte, time.Time) (bool, error) { return false, replay.ErrSwept }
	if _, err := b.Open(ctx, purge(), token); !errors.Is(err, foil.ErrUnavailable) {
		t.Errorf("swept: %v", err)
	}
	s.use = func(context.Context, []byte, time.Time) (bool, error) { return true, nil }
	if _, err := b.Open(ctx, purge(), token); err != nil {
		t.Errorf("the next presentation: %v", err)
	}
}

func TestStoreDeadline(t *testing.T) {
	s := &scripted{
		use: func(ctx context.Context, _ []byte, _ time.Time) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		},
		ping: func(context.Context) error { return nil },
	}
	b := newBench(t, func(o *foil.Options) { o.Replay = s; o.StoreTimeout = time.Millisecond })
	if _, err := b.Open(ctx, purge(), b.seal(t, purge(), confirm())); !errors.Is(err, foil.ErrUnavailable) {
		t.Errorf("a store that hangs: %v", err)
	}
}

// What is marked is the identity inside the seal and the time of the token.
func TestUseGetsIdentityAndExpiry(t *testing.T) {
	var ids []string
	var expiry time.Time
	s := &scripted{
		use: func(_ context.Context, id []byte, expires time.Time) (bool, error) {
			ids = append(ids, string(id))
			expiry = expires
			return true, nil
		},
		ping: func(context.Context) error { return nil },
	}
	b := newBench(t, func(o *foil.Options) { o.Replay = s })
	token := b.seal(t, purge(), confirm())
	for range 2 {
		if _, err := b.Open(ctx, purge(), token); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Open(ctx, purge(), b.seal(t, purge(), confirm())); err != nil {
		t.Fatal(err)
	}
	if len(ids) != 3 || ids[0] != ids[1] || ids[1] == ids[2] || len(ids[0]) != 16 {
		t.Errorf("identities %x", ids)
	}
	if want := epoch.Add(10 * time.Minute); expiry.Sub(want).Abs() > time.Microsecond {
		t.Errorf("expires %v, want %v", expiry, want)
	}
	if ms := strings.TrimLeft(ids[0][:6], "\x00"); len(ms) == 0 {
		t.Error("the identity does not begin with the time")
	}
}

// What is older than a restored store is refused for good, and says nothing of the
// store's health.
func TestRestoredStore(t *testing.T) {
	s := &scripted{use: func(context.Context, []byte, time.Time) (bool, error) { return false, replay.ErrRestored }}
	b := newBench(t, func(o *foil.Options) { o.Replay = s })
	token := b.seal(t, purge(), confirm())
	_, err := b.Open(ctx, purge(), token)
	wantReason(t, err, foil.ReasonRestored)
	s.use = func(context.Context, []byte, time.Time) (bool, error) { return true, nil }
	if _, err := b.Open(ctx, purge(), token); err != nil {
		t.Errorf("the next state: %v", err)
	}

	l := newSettled(t, func(o *foil.Options) { o.Ledger = restoredLedger{o.Ledger} })
	token = l.seal(t, purge(), confirm())
	for range 2 {
		wantReason(t, openErr(l, answering(accepted), token), foil.ReasonRestored)
	}
}

type restoredLedger struct{ ledger.Store }

func (restoredLedger) Begin(context.Context, *ledger.Start) (*ledger.Operation, bool, error) {
	return nil, false, ledger.ErrRestored
}

// An outage looks the same to every state under Deferred too, once it is known.
func TestDeferredKnownDown(t *testing.T) {
	for name, finds := range map[string]func(o *foil.Opened) error{
		"redeeming":  func(o *foil.Opened) error { return o.Redeem(ctx, nil) },
		"concluding": func(o *foil.Opened) error { return o.Conclude(ctx, foil.Conclusion{}) },
	} {
		t.Run(name, func(t *testing.T) {
			b, d := newDeferred(t)
			o := open(t, b, b.seal(t, purge(), confirm()))
			d.fail = errDisk
			if err := finds(o); !errors.Is(err, foil.ErrUnavailable) {
				t.Fatal(err)
			}
			if _, err := b.Open(ctx, purge(), "v1.forged"); !errors.Is(err, foil.ErrUnavailable) {
				t.Errorf("a forged state while the store is known to be down: %v", err)
			}
		})
	}
}
