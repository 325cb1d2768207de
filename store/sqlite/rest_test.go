package sqlite_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay/replaytest"
	"github.com/foilmcp/foil/store/sqlite"
)

func newStart(now time.Time) *ledger.Start {
	s := &ledger.Start{
		ID: [16]byte(newID()), Round: 1, Method: "tools/call", Target: "delete_bucket",
		Expires: now.Add(10 * time.Minute), Lease: time.Minute, Keep: now.Add(time.Hour), Retention: time.Hour,
	}
	rand.Read(s.Flow[:])
	rand.Read(s.Answers[:])
	return s
}

func mustBegin(t testing.TB, s *sqlite.Store, st *ledger.Start) {
	t.Helper()
	if _, started, err := s.Ledger().Begin(context.Background(), st); !started || err != nil {
		t.Fatalf("Begin: started %v, %v", started, err)
	}
}

func mustFinish(t testing.TB, s *sqlite.Store, id [16]byte, fence uint64, outcome string) {
	t.Helper()
	if err := s.Ledger().Finish(context.Background(), id, fence, ledger.Finish{State: ledger.Succeeded, Outcome: []byte(outcome)}); err != nil {
		t.Fatalf("Finish: %v", err)
	}
}

// rows is one of all that may be sealed.
type rows struct {
	claim string
	key   [32]byte
	id    [16]byte
}

func writeRows(t *testing.T, s *sqlite.Store, secret string) (r rows) {
	t.Helper()
	var err error
	if r.claim, err = s.Claims().Issue(t.Context(), []byte("claim "+secret), time.Hour); err != nil {
		t.Fatal(err)
	}
	rand.Read(r.key[:])
	if err := s.Handles().Put(t.Context(), r.key, []byte("handle "+secret), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	st := newStart(time.Now())
	r.id = st.ID
	mustBegin(t, s, st)
	if err := s.Ledger().EndStep(t.Context(), r.id, 1, "step", []byte("step "+secret), time.Minute); err != nil {
		t.Fatal(err)
	}
	mustFinish(t, s, r.id, 1, "outcome "+secret)
	return r
}

// readRows returns what each read came to.
func readRows(t *testing.T, s *sqlite.Store, r rows) (all []string, errs map[string]error) {
	t.Helper()
	errs = make(map[string]error)
	payload, err := s.Claims().Redeem(t.Context(), r.claim, "op")
	all, errs["Redeem"] = append(all, string(payload)), err
	payload, ok, err := s.Handles().Get(t.Context(), r.key)
	if err == nil && !ok {
		t.Error("handle is not found")
	}
	all, errs["Get of a handle"] = append(all, string(payload)), err
	op, err := s.Ledger().Get(t.Context(), r.id)
	errs["Get of an operation"] = err
	if err == nil {
		all = append(all, string(op.Outcome), string(op.Steps[0].Result))
	}
	return all, errs
}

func TestSealedAtRest(t *testing.T) {
	const secret = "nobody reads this at rest"
	mine, others := sealer(t), sealer(t)
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, &sqlite.Options{AtRest: mine})
	r := writeRows(t, s, secret)
	want := []string{"claim " + secret, "handle " + secret, "outcome " + secret, "step " + secret}
	if got, errs := readRows(t, s, r); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("read %q (%v), want %q", got, errs, want)
	}
	if bytes.Contains(rawFiles(t, path), []byte(secret)) {
		t.Error("content can be read in the file or its log")
	}
	plain := filepath.Join(t.TempDir(), "foil.db")
	p := open(t, plain, nil)
	inPlain := writeRows(t, p, secret)
	if n := bytes.Count(rawFiles(t, plain), []byte(secret)); n < 4 {
		t.Errorf("content is in the plain file %d times; this test looks in the wrong place", n)
	}
	for name, tc := range map[string]struct {
		path   string
		r      rows
		atRest *atrest.Sealer
		want   string
	}{
		"sealed, read without":     {path, r, nil, "open the store with Options.AtRest"},
		"plain, read with":         {plain, inPlain, mine, "not sealed, but Options.AtRest is set"},
		"sealed under another key": {path, r, others, atrest.ErrSealed.Error()},
	} {
		_, errs := readRows(t, open(t, tc.path, &sqlite.Options{AtRest: tc.atRest}), tc.r)
		for what, err := range errs {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s, %s: %v, want an error with %q", name, what, err, tc.want)
			}
		}
	}
	// Nor is content good in another place than its own.
	other := writeRows(t, s, secret)
	c := raw(t, path)
	execute(t, c, "PRAGMA busy_timeout = 60000", "UPDATE claim SET payload = (SELECT payload FROM claim LIMIT 1)",
		"UPDATE foil_operation SET outcome = (SELECT outcome FROM foil_operation LIMIT 1)",
		"UPDATE foil_handle SET payload = (SELECT payload FROM foil_handle LIMIT 1)")
	_, first := readRows(t, s, r)
	_, second := readRows(t, s, other)
	for what := range first {
		if (first[what] == nil) == (second[what] == nil) {
			t.Errorf("%s: %v and %v, want one error", what, first[what], second[what])
		}
	}
}

// Who did not say how content is to be kept keeps none.
func TestAtRestMustBeChosen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	r := writeRows(t, open(t, path, nil), "content")
	s := sqliteOpen(t, path)
	defer s.Close()
	mustUse(t, s, newID(), true) // needs no choice
	l := s.Ledger()
	st := newStart(time.Now())
	_, issued := s.Claims().Issue(t.Context(), nil, time.Minute)
	_, started, begun := l.Begin(t.Context(), st)
	_, resumed := l.Resume(t.Context(), r.id, 1, time.Minute)
	if started {
		t.Error("an operation began whose outcome could not be kept")
	}
	for what, err := range map[string]error{
		"Issue": issued, "Begin": begun, "Resume": resumed,
		"Put":          s.Handles().Put(t.Context(), [32]byte{1}, nil, time.Now().Add(time.Minute)),
		"EndStep":      l.EndStep(t.Context(), r.id, 1, "other", []byte("x"), time.Minute),
		"Finish":       l.Finish(t.Context(), r.id, 1, ledger.Finish{State: ledger.Failed, Outcome: []byte("x")}),
		"Resolve":      l.Resolve(t.Context(), r.id, 1, ledger.Resolution{State: ledger.Failed, By: "me", Outcome: []byte("x")}),
		"Claims.Ping":  s.Claims().Ping(t.Context()),
		"Handles.Ping": s.Handles().Ping(t.Context()),
		"Ledger.Ping":  l.Ping(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), "Options.AtRest") || !strings.Contains(err.Error(), "Options.PlainAtRest") {
			t.Errorf("%s: %v, want an error that names both options", what, err)
		}
	}
	wantTotals(t, path, 1, len("claim content"))
	_, err := sqlite.Open(t.Context(), path, &sqlite.Options{AtRest: sealer(t), PlainAtRest: true})
	if err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("Open with both: %v, want an error", err)
	}
}

// A sealed claim takes more room than its payload, and that is what counts.
func TestSealedClaimLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, &sqlite.Options{AtRest: sealer(t), MaxClaimTotalBytes: 100 + atrest.Overhead, MaxClaimBytes: 100})
	if _, err := s.Claims().Issue(t.Context(), make([]byte, 100), time.Minute); err != nil {
		t.Fatal(err)
	}
	wantTotals(t, path, 1, 100+atrest.Overhead)
	if _, err := s.Claims().Issue(t.Context(), nil, time.Minute); err != claimcheck.ErrFull {
		t.Errorf("Issue beyond the limit: %v, want ErrFull", err)
	}
}

func TestHandleLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, &sqlite.Options{MaxHandles: 3, MaxHandleTotalBytes: 100})
	put := func(key byte, bytes int, want error) {
		t.Helper()
		if err := s.Handles().Put(t.Context(), [32]byte{key}, make([]byte, bytes), time.Now().Add(time.Hour)); err != want {
			t.Fatalf("Put of %d bytes: %v, want %v", bytes, err, want)
		}
	}
	put(1, 101, sqlite.ErrFull)
	put(1, 60, nil)
	put(2, 41, sqlite.ErrFull)
	put(1, 40, sqlite.ErrExists)
	put(2, 40, nil)
	put(3, 0, nil)
	put(4, 0, sqlite.ErrFull)
	wantSound(t, s)
}

// A handle is found for the whole of the skew that clocks may differ by.
func TestHandleIsFoundWithinTheSkew(t *testing.T) {
	clock := replaytest.NewClock(time.Now().Truncate(time.Second))
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), &sqlite.Options{Now: clock.Now})
	key := [32]byte{1}
	if err := s.Handles().Put(t.Context(), key, []byte("x"), clock.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Minute + sqlite.DefaultSkew - time.Millisecond)
	for _, want := range []bool{true, false} {
		if _, ok, err := s.Handles().Get(t.Context(), key); ok != want || err != nil {
			t.Errorf("Get = %v, %v; want %v", ok, err, want)
		}
		clock.Advance(time.Millisecond)
	}
}

// A finding is its operator's: nobody's Finish repeats it.
func TestFinishDoesNotRepeatAFinding(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), nil)
	st := newStart(time.Now())
	mustBegin(t, s, st)
	if err := s.Ledger().Finish(t.Context(), st.ID, 1, ledger.Finish{State: ledger.Unknown}); err != nil {
		t.Fatal(err)
	}
	if err := s.Ledger().Resolve(t.Context(), st.ID, 1, ledger.Resolution{State: ledger.Failed, Outcome: []byte("x"), By: "me"}); err != nil {
		t.Fatal(err)
	}
	for fence := range uint64(3) {
		if err := s.Ledger().Finish(t.Context(), st.ID, fence, ledger.Finish{State: ledger.Failed, Outcome: []byte("x")}); err != ledger.ErrFenced {
			t.Errorf("Finish with fence %d: %v, want ErrFenced", fence, err)
		}
	}
}

func TestStats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	atRest := sealer(t)
	s := open(t, path, &sqlite.Options{AtRest: atRest})
	writeRows(t, s, "x")
	lapsed, executing, failed, unknown := newStart(time.Now()), newStart(time.Now()), newStart(time.Now()), newStart(time.Now())
	lapsed.Lease = time.Millisecond
	for _, st := range []*ledger.Start{lapsed, executing, failed, unknown} {
		mustBegin(t, s, st)
	}
	for id, state := range map[[16]byte]ledger.State{failed.ID: ledger.Failed, unknown.ID: ledger.Unknown} {
		if err := s.Ledger().Finish(t.Context(), id, 1, ledger.Finish{State: state}); err != nil {
			t.Fatal(err)
		}
	}
	mustUse(t, s, newID(), true)
	mustUse(t, s, newID(), true)
	time.Sleep(2 * time.Millisecond) // until the lease has run out
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.Backend != "sqlite" || st.Schema != 3 || st.Spent != 2 || st.Claims != 1 || st.Handles != 1 || st.Executing != 1 ||
		st.Succeeded != 1 || st.Failed != 1 || st.Unknown != 2 || st.ClaimBytes != int64(len("claim x")+atrest.Overhead) || st.SizeBytes < 4096 ||
		!st.SweptUntil.IsZero() || !st.RestoredAt.IsZero() {
		t.Errorf("Stats = %+v", st)
	}
	kept, err := atRest.Seal("t", nil, "c", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Keys) != 1 || st.Keys[atrest.KeyID(kept)] != 4 {
		t.Errorf("Keys are %v, want 4 rows under %s", st.Keys, hex.EncodeToString(kept[:4]))
	}
	before, err := s.Restored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err = s.Stats(t.Context()); err != nil || !st.RestoredAt.Equal(before) || st.SweptUntil.IsZero() || st.Claims != 0 || st.Handles != 0 || st.Executing != 0 || st.Unknown != 3 {
		t.Errorf("Stats after Restored and Sweep = %+v, %v", st, err)
	}
}
