package replaytest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/faulttest"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/replay/replaytest"
)

// disk is what replicas of a fake store share and what survives a restart.
type disk struct {
	mu    sync.Mutex
	rows  []row
	mark  time.Time
	limit int
	away  bool

	restored time.Time
}

type row struct {
	id      []byte
	expires time.Time
	attempt []byte
}

// fake is a correct store over a disk, but for its fault.
type fake struct {
	fault string
	disk  *disk
	clock *replaytest.Clock
	own   disk // what a fault keeps in the wrong place
	first *fake
}

const (
	skew     = time.Minute
	password = "the-password-of-the-backend"
)

// faults names each fault and the sub-tests that must find it.
var faults = map[string][]string{
	"uses twice":                   {"first use is true, any other false"},
	"always false":                 {"first use is true, any other false"},
	"compares 16 bytes":            {"ids are told apart"},
	"stops at a zero byte":         {"ids are told apart"},
	"folds case":                   {"ids are told apart"},
	"takes any id":                 {"bad ids are errors"},
	"keeps the slice":              {"caller may reuse the id slice"},
	"key includes expires":         {"another expires does not free the id"},
	"not atomic":                   {"one of 64 concurrent uses is first"},
	"not atomic over peers":        {"one of 64 concurrent uses over two peers is first"},
	"ignores the context":          {"ended context marks nothing"},
	"marks, then asks the context": {"ended context marks nothing"},
	"ping fails":                   {"ping marks nothing"},
	"forgets early":                {"kept until expiry plus skew", "sweep keeps what is live"},
	"forgets in passing":           {"kept until expiry plus skew"},
	"rounds down":                  {"fraction of a second is not rounded down"},
	"no mark":                      {"swept id is an error", "clock set back does not revive", "sweep mark survives a restart", "sweep mark is seen by a peer"},
	"off by one at the mark":       {"never true at the mark"},
	"below the mark only":          {"never true at the mark"},
	"mark goes back":               {"clock set back does not revive"},
	"mark not durable":             {"sweep mark survives a restart"},
	"mark not shared":              {"sweep mark is seen by a peer"},
	"mark in another step":         {"sweep races use"},
	"sweeps everything":            {"kept until expiry plus skew", "sweep keeps what is live"},
	"true before durable":          {"spent survives a restart"},
	"not shared":                   {"spent is seen by a peer"},
	"evicts":                       {"full store refuses and evicts nothing"},
	"full says false":              {"full store refuses and evicts nothing"},
	"unbounded":                    {"full store refuses and evicts nothing"},
	"true on error":                {"broken backend is an error and never true"},
	"false on error":               {"broken backend is an error and never true"},
	"loses on error":               {"broken backend is an error and never true"},
	"ping is blind":                {"broken backend is an error and never true"},
	"id in errors":                 {"ids and secrets stay out of errors"},
	"id in errors, in base64":      {"ids and secrets stay out of errors"},
	"secret in errors":             {"ids and secrets stay out of errors"},
	"says it is ephemeral":         {"harness is complete"},
	"harness lacks a point":        {"harness is complete"},
}

func (f *fake) is(fault string) bool { return f.fault == fault }

func (f *fake) Use(ctx context.Context, id []byte, expires time.Time) (bool, error) {
	return f.use(ctx, id, expires, nil)
}

func (f *fake) use(ctx context.Context, id []byte, expires time.Time, attempt []byte) (bool, error) {
	d := f.disk
	if f.is("true before durable") || f.is("not shared") {
		d = &f.own
	}
	if !f.is("takes any id") {
		if err := replay.Check(id, expires); err != nil {
			return false, err
		}
	}
	if err := ctx.Err(); err != nil && !f.is("ignores the context") && !f.is("marks, then asks the context") {
		return false, err
	}
	if f.is("not atomic over peers") {
		f.own.mu.Lock()
		defer f.own.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.disk.away {
		switch f.fault {
		case "true on error":
			return true, nil
		case "false on error":
			return false, nil
		case "loses on error":
			d.rows = nil
		case "secret in errors":
			return false, fmt.Errorf("fake: no backend at fake://user:%s@host", password)
		}
		return false, errors.New("fake: no backend")
	}
	if f.is("forgets in passing") {
		d.sweep(f.clock.Now())
	}
	if f.swept(expires) {
		switch f.fault {
		case "id in errors":
			return false, fmt.Errorf("%w: %x", replay.ErrSwept, id)
		case "id in errors, in base64":
			return false, fmt.Errorf("%w: %s", replay.ErrSwept, base64.StdEncoding.EncodeToString(id))
		}
		return false, replay.ErrSwept
	}
	if f.older(id) {
		return false, replay.ErrRestored
	}
	if f.is("mark in another step") {
		d.mu.Unlock()
		time.Sleep(100 * time.Microsecond) // the way to the backend and back
		d.mu.Lock()
	}
	i := slices.IndexFunc(d.rows, func(r row) bool { return f.equal(r, id, expires) })
	if f.is("not atomic") || f.is("not atomic over peers") {
		pause(d)
	}
	if i >= 0 {
		return f.is("uses twice") || f.again(&d.rows[i], attempt), nil
	}
	if f.is("always false") {
		return false, nil
	}
	if d.limit > 0 && len(d.rows) >= d.limit {
		switch f.fault {
		case "evicts":
			d.rows = d.rows[1:]
		case "full says false":
			return false, nil
		case "unbounded":
		default:
			return false, replay.ErrFull
		}
	}
	if f.is("rounds down") {
		expires = expires.Truncate(time.Second)
	}
	if !f.is("keeps the slice") {
		id = bytes.Clone(id)
	}
	if !f.is("keeps the attempt slice") {
		attempt = bytes.Clone(attempt)
	}
	d.rows = append(d.rows, row{id, expires, attempt})
	return true, ctx.Err()
}

// pause lets others in between two steps that ought to be one.
func pause(d *disk) {
	d.mu.Unlock()
	for range 3 {
		runtime.Gosched()
	}
	d.mu.Lock()
}

func (f *fake) equal(r row, id []byte, expires time.Time) bool {
	a, b := r.id, id
	switch f.fault {
	case "compares 16 bytes":
		a, b = a[:min(len(a), 16)], b[:min(len(b), 16)]
	case "stops at a zero byte":
		a, _, _ = bytes.Cut(a, []byte{0})
		b, _, _ = bytes.Cut(b, []byte{0})
	case "folds case":
		return bytes.EqualFold(a, b)
	case "key includes expires":
		return bytes.Equal(a, b) && r.expires.Equal(expires)
	}
	return bytes.Equal(a, b)
}

func (f *fake) swept(expires time.Time) bool {
	mark := *f.mark()
	switch f.fault {
	case "no mark":
		return false
	case "off by one at the mark", "below the mark only": // the latter forgets as little
		return expires.Before(mark)
	}
	return !expires.After(mark)
}

func (f *fake) mark() *time.Time {
	if f.is("mark not durable") || f.is("mark not shared") {
		return &f.own.mark
	}
	return &f.disk.mark
}

func (d *disk) sweep(until time.Time) {
	d.rows = slices.DeleteFunc(d.rows, func(r row) bool { return !r.expires.After(until) })
}

func (f *fake) Sweep(context.Context) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	until := f.clock.Now().Add(-skew)
	if f.is("forgets early") {
		until = f.clock.Now()
	}
	if mark := f.mark(); until.After(*mark) || f.is("mark goes back") {
		*mark = until
	}
	if f.is("sweeps everything") {
		f.disk.rows = nil
	}
	if f.is("below the mark only") {
		until = until.Add(-1)
	}
	f.disk.sweep(until)
	return nil
}

func (f *fake) Ping(context.Context) error {
	if f.is("ping fails") {
		return errors.New("fake: unwell")
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.away && !f.is("ping is blind") {
		return errors.New("fake: no backend")
	}
	return nil
}

func (f *fake) Ephemeral() bool { return f.is("says it is ephemeral") }

func newHarness(fault string) *replaytest.Harness {
	d := &disk{mark: time.Unix(0, 0)}
	clock := replaytest.NewClock(time.Unix(1_800_000_000, 123_456_789))
	handle := func() *fake {
		f := &fake{fault: fault, disk: d, clock: clock}
		f.own.mark = time.Unix(0, 0)
		return f
	}
	f := handle()
	f.first = f
	h := &replaytest.Harness{
		Store:  f,
		Secret: password,
		Skew:   skew,
		Clock:  clock,
		Sweep:  f.Sweep,
		Reopen: func(*testing.T) replay.Store { return handle() },
		Peer:   func(*testing.T) replay.Store { return handle() },
		Restored: func(*testing.T) {
			at := clock.Now()
			if fault == "restored mark is far back" {
				at = at.AddDate(0, 0, -1)
			}
			f.restored().restored = at
		},
		Full: func(*testing.T) { d.limit = 50 },
		Break: func(*testing.T) func() {
			away := func(b bool) { d.mu.Lock(); d.away = b; d.mu.Unlock() }
			away(true)
			return func() { away(false) }
		},
	}
	if fault == "harness lacks a point" {
		h.Peer = nil
	}
	return h
}

// TestFaulty runs the suite against a fault, in a process of its own.
func TestFaulty(t *testing.T) {
	fault := faulttest.Fault() // none: the suite can be passed in full
	replaytest.Run(t, func(*testing.T) *replaytest.Harness { return newHarness(fault) })
	replaytest.RunDeferred(t, func(*testing.T) *replaytest.Harness { return newHarness(fault) })
}

func TestSuiteFindsEveryFault(t *testing.T) {
	all := maps.Clone(faults)
	for fault, finders := range deferredFaults {
		all[fault] = slices.Concat(all[fault], finders) // some faults are of both suites
	}
	faulttest.Find(t, all)
}
