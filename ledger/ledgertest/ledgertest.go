// Package ledgertest checks that a [ledger.Store] keeps its promises. Every
// implementation runs it:
//
//	func TestConformance(t *testing.T) {
//		ledgertest.Run(t, func(t *testing.T) *ledgertest.Harness { … })
//	}
//	func TestModel(t *testing.T) {
//		ledgertest.Model(t, func(t *testing.T) *ledgertest.Harness { … })
//	}
//
// What a store cannot do is said in the negative, so that the harness of a new
// store fails until each point is either there or named.
package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
)

// A Harness is one empty store and the handles by which the suite moves the
// world around it.
type Harness struct {
	// Store is empty and ready.
	Store ledger.Store

	// Skew is how much longer than its KeptUntil Store keeps an operation. With
	// NoClock, set it to some tens of milliseconds at most: the suite waits.
	Skew time.Duration

	// Now is the clock of Store and Advance moves it, back if d is negative.
	// Leave both nil with NoClock if the store goes by the clock of a server
	// that shows the time of this machine. The suite then sleeps, for tenths of
	// a second, and skips what needs a clock that moves.
	Now     func() time.Time
	Advance func(d time.Duration)
	NoClock bool

	// Sweep makes Store forget all that it may. Leave it nil with NoSweep if the
	// backend forgets by itself.
	Sweep   func(ctx context.Context) error
	NoSweep bool

	// MaxOutcome is the length of the longest outcome that Store takes, at least
	// 1 KiB. Unlimited: the backend's limit cannot be reached in a test. The
	// suite writes outcomes of up to 1 MiB if it may.
	MaxOutcome int
	Unlimited  bool

	// MaxSteps is how many steps of one operation Store takes: ledger.MaxSteps,
	// or fewer by a knob of the test. ManySteps: that many are too slow.
	MaxSteps  int
	ManySteps bool

	// Reopen ends Store, as abruptly as the test can, and returns a store on
	// the same data, as after a restart. NotDurable: the data dies with Store.
	Reopen     func(t *testing.T) ledger.Store
	NotDurable bool

	// Peer returns another store on the same data, as a second replica has.
	// NotShared: there can be none.
	Peer      func(t *testing.T) ledger.Store
	NotShared bool

	// Restored records that Store was restored from a backup now: it refuses
	// what was minted before, and nobody goes on with what it has as executing or
	// unknown. CannotRestore: there are no backups of it.
	Restored      func(t *testing.T)
	CannotRestore bool

	// Full makes Store so small that it is full after at most a thousand
	// operations more. Unbounded: the backend's limit cannot be reached in a test.
	Full      func(t *testing.T)
	Unbounded bool

	// Break takes the backend away until restore is called. CannotBreak: there
	// is nothing that could go away.
	Break       func(t *testing.T) (restore func())
	CannotBreak bool

	// Secret is what Store authenticates to its backend with, such as the
	// password in a DSN; it must stay out of errors. NoSecret: there is none.
	Secret   string
	NoSecret bool
}

// Run runs the suite. It calls newHarness once for each sub-test.
func Run(t *testing.T, newHarness func(t *testing.T) *Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h *Harness)
	}{
		{"harness is complete", testHarness},

		{"begin writes down what it is given", testBegin},
		{"begin again returns the operation untouched", testBeginAgain},
		{"ids are told apart", testDistinct},
		{"bad starts are errors", testBadStarts},
		{"one of 64 concurrent begins starts", testConcurrentBegin},
		{"one of 64 concurrent begins over two peers starts", testConcurrentBeginPeers},
		{"what is not there is not found", testAbsent},

		{"unknown once the lease has run out", testLapse},
		{"lease is counted to the millisecond", testLapseMoment},
		{"renew counts from now", testRenew},
		{"renew works after the lease ran out", testRenewLapsed},
		{"resume takes over what is unknown", testResume},
		{"resume takes nothing else", testResumeOthers},
		{"one of 64 concurrent resumes wins", testConcurrentResume},
		{"any other fence is shut out", testOldFence},
		{"nobody runs what has ended", testEnded},
		{"nobody runs what is declared unknown", testDeclaredUnknown},
		{"bad leases are errors", testBadLeases},

		{"steps keep their order", testStepOrder},
		{"step that began again keeps its beginning", testStepAgain},
		{"done step is returned", testStepDone},
		{"step ends once", testStepEndsOnce},
		{"step may end without a beginning", testStepWithoutBegin},
		{"steps extend the lease", testStepLease},
		{"step names are told apart", testStepNames},
		{"steps are bounded", testStepBound},
		{"one of 64 concurrent ends of a step wins", testConcurrentEndStep},

		{"finish records the outcome", testFinish},
		{"finish again with the same is no error", testFinishAgain},
		{"finish again with another outcome is fenced", testFinishOtherwise},
		{"late finish tells what is unknown", testLateFinish},
		{"finish as unknown", testFinishUnknown},
		{"bad finishes are errors", testBadFinishes},
		{"outcome is kept byte for byte", testOutcomes},
		{"long outcome is refused", testTooLarge},
		{"one of 64 concurrent finishes wins", testConcurrentFinish},
		{"finish and resume exclude each other", testFinishOrResume},

		{"resolve ends what is unknown", testResolve},
		{"resolve ends nothing else", testResolveOthers},
		{"late finish after resolve is fenced", testFinishAfterResolve},
		{"bad resolutions are errors", testBadResolutions},
		{"one of 64 concurrent resolves wins", testConcurrentResolve},

		{"kept until its time", testKept},
		{"kept until both times have passed", testKeptBoth},
		{"forgotten after its time", testForgotten},
		{"executing and unknown are never forgotten", testNeverForgotten},
		{"forgotten operation does not start again", testSwept},
		{"fraction of a millisecond does not start it again", testSweptFraction},
		{"operation of any age is returned", testOldReturned},
		{"clock set back does not revive", testClockBack},
		{"sweep races begin", testSweepRace},
		{"older than the restored store is refused", testRestored},
		{"restored operation is not resumed", testRestoredNotResumed},
		{"restore shuts out every process", testRestoredFence},

		{"list is in the order of the start", testListOrder},
		{"list filters", testListFilters},
		{"list goes page by page", testListPages},
		{"list leaves out steps and outcomes", testListBare},
		{"bad queries are errors", testBadQueries},
		{"counts each state", testCounts},

		{"ping writes nothing", testPing},
		{"ended context writes nothing", testContext},
		{"caller may change what it gave and got", testAliasing},
		{"errors tell nothing", testErrors},

		{"all survives a restart", testRestart},
		{"marks survive a restart", testMarkRestart},
		{"all is seen by a peer", testPeer},
		{"marks are seen by a peer", testMarkPeer},
		{"full store refuses and forgets nothing", testFull},
		{"broken backend is an error and loses nothing", testBroken},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newHarness(t)) })
	}
}

func testHarness(t *testing.T, h *Harness) {
	for _, c := range []struct {
		name         string
		have, excuse bool
	}{
		{"Now and Advance, or NoClock", h.Now != nil && h.Advance != nil, h.NoClock},
		{"Sweep or NoSweep", h.Sweep != nil, h.NoSweep},
		{"MaxOutcome or Unlimited", h.MaxOutcome >= 1<<10, h.Unlimited},
		{"MaxSteps or ManySteps", h.MaxSteps > 0, h.ManySteps},
		{"Reopen or NotDurable", h.Reopen != nil, h.NotDurable},
		{"Peer or NotShared", h.Peer != nil, h.NotShared},
		{"Restored or CannotRestore", h.Restored != nil, h.CannotRestore},
		{"Full or Unbounded", h.Full != nil, h.Unbounded},
		{"Break or CannotBreak", h.Break != nil, h.CannotBreak},
		{"Secret or NoSecret", h.Secret != "", h.NoSecret},
	} {
		if c.have == c.excuse {
			t.Errorf("harness wants exactly one of %s", c.name)
		}
	}
	if (h.Now == nil) != (h.Advance == nil) {
		t.Error("harness has one of Now and Advance without the other")
	}
	if h.MaxSteps > ledger.MaxSteps {
		t.Errorf("store takes %d steps, more than MaxSteps", h.MaxSteps)
	}
	if h.Store == nil {
		t.Error("harness has no Store")
	}
	if e, ok := h.Store.(ledger.Ephemeral); h.NotDurable && (!ok || !e.Ephemeral()) {
		t.Error("store whose data dies with it does not say that it is Ephemeral")
	} else if ok && e.Ephemeral() && !h.NotDurable {
		t.Error("store says that it is Ephemeral, harness that it is durable")
	}
}
