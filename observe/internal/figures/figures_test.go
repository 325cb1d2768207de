package figures_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/observe/internal/figures"
	"github.com/foilmcp/foil/store"
)

var errDisk = errors.New("disk is gone")

func sources(t *testing.T, all ...figures.Source) *figures.Sources {
	t.Helper()
	s, err := figures.New(time.Second, slog.New(slog.DiscardHandler), all)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAsk(t *testing.T) {
	down := false
	s := sources(t,
		figures.Source{Name: "db", Stats: func(context.Context) (store.Stats, error) {
			if down {
				return store.Stats{Spent: 9}, errDisk
			}
			return store.Stats{Spent: 7, Unknown: 1}, nil
		}},
		figures.Source{Name: "memory", Counts: func(context.Context) (ledger.Counts, error) {
			return ledger.Counts{Executing: 1, Succeeded: 2, Failed: 3, Unknown: 4}, nil
		}},
		figures.Source{Name: "wild", Stats: func(context.Context) (store.Stats, error) { panic("bang") }},
	)
	memory := figures.Figure{Name: "memory", Up: true, Stats: store.Stats{Executing: 1, Succeeded: 2, Failed: 3, Unknown: 4}}
	want := []figures.Figure{{Name: "db", Up: true, Whole: true, Stats: store.Stats{Spent: 7, Unknown: 1}}, memory, {Name: "wild", Whole: true}}
	if diff := cmp.Diff(want, s.Ask(t.Context())); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := memory.Operations(); !slices.Equal(got, []int64{1, 2, 3, 4}) || len(figures.States) != len(got) {
		t.Errorf("operations %v of %v", got, figures.States)
	}
	// Of a store that fails nothing is told, neither what it says nor what it said.
	down = true
	want[0] = figures.Figure{Name: "db", Whole: true}
	if diff := cmp.Diff(want, s.Ask(t.Context())); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	down = false
	if f := s.Ask(t.Context())[0]; !f.Up || f.Stats.Spent != 7 {
		t.Errorf("after it is back: %+v", f)
	}
}

// States are spelled as the ledger spells them, in the order of Operations.
func TestStates(t *testing.T) {
	for i, s := range []ledger.State{ledger.Executing, ledger.Succeeded, ledger.Failed, ledger.Unknown} {
		if figures.States[i] != s.String() {
			t.Errorf("%q, want %v", figures.States[i], s)
		}
	}
}

// A store that never answers holds up no collection, is asked once, and counts
// again when it answers again.
func TestSilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		release := make(chan struct{})
		s := sources(t,
			figures.Source{Name: "silent", Stats: func(ctx context.Context) (store.Stats, error) {
				if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Second {
					t.Error("asked without a bound")
				}
				if asked.Add(1) == 1 {
					<-release // whatever its context says
				}
				return store.Stats{Spent: 1}, nil
			}},
			figures.Source{Name: "well", Stats: func(context.Context) (store.Stats, error) { return store.Stats{Spent: 2}, nil }},
		)
		for i, takes := range []time.Duration{time.Second, 0, 0} {
			began := time.Now()
			got := s.Ask(t.Context())
			if got[0].Up || !got[1].Up || got[1].Stats.Spent != 2 || time.Since(began) != takes {
				t.Errorf("%d: %+v in %v, want %v", i, got, time.Since(began), takes)
			}
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
		close(release)
		synctest.Wait()
		if got := s.Ask(t.Context()); !got[0].Up || asked.Load() != 2 {
			t.Errorf("then %+v, asked %d times", got, asked.Load())
		}
	})
}

// Who collects at the same time shares an answer; one that gives up takes it from
// nobody else.
func TestCollectionsShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		s := sources(t, figures.Source{Name: "slow", Counts: func(ctx context.Context) (ledger.Counts, error) {
			asked.Add(1)
			select {
			case <-time.After(time.Second / 2):
				return ledger.Counts{Unknown: 3}, nil
			case <-ctx.Done():
				return ledger.Counts{}, ctx.Err()
			}
		}})
		hasty, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if s.Ask(hasty)[0].Up {
				t.Error("answered before the store did")
			}
		})
		synctest.Wait()
		for range 5 {
			wg.Go(func() {
				if f := s.Ask(t.Context())[0]; !f.Up || f.Stats.Unknown != 3 {
					t.Errorf("got %+v", f)
				}
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

// The log says when a store begins to fail and when it is back.
func TestLog(t *testing.T) {
	var buf bytes.Buffer
	var fails error
	s, err := figures.New(0, slog.New(slog.NewTextHandler(&buf, nil)), []figures.Source{
		{Name: "db", Stats: func(context.Context) (store.Stats, error) { return store.Stats{}, fails }},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, fails = range []error{nil, errDisk, errDisk, nil, nil} {
		s.Ask(t.Context())
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.Ask(gone) // says nothing of the store
	if got := buf.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "tells no figures") != 1 || strings.Count(got, "figures again") != 1 || !strings.Contains(got, "disk is gone") {
		t.Errorf("logged\n%s", got)
	}
}

func TestNew(t *testing.T) {
	stats := func(context.Context) (store.Stats, error) { return store.Stats{}, nil }
	counts := func(context.Context) (ledger.Counts, error) { return ledger.Counts{}, nil }
	for name, all := range map[string][]figures.Source{
		"none":     nil,
		"no name":  {{Stats: stats}},
		"long":     {{Name: strings.Repeat("a", 65), Stats: stats}},
		"not text": {{Name: "\xff", Stats: stats}},
		"twice":    {{Name: "a", Stats: stats}, {Name: "a", Counts: counts}},
		"nothing":  {{Name: "a"}},
		"both":     {{Name: "a", Stats: stats, Counts: counts}},
	} {
		if s, err := figures.New(0, nil, all); err == nil || s != nil {
			t.Errorf("%s: passed", name)
		}
	}
	if _, err := figures.New(-1, nil, []figures.Source{{Name: "a", Stats: stats}}); err == nil {
		t.Error("a negative timeout passed")
	}
}
