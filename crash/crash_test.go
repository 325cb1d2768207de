//go:build unix

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/keyring"
)

// The backends, and which part of all kills each gets.
var backends = []struct {
	name        string
	short, long int // of ten; in a short run one store is to see every point
	at          int // how many trials run at once
	dsn         func(*testing.T) string
}{
	{"sqlite", 8, 4, 6, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "foil.db") }},
	{"postgres", 1, 3, 3, func(t *testing.T) string { return pgtest.Start(t).Database(t) }},
	{"redis", 1, 3, 3, func(t *testing.T) string { return redistest.Start(t, redistest.Durable...).URL() }},
}

// TestCrash kills and stops workers at every point, as often as FOIL_CRASH says: 50
// kills if it does not. FOIL_CRASH_SEED repeats what was drawn, and
// FOIL_CRASH_ONLY=tool/action/point makes one trial.
func TestCrash(t *testing.T) {
	kills := number(t, "FOIL_CRASH", 50)
	seed := uint64(number(t, "FOIL_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	t.Logf("FOIL_CRASH=%d FOIL_CRASH_SEED=%d", kills, seed)
	table := &tally{counts: make(map[string]*[2]int)}
	t.Run("all", func(t *testing.T) {
		for _, b := range backends {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, b.dsn(t))
				share := b.short
				if kills >= 500 {
					share = b.long
				}
				rnd := rand.New(rand.NewPCG(seed, uint64(len(b.name))))
				specs := schedule(rnd, kills*share/10)
				if only := os.Getenv("FOIL_CRASH_ONLY"); only != "" {
					one, err := parseSpec(only)
					if err != nil {
						t.Fatal(err)
					}
					specs = []spec{one}
				}
				s.runAll(t, specs, b.at, table)
			})
		}
	})
	if !t.Failed() {
		t.Logf("\n%s", table)
	}
}

func number(t *testing.T, env string, def int) int {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q is no number", env, text)
	}
	return n
}

// schedule draws trials with this many kills, at every point if there are enough, and
// one stop for every four.
func schedule(rnd *rand.Rand, kills int) (all []spec) {
	single := func(tool, action string) (specs []spec) {
		for _, p := range pointsOf(tool) {
			specs = append(specs, spec{tool, action, []string{p}})
		}
		return specs
	}
	singles := append(single(whole, kill), single(steps, kill)...)
	rnd.Shuffle(len(singles), func(i, j int) { singles[i], singles[j] = singles[j], singles[i] })
	all = append(all, singles[:min(len(singles), kills)]...)
	for n := len(all); n < kills; {
		s := draw(rnd, pointsOf(steps))
		n += len(s.points)
		all = append(all, s)
	}
	halts := append(single(whole, stop), single(steps, stop)...)
	for _, s := range slices.Concat(single(whole, resolve), single(steps, resolve), single(steps, overtake)) {
		if p := s.points[0]; p != arrive && p != beforeBegin && p != afterRecord && p != beforeReply {
			halts = append(halts, s)
		}
	}
	for _, p := range []string{beforeHandler, beforeEffect(0), afterHandler} {
		halts = append(halts, spec{whole, linger, []string{p}}, spec{steps, linger, []string{p}})
	}
	rnd.Shuffle(len(halts), func(i, j int) { halts[i], halts[j] = halts[j], halts[i] })
	for i := range max(kills/4, 3) {
		all = append(all, halts[i%len(halts)])
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// draw draws a trial of one or more kills.
func draw(rnd *rand.Rand, points []string) spec {
	pick := func(from []string) string { return from[rnd.IntN(len(from))] }
	switch rnd.IntN(6) {
	case 0:
		return spec{whole, kill, []string{pick(pointsOf(whole))}}
	case 1:
		return spec{pick([]string{whole, steps}), kill, []string{anytime}}
	case 2:
		return spec{steps, kill, []string{pick(points)}}
	}
	// One that is resumed is killed again, one or two times.
	pending := points[slices.Index(points, afterBegin) : slices.Index(points, beforeRecord)+1]
	s := spec{steps, kill, []string{pick(pending)}}
	last := s.points[0]
	for range 1 + rnd.IntN(2) {
		p := pick(later(last))
		s.points = append(s.points, p)
		if slices.Index(points, p) > slices.Index(points, last) {
			last = p
		}
	}
	return s
}

// newSite starts what lasts for all trials with one store.
func newSite(t *testing.T, name string) *site {
	t.Helper()
	s := &site{dsn: name, keys: t.TempDir()}
	for file, o := range map[string]*keyring.RingOptions{"ring.json": nil, "storage.json": {Storage: true}} {
		ring, err := keyring.NewRing(time.Now(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := keyring.OpenFile(filepath.Join(s.keys, file)).Create(t.Context(), ring); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if s.store, err = openStore(t.Context(), name, s.keys); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	begin := func(role func() (*process, error)) *process {
		p, err := role()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.kill() })
		return p
	}
	s.provider = begin(func() (*process, error) { return start("provider") })
	for i := range s.replicas {
		s.replicas[i] = begin(func() (*process, error) { return s.worker("") })
	}
	return s
}

// runAll runs trials, some at a time.
func (s *site) runAll(t *testing.T, specs []spec, atOnce int, table *tally) {
	todo := make(chan spec)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for one := range todo {
				n, again, err := s.once(t.Context(), one)
				if err != nil {
					t.Errorf("FOIL_CRASH_ONLY=%q: %v", one, err)
				}
				table.add(one, n, again)
			}
		})
	}
	for _, one := range specs {
		todo <- one
	}
	close(todo)
	wg.Wait()
}

// once makes one trial, again if the machine was too busy for it to mean anything.
func (s *site) once(ctx context.Context, one spec) (kills, again int, err error) {
	for ; again < 5; again++ {
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		t := &trial{spec: one, site: s}
		err = t.excuse(ctx, t.run(limited))
		cancel()
		kills += t.kills
		if !errors.Is(err, errBusy) {
			break
		}
	}
	return kills, again, err
}

// A tally counts trials and kills.
type tally struct {
	mu     sync.Mutex
	counts map[string]*[2]int
	again  int
}

func (y *tally) add(s spec, kills, again int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	key := fmt.Sprintf("%s\t%s\t%s", s.tool, s.action, s.points[0])
	if len(s.points) > 1 {
		key = fmt.Sprintf("%s\t%s\t%s", s.tool, s.action, "more than once")
	}
	if y.counts[key] == nil {
		y.counts[key] = new([2]int)
	}
	y.counts[key][0]++
	y.counts[key][1] += kills
	y.again += again
}

func (y *tally) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "tool\taction\tpoint\ttrials\tkill -9")
	var all [2]int
	for _, key := range slices.Sorted(maps.Keys(y.counts)) {
		n := y.counts[key]
		fmt.Fprintf(w, "%s\t%d\t%d\n", key, n[0], n[1])
		all[0], all[1] = all[0]+n[0], all[1]+n[1]
	}
	fmt.Fprintf(w, "all\t\t\t%d\t%d\n", all[0], all[1])
	_ = w.Flush()
	if y.again > 0 {
		fmt.Fprintf(&b, "%d were made again because the machine was too busy\n", y.again)
	}
	return b.String()
}
