package storagejanitor_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/ledger"
)

// Wherever a process dies, the same person's retry on another replica finishes just
// what was planned, says what was done when, and is told the same ever after.
func TestResume(t *testing.T) {
	for _, tc := range []struct {
		at                    string
		before, probably, now int
		told                  string
	}{
		{at: "end input", now: 5, told: "Purged 5 object(s): tmp/0, tmp/1, tmp/2, tmp/3, tmp/4. The purge was interrupted before it had deleted anything, and was carried on now."},
		{at: "begin begin", now: 5, told: "before it had deleted anything"},
		{at: "end begin", now: 5, told: "before it had deleted anything"},
		{at: "begin delete 0", now: 5, told: "before it had deleted anything"},
		{at: "end delete 0", before: 1, probably: 1, now: 4, told: "1 deleted before: tmp/0. Of these, 1 gone, probably by the interrupted call, which could not say so: tmp/0. 4 deleted now: tmp/1, tmp/2, tmp/3, tmp/4."},
		{at: "begin delete 3", before: 3, now: 2, told: ": tmp/0, tmp/1, tmp/2. 2 deleted now: tmp/3, tmp/4."},
		{at: "end delete 3", before: 4, probably: 1, now: 1, told: "4 deleted before, "},
		{at: "finish", before: 5, told: ": tmp/0, tmp/1, tmp/2, tmp/3, tmp/4. 0 deleted now."},
	} {
		for _, where := range []string{"claim", "state"} {
			t.Run(tc.at+", plan in "+where, func(t *testing.T) {
				if where == "state" && tc.at == "end input" {
					t.Skip("a plan in the state is not fetched")
				}
				f := newSettled(t)
				if where == "state" {
					f.janitor.Claims, f.janitor.PlanInState = nil, true
				}
				a, all := five(t, f.fixture)
				f.replica(t, &dying{Store: f.memory, at: tc.at})
				asked := purge(t, f.manual(t), a)
				died := time.Now().Truncate(time.Second)
				_, err := retry(t, f.manual(t), a, asked, yes(""))
				noOutcome(t, err, "operation_unknown") // nobody would hear that of a process that died
				f.write(t, "tmp/late", "tmp/0.late")

				// Another replica, whose release would ask once more, and a client
				// that cannot be asked any more.
				f.replica(t, f.memory)
				if tc.at != "end input" && tc.at != "begin begin" && tc.at != "end begin" {
					f.janitor.AskTwiceAbove = 1
				}
				_, err = retry(t, f.manual(t), a, asked, yes(""))
				noOutcome(t, err, "operation_in_progress")
				f.leaseEnds()
				first := mustRetry(t, f.manual(t), a, asked, yes(""))
				out := output(t, first, storagejanitor.OutcomePurged)
				n := out.Interrupted
				if n == nil || out.Deleted.Count != 5 || n.Before.Count != tc.before || n.Probably.Count != tc.probably || n.Now.Count != tc.now {
					t.Fatalf("output %+v, interrupted %+v", out, n)
				}
				if out.Bytes != 25 || out.Missing.Count+out.Changed.Count+out.Failed.Count+out.Left != 0 || first.IsError {
					t.Errorf("output %+v", out)
				}
				if known := tc.before - tc.probably; known == 0 != n.From.IsZero() || known > 0 && (n.From.Before(died) || n.Until.Before(n.From) || n.Until.After(time.Now())) {
					t.Errorf("%d before, from %v until %v", known, n.From, n.Until)
				} else if known > 0 && !strings.Contains(textOf(first), n.From.Format(time.RFC3339)) {
					t.Errorf("told no time: %q", textOf(first))
				}
				if !slices.Equal(n.Before.Names, append([]string(nil), all[:tc.before]...)) && tc.before > 0 {
					t.Errorf("before %q", n.Before.Names)
				}
				if !strings.Contains(textOf(first), tc.told) {
					t.Errorf("told %q", textOf(first))
				}
				f.wasDeleted(t, all...)
				f.keeps(t, "tmp/late", "tmp/0.late")
				f.write(t, all...)
				for range 2 {
					if again := mustRetry(t, f.manual(t), a, asked, yes("")); bytesOf(t, again) != bytesOf(t, first) {
						t.Errorf("again %s\nfirst %s", bytesOf(t, again), bytesOf(t, first))
					}
				}
				f.keeps(t, all...)
			})
		}
	}
}

// What a purge had done before each of two interruptions is told as before.
func TestResumeTwice(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	asked := purge(t, f.manual(t), a)
	for _, at := range []string{"end delete 1", "end delete 2"} {
		f.replica(t, &dying{Store: f.memory, at: at})
		_, err := retry(t, f.manual(t), a, asked, yes(""))
		noOutcome(t, err, "operation_unknown")
		f.leaseEnds()
	}
	f.replica(t, f.memory)
	out := output(t, mustRetry(t, f.manual(t), a, asked, yes("")), storagejanitor.OutcomePurged)
	n := out.Interrupted
	if n == nil || !slices.Equal(n.Before.Names, all[:3]) || !slices.Equal(n.Probably.Names, all[1:3]) || !slices.Equal(n.Now.Names, all[3:]) || out.Deleted.Count != 5 {
		t.Errorf("output %+v, interrupted %+v", out, n)
	}
	f.wasDeleted(t, all...)
}

// What has become of the planned objects in the meantime is told as it is.
func TestResumeAmongChanges(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	asked := purge(t, f.manual(t), a)
	f.replica(t, &dying{Store: f.memory, at: "end delete 1"})
	_, err := retry(t, f.manual(t), a, asked, yes(""))
	noOutcome(t, err, "operation_unknown")
	write(t, f.dir, all[1], "a new one, by the name of one that is gone")
	write(t, f.dir, all[2], "somebody needs this")
	if err := os.Remove(filepath.Join(f.dir, all[3])); err != nil {
		t.Fatal(err)
	}
	f.leaseEnds()
	f.replica(t, f.memory)
	out := output(t, mustRetry(t, f.manual(t), a, asked, yes("")), storagejanitor.OutcomePurged)
	n := out.Interrupted
	if !slices.Equal(out.Changed.Names, all[1:3]) || !slices.Equal(out.Missing.Names, all[3:4]) || n == nil ||
		n.Probably.Count != 0 || !slices.Equal(n.Before.Names, all[:1]) || !slices.Equal(n.Now.Names, all[4:]) {
		t.Errorf("output %+v, interrupted %+v", out, n)
	}
	f.keeps(t, all[1:3]...)
}

// A purge that was cut off is finished for the person who confirmed it, with the
// answers that were given, and for nobody else.
func TestResumeIsForOnePerson(t *testing.T) {
	f := newSettled(t)
	f.protect.Principal = nil
	a, all := five(t, f.fixture)
	f.replica(t, &dying{Store: f.memory, at: "end delete 1"})
	one := serve(t, f.server(t), true)
	asked := purge(t, dial(t, newClient(&asker{}, true), one, "alice", modern), a)
	_, err := retry(t, dial(t, newClient(&asker{}, true), one, "alice", modern), a, asked, yes(""))
	noOutcome(t, err, "operation_unknown")
	f.leaseEnds()
	f.replica(t, f.memory)
	two := serve(t, f.server(t), true)
	_, err = retry(t, dial(t, newClient(&asker{}, true), two, "mallory", modern), a, asked, yes(""))
	frozen(t, err)
	alice := dial(t, newClient(&asker{}, true), two, "alice", modern)
	_, err = retry(t, alice, a, asked, &mcp.ElicitResult{Action: "decline"})
	frozen(t, err)
	_, err = retry(t, alice, args{"prefix": ""}, asked, yes(""))
	frozen(t, err)
	f.keeps(t, all[2:]...)
	output(t, mustRetry(t, alice, a, asked, yes("")), storagejanitor.OutcomePurged)
	_, err = retry(t, dial(t, newClient(&asker{}, true), two, "mallory", modern), a, asked, yes(""))
	frozen(t, err)
}

// A no that was cut off stays a no.
func TestResumeDecline(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	f.replica(t, &dying{Store: f.memory, at: "finish"})
	asked := purge(t, f.manual(t), a)
	no := &mcp.ElicitResult{Action: "decline"}
	_, err := retry(t, f.manual(t), a, asked, no)
	noOutcome(t, err, "operation_unknown")
	f.leaseEnds()
	f.replica(t, f.memory)
	_, err = retry(t, f.manual(t), a, asked, yes(""))
	frozen(t, err)
	output(t, mustRetry(t, f.manual(t), a, asked, no), storagejanitor.OutcomeDeclined)
	_, err = retry(t, f.manual(t), a, asked, yes(""))
	frozen(t, err)
	f.wasDeleted(t)
	f.keeps(t, all...)
}

// The rest is deleted for a client that cannot be asked any more, since it was: a
// refusal would be recorded as the outcome, and claim that nothing was deleted.
func TestResumeForAnotherClient(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	f.replica(t, &dying{Store: f.memory, at: "end delete 1"})
	asked := purge(t, f.manual(t), a)
	_, err := retry(t, f.manual(t), a, asked, yes(""))
	noOutcome(t, err, "operation_unknown")
	f.leaseEnds()
	f.replica(t, f.memory)
	mute := connect(t, f.server(t), newClient(nil, true), modern)
	output(t, mustRetry(t, mute, a, asked, yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, all...)
}

// A replica of a release that cannot read the state leaves the rest to another.
func TestResumeByAnotherRelease(t *testing.T) {
	f := newSettled(t)
	a, all := five(t, f.fixture)
	f.replica(t, &dying{Store: f.memory, at: "end delete 1"})
	asked := purge(t, f.manual(t), a)
	_, err := retry(t, f.manual(t), a, asked, yes(""))
	noOutcome(t, err, "operation_unknown")
	f.leaseEnds()
	f.replica(t, f.memory)
	f.janitor.Claims, f.janitor.PlanInState = nil, true // to which the state is foreign
	res := mustRetry(t, f.manual(t), a, asked, yes(""))
	if !res.IsError || !strings.Contains(textOf(res), "cannot read what was left") {
		t.Errorf("told %q", textOf(res))
	}
	f.keeps(t, all[2:]...)
	if op := f.operation(t); op.State != ledger.Unknown {
		t.Errorf("the operation is %v", op.State)
	}
	f.janitor.Claims, f.janitor.PlanInState = f.claims, false
	output(t, mustRetry(t, f.manual(t), a, asked, yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, all...)
}
