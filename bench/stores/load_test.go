package stores

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/foilmcp/foil/bench/load"
	"github.com/foilmcp/foil/replay"
)

// thinking is the longest time between minting and redeeming.
const thinking = 2 * time.Minute

// newID is an ID as a Guard mints it, redeemed now.
func newID() []byte { return idAt(time.Now().Add(-time.Duration(mrand.Int64N(int64(thinking))))) }

// idAt is an ID minted at that time.
func idAt(minted time.Time) []byte {
	id := make([]byte, 16)
	rand.Read(id)
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(minted.UnixMilli()))
	copy(id, ms[2:])
	return id
}

var errTwice = errors.New("a fresh ID was not first")

// redeem is a load of single redemptions.
func redeem(s replay.Store) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		first, err := s.Use(ctx, newID(), time.Now().Add(10*time.Minute))
		if err == nil && !first {
			err = errTwice
		}
		return err
	}
}

// measure lets callers call do for a time.
func measure(t *testing.T, callers int, d time.Duration, do func(ctx context.Context) error) load.Result {
	t.Helper()
	r, err := load.Run(callers, d, do)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fsyncs appends what one commit of SQLite's log appends, one page with its
// header, and syncs it: what the disk allows a single caller.
func fsyncs(t *testing.T, dir string) (do func(context.Context) error) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	frame := make([]byte, 24+4096)
	rand.Read(frame)
	return func(context.Context) error {
		if _, err := f.Write(frame); err != nil {
			return err
		}
		return f.Sync()
	}
}

// spread is the median and the range of figures.
type spread []float64

func (s spread) median() float64 {
	c := slices.Sorted(slices.Values(s))
	return c[len(c)/2]
}

func (s spread) String() string {
	return fmt.Sprintf("%.0f (%.0f–%.0f)", s.median(), slices.Min(s), slices.Max(s))
}
