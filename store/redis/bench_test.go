//go:build unix

package redis_test

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/redis"
)

var counter atomic.Uint64

// nextID is an ID of a token that was minted now.
func nextID() (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(time.Now().UnixMilli())<<16)
	binary.BigEndian.PutUint64(id[8:], counter.Add(1))
	return id
}

// spread lets that many callers run fn b.N times in all.
func spread(b *testing.B, callers int, fn func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := fn(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}

var benchServers = []struct {
	name   string
	config []string
	opts   redis.Options
}{
	{"always", redistest.Durable, redis.Options{}},
	{"everysec", []string{"appendonly yes", "appendfsync everysec"}, redis.Options{Durability: redis.Everysec, LedgerMayForget: true}},
}

func BenchmarkUse(b *testing.B) {
	for _, bs := range benchServers {
		srv := redistest.Start(b, bs.config...)
		for _, callers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("%s/callers=%d", bs.name, callers), func(b *testing.B) {
				r := open(b, srv, bs.opts).Replay()
				expires := time.Now().Add(10 * time.Minute)
				spread(b, callers, func() error {
					id := nextID()
					first, err := r.Use(b.Context(), id[:], expires)
					if err == nil && !first {
						err = fmt.Errorf("a fresh id was spent")
					}
					return err
				})
			})
		}
	}
}

// BenchmarkSettle is what a Guard with Once: Settle asks of a ledger for one token.
func BenchmarkSettle(b *testing.B) {
	outcome := make([]byte, 1<<10)
	for _, bs := range benchServers {
		srv := redistest.Start(b, bs.config...)
		for _, callers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("%s/callers=%d", bs.name, callers), func(b *testing.B) {
				l := open(b, srv, bs.opts).Ledger()
				spread(b, callers, func() error {
					id := nextID()
					if _, _, err := l.Begin(b.Context(), start(id[:])); err != nil {
						return err
					}
					return l.Finish(b.Context(), id, 1, ledger.Finish{State: ledger.Succeeded, Outcome: outcome})
				})
			})
		}
	}
}
