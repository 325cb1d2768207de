package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/postgres"
)

// bench carries call out by so many callers at once.
func bench(b *testing.B, unit string, call func(s *postgres.Store) error) {
	for _, callers := range []int{1, 16, 64, 256} {
		for _, conns := range []int{4, 16} {
			b.Run(fmt.Sprintf("callers=%d/conns=%d", callers, conns), func(b *testing.B) {
				w := newWorld(b, nil)
				w.dsn = w.direct
				w.opts.MaxConns = conns
				s := w.open(b)
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if err := call(s); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), unit)
			})
		}
	}
}

// BenchmarkUse is one durable write for each call.
func BenchmarkUse(b *testing.B) {
	expires := time.Now().Add(time.Hour)
	bench(b, "uses/s", func(s *postgres.Store) error {
		first, err := s.Replay().Use(context.Background(), newID(), expires)
		if err == nil && !first {
			err = fmt.Errorf("not first")
		}
		return err
	})
}

// BenchmarkSettle is what an operation costs that has no steps: Begin and Finish.
func BenchmarkSettle(b *testing.B) {
	outcome := make([]byte, 1024)
	bench(b, "operations/s", func(s *postgres.Store) error {
		start := newStart()
		if _, started, err := s.Ledger().Begin(context.Background(), start); err != nil || !started {
			return fmt.Errorf("started %v, %w", started, err)
		}
		return s.Ledger().Finish(context.Background(), start.ID, 1, ledger.Finish{State: ledger.Succeeded, Outcome: outcome})
	})
}
