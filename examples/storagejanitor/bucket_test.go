package storagejanitor_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foilmcp/foil/examples/storagejanitor"
)

// write makes a file below dir, with its directories.
func write(t testing.TB, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, target, dir, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func exists(t testing.TB, dir, name string) bool {
	t.Helper()
	_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func open(t testing.TB, dir string) *storagejanitor.Bucket {
	t.Helper()
	b, err := storagejanitor.OpenBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func list(t testing.TB, b *storagejanitor.Bucket, f storagejanitor.Filter) []storagejanitor.Object {
	t.Helper()
	objects, err := b.List(t.Context(), f, 100)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func names(objects []storagejanitor.Object) []string {
	n := []string{}
	for _, o := range objects {
		n = append(n, o.Name)
	}
	return n
}

func TestListByPrefix(t *testing.T) {
	dir := t.TempDir()
	all := []string{"a", "logs-old/x", "logs/2026/a.log", "logs/2026/b.log", "logs/a.log", "logs/a/b.log", "logs0", "z/z"}
	for _, n := range slices.Backward(all) {
		write(t, dir, n, n)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir)
	if !slices.IsSorted(all) {
		t.Fatal("the wanted order is not that of the names")
	}
	for _, tc := range []struct {
		prefix string
		want   []string
	}{
		{"", all},
		{"logs", all[1:7]},
		{"logs/", all[2:6]},
		{"logs/a", all[4:6]},
		{"logs/2026/", all[2:4]},
		{"logs/a.log", all[4:5]},
		{"logs/a.log/", nil},
		{"empty/", nil},
		{"Logs/", nil},
		{"nothing", nil},
	} {
		if diff := cmp.Diff(append([]string{}, tc.want...), names(list(t, b, storagejanitor.Filter{Prefix: tc.prefix}))); diff != "" {
			t.Errorf("prefix %q (-want +got):\n%s", tc.prefix, diff)
		}
	}
}

func TestListOrderMixesFilesAndDirectories(t *testing.T) {
	dir := t.TempDir()
	want := []string{"a-b", "a.b/c", "a/b", "a/b-/x", "a/b0", "a0", "ab/c"}
	for _, n := range want {
		write(t, dir, n, "")
	}
	if got := names(list(t, open(t, dir), storagejanitor.Filter{})); !slices.Equal(got, want) || !slices.IsSorted(got) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestListFilters(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	for i, size := range []int{0, 10, 11} {
		n := fmt.Sprint("f", i)
		write(t, dir, n, string(make([]byte, size)))
		at := now.Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, n), at, at); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, dir)
	size := func(n int64) *int64 { return &n }
	for _, tc := range []struct {
		f    storagejanitor.Filter
		want []string
	}{
		{storagejanitor.Filter{MaxBytes: size(0)}, []string{"f0"}},
		{storagejanitor.Filter{MaxBytes: size(10)}, []string{"f0", "f1"}},
		{storagejanitor.Filter{OlderThan: now}, []string{"f1", "f2"}},
		{storagejanitor.Filter{OlderThan: now.Add(-time.Hour), MaxBytes: size(11)}, []string{"f2"}},
	} {
		if got := names(list(t, b, tc.f)); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %q, want %q", tc.f, got, tc.want)
		}
	}
}

func TestListLimit(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"c", "b", "a"} {
		write(t, dir, n, "")
	}
	b := open(t, dir)
	if got, err := b.List(t.Context(), storagejanitor.Filter{}, 3); err != nil || len(got) != 3 {
		t.Errorf("just the limit: %d objects, %v", len(got), err)
	}
	got, err := b.List(t.Context(), storagejanitor.Filter{}, 2)
	if !errors.Is(err, storagejanitor.ErrTooMany) || !slices.Equal(names(got), []string{"a", "b"}) {
		t.Errorf("above the limit: %q, %v", names(got), err)
	}
}

func TestOnlyRegularFilesAreObjects(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret", "s")
	dir := t.TempDir()
	write(t, dir, "real/a", "a")
	link(t, filepath.Join(outside, "secret"), dir, "out-file")
	link(t, outside, dir, "out-dir")
	link(t, "..", dir, "up")
	link(t, "real", dir, "in-dir")
	link(t, "real/a", dir, "in-file")
	link(t, ".", dir, "loop")
	link(t, "gone", dir, "dangling")
	write(t, dir, "bad\xffname", "")
	if got := names(list(t, open(t, dir), storagejanitor.Filter{})); !slices.Equal(got, []string{"real/a"}) {
		t.Errorf("got %q", got)
	}
}

func TestDelete(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	write(t, outside, "x", "12345")
	b := open(t, dir)
	when := time.Date(2026, 8, 1, 12, 0, 0, 123456789, time.UTC)
	touch := func(p string) {
		if err := os.Chtimes(p, when, when); err != nil {
			t.Fatal(err)
		}
	}
	touch(filepath.Join(outside, "x"))
	// Each case starts from d/x as listed, lets somebody change the bucket and deletes.
	for _, tc := range []struct {
		name   string
		meddle func(p string) error
		want   storagejanitor.Fate
		keeps  bool
	}{
		{"as listed", func(string) error { return nil }, storagejanitor.Deleted, false},
		{"gone", os.Remove, storagejanitor.Missing, false},
		{"directory gone", func(p string) error { return os.RemoveAll(filepath.Dir(p)) }, storagejanitor.Missing, false},
		{"longer", func(p string) error { return os.WriteFile(p, []byte("123456"), 0o666) }, storagejanitor.Changed, true},
		{"same size, other time", func(p string) error { return os.Chtimes(p, when, when.Add(time.Nanosecond)) }, storagejanitor.Changed, true},
		{"other size, same time", func(p string) error {
			err := os.WriteFile(p, []byte("1234"), 0o666)
			touch(p)
			return err
		}, storagejanitor.Changed, true},
		{"now a directory", func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o777)) }, storagejanitor.Changed, true},
		{"now a link to the same", func(p string) error { return errors.Join(os.Rename(p, p+"2"), os.Symlink("x2", p)) }, storagejanitor.Changed, true},
		{"now a link out", func(p string) error {
			return errors.Join(os.Remove(p), os.Symlink(filepath.Join(outside, "x"), p))
		}, storagejanitor.Changed, true},
		{"directory now a link within", func(p string) error {
			return errors.Join(os.Rename(filepath.Dir(p), filepath.Join(dir, "e")), os.Symlink("e", filepath.Dir(p)))
		}, storagejanitor.Missing, true},
		{"directory now a link out", func(p string) error {
			return errors.Join(os.RemoveAll(filepath.Dir(p)), os.Symlink(outside, filepath.Dir(p)))
		}, storagejanitor.Missing, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, n := range []string{"d", "e"} {
				if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
					t.Fatal(err)
				}
			}
			p := filepath.Join(dir, "d", "x")
			write(t, dir, "d/x", "12345")
			touch(p)
			objects := list(t, b, storagejanitor.Filter{})
			if len(objects) != 1 {
				t.Fatalf("listed %q", names(objects))
			}
			if err := tc.meddle(p); err != nil {
				t.Fatal(err)
			}
			if fate, err := b.Delete(objects[0]); fate != tc.want || err != nil {
				t.Errorf("fate %d, %v; want %d", fate, err, tc.want)
			}
			if exists(t, dir, "d/x") != tc.keeps {
				t.Errorf("the object is there: %v", !tc.keeps)
			}
			if !exists(t, outside, "x") {
				t.Error("a file outside of the bucket was deleted")
			}
		})
	}
}

func TestDeleteOnlyNamesOfObjects(t *testing.T) {
	outer := t.TempDir()
	write(t, outer, "secret", "s")
	write(t, outer, "bucket/a", "a")
	b := open(t, filepath.Join(outer, "bucket"))
	info, err := os.Stat(filepath.Join(outer, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../secret", "a/../../secret", "./a", "a/", "/a", filepath.Join(outer, "secret")} {
		o := storagejanitor.Object{Name: name, Size: info.Size(), Modified: info.ModTime()}
		if fate, err := b.Delete(o); fate != storagejanitor.Failed || err == nil {
			t.Errorf("%q: fate %d, %v", name, fate, err)
		}
	}
	if !exists(t, outer, "secret") || !exists(t, outer, "bucket/a") {
		t.Error("something was deleted")
	}
}

// What is no regular file is kept even if size and time are as planned.
func TestDeleteOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "file", "")
	link(t, "file", dir, "l")
	b := open(t, dir)
	for _, name := range []string{"d", "l"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		fate, err := b.Delete(storagejanitor.Object{Name: name, Size: info.Size(), Modified: info.ModTime()})
		if fate != storagejanitor.Changed || err != nil || !exists(t, dir, name) {
			t.Errorf("%s: fate %d, %v", name, fate, err)
		}
	}
}

func TestOpenBucket(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "missing")} {
		if b, err := storagejanitor.OpenBucket(dir); err == nil || b != nil {
			t.Errorf("%q: opened", dir)
		}
	}
}
