package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/postgres"
)

// content writes one of each, and reads it.
type content struct {
	claim  string
	handle [32]byte
	start  *ledger.Start
}

func writeContent(t *testing.T, s *postgres.Store) (c content, err error) {
	t.Helper()
	if c.claim, err = s.Claims().Issue(t.Context(), []byte("the plan"), time.Hour); err != nil {
		return c, err
	}
	c.handle = [32]byte(append(newID(), newID()...))
	if err := s.Handles().Put(t.Context(), c.handle, []byte("the payload"), soon()); err != nil {
		return c, err
	}
	c.start = newStart()
	if _, _, err := s.Ledger().Begin(t.Context(), c.start); err != nil {
		return c, err
	}
	if err := s.Ledger().EndStep(t.Context(), c.start.ID, 1, "step", []byte("the result"), time.Minute); err != nil {
		return c, err
	}
	return c, s.Ledger().Finish(t.Context(), c.start.ID, 1, ledger.Finish{State: ledger.Succeeded, Outcome: []byte("the outcome")})
}

// readContent returns the errors by what was read.
func readContent(t *testing.T, s *postgres.Store, c content) map[string]error {
	t.Helper()
	errs := make(map[string]error)
	payload, err := s.Claims().Redeem(t.Context(), c.claim, "one")
	if err == nil && string(payload) != "the plan" {
		err = fmt.Errorf("claim is %q", payload)
	}
	errs["claim"] = err
	payload, found, err := s.Handles().Get(t.Context(), c.handle)
	if err == nil && (!found || string(payload) != "the payload") {
		err = fmt.Errorf("handle is %q, found %v", payload, found)
	}
	errs["handle"] = err
	op, err := s.Ledger().Get(t.Context(), c.start.ID)
	if err == nil && (string(op.Outcome) != "the outcome" || string(op.Steps[0].Result) != "the result") {
		err = fmt.Errorf("operation is %+v", op)
	}
	errs["operation"] = err
	return errs
}

func TestAtRest(t *testing.T) {
	w := newWorld(t, nil)
	with := func(sealer *atrest.Sealer, plain bool) *postgres.Store {
		w.opts.AtRest, w.opts.PlainAtRest = sealer, plain
		return w.open(t)
	}
	sealed := w.opts.AtRest
	neither, plain, only, both, other := with(nil, false), with(nil, true), with(sealed, false), with(sealed, true), with(sealer(t), false)

	if _, err := writeContent(t, neither); err == nil || !strings.Contains(err.Error(), "PlainAtRest") {
		t.Errorf("writing content with neither: %v; want an error that says what to set", err)
	}
	if _, started, err := neither.Ledger().Begin(t.Context(), newStart()); started || err == nil {
		t.Errorf("Begin of what could not end = %v, %v", started, err)
	}
	unknown := newStart()
	if _, _, err := plain.Ledger().Begin(t.Context(), unknown); err != nil {
		t.Fatal(err)
	}
	if err := plain.Ledger().Finish(t.Context(), unknown.ID, 1, ledger.Finish{State: ledger.Unknown}); err != nil {
		t.Fatal(err)
	}
	if _, err := neither.Ledger().Resume(t.Context(), unknown.ID, 1, time.Minute); err == nil || !strings.Contains(err.Error(), "PlainAtRest") {
		t.Errorf("Resume of what could not end: %v; want an error that says what to set", err)
	}
	if op, err := plain.Ledger().Get(t.Context(), unknown.ID); err != nil || op.State != ledger.Unknown || op.Fence != 1 {
		t.Errorf("after Resume of what could not end, the operation is %+v, %v", op, err)
	}
	for name, ping := range map[string]error{"Claims": neither.Claims().Ping(t.Context()), "Handles": neither.Handles().Ping(t.Context()), "Ledger": neither.Ledger().Ping(t.Context())} {
		if ping == nil {
			t.Errorf("Ping of %s with neither: no error", name)
		}
	}
	if first, err := neither.Replay().Use(t.Context(), newID(), soon()); err != nil || !first {
		t.Errorf("Use, which has no content, with neither = %v, %v", first, err)
	}

	inPlain, err := writeContent(t, plain)
	if err != nil {
		t.Fatal(err)
	}
	inSealed, err := writeContent(t, only)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		store         *postgres.Store
		plain, sealed bool // can read
	}{
		{"neither", neither, false, false}, {"plain", plain, true, false}, {"sealed", only, false, true}, {"both", both, true, true}, {"another ring", other, false, false},
	} {
		for kind, err := range readContent(t, c.store, inPlain) {
			if (err == nil) != c.plain || errors.Is(err, claimcheck.ErrRedeemed) {
				t.Errorf("%s reads a plain %s: %v", c.name, kind, err)
			}
		}
		for kind, err := range readContent(t, c.store, inSealed) {
			if (err == nil) != c.sealed || errors.Is(err, claimcheck.ErrRedeemed) {
				t.Errorf("%s reads a sealed %s: %v", c.name, kind, err)
			}
		}
	}

	// Whoever can write to the tables cannot make a sealed row plain, or move it.
	w.sql(t, `UPDATE {s}.claim SET sealed = NOT sealed`, `UPDATE {s}.handle SET sealed = NOT sealed`, `UPDATE {s}.operation SET sealed = NOT sealed`)
	for kind, err := range readContent(t, only, inPlain) {
		if err == nil {
			t.Errorf("a plain %s that says it is sealed was read", kind)
		}
	}
	for kind, err := range readContent(t, only, inSealed) {
		if err == nil {
			t.Errorf("a sealed %s that says it is plain was read", kind)
		}
	}
	w.sql(t, `UPDATE {s}.claim SET sealed = NOT sealed`, `UPDATE {s}.handle SET sealed = NOT sealed`, `UPDATE {s}.operation SET sealed = NOT sealed`)

	var raw []byte
	w.scan(t, fmt.Sprintf(`SELECT payload || (SELECT outcome FROM {s}.operation WHERE id = '\x%x') || (SELECT result FROM {s}.step WHERE operation = '\x%x')
		FROM {s}.handle WHERE key = '\x%x'`, inSealed.start.ID, inSealed.start.ID, inSealed.handle), &raw)
	for _, text := range []string{"the payload", "the outcome", "the result"} {
		if bytes.Contains(raw, []byte(text)) {
			t.Errorf("%s can be seen at rest", text)
		}
	}

	stats, err := both.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var key string
	w.scan(t, fmt.Sprintf(`SELECT encode(substr(payload, 1, 4), 'hex') FROM {s}.handle WHERE key = '\x%x'`, inSealed.handle), &key)
	w.scan(t, fmt.Sprintf(`SELECT payload FROM {s}.handle WHERE key = '\x%x'`, inSealed.handle), &raw)
	if key != atrest.KeyID(raw) || len(stats.Keys) != 1 || stats.Keys[key] != 4 {
		t.Errorf("keys = %v, want %s 4 times", stats.Keys, atrest.KeyID(raw))
	}
	if stats.Backend != "postgres" || stats.Schema != 1 || stats.Spent != 1 || stats.Claims != 2 || stats.Handles != 2 || stats.Succeeded != 2 || stats.Executing != 0 ||
		stats.ClaimBytes != int64(2*len("the plan")+atrest.Overhead) || stats.SizeBytes <= 0 || !stats.SweptUntil.IsZero() || !stats.RestoredAt.IsZero() {
		t.Errorf("stats = %+v", stats)
	}
}

// The bounds hold to the row if calls come one after the other, what is due makes
// room, and many at once exceed them by what is under way at most.
func TestLimits(t *testing.T) {
	w := newWorld(t, func(o *postgres.Options) {
		o.MaxClaims, o.MaxHandles, o.MaxConns = 10, 10, 4
		o.AtRest, o.PlainAtRest = nil, true
	})
	w.frozen(&w.opts)
	s := w.open(t)
	issue := func(n int) error {
		_, err := s.Claims().Issue(t.Context(), make([]byte, n), time.Minute)
		return err
	}
	put := func(n int) error {
		return s.Handles().Put(t.Context(), [32]byte(append(newID(), newID()...)), make([]byte, n), w.clock.Now().Add(time.Minute))
	}
	for range 10 {
		if err := errors.Join(issue(100), put(100)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := issue(0); !errors.Is(err, claimcheck.ErrFull) {
			t.Errorf("Issue beyond MaxClaims: %v, want ErrFull", err)
		}
		if err := put(0); !errors.Is(err, postgres.ErrHandlesFull) {
			t.Errorf("Put beyond MaxHandles: %v, want ErrHandlesFull", err)
		}
	}
	for what, err := range map[error]error{claimcheck.ErrFull: s.Claims().Ping(t.Context()), postgres.ErrHandlesFull: s.Handles().Ping(t.Context())} {
		if !errors.Is(err, what) {
			t.Errorf("Ping: %v, want %v", err, what)
		}
	}
	w.clock.Advance(time.Hour)
	if err := errors.Join(issue(100), put(100)); err != nil {
		t.Errorf("once all is due: %v", err)
	}
	if _, err := s.Restored(t.Context()); err != nil {
		t.Fatal(err)
	}

	w.opts.MaxClaims, w.opts.MaxClaimTotalBytes, w.opts.MaxHandles, w.opts.MaxHandleTotalBytes = 1000, 1000, 1000, 1000
	s = w.open(t)
	if err := errors.Join(issue(600), put(600), issue(400), put(400)); err != nil {
		t.Fatal(err)
	}
	if err := issue(1); !errors.Is(err, claimcheck.ErrFull) {
		t.Errorf("Issue beyond MaxClaimTotalBytes: %v", err)
	}
	if err := put(1); !errors.Is(err, postgres.ErrHandlesFull) {
		t.Errorf("Put beyond MaxHandleTotalBytes: %v", err)
	}
	if _, err := s.Restored(t.Context()); err != nil {
		t.Fatal(err)
	}

	w.opts.MaxClaims, w.opts.MaxClaimTotalBytes = 20, 1<<20
	s = w.open(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 4 {
				_ = issue(1)
			}
		})
	}
	wg.Wait()
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Claims < 20 || stats.Claims > 24 {
		t.Errorf("64 Issues by 4 connections with room for 20: %d claims, %v", stats.Claims, err)
	}
	if err := s.Fsck(t.Context(), problem(t)); err != nil {
		t.Error(err)
	}
	if err := s.Claims().Revoke(t.Context(), "no claim"); err != nil {
		t.Error(err)
	}
}

// Calls sweep in passing, without a word to anybody.
func TestSweepInPassing(t *testing.T) {
	w := newWorld(t, nil)
	w.frozen(&w.opts)
	s := w.open(t)
	for range 5 {
		if _, err := s.Replay().Use(t.Context(), newID(), w.clock.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := writeContent(t, s); err != nil {
			t.Fatal(err)
		}
	}
	w.sql(t, `UPDATE {s}.operation SET kept_until = 1`, `UPDATE {s}.handle SET expires = 1`)
	w.clock.Advance(24 * time.Hour)
	far := w.clock.Now().Add(time.Hour)
	for began := time.Now(); ; {
		for range 300 {
			if _, err := s.Replay().Use(t.Context(), newID(), far); err != nil {
				t.Fatal(err)
			}
		}
		var left int
		w.scan(t, fmt.Sprintf(`SELECT (SELECT count(*) FROM {s}.spent WHERE expires < %d) + (SELECT count(*) FROM {s}.claim)
			+ (SELECT count(*) FROM {s}.handle) + (SELECT count(*) FROM {s}.operation) + (SELECT count(*) FROM {s}.step)`, far.UnixMilli()), &left)
		if left == 0 {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%d rows are left that are due", left)
		}
	}
}

// Several that sweep at once each do a part, and what is live stays.
func TestSweepersAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.frozen(&w.opts)
	s := w.open(t)
	w.sql(t, fmt.Sprintf(`INSERT INTO {s}.spent SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), %d, decode(repeat('00', 16), 'hex'), false FROM generate_series(1, 5000) n`, w.clock.Now().UnixMilli()),
		fmt.Sprintf(`INSERT INTO {s}.claim SELECT sha256(n::text::bytea), %d, NULL, 'x', false FROM generate_series(1, 3000) n`, w.clock.Now().UnixMilli()))
	live := newID()
	if _, err := s.Replay().Use(t.Context(), live, w.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(10 * time.Minute)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var spent, claims int64
	for _, s := range []*postgres.Store{s, w.open(t), w.open(t)} {
		wg.Go(func() {
			swept, err := s.Sweep(t.Context())
			if err != nil {
				t.Errorf("Sweep: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			spent, claims = spent+swept.Spent, claims+swept.Claims
		})
	}
	wg.Wait()
	again, err := s.Sweep(t.Context()) // what one had locked, another has left
	if err != nil || spent+again.Spent != 5000 || claims+again.Claims != 3000 {
		t.Errorf("swept %d and %d, then %+v, %v; want 5000 and 3000 in all", spent, claims, again, err)
	}
	if first, err := s.Replay().Use(t.Context(), live, w.clock.Now().Add(50*time.Minute)); err != nil || first {
		t.Errorf("Use of a live id = %v, %v; want false", first, err)
	}
	if err := s.Fsck(t.Context(), problem(t)); err != nil {
		t.Error(err)
	}
}
