package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/dsn"
)

// What the operations of the tests have in common. They are told apart by the last
// byte of their IDs and flows.
const (
	alice = `["app","https://login.example","alice"]`
	bob   = `["app","https://login.example","bob"]`

	told      = `{"content":[{"type":"text","text":"sure-about-logs?"}]}`
	stepMade  = "result-of-a-step"
	badTarget = "evil\x1b[31m\u202e"
)

func seededID(n byte) opID   { return opID{0x01, 0x9a, 15: n} }
func seededFlow(n byte) opID { return opID{0x01, 0x9b, 15: n} }

func tag(principal string) []byte {
	var c claims.Claims
	c.SetPrincipal([8]byte{1, 2, 3, 4, 5, 6, 7, 8}, principal)
	return c.Principal[:]
}

// seedOperations begins operations in l:
//
//	1  alice  tools/call purge    flow 1, round 1  succeeded, with an outcome
//	2  alice  tools/call purge    flow 1, round 2  unknown: its lease ran out in its second step
//	3  bob    prompts/get greet   flow 3           unknown: it ended so
//	4  nobody tools/call purge    flow 4           executing
//	5  bob    tools/call badTarget flow 5          failed
func seedOperations(ctx context.Context, l ledger.Store) error {
	begin := func(n, flow byte, round int, method, target string, principal []byte, lease time.Duration) error {
		now := time.Now()
		_, started, err := l.Begin(ctx, &ledger.Start{
			ID: seededID(n), Flow: seededFlow(flow), Round: round, Method: method, Target: target, Principal: principal,
			Expires: now.Add(time.Hour), Lease: lease, Keep: now.Add(2 * time.Hour), Retention: time.Hour,
		})
		if err == nil && !started {
			err = fmt.Errorf("operation %d is there already", n)
		}
		time.Sleep(2 * time.Millisecond) // the order of the list is that of milliseconds
		return err
	}
	const long, short = time.Hour, time.Millisecond
	for _, do := range []func() error{
		func() error { return begin(1, 1, 1, "tools/call", "purge", tag(alice), long) },
		func() error {
			return l.Finish(ctx, seededID(1), 1, ledger.Finish{State: ledger.Succeeded, Outcome: foil.EncodeOutcome([]byte(told))})
		},
		func() error { return begin(2, 1, 2, "tools/call", "purge", tag(alice), long) },
		func() error { return l.EndStep(ctx, seededID(2), 1, "delete 0", []byte(stepMade), long) },
		func() error { _, err := l.BeginStep(ctx, seededID(2), 1, "delete 1", short); return err },
		func() error { return begin(3, 3, 1, "prompts/get", "greet", tag(bob), long) },
		func() error { return l.Finish(ctx, seededID(3), 1, ledger.Finish{State: ledger.Unknown}) },
		func() error { return begin(4, 4, 1, "tools/call", "purge", nil, long) },
		func() error { return begin(5, 5, 1, "tools/call", badTarget, tag(bob), long) },
		func() error {
			return l.Finish(ctx, seededID(5), 1, ledger.Finish{State: ledger.Failed, Outcome: foil.EncodeOutcome([]byte(`{"isError":true}`))})
		},
	} {
		if err := do(); err != nil {
			return err
		}
	}
	for range 5000 { // until the lease has run out by the store's clock
		op, err := l.Get(ctx, seededID(2))
		if err != nil || op.State == ledger.Unknown {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return fmt.Errorf("a lease does not run out")
}

// seedStore makes those operations in a store that is sealed under a ring.
func seedStore(ctx context.Context, name string, ring *keyring.Ring) (err error) {
	sealer, err := atrest.New(keyring.Fixed(ring))
	if err != nil {
		return err
	}
	s, err := dsn.Open(ctx, name, &dsn.Options{AtRest: sealer, Migrate: true, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer closeStore(s, &err)
	return seedOperations(ctx, s.Ledger())
}

// scriptOperations is the command of stories "operations FILE RING".
func scriptOperations(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: operations FILE RING")
	}
	ctx := context.Background()
	source, err := keyring.ParseSource("file:" + ts.MkAbs(args[1]))
	ts.Check(err)
	ring, err := source.Load(ctx)
	ts.Check(err)
	ts.Check(seedStore(ctx, "sqlite:"+ts.MkAbs(args[0]), ring))
}
