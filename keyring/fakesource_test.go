package keyring_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foilmcp/foil/keyring"
)

// A fakeSource gives what the test puts into it, and counts and times the loads.
type fakeSource struct {
	mu    sync.Mutex
	ring  *keyring.Ring
	err   error
	hang  bool
	loads []time.Time
}

func (s *fakeSource) Load(ctx context.Context) (*keyring.Ring, error) {
	s.mu.Lock()
	s.loads = append(s.loads, time.Now())
	ring, err, hang := s.ring, s.err, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return ring, err
}

func (s *fakeSource) set(ring *keyring.Ring, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring, s.err, s.hang = ring, err, false
}

func (s *fakeSource) since(t time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loads {
		if l.After(t) {
			n++
		}
	}
	return n
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// inBubble runs f with a Refresher on a fake clock.
func inBubble(t *testing.T, ring *keyring.Ring, f func(t *testing.T, src *fakeSource, r *keyring.Refresher, log *lockedBuffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{ring: ring}
		var log lockedBuffer
		r, err := keyring.NewRefresher(t.Context(), src, &keyring.RefresherOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		f(t, src, r, &log)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error("second Close:", err)
		}
	})
}

func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func serial(t *testing.T, r *keyring.Refresher) int64 {
	t.Helper()
	ring, err := r.Ring()
	if err != nil {
		t.Fatal(err)
	}
	return ring.Serial()
}
