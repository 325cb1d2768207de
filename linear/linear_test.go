//go:build linux || darwin

package linear_test

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/foilmcp/foil/internal/pgtest"
	"github.com/foilmcp/foil/internal/redistest"
	"github.com/foilmcp/foil/store/dsn"
)

const processes = 5 // one of them is killed

// keysOf is how many keys a run has: as many times keys as FOIL_CRASH has fifties.
func keysOf(t *testing.T, keys int) int {
	t.Helper()
	text := os.Getenv("FOIL_CRASH")
	if text == "" {
		return keys
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("FOIL_CRASH=%q is no number", text)
	}
	return keys * max(1, n/50)
}

func TestLinearizable(t *testing.T) {
	for _, b := range []struct {
		name string
		dsn  func(*testing.T) string
	}{
		{"sqlite", sqliteDSN},
		{"postgres", func(t *testing.T) string { return pgtest.Start(t).Database(t) }},
		{"redis", func(t *testing.T) string { return redistest.Start(t, redistest.Durable...).URL() }},
	} {
		t.Run(b.name, func(t *testing.T) {
			keys := keysOf(t, 16)
			all := run(t, b.dsn(t), "", keys)
			for _, object := range []string{replays, claims, ledgers} {
				h := history(all, object)
				open, ok := 0, 0
				for _, o := range h {
					if o.Output.(out).Open {
						open++
					}
					if o.Output.(out).OK {
						ok++
					}
				}
				together := contended(all, object)
				t.Logf("%s: %d calls, %d of them with no known end, %d said yes, %d of %d keys used by several processes at once", object, len(h), open, ok, together, keys)
				if together < keys/4 || ok < keys/2 {
					t.Errorf("%s: too little happened at once for the result to mean anything", object)
				}
				if result := check(h); result != porcupine.Ok {
					t.Errorf("%s: the history is %s; it is in %s%s", object, result, picture(t, h), worst(h))
				}
			}
		})
	}
}

// A checker that finds nothing proves nothing: each of these must be found, in the
// object that has the fault.
func TestFaultsAreFound(t *testing.T) {
	for fault, broken := range map[string][]string{
		"reads, then writes":           {replays, ledgers},
		"keeps who redeemed to itself": {claims},
		"accepts an old fence":         {ledgers},
		"answers from a copy":          {ledgers},
	} {
		t.Run(fault, func(t *testing.T) {
			all := run(t, sqliteDSN(t), fault, 8)
			for _, object := range broken {
				if result := check(history(all, object)); result != porcupine.Illegal {
					t.Errorf("%s: the history of a broken store is %s", object, result)
				}
			}
		})
	}
}

func sqliteDSN(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "foil.db") }

func check(h []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model, h, 2*time.Minute)
}

// worst is a key whose history is not linearizable, in the order of the calls.
func worst(h []porcupine.Operation) string {
	for _, part := range model.Partition(h) {
		if check(part) == porcupine.Ok {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		var b strings.Builder
		for _, o := range part {
			fmt.Fprintf(&b, "\n%d-%d client %d %+v: %+v", o.Call-part[0].Call, o.Return-part[0].Call, o.ClientId, o.Input, o.Output)
		}
		return b.String()
	}
	return ""
}

// picture writes a history that is not linearizable where somebody can look at it.
func picture(t *testing.T, h []porcupine.Operation) string {
	t.Helper()
	_, info := porcupine.CheckOperationsVerbose(model, h, time.Minute)
	f, err := os.CreateTemp("", "foil-linear-*.html")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := porcupine.Visualize(model, info, f); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// run lets all processes use a store at once and returns what they did.
func run(t *testing.T, name, fault string, keys int) (all []call) {
	t.Helper()
	s, err := dsn.Open(t.Context(), name, &dsn.Options{PlainAtRest: true, Timeout: time.Minute, Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	p := plan{DSN: name, Fault: fault, Run: make([]byte, 32), Seed: uint64(time.Now().UnixNano())}
	_, _ = rand.Read(p.Run)
	ms := time.Now().UnixMilli()
	for i := 5; i >= 0; i-- {
		p.Run[i] = byte(ms)
		ms >>= 8
	}
	for range keys {
		claim, err := s.Claims().Issue(t.Context(), []byte(payload), hour)
		if err != nil {
			t.Fatal(err)
		}
		p.Claims = append(p.Claims, claim)
	}
	t.Logf("seed %d", p.Seed)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var waiting []io.Writer
	for i := range processes {
		p.Process = i
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+string(text)), os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		ready := make([]byte, len("ready\n"))
		if _, err := pipe.Read(ready); err != nil || !strings.HasPrefix(string(ready), "ready") {
			t.Fatalf("a process said %q, %v", ready, err)
		}
		waiting = append(waiting, in)
		killAt := 0
		if i == 0 {
			killAt = keys / window * busy * clients * 3 / 2 // half of all
		}
		wg.Go(func() {
			calls, err := read(pipe, killAt, func() { _ = cmd.Process.Kill() })
			if werr := cmd.Wait(); err == nil && werr != nil && killAt == 0 {
				err = fmt.Errorf("process %d: %w", i, werr)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			all = append(all, calls...)
		})
	}
	start := now() + int64(50*time.Millisecond)
	for _, w := range waiting {
		if _, err := fmt.Fprintln(w, start); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	return all
}
