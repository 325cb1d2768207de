package claimchecktest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/claimcheck/claimchecktest"
	"github.com/foilmcp/foil/internal/faulttest"
)

// disk is what replicas of a fake store share and what survives a restart.
type disk struct {
	mu    sync.Mutex
	rows  map[string]*row
	now   time.Time
	limit int
	away  bool
}

type row struct {
	payload []byte
	expires time.Time
	by      string
}

// fake is a correct store over a disk, but for its fault.
type fake struct {
	fault string
	disk  *disk
	own   disk // what a fault keeps in the wrong place
}

const (
	maxPayload = 1 << 12
	password   = "the-password-of-the-backend"
)

// faults names each fault and the sub-tests that must find it.
var faults = map[string][]string{
	"claim without prefix":         {"claims are random and well formed"},
	"claim is a hash":              {"claims are random and well formed"},
	"drops empty payloads":         {"redeem returns the payload"},
	"payload is a C string":        {"redeem returns the payload"},
	"once only":                    {"redeem again by the same returns it again"},
	"uses twice":                   {"redeem by another is refused", "one of 64 concurrent redeemers wins"},
	"by folds space":               {"redeem by another is refused"},
	"by may be empty":              {"empty by is an error"},
	"empty by is redeemed":         {"empty by is an error"},
	"not atomic":                   {"one of 64 concurrent redeemers wins"},
	"not atomic over peers":        {"one of 64 concurrent redeemers over two peers wins"},
	"lax decoding":                 {"unknown and malformed claims are refused alike"},
	"tells why":                    {"unknown and malformed claims are refused alike"},
	"keeps the payload slice":      {"caller may reuse the payload slices"},
	"hands out its slice":          {"caller may reuse the payload slices"},
	"takes any ttl":                {"bad ttl and long payloads are refused"},
	"takes any payload":            {"bad ttl and long payloads are refused"},
	"forgets early":                {"expired claim is refused"},
	"off by one at the expiry":     {"claim ends when its ttl has passed, and not before"},
	"rounds down":                  {"claim ends when its ttl has passed, and not before"},
	"never expires":                {"expired claim is refused", "expiry ends a redeemed claim too"},
	"redeemed never expires":       {"expiry ends a redeemed claim too"},
	"revoke spares the redeemer":   {"revoked claim is refused for everybody"},
	"revoke does nothing":          {"revoked claim is refused for everybody"},
	"revoking nothing fails":       {"revoking nothing is no error"},
	"revoke is lax":                {"revoke touches no other claim"},
	"ignores the context":          {"ended context changes nothing"},
	"marks, then asks the context": {"ended context changes nothing"},
	"claim in errors":              {"claims and payloads stay out of errors"},
	"payload in errors":            {"claims and payloads stay out of errors"},
	"secret in errors":             {"claims and payloads stay out of errors"},
	"evicts":                       {"full store refuses and drops nothing"},
	"unbounded":                    {"full store refuses and drops nothing"},
	"not durable":                  {"redeemed survives a restart"},
	"not shared":                   {"redeemed is seen by a peer"},
	"redeemed on error":            {"broken backend is an error and loses nothing"},
	"loses on error":               {"broken backend is an error and loses nothing"},
	"says it is ephemeral":         {"harness is complete"},
	"says it is not idempotent":    {"harness is complete"},
	"harness lacks a point":        {"harness is complete"},
}

func (f *fake) is(fault string) bool { return f.fault == fault }

func (f *fake) errAway(payload []byte) error {
	switch f.fault {
	case "payload in errors":
		return fmt.Errorf("fake: no backend for %s", payload)
	case "secret in errors":
		return fmt.Errorf("fake: no backend at fake://user:%s@host", password)
	}
	return errors.New("fake: no backend")
}

func (f *fake) store() *disk {
	if f.is("not durable") || f.is("not shared") {
		return &f.own
	}
	return f.disk
}

func (f *fake) Issue(ctx context.Context, payload []byte, ttl time.Duration) (string, error) {
	if ttl <= 0 && !f.is("takes any ttl") {
		return "", errors.New("fake: bad ttl")
	}
	if len(payload) > maxPayload && !f.is("takes any payload") {
		return "", claimcheck.ErrTooLarge
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if !f.is("keeps the payload slice") {
		payload = bytes.Clone(payload)
	}
	if f.is("payload is a C string") {
		payload, _, _ = bytes.Cut(payload, []byte{0})
	}
	d := f.store()
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.disk.away {
		return "", f.errAway(payload)
	}
	if d.limit > 0 && len(d.rows) >= d.limit {
		switch f.fault {
		case "evicts":
			for claim := range d.rows {
				delete(d.rows, claim)
				break
			}
		case "unbounded":
		default:
			return "", claimcheck.ErrFull
		}
	}
	claim := claimcheck.NewClaim()
	switch f.fault {
	case "claim without prefix":
		claim = strings.TrimPrefix(claim, claimcheck.Prefix)
	case "claim is a hash":
		claim = fmt.Sprintf("%s%x", claimcheck.Prefix, payload)
	}
	if d.rows == nil {
		d.rows = map[string]*row{}
	}
	if len(payload) > 0 || !f.is("drops empty payloads") {
		d.rows[claim] = &row{payload: payload, expires: f.disk.now.Add(ttl)}
	}
	return claim, nil
}

func (f *fake) find(d *disk, claim string, lax bool) *row {
	if lax {
		claim = strings.TrimRight(claim, "=\r\n ")
	}
	return d.rows[claim]
}

func (f *fake) expired(r *row) bool {
	switch {
	case f.is("never expires"), f.is("redeemed never expires") && r.by != "":
		return false
	case f.is("off by one at the expiry"):
		return f.disk.now.After(r.expires)
	case f.is("rounds down"):
		return !f.disk.now.Before(r.expires.Truncate(time.Second))
	case f.is("forgets early"):
		return f.disk.now.Add(time.Minute).After(r.expires)
	}
	return !f.disk.now.Before(r.expires)
}

func (f *fake) Redeem(ctx context.Context, claim, by string) ([]byte, error) {
	switch {
	case by != "" || f.is("by may be empty"):
	case f.is("empty by is redeemed"):
		return nil, claimcheck.ErrRedeemed
	default:
		return nil, errors.New("fake: empty by")
	}
	if f.is("by folds space") {
		by = strings.TrimSpace(by)
	}
	if err := ctx.Err(); err != nil && !f.is("ignores the context") && !f.is("marks, then asks the context") {
		return nil, err
	}
	if f.is("not atomic over peers") {
		f.own.mu.Lock()
		defer f.own.mu.Unlock()
	}
	d := f.store()
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.disk.away {
		switch f.fault {
		case "redeemed on error":
			return nil, claimcheck.ErrRedeemed
		case "loses on error":
			d.rows = nil
		}
		return nil, f.errAway(nil)
	}
	r := f.find(d, claim, f.is("lax decoding"))
	if f.is("tells why") && r == nil && len(claim) < 10 {
		return nil, fmt.Errorf("%w: malformed", claimcheck.ErrRedeemed)
	}
	if r == nil || f.expired(r) {
		return nil, claimcheck.ErrRedeemed
	}
	refused := r.by != "" && (r.by != by || f.is("once only")) && !f.is("uses twice")
	if f.is("not atomic") || f.is("not atomic over peers") {
		d.mu.Unlock()
		for range 3 {
			runtime.Gosched()
		}
		d.mu.Lock()
	}
	if refused {
		if f.is("claim in errors") {
			return nil, fmt.Errorf("%w: %s", claimcheck.ErrRedeemed, claim)
		}
		return nil, claimcheck.ErrRedeemed
	}
	r.by = by
	if err := ctx.Err(); err != nil && !f.is("ignores the context") {
		return nil, err
	}
	if f.is("hands out its slice") {
		return r.payload, nil
	}
	return bytes.Clone(r.payload), nil
}

func (f *fake) Revoke(ctx context.Context, claim string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := f.store()
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.disk.away {
		return f.errAway(nil)
	}
	r := f.find(d, claim, f.is("revoke is lax"))
	switch {
	case r == nil && f.is("revoking nothing fails"):
		return errors.New("fake: no such claim")
	case f.is("revoke does nothing"), r != nil && r.by != "" && f.is("revoke spares the redeemer"):
		return nil
	}
	if f.is("revoke is lax") {
		claim = strings.TrimRight(claim, "=\r\n ")
	}
	delete(d.rows, claim)
	return nil
}

func (f *fake) Ephemeral() bool            { return f.is("says it is ephemeral") }
func (f *fake) IdempotentRedeem() bool     { return !f.is("says it is not idempotent") }
func (f *fake) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("fake")) }

func newHarness(fault string) *claimchecktest.Harness {
	d := &disk{now: time.Unix(1_800_000_000, 0)}
	handle := func() *fake { return &fake{fault: fault, disk: d} }
	h := &claimchecktest.Harness{
		Store:      handle(),
		Advance:    func(by time.Duration) { d.now = d.now.Add(by) },
		MaxPayload: maxPayload,
		Secret:     password,
		Reopen:     func(*testing.T) claimcheck.Store { return handle() },
		Peer:       func(*testing.T) claimcheck.Store { return handle() },
		Full:       func(*testing.T) { d.limit = 50 },
		Break: func(*testing.T) func() {
			d.away = true
			return func() { d.away = false }
		},
	}
	if fault == "harness lacks a point" {
		h.Reopen = nil
	}
	return h
}

// TestFaulty runs the suite against a fault, in a process of its own.
func TestFaulty(t *testing.T) {
	fault := faulttest.Fault() // none: the suite can be passed in full
	claimchecktest.Run(t, func(*testing.T) *claimchecktest.Harness { return newHarness(fault) })
}

func TestSuiteFindsEveryFault(t *testing.T) { faulttest.Find(t, faults) }

func TestOnceOnlyStoresPassToo(t *testing.T) {
	if faulttest.Fault() != "" {
		return
	}
	claimchecktest.Run(t, func(*testing.T) *claimchecktest.Harness {
		h := newHarness("once only")
		h.Store = onceOnly{h.Store}
		reopen, peer := h.Reopen, h.Peer
		h.Reopen = func(t *testing.T) claimcheck.Store { return onceOnly{reopen(t)} }
		h.Peer = func(t *testing.T) claimcheck.Store { return onceOnly{peer(t)} }
		h.OnceOnly = true
		return h
	})
}

// onceOnly hides that the store says it is idempotent.
type onceOnly struct{ claimcheck.Store }

func (onceOnly) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("fake")) }
