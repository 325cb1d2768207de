package storagejanitor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A swapper changes a bucket in the instants between a look and the step that
// follows.
type swapper struct {
	*Bucket
	t   *testing.T
	dir string
}

func newSwapper(t *testing.T, names ...string) *swapper {
	t.Helper()
	s := &swapper{t: t, dir: t.TempDir()}
	when := time.Unix(1785542400, 0)
	for _, n := range names {
		p := s.path(n)
		s.must(os.MkdirAll(filepath.Dir(p), 0o777), os.WriteFile(p, []byte("same"), 0o666), os.Chtimes(p, when, when))
	}
	b, err := OpenBucket(s.dir)
	s.must(err)
	t.Cleanup(func() { b.Close() })
	s.Bucket = b
	return s
}

func (s *swapper) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *swapper) must(errs ...error) {
	s.t.Helper()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
}

// once does something the first time that the step with name is about to follow.
func (s *swapper) once(step, name string, do func()) {
	s.between = func(st, n string) error {
		if st == step && n == name {
			s.between = nil
			do()
		}
		return nil
	}
}

func (s *swapper) moveAside(name string) {
	s.t.Helper()
	s.must(os.Rename(s.path(name), s.path("aside")))
}

func (s *swapper) object(name string) Object {
	s.t.Helper()
	objects, err := s.List(s.t.Context(), Filter{Prefix: name}, 1)
	if err != nil || len(objects) != 1 {
		s.t.Fatalf("listed %v, %v", objects, err)
	}
	return objects[0]
}

func (s *swapper) delete(o Object, want Fate) {
	s.t.Helper()
	if fate, err := s.Delete(o); fate != want || err != nil {
		s.t.Errorf("fate %d, %v; want %d", fate, err, want)
	}
	if s.between != nil {
		s.t.Error("nothing was swapped")
	}
}

func (s *swapper) there(name string, want bool) {
	s.t.Helper()
	if _, err := os.Lstat(s.path(name)); (err == nil) != want {
		s.t.Errorf("%s is there: %v", name, err == nil)
	}
}

// The removal takes what was looked at, wherever its directory is by then.
func TestSwapBeforeRemoval(t *testing.T) {
	for name, swap := range map[string]func(s *swapper){
		"a link to a sibling": func(s *swapper) { s.must(os.Symlink("b", s.path("a"))) },
		"the sibling":         func(s *swapper) { s.must(os.Rename(s.path("b"), s.path("a"))) },
		"nothing":             func(*swapper) {},
	} {
		for _, at := range []string{"", "sub/"} {
			t.Run(name+" at a/"+at, func(t *testing.T) {
				s := newSwapper(t, "a/"+at+"x", "b/"+at+"x")
				o := s.object("a/")
				s.once(stepRemove, "x", func() { s.moveAside("a"); swap(s) })
				s.delete(o, Deleted)
				s.there("aside/"+at+"x", false)
				if name == "the sibling" {
					s.there("a/"+at+"x", true)
				} else {
					s.there("b/"+at+"x", true)
				}
			})
		}
	}
}

// A directory that becomes another thing after it was looked at is no directory
// any more, and is not waited for.
func TestSwapBeforeEntering(t *testing.T) {
	swaps := map[string]func(s *swapper){
		"a link to a copy": func(s *swapper) {
			s.must(os.CopyFS(s.path("copy"), os.DirFS(s.path("aside"))), os.Symlink("copy", s.path("a")))
		},
		"a link to a sibling": func(s *swapper) { s.must(os.Symlink("b", s.path("a"))) },
		"a link out":          func(s *swapper) { s.must(os.Symlink(t.TempDir(), s.path("a"))) },
		"a dangling link":     func(s *swapper) { s.must(os.Symlink("gone", s.path("a"))) },
		"a file":              func(s *swapper) { s.must(os.WriteFile(s.path("a"), nil, 0o666)) },
		"another directory":   func(s *swapper) { s.must(os.Rename(s.path("b"), s.path("a"))) },
		"nothing":             func(*swapper) {},
	}
	addSwaps(swaps)
	for name, swap := range swaps {
		t.Run(name, func(t *testing.T) {
			s := newSwapper(t, "a/x", "b/x")
			o := s.object("a/x")
			s.once(stepEnter, "a", func() { s.moveAside("a"); swap(s) })
			within(t, func() { s.delete(o, Missing) })
			s.there("aside/x", true)

			s = newSwapper(t, "a/x", "b/x")
			s.once(stepEnter, "a", func() { s.moveAside("a"); swap(s) })
			within(t, func() {
				if objects, err := s.List(t.Context(), Filter{Prefix: "a/"}, 10); len(objects) > 0 || err != nil {
					t.Errorf("listed %v, %v", objects, err)
				}
			})
		})
	}
}

// within fails if do waits for somebody, as the open of a pipe does.
func within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("the call hangs")
	}
}

// leftOut checks that b, which cannot be read, is left out and reported.
func leftOut(s *swapper, cause error) {
	s.t.Helper()
	for _, tc := range []struct {
		prefix string
		limit  int
		want   string
		none   bool // nothing is left out
	}{
		{prefix: "", limit: 10, want: "[a/x c/x]"},
		{prefix: "b/x", limit: 10, want: "[]"},
		{prefix: "", limit: 1, want: "[a/x]"},
		{prefix: "a/", limit: 10, want: "[a/x]", none: true},
	} {
		objects, err := s.List(s.t.Context(), Filter{Prefix: tc.prefix}, tc.limit)
		names := []string{}
		for _, o := range objects {
			names = append(names, o.Name)
		}
		if fmt.Sprint(names) != tc.want || errors.Is(err, ErrTooMany) != (tc.limit == 1) {
			s.t.Errorf("prefix %q: %q, %v; want %s", tc.prefix, names, err, tc.want)
		}
		var u *UnreadableError
		switch {
		case tc.none:
			if err != nil {
				s.t.Errorf("prefix %q: %v", tc.prefix, err)
			}
		case !errors.As(err, &u) || u.Count != 1 || u.First != "b/" || !errors.Is(err, cause):
			s.t.Errorf("prefix %q: %v, want one that tells of b/", tc.prefix, err)
		}
	}
}

func TestDirectoryThatFailsIsLeftOut(t *testing.T) {
	s := newSwapper(t, "a/x", "b/x", "c/x")
	cause := errors.New("input/output error")
	s.between = func(step, name string) error {
		if step == stepEnter && name == "b" {
			return cause
		}
		return nil
	}
	leftOut(s, cause)
	s.between = func(string, string) error { return cause }
	_, err := s.List(t.Context(), Filter{}, 10)
	if u := (*UnreadableError)(nil); !errors.As(err, &u) || u.Count != 3 || u.First != "a/" {
		t.Errorf("%v, want one that tells of a/ and two more", err)
	}
	if fate, err := s.Delete(Object{Name: "b/x"}); fate != Failed || !errors.Is(err, cause) {
		t.Errorf("fate %d, %v", fate, err)
	}
}

// If the bucket itself cannot be read there is no list.
func TestBucketThatFails(t *testing.T) {
	s := newSwapper(t, "a/x")
	s.must(s.Close())
	_, err := s.List(t.Context(), Filter{}, 10)
	if u := (*UnreadableError)(nil); err == nil || errors.As(err, &u) {
		t.Errorf("listed with %v", err)
	}
}
