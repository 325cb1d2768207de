//go:build unix

package storagejanitor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func addSwaps(swaps map[string]func(*swapper)) {
	swaps["a pipe"] = func(s *swapper) { s.must(syscall.Mkfifo(s.path("a"), 0o666)) }
	swaps["a link to a pipe"] = func(s *swapper) {
		s.must(syscall.Mkfifo(s.path("pipe"), 0o666), os.Symlink("pipe", s.path("a")))
	}
}

// The call is cancelled while the directory is swapped for a pipe.
func TestCancelledAtAPipe(t *testing.T) {
	s := newSwapper(t, "a/x", "b/x")
	ctx, cancel := context.WithCancel(t.Context())
	s.once(stepEnter, "a", func() {
		s.moveAside("a")
		s.must(syscall.Mkfifo(s.path("a"), 0o666))
		cancel()
	})
	within(t, func() {
		if objects, err := s.List(ctx, Filter{}, 10); !errors.Is(err, context.Canceled) || objects != nil {
			t.Errorf("listed %v, %v", objects, err)
		}
	})
}

func TestUnreadableDirectoryIsLeftOut(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every directory: run as another user")
	}
	s := newSwapper(t, "a/x", "b/x", "c/x")
	s.must(os.Chmod(s.path("b"), 0))
	defer os.Chmod(s.path("b"), 0o777)
	leftOut(s, fs.ErrPermission)
}
