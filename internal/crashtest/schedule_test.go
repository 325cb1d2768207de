package crashtest_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/foilmcp/foil/ledger"
	"pgregory.net/rapid"
)

// play makes one schedule in a bubble of its own. The error tells how it came to
// what went wrong.
func play(t *testing.T, steps bool, script []byte, broken func(ledger.Store) ledger.Store) (err error) {
	synctest.Test(t, func(*testing.T) {
		w, werr := newWorld(steps, broken)
		if werr != nil {
			err = werr
			return
		}
		if err = w.run(script); err != nil {
			err = fmt.Errorf("%w\n%s", err, w.log.String())
		}
	})
	return err
}

func honest(s ledger.Store) ledger.Store { return s }

// TestSchedules draws schedules: who comes, who goes on, dies, stands still, loses a
// call or its reply, when time passes and when an operator resolves.
func TestSchedules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.Bool().Draw(rt, "steps")
		script := rapid.SliceOfN(rapid.Byte(), 30, 150).Draw(rt, "script")
		if err := play(t, steps, script, honest); err != nil {
			rt.Fatal(err)
		}
	})
}
