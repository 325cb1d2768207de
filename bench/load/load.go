// Package load lets many callers do one thing for a time, and tells how often and how
// fast. It is for the tables of the benchmarks beside it.
package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Result is what came of one load.
type Result struct {
	N             int
	PerSecond     float64
	P50, P99, Max time.Duration
}

// Run lets callers call do again and again, and begins no call after d. The first
// error ends the load.
func Run(callers int, d time.Duration, do func(ctx context.Context) error) (Result, error) {
	var mu sync.Mutex
	var all []time.Duration
	var failed atomic.Pointer[error]
	start := time.Now()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			var took []time.Duration
			for failed.Load() == nil {
				began := time.Now()
				if began.Sub(start) >= d {
					break
				}
				if err := do(context.Background()); err != nil {
					failed.Store(&err)
					break
				}
				took = append(took, time.Since(began))
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	n := len(all)
	switch err := failed.Load(); {
	case err != nil:
		return Result{}, *err
	case n == 0:
		return Result{}, fmt.Errorf("nothing was done in %v", d)
	}
	slices.Sort(all)
	return Result{n, float64(n) / elapsed.Seconds(), all[n/2], all[min(n-1, n*99/100)], all[n-1]}, nil
}
