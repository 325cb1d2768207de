package dsn_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/store/dsn"
)

func TestBackend(t *testing.T) {
	for in, want := range map[string]string{
		"sqlite:a.db": dsn.SQLite, "postgres://h/d": dsn.Postgres, "postgresql://h/d": dsn.Postgres,
		"redis://h": dsn.Redis, "rediss://h": dsn.Redis,
		"": "", "sqlite:": "", "memory": "", "memory:": "", "memory:x": "", "a.db": "", "mysql://secret@h": "", "SQLITE:a": "",
	} {
		got, err := dsn.Backend(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", in, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error holds the DSN: %v", err)
		}
	}
}

func TestOpen(t *testing.T) {
	file := "sqlite:" + filepath.Join(t.TempDir(), "foil.db")
	s, err := dsn.Open(t.Context(), file, &dsn.Options{PlainAtRest: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := s.Replay().Use(t.Context(), []byte("id"), time.Now().Add(time.Hour)); err != nil || !first {
		t.Errorf("used %v, %v", first, err)
	}
	if _, err := s.Claims().Issue(t.Context(), []byte("x"), time.Minute); err != nil {
		t.Error(err)
	}
	if got, err := s.Stats(t.Context()); err != nil || got.Spent != 1 || got.Claims != 1 || got.Backend != dsn.SQLite {
		t.Errorf("stats %+v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "postgres://u:hunter2@127.0.0.1:1/d?connect_timeout=1", "redis://u:hunter2@127.0.0.1:1"} {
		if _, err := dsn.Open(t.Context(), bad, &dsn.Options{Timeout: time.Second}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.8s: %v", bad, err)
		}
	}
}
