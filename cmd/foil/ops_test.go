package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
)

// The filter knows the operations of whom a Guard has sealed for, and no others.
func TestPrincipalFilter(t *testing.T) {
	ring, err := keyring.FromSecrets(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := foil.New(codec, &foil.Options{NoAudience: true, Once: foil.Off, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	operation := func(p foil.Principal) *ledger.Operation {
		t.Helper()
		token, err := guard.Seal(t.Context(), foil.Request{Method: foil.MethodToolsCall, Target: "x", Principal: p}, foil.Outgoing{State: "s"})
		if err != nil {
			t.Fatal(err)
		}
		payload, err := codec.Open(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		var c claims.Claims
		if err := c.Parse(payload); err != nil {
			t.Fatal(err)
		}
		op := new(ledger.Operation)
		if c.HasPrincipal {
			op.Principal = c.Principal[:]
		}
		return op
	}
	same := []struct {
		flag string
		of   foil.Principal
	}{
		{alice, foil.OAuth("app", "https://login.example", "alice")},
		{`{"client_id":"app","issuer":"https://login.example","subject":"alice"}`, foil.OAuth("app", "https://login.example", "alice")},
		{`{"issuer":null,"subject":"Zoë \ud83d\ude00","client_id":""}`, foil.OAuth("", "", "Zoë 😀")},
		{`{"client_id":"app"}`, foil.OAuth("app", "", "")},
		{`["","fixed","local"]`, foil.Fixed("local")},
		{`"[\"\",\"fixed\",\"local\"]"`, foil.Fixed("local")},
		{`"null"`, foil.PrincipalString("null")},
		{`somebody`, foil.PrincipalString("somebody")},
		{`""`, foil.PrincipalString("")},
		{`null`, foil.Anonymous()},
	}
	for i, s := range same {
		var f principalFlag
		if err := f.Set(s.flag); err != nil {
			t.Errorf("%s: %v", s.flag, err)
			continue
		}
		for j, other := range same {
			want := i == j || i < 2 && j < 2 || (i == 4 || i == 5) && (j == 4 || j == 5)
			if got := f.selects(operation(other.of)); got != want {
				t.Errorf("%s selects operations of %s: %t", s.flag, other.flag, got)
			}
		}
		if f.selects(&ledger.Operation{Principal: []byte("short")}) {
			t.Errorf("%s selects an operation with a broken tag", s.flag)
		}
	}
	if none := (&principalFlag{}); !none.selects(operation(foil.Anonymous())) || !none.selects(operation(foil.Fixed("x"))) {
		t.Error("without the flag not everybody is selected")
	}
	for _, bad := range []string{`{}`, `{"subject":7}`, `{"sub":"x"}`, `{"subject":"a","subject":"b"}`, `"open`, `"a"b`, `{`} {
		if err := new(principalFlag).Set(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// meddled is a ledger in which somebody acts right after an operation was read.
type meddled struct {
	ledger.Store
	after func()
}

func (m *meddled) Get(ctx context.Context, id opID) (*ledger.Operation, error) {
	op, err := m.Store.Get(ctx, id)
	if m.after != nil {
		m.after()
		m.after = nil
	}
	return op, err
}

func seededMemory(t *testing.T) *ledger.Memory {
	t.Helper()
	l := ledger.NewMemory(nil)
	if err := seedOperations(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	return l
}

// What was found out is recorded for the operation that was looked at, and not for
// one that somebody has taken up since, though it is unknown again.
func TestResolveHoldsTheFence(t *testing.T) {
	l, id := seededMemory(t), seededID(2)
	m := &meddled{Store: l, after: func() {
		op, err := l.Resume(t.Context(), id, 1, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Finish(t.Context(), id, op.Fence, ledger.Finish{State: ledger.Unknown}); err != nil {
			t.Fatal(err)
		}
	}}
	f := finding{as: "failed", by: "ann", note: "n"}
	if err := f.complete(); err != nil {
		t.Fatal(err)
	}
	_, err := f.resolve(t.Context(), m, id, false)
	exit, ok := errors.AsType[*exitError](err)
	if !ok || exit.code != exitRefused || !strings.Contains(err.Error(), "has changed meanwhile") {
		t.Errorf("resolved what has changed: %v", err)
	}
	op, err := l.Get(t.Context(), id)
	if err != nil || op.State != ledger.Unknown || op.ResolvedBy != "" {
		t.Errorf("it is now %+v, %v", op, err)
	}
	if _, err := f.resolve(t.Context(), m, id, false); err != nil {
		t.Errorf("the second look: %v", err)
	}
}

// A dry run records nothing.
func TestResolveDryRun(t *testing.T) {
	l, id := seededMemory(t), seededID(2)
	f := finding{as: "succeeded", by: "ann", note: "n"}
	if err := f.complete(); err != nil {
		t.Fatal(err)
	}
	r, err := f.resolve(t.Context(), l, id, true)
	if err != nil || !r.DryRun || !strings.Contains(string(r.Result), "carried out") {
		t.Errorf("%+v, %v", r, err)
	}
	if op, err := l.Get(t.Context(), id); err != nil || op.State != ledger.Unknown {
		t.Errorf("it is now %+v, %v", op, err)
	}
}

// Everything is found, on however many pages.
func TestEachPage(t *testing.T) {
	l := ledger.NewMemory(nil)
	const want = 2*ledger.MaxLimit + 1
	for i := range want {
		now := time.Now()
		if _, _, err := l.Begin(t.Context(), &ledger.Start{
			ID: opID{1, 14: byte(i >> 8), 15: byte(i)}, Round: 1, Expires: now.Add(time.Hour), Lease: time.Hour, Keep: now,
		}); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[opID]bool)
	err := eachPage(t.Context(), l, ledger.Query{}, func(page []ledger.Operation) (bool, error) {
		for i := range page {
			seen[page[i].ID] = true
		}
		return true, nil
	})
	if err != nil || len(seen) != want {
		t.Errorf("saw %d of %d, %v", len(seen), want, err)
	}
	pages := 0
	_ = eachPage(t.Context(), l, ledger.Query{}, func([]ledger.Operation) (bool, error) { pages++; return false, nil })
	if pages != 1 {
		t.Errorf("went on for %d pages", pages)
	}
}

// A store that is away is not taken for an operation that cannot be opened.
func TestAwayIsNotUnopened(t *testing.T) {
	away := errors.New("away")
	l := seededMemory(t)
	page, _, err := l.List(t.Context(), ledger.Query{})
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{Store: l, get: away}
	for _, listed := range []*ledger.Operation{nil, &page[0]} {
		if got, err := getOperation(t.Context(), f, page[0].ID, listed); err != nil || got.unopened != away || got.op.ID != page[0].ID {
			t.Errorf("one that cannot be opened: %+v, %v", got, err)
		}
		f := &faulty{Store: l, get: away, list: errors.New("list")}
		if got, err := getOperation(t.Context(), f, page[0].ID, listed); err != away || got != nil {
			t.Errorf("away: %+v, %v", got, err)
		}
	}
}

type faulty struct {
	ledger.Store
	get, list error
}

func (f *faulty) Get(context.Context, opID) (*ledger.Operation, error) { return nil, f.get }
func (f *faulty) List(ctx context.Context, q ledger.Query) ([]ledger.Operation, string, error) {
	if f.list != nil {
		return nil, "", f.list
	}
	return f.Store.List(ctx, q)
}

func TestStoreAndOpsExitCodes(t *testing.T) {
	t.Setenv(storeVariable, "")
	ring, r := storageRing(t)
	db := "sqlite:" + filepath.Join(t.TempDir(), "foil.db")
	if err := seedStore(t.Context(), db, r); err != nil {
		t.Fatal(err)
	}
	two := idText(seededID(2))
	resolve := func(id string, more ...string) []string {
		return append([]string{"ops", "resolve", id, "--as", "failed", "--by", "ann", "--note", "n", "--dry-run", "--storage-ring", ring}, more...)
	}
	for _, tt := range []struct {
		name string
		args []string
		want int
	}{
		{"list", []string{"ops", "list"}, exitOK},
		{"an empty list", []string{"ops", "list", "--target", "none"}, exitOK},
		{"no such state", []string{"ops", "list", "--state", "lost"}, exitUsage},
		{"no flow", []string{"ops", "list", "--flow", "x"}, exitUsage},
		{"no time", []string{"ops", "list", "--since", "yesterday"}, exitUsage},
		{"a time out of range", []string{"ops", "list", "--since", "1e12"}, exitUsage},
		{"an age to come", []string{"ops", "list", "--since", "-2h"}, exitUsage},
		{"a limit below zero", []string{"ops", "list", "--limit", "-1"}, exitUsage},
		{"show", []string{"ops", "show", two}, exitOK},
		{"show in hex", []string{"ops", "show", "019a0000000000000000000000000002"}, exitOK},
		{"show what is no ID", []string{"ops", "show", two + "="}, exitUsage},
		{"show nothing", []string{"ops", "show"}, exitUsage},
		{"show what is not there", []string{"ops", "show", idText(seededID(99))}, exitRefused},
		{"outcome without the ring", []string{"ops", "show", two, "--outcome"}, exitUsage},
		{"a ring for nothing", []string{"ops", "show", two, "--storage-ring", filepath.Join(t.TempDir(), "none")}, exitSystem},
		{"two ways at once", []string{"ops", "show", two, "--storage-ring", ring, "--plain-at-rest"}, exitUsage},
		{"resolve", resolve(two), exitOK},
		{"resolve a flow", resolve(idText(seededFlow(1))), exitRefused},
		{"resolve what is not there", resolve(idText(seededID(99))), exitRefused},
		{"resolve what runs", resolve(idText(seededID(4))), exitRefused},
		{"resolve what has ended", resolve(idText(seededID(1))), exitRefused},
		{"resolve a prompt without a result", resolve(idText(seededID(3))), exitUsage},
		{"resolve as nothing", resolve(two, "--as", "unknown"), exitUsage},
		{"resolve without a reason", resolve(two, "--note", ""), exitUsage},
		{"resolve with no such file", resolve(two, "--result", filepath.Join(t.TempDir(), "none")), exitSystem},
		{"resolve without the ring", []string{"ops", "resolve", two, "--as", "failed", "--by", "ann", "--note", "n"}, exitUsage},
		{"resolve in plain what is sealed", []string{"ops", "resolve", idText(seededID(3)), "--as", "failed", "--by", "ann", "--note", "n", "--plain-at-rest"}, exitRefused},
		{"export", []string{"ops", "export"}, exitOK},
		{"export without the ring", []string{"ops", "export", "--outcomes"}, exitUsage},
		{"stats", []string{"store", "stats"}, exitOK},
		{"restored without yes", []string{"store", "restored"}, exitUsage},
		{"group", []string{"store"}, exitUsage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if len(args) > 1 {
				args = append(args[:len(args):len(args)], "--store", db)
			}
			if code, stdout, stderr := foilRun(args...); code != tt.want {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.want, stdout, stderr)
			}
		})
	}
	for _, args := range [][]string{{"ops", "list"}, {"store", "stats"}} {
		if code, _, stderr := foilRun(args...); code != exitUsage || !strings.Contains(stderr, "set FOIL_STORE") {
			t.Errorf("%q without a store: exit code %d, %s", args, code, stderr)
		}
	}
}
