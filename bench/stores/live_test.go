package stores

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/store/sqlite"
)

var live = flag.Int("live", 0, "measure a SQLite file with so many live IDs")

// A SQLite file with many live IDs, beside an empty one; and then all of them
// expire at once.
func TestLive(t *testing.T) {
	if *live == 0 {
		t.Skip("to measure: make bench-live")
	}
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	open := func(name string) (*sqlite.Store, string) {
		file := filepath.Join(t.TempDir(), name)
		s, err := sqlite.Open(t.Context(), file, &sqlite.Options{Now: now, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s, file
	}
	full, file := open("full.db")
	fill(t, full, *live)
	var b strings.Builder
	perID := float64(size(t, file)) / float64(*live)

	empty, _ := open("empty.db")
	random, _ := open("random.db")
	randoms := func(ctx context.Context) error {
		id := make([]byte, 16)
		rand.Read(id)
		_, err := random.Replay().Use(ctx, id, now().Add(10*time.Minute))
		return err
	}
	var idle, fresh, scattered, thinkers, sweeping, raw spread
	var idleMax, freshMax, sweepMax, rawMax spread // the longest call of each round, in milliseconds
	syncs := fsyncs(t, t.TempDir())
	use := func(s *sqlite.Store) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.Replay().Use(ctx, idAt(time.Now()), now().Add(10*time.Minute))
			return err
		}
	}
	think := func(ctx context.Context) error {
		_, err := full.Replay().Use(ctx, newID(), now().Add(10*time.Minute))
		return err
	}
	const callers, d = 64, 3 * time.Second
	for range *rounds {
		x := measure(t, callers, d, use(empty))
		fresh, freshMax = append(fresh, x.PerSecond), append(freshMax, millis(x.Max))
		x = measure(t, callers, d, use(full))
		idle, idleMax = append(idle, x.PerSecond), append(idleMax, millis(x.Max))
		x = measure(t, callers, d, think)
		thinkers = append(thinkers, x.PerSecond)
		x = measure(t, callers, d, randoms)
		scattered = append(scattered, x.PerSecond)
		x = measure(t, 1, d, syncs)
		raw, rawMax = append(raw, x.PerSecond), append(rawMax, millis(x.Max))
	}
	ahead.Store(int64(liveFor + 2*time.Minute)) // all of them are due
	began := time.Now()
	var beside spread
	for range *rounds {
		x := measure(t, callers, d, use(empty))
		beside = append(beside, x.PerSecond)
		x = measure(t, callers, d, use(full))
		sweeping, sweepMax = append(sweeping, x.PerSecond), append(sweepMax, millis(x.Max))
	}
	st, err := full.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "| SQLite, 64 callers | uses/s | longest call of a round, in ms |\n|---|---|---|\n")
	fmt.Fprintf(&b, "| empty file | %v | %v |\n", fresh, freshMax)
	fmt.Fprintf(&b, "| %d live IDs in order, sweep idle | %v, %.2f of empty | %v |\n", *live, idle, idle.median()/fresh.median(), idleMax)
	fmt.Fprintf(&b, "| the same, minted up to two minutes before | %v, %.2f of empty | |\n", thinkers, thinkers.median()/fresh.median())
	fmt.Fprintf(&b, "| %d live IDs in order, while all of them expire | %v, %.2f of empty | %v |\n", *live, sweeping, sweeping.median()/beside.median(), sweepMax)
	fmt.Fprintf(&b, "| random IDs, file that was empty | %v | |\n", scattered)
	fmt.Fprintf(&b, "| one page appended and synced, 1 caller | %v | %v |\n\n", raw, rawMax)
	b.WriteString("| promise | bound | measured, median of rounds |\n|---|---|---|\n")
	atLeast := func(what string, bound float64, rate, of spread) {
		var ratio spread
		for i := range rate {
			ratio = append(ratio, rate[i]/of[i])
		}
		fmt.Fprintf(&b, "| %s | at least %.2f of empty | %.2f, %s |\n", what, bound, ratio.median(), verdict(ratio.median() >= bound))
	}
	noPause := func(what string, longest spread) {
		fmt.Fprintf(&b, "| no pause, %s | at most %d ms | %v ms, %s |\n", what, longestPause, longest, verdict(longest.median() <= longestPause))
	}
	atLeast("redemptions with IDs in order, sweep idle", 0.75, idle, fresh)
	atLeast("redemptions with IDs in order, while all of them expire", 0.5, sweeping, beside)
	noPause("sweep idle", idleMax)
	noPause("while all of them expire", sweepMax)
	fmt.Fprintf(&b, "\n%.0f bytes per live ID on disk. After %v of expiry %d rows were left. Medians of %d rounds of %v.\n", perID, time.Since(began).Round(time.Second), st.Spent, *rounds, d)
	fmt.Println(b.String())
	if *write != "" {
		put(t, *write, "live", b.String())
	}
}

// longestPause is how many milliseconds nobody is to wait longer than.
const longestPause = 50

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// liveFor is how long the IDs live that fill puts in.
const liveFor = time.Hour

// fill puts n IDs in, in order.
func fill(t *testing.T, s *sqlite.Store, n int) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	expires := time.Now().Add(liveFor)
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for range 512 {
		wg.Go(func() {
			for failed.Load() == nil {
				i := left.Add(-1)
				if i < 0 {
					return
				}
				if i%1_000_000 == 0 {
					fmt.Fprintf(os.Stderr, "%d to go\n", i)
				}
				if _, err := s.Replay().Use(context.Background(), idAt(time.Now()), expires); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
}

func size(t *testing.T, file string) (n int64) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		if fi, err := os.Stat(file + suffix); err == nil {
			n += fi.Size()
		}
	}
	return n
}
