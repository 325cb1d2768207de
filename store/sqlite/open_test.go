package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/store/sqlite"
)

func mustUse(t testing.TB, s *sqlite.Store, id []byte, want bool) {
	t.Helper()
	first, err := s.Replay().Use(t.Context(), id, time.Now().Add(10*time.Minute))
	if err != nil || first != want {
		t.Fatalf("Use = %v, %v; want %v", first, err, want)
	}
}

func wantOpenError(t *testing.T, path, want string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, &sqlite.Options{Timeout: time.Minute})
	if err == nil {
		_ = s.Close()
		t.Fatalf("Open succeeded, want an error with %q", want)
	}
	if !strings.Contains(err.Error(), want) {
		t.Fatalf("Open: %v; want an error with %q", err, want)
	}
}

func TestOpenCreatesAPrivateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	mustUse(t, s, newID(), true)
	if runtime.GOOS == "windows" {
		return // has no such modes
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("foil.db%s has mode %o, want 600", suffix, mode)
		}
	}
}

func TestOpenTakesAnyFileName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"with space.db", "100%.db", "%20.db", "a#b.db", "a&mode=ro.db", "ünï.db", "a+b.db"} {
		path := filepath.Join(dir, name)
		mustUse(t, open(t, path, nil), newID(), true)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s was not written: %v", name, err)
		}
	}
	if runtime.GOOS != "windows" {
		path := filepath.Join(dir, "why?_pragma=synchronous(0).db")
		s := open(t, path, nil)
		mustUse(t, s, newID(), true)
		if err := s.CheckSynchronous(t.Context()); err != nil {
			t.Errorf("file name was read as an option: %v", err)
		}
	}
	for _, name := range []string{"", ":memory:", "file:x.db"} {
		wantOpenError(t, name, "is not a file name")
	}
	wantOpenError(t, filepath.Join(dir, "missing", "foil.db"), "no such file")
	wantOpenError(t, dir, "open")
}

func TestOpenRefusesNegativeOptions(t *testing.T) {
	for _, o := range []sqlite.Options{{Skew: -1}, {Timeout: -1}, {MaxClaimBytes: -1}, {MaxClaims: -1}, {MaxClaimTotalBytes: -1},
		{MaxHandles: -1}, {MaxHandleTotalBytes: -1}, {MaxOutcomeBytes: -1}} {
		if _, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "foil.db"), &o); err == nil {
			t.Errorf("Open with %+v succeeded", o)
		}
	}
}

func TestOpenTogether(t *testing.T) {
	for range 8 {
		path := filepath.Join(t.TempDir(), "foil.db")
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				s, err := sqlite.Open(t.Context(), path, &sqlite.Options{Timeout: time.Minute})
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				if first, err := s.Replay().Use(t.Context(), newID(), time.Now().Add(time.Minute)); !first || err != nil {
					t.Errorf("Use = %v, %v", first, err)
				}
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		wg.Wait()
	}
}

func TestOpenRefusesForeignFiles(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign.db")
	execute(t, raw(t, foreign), "CREATE TABLE spent (id BLOB PRIMARY KEY, expires INTEGER)")
	numbered := filepath.Join(dir, "numbered.db")
	execute(t, raw(t, numbered), "PRAGMA application_id = 42", "CREATE TABLE t (x)")
	versioned := filepath.Join(dir, "versioned.db")
	execute(t, raw(t, versioned), "PRAGMA user_version = 1", "CREATE TABLE t (x)")
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		foreign:   "another program's SQLite database",
		numbered:  "another program's SQLite database",
		versioned: "another program's SQLite database",
		text:      "not a SQLite database",
	} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wantOpenError(t, path, want)
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, after) {
			t.Errorf("Open changed %s", filepath.Base(path))
		}
	}
}

func TestOpenRefusesNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	if err := open(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[int]string{
		4: "schema version 4 is newer than this program knows (3)",
		0: "schema version 0 is none of ours",
		2: "schema version 2 is none of ours", // it was kept elsewhere
	} {
		execute(t, raw(t, path), fmt.Sprint("UPDATE foil_schema SET version = ", version))
		wantOpenError(t, path, want)
	}
	execute(t, raw(t, path), "DELETE FROM foil_schema")
	wantOpenError(t, path, "reading the schema version")
	execute(t, raw(t, path), "DROP TABLE foil_schema", "PRAGMA user_version = 0")
	wantOpenError(t, path, "schema version 0 is none of ours")
}

func TestSynchronousIsChecked(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), nil)
	if err := s.CheckSynchronous(t.Context()); err != nil {
		t.Fatalf("after Open: %v", err)
	}
	s.Pragma(t, "PRAGMA synchronous = NORMAL")
	if err := s.CheckSynchronous(t.Context()); err == nil {
		t.Fatal("NORMAL passes the check")
	}
}

// A store that cannot find its marks must not say that a token is fresh.
func TestCorruptedFileFailsClosed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"header", func(b []byte) []byte { copy(b, bytes.Repeat([]byte{0xff}, 100)); return b }},
		{"pages", func(b []byte) []byte {
			for i := 4096; i < len(b); i++ {
				b[i] = 0xa5
			}
			return b
		}},
		{"cut", func(b []byte) []byte { return b[:4096] }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "foil.db")
			s := open(t, path, nil)
			var ids [][]byte
			for range 500 {
				ids = append(ids, newID())
				mustUse(t, s, ids[len(ids)-1], true)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, tc.damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err = sqlite.Open(t.Context(), path, &sqlite.Options{Timeout: time.Minute})
			if err != nil {
				t.Logf("Open: %v", err)
				return
			}
			defer s.Close()
			for _, id := range ids {
				first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Minute))
				if first || err == nil {
					t.Fatalf("Use = %v, %v; want an error", first, err)
				}
				if !strings.Contains(err.Error(), "corrupted") {
					t.Fatalf("Use: %v; want an error that says that the file is corrupted", err)
				}
			}
		})
	}
}

func TestMissingMarkFailsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	execute(t, raw(t, path), "DELETE FROM sweep_mark")
	if first, err := s.Replay().Use(t.Context(), newID(), time.Now().Add(time.Minute)); first || err == nil {
		t.Fatalf("Use without a sweep mark = %v, %v; want an error", first, err)
	}
}

func TestReplacedFileIsNoticed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a system that lets open files be moved: run on Linux or macOS")
	}
	for _, tc := range []struct {
		name, want string
		do         func(path string) error
	}{
		{"removed", "gone", os.Remove},
		{"moved", "gone", func(path string) error { return os.Rename(path, path+".old") }},
		{"replaced", "replaced", func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path+".new", b, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "foil.db")
			s := open(t, path, nil)
			id := newID()
			mustUse(t, s, id, true)
			if err := tc.do(path); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Stats: %v; want an error with %q", err, tc.want)
			}
			for _, id := range [][]byte{id, newID()} {
				first, err := s.Replay().Use(t.Context(), id, time.Now().Add(time.Minute))
				if first || err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("Use = %v, %v; want an error with %q", first, err, tc.want)
				}
			}
		})
	}
}

func TestStorePrintsNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "foil.db"), nil)
	for _, v := range []any{s, s.Replay(), s.Claims(), s.Handles(), s.Ledger()} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if got := fmt.Sprintf(verb, v); !strings.HasPrefix(got, "sqlite.") || len(got) > 20 {
				t.Errorf("%s printed %s", verb, got)
			}
		}
	}
}

// Whoever reads the file learns neither a claim nor who redeemed it.
func TestFileHoldsNoClaim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	claim, err := s.Claims().Issue(t.Context(), []byte("the payload"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claims().Redeem(t.Context(), claim, "the-operation"); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	for _, leak := range []string{"foil-claim.", claim[11:], "the-operation"} {
		if bytes.Contains(all, []byte(leak)) {
			t.Errorf("file contains %q", leak)
		}
	}
	if !bytes.Contains(all, []byte("the payload")) {
		t.Error("file does not contain the payload; this test looks in the wrong place")
	}
}
