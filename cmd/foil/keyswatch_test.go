package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/keyring"
)

// Changes are told as they come: those that somebody writes, those of the clock, and a
// source that goes and comes.
func TestKeysWatch(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ring.json")
	file := keyring.OpenFile(path)
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Propagation: time.Second, Skew: time.Second, MaxTTL: 2 * time.Second, Keep: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Create(t.Context(), ring); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	c := &cobra.Command{}
	c.SetOut(w)
	ended := make(chan error, 1)
	go func() {
		ended <- (&watcher{interval: 100 * time.Millisecond, json: true, out: c}).run(ctx, &ringFlag{path})
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	next := func() watchEvent {
		t.Helper()
		var e watchEvent
		if !lines.Scan() {
			t.Fatal("no more events: ", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Time == "" {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		return e
	}
	want := func(event string, serial int64, key, was, state string) {
		t.Helper()
		e := next()
		if e.Event != event || e.Serial != serial || e.Key != key || e.Was != was || e.State != state {
			t.Fatalf("%+v; want %s of serial %d, key %q, from %q to %q", e, event, serial, key, was, state)
		}
	}
	change := func(fn func(*keyring.Ring) (*keyring.Change, error)) *keyring.Change {
		t.Helper()
		var c *keyring.Change
		if _, err := file.Update(t.Context(), func(r *keyring.Ring) (_ *keyring.Ring, err error) {
			if c, err = fn(r); err != nil {
				return nil, err
			}
			return c.Ring, nil
		}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	a := ring.Keys()[0].ID()
	want("ring", 1, "", "", "")
	want("key", 1, a, "", "sealing")
	b := change(func(r *keyring.Ring) (*keyring.Change, error) { return r.Rotate(time.Now(), 0) }).Added
	want("ring", 2, "", "", "")
	want("key", 2, a, "sealing", "sealing") // it has an end now
	want("key", 2, b, "", "pending")
	want("key", 2, a, "sealing", "opening")
	want("key", 2, b, "pending", "sealing")
	want("key", 2, a, "opening", "closed")

	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if e := next(); e.Event != "away" || e.Error == "" {
		t.Fatalf("%+v; want away", e)
	}
	time.Sleep(300 * time.Millisecond) // it is told once
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	want("back", 2, "", "", "")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replaced := change(func(r *keyring.Ring) (*keyring.Change, error) { return r.Revoke(time.Now(), b) })
	want("ring", 3, "", "", "")
	want("key", 3, b, "sealing", "revoked")
	want("key", 3, replaced.Added, "", "sealing")
	if err := os.WriteFile(path+".old", old, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	want("older", 2, "", "", "")
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }() // what it still had to say
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What the clock does is looked for when it does it, however seldom the source is read.
func TestWatchWakesForTheClock(t *testing.T) {
	now := time.Now()
	ring, err := keyring.NewRing(now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := seeRing(ring, now); !s.next.IsZero() {
		t.Errorf("wakes at %v for nothing", s.next)
	}
	c, err := ring.Rotate(now, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s := seeRing(c.Ring, now); !s.next.Equal(c.SealFrom) {
		t.Errorf("wakes at %v, want %v: the new key seals", s.next, c.SealFrom)
	}
	until, _ := c.Ring.Keys()[0].OpenUntil()
	if s := seeRing(c.Ring, c.SealFrom); !s.next.Equal(until) {
		t.Errorf("wakes at %v, want %v: the old key closes", s.next, until)
	}
	if s := seeRing(c.Ring, until); !s.next.IsZero() {
		t.Errorf("wakes at %v for nothing", s.next)
	}
}

// A name of nothing is a mistake, and not a source that is away.
func TestKeysWatchNeedsARing(t *testing.T) {
	says(t, keys(t, exitSystem, "watch", "--ring", filepath.Join(t.TempDir(), "none")), "no ring there")
	keys(t, exitUsage, "watch", "--interval", "0s", "--ring", "x")
	keys(t, exitUsage, "watch", "--for", "-1s", "--ring", "x")
}

// A line for people has what the JSON has.
func TestWatchEventText(t *testing.T) {
	for want, e := range map[string]watchEvent{
		"T  serial 7": {Time: "T", Event: "ring", Serial: 7},
		"T  key b: pending, seals from F, opens until U":                           {Time: "T", Event: "key", Key: "b", State: "pending", SealFrom: "F", OpenUntil: "U"},
		"T  key b: closed, was opening":                                            {Time: "T", Event: "key", Key: "b", State: "closed", Was: "opening", OpenUntil: "U"},
		"T  the source is away: why":                                               {Time: "T", Event: "away", Error: "why"},
		"T  the source is back":                                                    {Time: "T", Event: "back"},
		"T  serial went back to 2: replicas keep the newer ring; write that again": {Time: "T", Event: "older", Serial: 2},
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
