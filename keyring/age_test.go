package keyring

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func at(wall, mono time.Duration) reading {
	return reading{wall: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Add(wall), mono: mono}
}

func TestAge(t *testing.T) {
	for _, tc := range []struct {
		name       string
		wall, mono time.Duration // that have passed
		want       time.Duration
	}{
		{"no time", 0, 0, 0},
		{"both clocks agree", time.Minute, time.Minute, time.Minute},
		{"the machine slept", 31 * time.Minute, time.Minute, 31 * time.Minute},
		{"the wall clock was set back", -10 * time.Minute, 31 * time.Minute, 31 * time.Minute},
		{"the wall clock was set back at once", -10 * time.Minute, 0, 0},
		{"both went back", -10 * time.Minute, -time.Second, 0},
	} {
		for _, then := range []reading{at(0, 0), at(time.Hour, 3*time.Second)} {
			now := reading{wall: then.wall.Add(tc.wall), mono: then.mono + tc.mono}
			if got := age(then, now); got != tc.want {
				t.Errorf("%s: age is %v, want %v", tc.name, got, tc.want)
			}
		}
	}
}

func TestReadings(t *testing.T) {
	// A wall clock and a monotonic clock are read one after the other, so their
	// differences between two moments are not the same to the nanosecond.
	var first, now time.Time
	for range 1_000_000 {
		first, now = time.Now(), time.Now()
		if now.Sub(first) != now.Round(0).Sub(first.Round(0)) {
			break
		}
	}
	next := []time.Time{first, now}
	got := readings(func() time.Time {
		t := next[0]
		next = next[1:]
		return t
	})()
	if want := (reading{wall: now.Round(0), mono: now.Sub(first)}); got != want {
		t.Errorf("reading %+v, want %+v", got, want)
	}
	if now.Sub(first) == now.Round(0).Sub(first.Round(0)) {
		t.Skip("needs clocks that can be told apart: run on Linux")
	}
}

// source gives the ring after a while.
type source struct {
	ring  *Ring
	takes time.Duration
}

func (s *source) Load(ctx context.Context) (*Ring, error) {
	select {
	case <-time.After(s.takes):
		return s.ring, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Whichever clock says that the ring is old is believed, by Ring, Ready and Status.
func TestRefresherGoesByBothClocks(t *testing.T) {
	r, err := NewRefresher(t.Context(), &source{ring: NewEphemeral()}, &RefresherOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	then := r.state.Load().at
	for _, tc := range []struct {
		name         string
		wall, mono   time.Duration
		ready, stale bool
	}{
		{"at once", 0, 0, true, false},
		{"at Propagation", DefaultPropagation, DefaultPropagation, true, false},
		{"a moment later", DefaultPropagation + 1, 0, false, false},
		{"a moment later, wall clock set back", -time.Hour, DefaultPropagation + 1, false, false},
		{"at MaxStale", DefaultMaxStale, DefaultMaxStale, false, false},
		{"after a sleep", DefaultMaxStale + 1, 0, false, true},
		{"wall clock set back", -time.Hour, DefaultMaxStale + 1, false, true},
		{"wall clock set back at once", -time.Hour, 0, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r.read = func() reading { return reading{wall: then.wall.Add(tc.wall), mono: then.mono + tc.mono} }
			if _, err := r.Ring(); errors.Is(err, ErrStale) != tc.stale {
				t.Errorf("Ring: %v", err)
			}
			if err := r.Ready(); (err == nil) != tc.ready || errors.Is(err, ErrStale) != tc.stale {
				t.Errorf("Ready: %v", err)
			}
			if st := r.Status(); st.Ready != tc.ready || st.Stale != tc.stale || st.Age != max(0, tc.wall, tc.mono) {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A source may answer with what was true when it was asked, so the age counts from
// then, however long the answer takes.
func TestAgeCountsFromWhenTheLoadBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 5 * time.Second
		src := &source{ring: NewEphemeral(), takes: takes}
		began := time.Now()
		r, err := NewRefresher(t.Context(), src, &RefresherOptions{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if st := r.Status(); st.Age != takes || !st.Refreshed.Equal(began) {
			t.Errorf("after the first load: age %v since %v, want %v since %v", st.Age, st.Refreshed, takes, began)
		}
		time.Sleep(time.Second)
		began = time.Now()
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := r.Status(); st.Age != takes || !st.Refreshed.Equal(began) {
			t.Errorf("after a refresh: age %v since %v, want %v since %v", st.Age, st.Refreshed, takes, began)
		}
	})
}
