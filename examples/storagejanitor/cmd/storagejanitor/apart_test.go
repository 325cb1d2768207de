package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The janitor does not serve a bucket with its own files in it, however they are
// named, and whether they exist yet.
func TestOwnFilesInTheBucketAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links: run the tests on a Unix")
	}
	bucket, flags := setup(t)
	dir := filepath.Dir(bucket)
	in := func(elem ...string) string { return filepath.Join(append([]string{bucket}, elem...)...) }
	for link, target := range map[string]string{
		filepath.Join(dir, "there"):    "bucket",               // the bucket by another name
		filepath.Join(dir, "link"):     in("logs", "a.log"),    // a file in it
		filepath.Join(dir, "dangling"): "bucket/logs/new.db",   // one that is yet to be made
		filepath.Join(dir, "further"):  "dangling",             // by way of another link
		in("outward"):                  "../ring.json",         // a link is no object
		in("logs", "dir"):              filepath.Join(dir, ""), // nor what it leads to
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	serve := func(extra ...string) (int, string) {
		var stderr bytes.Buffer
		// A port that nobody can listen on ends the server where it would start.
		code := run(t.Context(), append(append(flags[:len(flags):len(flags)], "-listen", "256.0.0.1:0"), extra...), nil, nil, &stderr)
		return code, stderr.String()
	}
	for _, tc := range []struct {
		name  string
		flags []string
		says  string
	}{
		{"store", []string{"-store", in("new.db")}, "-store is " + in("new.db")},
		{"store in a directory to be made", []string{"-store", in("x", "y", "new.db")}, "-store is"},
		{"store behind a link to the bucket", []string{"-store", filepath.Join(dir, "there", "new.db")}, "-store is " + in("new.db")},
		{"store by a link to a file", []string{"-store", filepath.Join(dir, "link")}, "-store is " + in("logs", "a.log")},
		{"store by a link to nothing yet", []string{"-store", filepath.Join(dir, "dangling")}, "-store is " + in("logs", "new.db")},
		{"store by two links", []string{"-store", filepath.Join(dir, "further")}, "-store is"},
		{"tokens", []string{"-tokens", in("logs", "a.log")}, "-tokens is"},
		{"ring", []string{"-ring", in("keep")}, "-ring is"},
		{"ring as file:", []string{"-ring", "file:" + in("keep")}, "-ring is"},
		{"storage ring", []string{"-storage-ring", in("keep")}, "-storage-ring is"},
		{"bucket by a link", []string{"-bucket", filepath.Join(dir, "there"), "-store", in("new.db")}, "-store is"},
		{"everything in the bucket", []string{"-bucket", dir}, "inside the bucket"},
		{"the program", []string{"-bucket", filepath.Dir(self)}, "this program is"},
	} {
		if code, says := serve(tc.flags...); code != exitUsage || !strings.Contains(says, tc.says) || !strings.Contains(says, "inside the bucket") {
			t.Errorf("%s: ended with %d: %s", tc.name, code, says)
		}
	}
	// stdio has no files but the program.
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-stdio", "-bucket", filepath.Dir(self)}, nil, nil, &stderr); code != exitUsage {
		t.Errorf("the program in the bucket on stdio: ended with %d: %s", code, &stderr)
	}
	for name, extra := range map[string][]string{
		"beside the bucket":             nil,
		"by a link in the bucket":       {"-ring", in("outward")},
		"by way of a link in it":        {"-store", in("logs", "dir", "new.db")},
		"a name that begins as it does": {"-store", bucket + "-store.db"},
	} {
		if code, says := serve(extra...); code != exitSystem || !strings.Contains(says, "256.0.0.1") {
			t.Errorf("%s: ended with %d: %s", name, code, says)
		}
	}
}
