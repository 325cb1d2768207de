package guarddoor_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/guarddoor"
	"github.com/foilmcp/foil/attack/storemem"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/signed"
)

// ledgerTimeout is how long an outage of the ledger in memory must last to be
// seen, and far more than a call of it takes.
const ledgerTimeout = time.Second

// settleSite starts two replicas on one ledger in memory.
func settleSite(t *testing.T, format attack.Format, mode attack.Mode, wrap func(foil.Codec) foil.Codec, broken func(ledger.Store) ledger.Store) *attack.Config {
	t.Helper()
	doc, minter, err := attack.NewRingFor(time.Now(), format)
	if err != nil {
		t.Fatal(err)
	}
	minter.Audience = service
	ring, err := keyring.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	memory := storemem.New()
	if broken == nil {
		broken = func(s ledger.Store) ledger.Store { return s }
	}
	journal := &attack.Journal{}
	door, err := guarddoor.New(2, func() (*foil.Guard, io.Closer, error) {
		var codec foil.Codec
		var err error
		if codec, err = aesgcm.New(keyring.Fixed(ring), nil); format == attack.Signed {
			codec, err = signed.New(keyring.Fixed(ring), nil)
		}
		if err != nil {
			return nil, nil, err
		}
		if wrap != nil {
			codec = wrap(codec)
		}
		g, err := foil.New(codec, &foil.Options{
			Audience: service, Ledger: broken(memory), Once: mode.Once, Without: mode.Without,
			SettleAnonymous: true, // nobody is one of the cast
			Logger:          journal.Logger(), StoreTimeout: ledgerTimeout,
		})
		return g, nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := door.Close(); err != nil {
			t.Error(err)
		}
	})
	return &attack.Config{Door: door, App: door, Minter: minter, Logs: journal, Store: memory, Mode: mode}
}

// ledgerRows are the rows that expect something else under Settle, or that the
// ledger stops, and a few beside them.
var ledgerRows = []string{
	"honest", "other-user", "late", "changed-argument", "replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "replay-alias",
	"decline-then-accept", "fork", "answers-changed", "lost-answer", "oracle", "replay-swept", "store-down",
}

// TestNamesSettle shows that a server that does something else than to settle
// turns rows red: the battery is told that it settles.
func TestNamesSettle(t *testing.T) {
	for _, test := range []struct {
		once foil.Once
		want []string
	}{
		{foil.Off, []string{
			"late", "replay-5", "replay-race", "replay-other-replica", "replay-after-restart",
			"decline-then-accept", "fork", "answers-changed", "lost-answer"}},
		{foil.Redeem, []string{
			"late", "replay-5", "replay-race", "replay-other-replica", "replay-after-restart",
			"fork", "answers-changed", "lost-answer"}},
	} {
		t.Run(test.once.String(), func(t *testing.T) {
			t.Parallel()
			cfg := site(t, attack.Mode{Once: test.once}, nil)
			cfg.Mode = attack.Mode{Once: foil.Settle}
			// How long a ledger has to remember would be too long for another store.
			rows := slices.DeleteFunc(attack.Named(ledgerRows...), func(a attack.Attack) bool { return a.Name == "replay-swept" || a.Name == "store-down" })
			wantRed(t, run(t, cfg, rows), test.want)
		})
	}
}

func wantRed(t *testing.T, results []attack.Result, want []string) {
	t.Helper()
	var red []string
	for _, r := range results {
		if !r.OK {
			red = append(red, r.Name)
			t.Logf("%s: got %q, want %q; %s", r.Name, r.Got, r.Expected, r.Note)
		}
	}
	if !slices.Equal(red, want) {
		t.Errorf("red rows %q, want %q", red, want)
	}
}

// A flawed ledger does one thing wrong.
type flawed struct {
	ledger.Store
	begin func(s *ledger.Start, op *ledger.Operation, started bool, err error) (*ledger.Operation, bool, error)
	get   func(op *ledger.Operation) (*ledger.Operation, error)
}

func (f flawed) Begin(ctx context.Context, s *ledger.Start) (*ledger.Operation, bool, error) {
	op, started, err := f.Store.Begin(ctx, s)
	if f.begin == nil {
		return op, started, err
	}
	return f.begin(s, op, started, err)
}

func (f flawed) Get(ctx context.Context, id [ledger.IDLen]byte) (*ledger.Operation, error) {
	op, err := f.Store.Get(ctx, id)
	if err != nil || f.get == nil {
		return op, err
	}
	return f.get(op)
}

// begun is what a ledger might say that starts what it must not.
func begun(s *ledger.Start) *ledger.Operation {
	return &ledger.Operation{ID: s.ID, Flow: s.Flow, Answers: s.Answers, State: ledger.Executing, Fence: 1, Started: time.Now(), LeaseUntil: time.Now().Add(s.Lease)}
}

// TestNamesLedger shows that each flaw of a ledger turns its rows red.
func TestNamesLedger(t *testing.T) {
	for _, test := range []struct {
		flaw string
		wrap func(ledger.Store) ledger.Store
		want []string
	}{
		{"none", func(s ledger.Store) ledger.Store { return flawed{Store: s} }, nil},
		{"it begins twice", func(s ledger.Store) ledger.Store {
			return flawed{Store: s, begin: func(s *ledger.Start, op *ledger.Operation, _ bool, err error) (*ledger.Operation, bool, error) {
				return op, err == nil, err
			}}
		}, []string{
			"replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "decline-then-accept", "fork", "answers-changed",
			"lost-answer", "oracle", "store-down"}},
		{"it does not keep the answers", func(s ledger.Store) ledger.Store {
			return flawed{Store: s, begin: func(s *ledger.Start, op *ledger.Operation, started bool, err error) (*ledger.Operation, bool, error) {
				if err == nil {
					op.Answers = s.Answers
				}
				return op, started, err
			}}
		}, []string{"decline-then-accept", "fork", "answers-changed"}},
		{"it tells another outcome", func(s ledger.Store) ledger.Store {
			return flawed{Store: s, begin: func(_ *ledger.Start, op *ledger.Operation, started bool, err error) (*ledger.Operation, bool, error) {
				if err == nil {
					op.Outcome = bytes.Replace(op.Outcome, []byte(`"done"`), []byte(`"done "`), 1)
				}
				return op, started, err
			}}
		}, []string{"replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "fork", "answers-changed", "lost-answer", "store-down"}},
		{"it does not find what has ended", func(s ledger.Store) ledger.Store {
			return flawed{Store: s, get: func(*ledger.Operation) (*ledger.Operation, error) { return nil, ledger.ErrNotFound }}
		}, []string{"late"}},
		{"it has no sweep mark", func(s ledger.Store) ledger.Store {
			return flawed{Store: s, begin: func(s *ledger.Start, op *ledger.Operation, started bool, err error) (*ledger.Operation, bool, error) {
				if errors.Is(err, ledger.ErrSwept) {
					return begun(s), true, nil
				}
				return op, started, err
			}}
		}, []string{"replay-swept"}},
		{"it lets pass what it cannot decide", func(s ledger.Store) ledger.Store {
			return flawed{Store: s, begin: func(s *ledger.Start, op *ledger.Operation, started bool, err error) (*ledger.Operation, bool, error) {
				if err != nil && !errors.Is(err, ledger.ErrSwept) {
					return begun(s), true, nil
				}
				return op, started, err
			}}
		}, []string{"store-down"}},
	} {
		t.Run(test.flaw, func(t *testing.T) {
			t.Parallel()
			cfg := settleSite(t, attack.AESGCM, attack.Mode{Once: foil.Settle}, nil, test.wrap)
			wantRed(t, run(t, cfg, attack.Named(ledgerRows...)), test.want)
		})
	}
	t.Run("each replica has its own", func(t *testing.T) {
		t.Parallel()
		rows := attack.Named("honest", "replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "decline-then-accept", "fork", "lost-answer")
		own := func(ledger.Store) ledger.Store { return storemem.New() }
		cfg := settleSite(t, attack.AESGCM, attack.Mode{Once: foil.Settle}, nil, own)
		wantRed(t, run(t, cfg, rows), []string{
			"replay-5", "replay-race", "replay-other-replica", "replay-after-restart", "decline-then-accept", "fork", "lost-answer"})
	})
}

// renaming is a codec under which a question that is asked again is another one:
// a Guard that sealed it with a fresh identity would do the same.
type renaming struct {
	foil.Codec
	seen *sync.Map
}

var identity = regexp.MustCompile(`"jti":"[^"]*"`)

func (renaming) Encrypts() bool { return true }

func (c renaming) Seal(ctx context.Context, payload []byte, expires time.Time) (string, error) {
	if _, again := c.seen.LoadOrStore(string(identity.Find(payload)), true); again {
		id := identity.Find(payload)
		fresh := append([]byte(nil), id...)
		for i := len(`"jti":"`) + 8; i < len(fresh)-2; i++ { // behind the time
			fresh[i] = map[bool]byte{true: 'B', false: 'A'}[fresh[i] == 'A']
		}
		payload = bytes.Replace(payload, id, fresh, 1)
	}
	return c.Codec.Seal(ctx, payload, expires)
}

// TestNamesSameRound shows that a question told again as a round of its own turns
// its row red.
func TestNamesSameRound(t *testing.T) {
	var seen sync.Map
	cfg := site(t, attack.Mode{Once: foil.Settle}, func(c foil.Codec) foil.Codec { return renaming{c, &seen} })
	wantRed(t, run(t, cfg, attack.Named("honest", "replay-5", "fork", "lost-answer")), []string{"fork"})
}
