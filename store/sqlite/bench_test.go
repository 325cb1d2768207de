package sqlite_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// BenchmarkUse shows what sharing commits is worth: each call is durable either
// way.
func BenchmarkUse(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			store := s.Replay()
			var left atomic.Int64
			left.Store(int64(b.N))
			expires := time.Now().Add(10 * time.Minute)
			b.ResetTimer()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if first, err := store.Use(context.Background(), newID(), expires); err != nil || !first {
							b.Errorf("Use = %v, %v; want true", first, err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "uses/s")
		})
	}
}
