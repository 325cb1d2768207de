package sqlite_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/sqlite"
)

// newID returns an ID as tokens have it: 48 bits of milliseconds, 80 random.
func newID() []byte {
	id := make([]byte, 16)
	rand.Read(id)
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(id, ms[2:])
	return id
}

// concurrently runs do b.N times by so many callers and reports how often that
// is per second.
func concurrently(b *testing.B, callers int, unit string, do func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), unit)
}

func openBench(b *testing.B, opts *sqlite.Options) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkUse shows what sharing commits is worth: each call is durable either
// way.
func BenchmarkUse(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store := openBench(b, nil).Replay()
			expires := time.Now().Add(10 * time.Minute)
			concurrently(b, callers, "uses/s", func() error {
				first, err := store.Use(context.Background(), newID(), expires)
				if err == nil && !first {
					err = errors.New("a fresh id was not first")
				}
				return err
			})
		})
	}
}

// BenchmarkSettle is Begin and Finish of an operation with an outcome of 1 KiB,
// sealed at rest: two commits.
func BenchmarkSettle(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			l := openBench(b, &sqlite.Options{AtRest: sealer(b)}).Ledger()
			outcome := make([]byte, 1<<10)
			concurrently(b, callers, "operations/s", func() error {
				st := newStart(time.Now())
				_, started, err := l.Begin(context.Background(), st)
				if err == nil && !started {
					err = errors.New("a fresh operation did not start")
				}
				if err != nil {
					return err
				}
				return l.Finish(context.Background(), st.ID, 1, ledger.Finish{State: ledger.Succeeded, Outcome: outcome})
			})
		})
	}
}
