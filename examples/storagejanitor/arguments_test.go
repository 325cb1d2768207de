package storagejanitor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/examples/storagejanitor"
)

func TestPurgeArguments(t *testing.T) {
	f := newFixture(t, nil)
	logs(t, f)
	cs := f.manual(t)
	for _, a := range []args{
		{"prefix": "../"},
		{"prefix": "/"},
		{"prefix": "logs/../secrets/"},
		{"prefix": "logs/", "max_bytes": -1},
		{"prefix": "logs/", "max_bytes": "10"},
		{"prefix": "logs/", "max_bytes": 1.5},
		{"prefix": "logs/", "older_than": "a while"},
		{"prefix": "logs/", "older_than": 720},
		{"prefix": "logs/", "older_than": "2999-01-01T00:00:00Z"},
		{"prefix": 7},
		{"prefix": "logs/", "force": true},
		{},
	} {
		if res := purge(t, cs, a); !res.IsError || res.InputRequests != nil || textOf(res) == "" {
			t.Errorf("%v: isError %v, %q", a, res.IsError, textOf(res))
		}
	}
	if f.claims.issued != 0 {
		t.Errorf("%d plans parked", f.claims.issued)
	}
	for prefix, want := range map[string]string{
		"":       "Purge 5 object(s) in the whole bucket? logs-old/a.log, ",
		"logs":   "Purge 4 object(s) under 'logs'? logs-old/a.log, logs/a.log, ",
		"logs/a": "Purge 1 object(s) under 'logs/a'? logs/a.log (10 bytes in all)",
	} {
		if _, msg := question(t, purge(t, cs, args{"prefix": prefix})); !strings.HasPrefix(msg, want) {
			t.Errorf("%q: asked %q", prefix, msg)
		}
	}
}

func TestPurgeFilters(t *testing.T) {
	f := newFixture(t, nil)
	now := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	f.janitor.Now = func() time.Time { return now }
	for name, age := range map[string]time.Duration{"old": 721 * time.Hour, "new": time.Hour, "old-and-large": 1000 * time.Hour} {
		write(t, f.dir, name, name)
		if err := os.Chtimes(filepath.Join(f.dir, name), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	a, cs := args{"prefix": "", "older_than": "720h", "max_bytes": 3}, f.manual(t)
	output(t, mustRetry(t, cs, a, purge(t, cs, a), yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, "old")
	a = args{"prefix": "", "older_than": "2026-09-01T00:00:00Z", "max_bytes": 3}
	output(t, mustRetry(t, cs, a, purge(t, cs, a), yes("")), storagejanitor.OutcomePurged)
	f.wasDeleted(t, "old", "new")
	output(t, purge(t, cs, a), storagejanitor.OutcomeNothing)
	f.keeps(t, "old-and-large")
}

func TestTooManyObjects(t *testing.T) {
	f := newFixture(t, nil)
	f.janitor.MaxObjects = 2
	res := purge(t, f.manual(t), logs(t, f))
	output(t, res, storagejanitor.OutcomeRefused)
	if !strings.Contains(textOf(res), "More than 2 objects") || f.claims.issued != 0 {
		t.Errorf("%q, %d plans parked", textOf(res), f.claims.issued)
	}
}

func TestQuestionShowsHostileNames(t *testing.T) {
	f := newFixture(t, nil)
	f.write(t, "x/a\n\nPurge 0 objects? y", "x/\u202egpj.exe", "x/, x/b")
	_, msg := question(t, purge(t, f.manual(t), args{"prefix": "x/"}))
	if want := `Purge 3 object(s) under 'x/'? "x/, x/b", "x/a\n\nPurge 0 objects? y", x/\u202egpj.exe (`; !strings.HasPrefix(msg, want) {
		t.Errorf("asked %q, want %q", msg, want)
	}
}
