package handle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/handle"
	"github.com/foilmcp/foil/handle/handletest"
)

func TestMemoryConformance(t *testing.T) {
	handletest.Run(t, func(t *testing.T) *handletest.Harness {
		clock := handletest.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 123_456_789, time.UTC))
		m := handle.NewMemory(&handle.MemoryOptions{MaxHandles: 900, Now: clock.Now})
		return &handletest.Harness{
			Store:       m,
			Clock:       clock,
			Sweep:       func(ctx context.Context) error { _, err := m.Sweep(ctx); return err },
			NotDurable:  true,
			NotShared:   true,
			Full:        func(*testing.T) {},
			CannotBreak: true,
			NotSealed:   true,
			NoSecret:    true,
		}
	})
}

func memoryKey(n int) (key [32]byte) {
	copy(key[:], fmt.Sprint(n))
	return key
}

func TestMemoryBounds(t *testing.T) {
	clock := handletest.NewClock(time.Unix(1_800_000_000, 0))
	m := handle.NewMemory(&handle.MemoryOptions{MaxHandles: 3, MaxTotalBytes: 100, Now: clock.Now})
	put := func(n, size int, life time.Duration) error {
		return m.Put(t.Context(), memoryKey(n), make([]byte, size), clock.Now().Add(life))
	}
	if err := put(1, 101, time.Hour); !errors.Is(err, handle.ErrFull) {
		t.Errorf("Put of 101 bytes of 100: %v, want ErrFull", err)
	}
	if err := put(1, 60, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := put(2, 41, time.Hour); !errors.Is(err, handle.ErrFull) {
		t.Errorf("Put of 101 bytes in two: %v, want ErrFull", err)
	}
	if err := put(1, 1, time.Hour); !errors.Is(err, handle.ErrExists) {
		t.Errorf("Put of a key that is there: %v, want ErrExists", err)
	}
	for n := 2; n <= 3; n++ {
		if err := put(n, 20, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(4, 0, time.Hour); !errors.Is(err, handle.ErrFull) {
		t.Errorf("Put of a fourth of three: %v, want ErrFull", err)
	}
	clock.Advance(time.Minute) // the first one's bytes are free again
	if err := put(4, 60, time.Hour); err != nil {
		t.Errorf("Put when a payload had expired: %v", err)
	}
}

func TestMemorySweep(t *testing.T) {
	clock := handletest.NewClock(time.Unix(1_800_000_000, 0))
	m := handle.NewMemory(&handle.MemoryOptions{Now: clock.Now})
	for i := range 1000 {
		if err := m.Put(t.Context(), memoryKey(i), nil, clock.Now().Add(time.Duration(1+i*7%10)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(3 * time.Minute)
	for _, want := range []int{300, 0} {
		if n, err := m.Sweep(t.Context()); n != want || err != nil {
			t.Errorf("Sweep = %d, %v; want %d", n, err, want)
		}
	}
}

// No verb prints what is stored.
func TestMemoryPrintsNothing(t *testing.T) {
	m := handle.NewMemory(nil)
	if err := m.Put(t.Context(), memoryKey(1), []byte("a secret payload"), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if text := fmt.Sprintf(verb, m); strings.TrimSpace(text) != "handle.Memory" {
			t.Errorf("%s prints %.80s", verb, text)
		}
	}
}
