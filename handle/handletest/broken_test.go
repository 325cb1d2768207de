package handletest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/handle"
	"github.com/foilmcp/foil/handle/handletest"
	"github.com/foilmcp/foil/internal/faulttest"
	"github.com/foilmcp/foil/keyring"
)

// disk is what replicas of a fake store share and what survives a restart.
type disk struct {
	mu    sync.Mutex
	rows  map[[32]byte]row
	limit int
	away  bool
}

type row struct {
	sealed  []byte
	expires time.Time
}

// fake is a correct store over a disk, but for its fault.
type fake struct {
	fault  string
	disk   *disk
	clock  *handletest.Clock
	sealer *atrest.Sealer
	own    disk // what a fault keeps in the wrong place
	seen   map[[32]byte]bool
}

const (
	skew     = time.Minute
	password = "the-password-of-the-backend"
)

// faults names each fault and the sub-tests that must find it.
var faults = map[string][]string{
	"get spends":                   {"payloads of every size come back"},
	"cuts payloads":                {"payloads of every size come back"},
	"empty is missing":             {"payloads of every size come back"},
	"compares 16 bytes":            {"keys are told apart"},
	"compares 31 bytes":            {"keys are told apart"},
	"stops at a zero byte":         {"keys are told apart"},
	"folds case":                   {"keys are told apart"},
	"overwrites":                   {"what is there is never overwritten"},
	"takes the same again":         {"what is there is never overwritten"},
	"moves the expiry":             {"what is there is never overwritten"},
	"not atomic":                   {"one of 64 concurrent puts of a key succeeds"},
	"not atomic over peers":        {"one of 64 concurrent puts over two peers succeeds"},
	"shows the key first":          {"one of 64 concurrent puts of a key succeeds"},
	"keeps the slice":              {"caller may reuse the payload"},
	"changes the payload":          {"caller may reuse the payload"},
	"gives its own slice":          {"payloads are the caller's own"},
	"ignores the context":          {"ended context stores nothing"},
	"stores, then asks":            {"ended context stores nothing"},
	"ping fails":                   {"ping changes nothing"},
	"ping forgets":                 {"ping changes nothing"},
	"forgets early":                {"kept until expiry", "sweep keeps what is live"},
	"finds what expired":           {"not found after expiry"},
	"sweeps everything":            {"kept until expiry", "sweep keeps what is live"},
	"put before durable":           {"payloads survive a restart"},
	"not shared":                   {"payloads are seen by a peer"},
	"late to a peer":               {"payloads are seen by a peer"},
	"evicts":                       {"full store refuses and forgets nothing"},
	"unbounded":                    {"full store refuses and forgets nothing"},
	"never makes room":             {"expired payloads make room"},
	"put succeeds on error":        {"broken backend is an error and never not found"},
	"not found on error":           {"broken backend is an error and never not found"},
	"loses on error":               {"broken backend is an error and never not found"},
	"ping is blind":                {"broken backend is an error and never not found"},
	"plain at rest":                {"payloads cannot be seen at rest"},
	"base64 at rest":               {"payloads cannot be seen at rest"},
	"not bound to the key":         {"swapped payloads are errors"},
	"swapped is missing":           {"swapped payloads are errors"},
	"payload in errors":            {"payloads and secrets stay out of errors"},
	"payload in errors, in base64": {"payloads and secrets stay out of errors"},
	"secret in errors":             {"payloads and secrets stay out of errors"},
	"says it is ephemeral":         {"harness is complete"},
	"harness lacks a point":        {"harness is complete"},
}

func (f *fake) is(fault string) bool { return f.fault == fault }

// key is by what f files a payload.
func (f *fake) key(key [32]byte) [32]byte {
	switch f.fault {
	case "compares 16 bytes":
		clear(key[16:])
	case "compares 31 bytes":
		key[31] = 0
	case "stops at a zero byte":
		if i := bytes.IndexByte(key[:], 0); i >= 0 {
			clear(key[i:])
		}
	case "folds case":
		key = [32]byte(bytes.ToUpper(key[:]))
	}
	return key
}

// home is where f keeps payloads.
func (f *fake) home() *disk {
	if f.is("put before durable") || f.is("not shared") {
		return &f.own
	}
	return f.disk
}

func (f *fake) away() error {
	switch {
	case !f.disk.away:
		return nil
	case f.is("secret in errors"):
		return fmt.Errorf("fake: no backend at fake://user:%s@host", password)
	}
	return errors.New("fake: no backend")
}

// place is the row that a payload is sealed for.
func (f *fake) place(key [32]byte) []byte {
	if f.is("not bound to the key") {
		return nil
	}
	return key[:]
}

func (f *fake) seal(key [32]byte, payload []byte) ([]byte, error) {
	switch f.fault {
	case "plain at rest", "gives its own slice":
		return bytes.Clone(payload), nil
	case "keeps the slice":
		return payload, nil
	case "base64 at rest":
		return []byte(base64.StdEncoding.EncodeToString(payload)), nil
	case "cuts payloads":
		payload = payload[:min(len(payload), 65_535)]
	}
	return f.sealer.Seal("fake", f.place(key), "payload", payload)
}

func (f *fake) open(key [32]byte, sealed []byte) ([]byte, error) {
	switch f.fault {
	case "plain at rest", "keeps the slice":
		return bytes.Clone(sealed), nil
	case "gives its own slice":
		return sealed, nil
	case "base64 at rest":
		return base64.StdEncoding.DecodeString(string(sealed))
	}
	payload, err := f.sealer.Open("fake", f.place(key), "payload", sealed)
	return append([]byte{}, payload...), err
}

func (f *fake) Put(ctx context.Context, key [32]byte, payload []byte, expires time.Time) error {
	d := f.home()
	if err := ctx.Err(); err != nil && !f.is("ignores the context") && !f.is("stores, then asks") {
		return err
	}
	if f.is("not atomic over peers") {
		f.own.mu.Lock()
		defer f.own.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := f.away(); err != nil {
		switch f.fault {
		case "put succeeds on error":
			return nil
		case "loses on error":
			clear(d.rows)
		}
		return err
	}
	sealed, err := f.seal(key, payload)
	if err != nil {
		return err
	}
	if f.is("changes the payload") {
		clear(payload)
	}
	old, exists := d.rows[f.key(key)]
	if f.is("not atomic") || f.is("not atomic over peers") {
		pause(d)
	}
	if exists {
		switch f.fault {
		case "overwrites":
		case "takes the same again":
			if was, err := f.open(key, old.sealed); err == nil && bytes.Equal(was, payload) {
				return nil
			}
			return errors.New("fake: key exists")
		case "moves the expiry":
			old.expires = expires
			d.rows[f.key(key)] = old
			return errors.New("fake: key exists")
		case "payload in errors":
			return fmt.Errorf("fake: key exists, not put: %x", payload)
		case "payload in errors, in base64":
			return fmt.Errorf("fake: INSERT …, %s: key exists", base64.StdEncoding.EncodeToString(payload))
		default:
			return errors.New("fake: key exists")
		}
	}
	if d.limit > 0 && len(d.rows) >= d.limit && !f.is("unbounded") {
		if !f.is("evicts") {
			return errors.New("fake: full")
		}
		for k := range d.rows {
			delete(d.rows, k)
			break
		}
	}
	if f.is("shows the key first") {
		d.rows[f.key(key)] = row{nil, expires}
		pause(d)
	}
	d.rows[f.key(key)] = row{sealed, expires}
	return ctx.Err()
}

// pause lets others in between two steps that ought to be one.
func pause(d *disk) {
	d.mu.Unlock()
	for range 3 {
		runtime.Gosched()
	}
	d.mu.Lock()
}

func (f *fake) Get(ctx context.Context, key [32]byte) ([]byte, bool, error) {
	if err := ctx.Err(); err != nil && !f.is("ignores the context") {
		return nil, false, err
	}
	d := f.home()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := f.away(); err != nil {
		if f.is("not found on error") {
			return nil, false, nil
		}
		return nil, false, err
	}
	r, ok := d.rows[f.key(key)]
	if f.is("late to a peer") && !f.seen[key] && f != first {
		f.seen[key] = true
		return nil, false, nil
	}
	if !ok || !f.clock.Now().Before(r.expires) && !f.is("finds what expired") {
		return nil, false, nil
	}
	payload, err := f.open(key, r.sealed)
	switch {
	case err != nil && f.is("swapped is missing"):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case f.is("get spends"):
		delete(d.rows, f.key(key))
	}
	if len(payload) == 0 && f.is("empty is missing") {
		return nil, false, nil
	}
	return payload, true, nil
}

func (f *fake) Sweep(context.Context) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	until := f.clock.Now()
	switch f.fault {
	case "forgets early":
		until = until.Add(2 * time.Hour)
	case "never makes room":
		return nil
	case "sweeps everything":
		clear(f.disk.rows)
	}
	for k, r := range f.disk.rows {
		if !until.Before(r.expires) {
			delete(f.disk.rows, k)
		}
	}
	return nil
}

func (f *fake) Ping(context.Context) error {
	if f.is("ping fails") {
		return errors.New("fake: unwell")
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.is("ping forgets") {
		clear(f.disk.rows)
	}
	if f.is("ping is blind") {
		return nil
	}
	return f.away()
}

func (f *fake) Ephemeral() bool { return f.is("says it is ephemeral") }

// first is the store that a harness began with.
var first *fake

func newHarness(t *testing.T, fault string) *handletest.Harness {
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := atrest.New(keyring.Fixed(ring))
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{rows: make(map[[32]byte]row)}
	clock := handletest.NewClock(time.Unix(1_800_000_000, 123_456_789))
	open := func() *fake {
		f := &fake{fault: fault, disk: d, clock: clock, sealer: sealer, seen: make(map[[32]byte]bool)}
		f.own.rows = make(map[[32]byte]row)
		return f
	}
	f := open()
	first = f
	h := &handletest.Harness{
		Store:  f,
		Secret: password,
		Skew:   skew,
		Clock:  clock,
		Sweep:  f.Sweep,
		Reopen: func(*testing.T) handle.Store { return open() },
		Peer:   func(*testing.T) handle.Store { return open() },
		Full:   func(*testing.T) { d.limit = 50 },
		Break: func(*testing.T) func() {
			away := func(b bool) { d.mu.Lock(); d.away = b; d.mu.Unlock() }
			away(true)
			return func() { away(false) }
		},
		Raw: func(*testing.T) (raw []byte) {
			for _, r := range d.rows {
				raw = append(raw, r.sealed...)
			}
			return raw
		},
		Swap: func(_ *testing.T, a, b [32]byte) {
			ra, rb := d.rows[a], d.rows[b]
			ra.sealed, rb.sealed = rb.sealed, ra.sealed
			d.rows[a], d.rows[b] = ra, rb
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
	handletest.Run(t, func(t *testing.T) *handletest.Harness { return newHarness(t, fault) })
}

func TestSuiteFindsEveryFault(t *testing.T) { faulttest.Find(t, faults) }
