//go:build linux || darwin

package linear_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childEnv holds what a copy of this test binary is to do instead of testing.
const childEnv = "FOIL_LINEAR_CHILD"

func TestMain(m *testing.M) {
	text := os.Getenv(childEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// now is the machine's monotonic clock in nanoseconds.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// A plan is what one process does.
type plan struct {
	DSN, Fault string
	Claims     []string // one for each key
	Run        []byte   // makes the IDs of this run
	Process    int
	Seed       uint64
}

const (
	clients = 2  // of each process
	window  = 2  // keys that are in use at a time
	busy    = 12 // calls of one client to each object while a window lasts
	// slot is how much later than the one before a window begins at least, so
	// that processes meet which are not equally fast.
	slot = 60 * time.Millisecond
)

func (p *plan) run() error {
	ctx := context.Background()
	objects, err := openObjects(ctx, p)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var start int64
	if _, err := fmt.Scan(&start); err != nil {
		return err
	}
	var mu sync.Mutex // lines stay whole
	out := json.NewEncoder(os.Stdout)
	var failed error
	say := func(c call) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, out.Encode(c))
	}
	var number atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(p.Seed, uint64(p.Process*clients+i)))
			seen := make(map[int]uint64) // the fence of each key's operation
			for first := 0; first < len(p.Claims); first += window {
				time.Sleep(time.Duration(start + int64(first/window)*int64(slot) - now()))
				for turn := range busy {
					for _, object := range []string{replays, claims, ledgers} {
						c := call{
							Number: number.Add(1), Process: p.Process, Client: p.Process*clients + i,
							in: draw(rnd, object, min(first+rnd.IntN(window), len(p.Claims)-1), seen, turn == 0),
						}
						limited, cancel := context.WithTimeout(ctx, time.Minute)
						if rnd.IntN(20) == 0 {
							limited, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(2000))*time.Microsecond)
						}
						c.Began = now()
						say(c)
						c.Out = objects.do(limited, &c.in)
						c.Returned = now()
						cancel()
						if f := c.Out.Fence; f > 0 {
							seen[c.Key] = f
						}
						say(c)
					}
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// read reads what a process wrote down, until it ended or was killed.
func read(r io.Reader, killAt int, kill func()) (all []call, err error) {
	open := make(map[int64]call)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var c call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			if killAt > 0 {
				break // cut short
			}
			return nil, err
		}
		if c.Returned == 0 {
			open[c.Number] = c
			continue
		}
		delete(open, c.Number)
		all = append(all, c)
		if killAt > 0 && len(all) == killAt {
			kill()
		}
	}
	for _, c := range open {
		c.Out.Open = true
		all = append(all, c)
	}
	return all, lines.Err()
}
