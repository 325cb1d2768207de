package sqlite_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/sqlite"
)

func init() {
	children["begin"] = beginChild
	children["settle"] = settleChild
}

// beginChild begins the same operations as its siblings, each of its callers all
// of them, and prints the number of one that it started.
func beginChild(path string) error {
	s, err := sqlite.Open(context.Background(), path, &sqlite.Options{Timeout: time.Minute, PlainAtRest: true})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until the parent closes it
		return err
	}
	var mu sync.Mutex // lines stay whole
	var failed error
	var wg sync.WaitGroup
	for range raceCallers {
		wg.Go(func() {
			for i := range raceIDs {
				st := newStart(time.Now())
				st.ID = [16]byte(raceID(i))
				op, started, err := s.Ledger().Begin(context.Background(), st)
				if err == nil && !started && (op.ID != st.ID || op.Answers == st.Answers) {
					err = errors.New("Begin returned what it was given and did not start it")
				}
				mu.Lock()
				failed = errors.Join(failed, err)
				if started {
					fmt.Println(i)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(failed, s.Close())
}

func TestProcessesRaceToBegin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	var procs []racer
	for range raceProcesses {
		cmd, in, out := child(t, "begin", path)
		procs = append(procs, racer{cmd, in, out})
	}
	for _, p := range procs {
		if line, err := p.out.ReadString('\n'); line != "ready\n" {
			t.Fatalf("child said %q, %v", line, err)
		}
	}
	for _, p := range procs {
		if err := p.in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var starts [raceIDs]int
	for _, p := range procs {
		b, err := io.ReadAll(p.out)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("child: %v", err)
		}
		for _, line := range strings.Fields(string(b)) {
			i, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			starts[i]++
		}
	}
	for i, n := range starts {
		if n != 1 {
			t.Errorf("operation %d started %d times, want 1", i, n)
		}
	}
	s := open(t, path, nil)
	if n, err := s.Ledger().Counts(t.Context()); err != nil || n.Executing != raceIDs {
		t.Errorf("Counts = %+v, %v; want %d executing", n, err, raceIDs)
	}
	wantSound(t, s)
}

// settleChild prints "begun" and "done" with each ID right after Begin and Finish
// have said so.
func settleChild(path string) error {
	s, err := sqlite.Open(context.Background(), path, &sqlite.Options{Timeout: time.Minute, PlainAtRest: true})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(what string, id [16]byte, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			what = err.Error()
		}
		fmt.Println(what, hex.EncodeToString(id[:]))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				st := newStart(time.Now())
				_, started, err := s.Ledger().Begin(context.Background(), st)
				if err == nil && !started {
					err = errors.New("not started")
				}
				say("begun", st.ID, err)
				err = s.Ledger().EndStep(context.Background(), st.ID, 1, "step", st.ID[:], time.Minute)
				say("step", st.ID, err)
				err = s.Ledger().Finish(context.Background(), st.ID, 1, ledger.Finish{State: ledger.Succeeded, Outcome: st.ID[:]})
				say("done", st.ID, err)
			}
		})
	}
	wg.Wait()
	return nil
}

// What the ledger said before its process was killed is still so.
func TestKilledAfterBeginAndFinish(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	said := make(map[[16]byte]map[string]bool)
	for round := range 3 {
		cmd, _, out := child(t, "settle", path)
		for n := 0; ; n++ {
			line, err := out.ReadString('\n')
			if err != nil {
				break // killed; a line cut short counts for nothing
			}
			what, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			id, err := hex.DecodeString(text)
			if err != nil || len(id) != 16 || what != "begun" && what != "step" && what != "done" {
				t.Fatalf("child said %q", line)
			}
			if said[[16]byte(id)] == nil {
				said[[16]byte(id)] = make(map[string]bool)
			}
			said[[16]byte(id)][what] = true
			if n == 20+70*round {
				if err := cmd.Process.Kill(); err != nil { // SIGKILL
					t.Fatal(err)
				}
			}
		}
	}
	s := open(t, path, nil)
	for id, what := range said {
		op, err := s.Ledger().Get(t.Context(), id)
		switch {
		case err != nil:
			t.Fatalf("Get of what was begun: %v", err)
		case what["step"] && (len(op.Steps) != 1 || string(op.Steps[0].Result) != string(id[:])):
			t.Fatal("a step that ended is forgotten")
		case what["done"] && (op.State != ledger.Succeeded || string(op.Outcome) != string(id[:])):
			t.Fatalf("what succeeded is %v", op.State)
		}
		if _, started, err := s.Ledger().Begin(t.Context(), startAs(id)); started || err != nil {
			t.Fatalf("Begin of what was begun: started %v, %v", started, err)
		}
	}
	wantSound(t, s)
	t.Logf("%d operations were still there after their process was killed", len(said))
}

func startAs(id [16]byte) *ledger.Start {
	st := newStart(time.Now())
	st.ID = id
	return st
}
