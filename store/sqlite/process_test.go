package sqlite_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/store/sqlite"
)

// childEnv names what a copy of this test binary is to do instead of testing.
const childEnv = "FOIL_SQLITE_TEST_CHILD"

var children = map[string]func(path string) error{
	"race": raceChild,
	"kill": killChild,
}

func TestMain(m *testing.M) {
	role := os.Getenv(childEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := children[role](os.Getenv("FOIL_SQLITE_TEST_PATH")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child starts a copy of this test binary in the given role.
func child(t *testing.T, role, path string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+role, "FOIL_SQLITE_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
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
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, in, bufio.NewReader(pipe)
}

const (
	raceProcesses = 4
	raceCallers   = 8
	raceIDs       = 150
)

func raceID(i int) []byte {
	sum := sha256.Sum256([]byte(strconv.Itoa(i)))
	return sum[:16]
}

// racer is a process that waits for its input to end.
type racer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// raceChild uses the same IDs as its siblings, each of its callers all of them,
// and prints the number of an ID when it was first.
func raceChild(path string) error {
	s, err := sqlite.Open(context.Background(), path, &sqlite.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until the parent closes it
		return err
	}
	expires := time.Now().Add(time.Hour)
	var mu sync.Mutex // lines stay whole
	var failed error
	var wg sync.WaitGroup
	for range raceCallers {
		wg.Go(func() {
			for i := range raceIDs {
				first, err := s.Replay().Use(context.Background(), raceID(i), expires)
				mu.Lock()
				if err != nil {
					failed = err
				}
				if first {
					fmt.Println(i)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	return s.Close()
}

func TestProcessesRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	var procs []racer
	for range raceProcesses { // they create the file together, too
		cmd, in, out := child(t, "race", path)
		procs = append(procs, racer{cmd, in, out})
	}
	for _, p := range procs {
		if line, err := p.out.ReadString('\n'); line != "ready\n" {
			t.Fatalf("child said %q, %v", line, err)
		}
	}
	for _, p := range procs {
		if err := p.in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	firsts := make([]int, raceIDs)
	winners := 0
	for _, p := range procs {
		b, err := io.ReadAll(p.out)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("child: %v", err)
		}
		lines := strings.Fields(string(b))
		if len(lines) > 0 {
			winners++
		}
		for _, line := range lines {
			i, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			firsts[i]++
		}
	}
	for i, n := range firsts {
		if n != 1 {
			t.Errorf("id %d was first %d times, want 1", i, n)
		}
	}
	t.Logf("%d of %d processes were first with at least one id", winners, raceProcesses)
}

// killChild prints each ID right after Use reported it as first.
func killChild(path string) error {
	s, err := sqlite.Open(context.Background(), path, &sqlite.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	expires := time.Now().Add(time.Hour)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				id := newID()
				first, err := s.Replay().Use(context.Background(), id, expires)
				mu.Lock()
				if !first || err != nil {
					fmt.Printf("Use = %v, %v\n", first, err)
				} else {
					fmt.Println(hex.EncodeToString(id))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

func TestKilledAfterTrue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	spent := 0
	for round := range 4 {
		cmd, _, out := child(t, "kill", path)
		var ids [][]byte
		for n := 0; ; n++ {
			line, err := out.ReadString('\n')
			if err != nil {
				break // killed; a line cut short counts for nothing
			}
			id, err := hex.DecodeString(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("child said %q", line)
			}
			ids = append(ids, id)
			if n == 10+50*round {
				if err := cmd.Process.Kill(); err != nil { // SIGKILL
					t.Fatal(err)
				}
			}
		}
		s, err := sqlite.Open(t.Context(), path, &sqlite.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatalf("Open after the kill: %v", err)
		}
		for _, id := range ids {
			mustUse(t, s, id, false)
		}
		spent += len(ids)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d ids were still spent after their process was killed", spent)
}
