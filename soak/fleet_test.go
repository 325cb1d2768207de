//go:build unix

package soak_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring/readyz"
)

// A fleet is the replicas, as processes that can be killed.
type fleet struct {
	world    world
	maxStale time.Duration
	slots    []*slot
	client   *http.Client
}

// A slot is the place of one replica; another process takes it after a kill.
type slot struct {
	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.Closer
	url string // "" while there is none
	gen int    // counts the processes
}

func (s *slot) now() (url string, gen int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url, s.gen
}

func startFleet(t *testing.T, w world, n int, maxStale time.Duration) *fleet {
	f := &fleet{world: w, maxStale: maxStale, client: &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{MaxIdleConnsPerHost: 8, MaxIdleConns: 0},
	}}
	for range n {
		f.slots = append(f.slots, &slot{})
	}
	t.Cleanup(f.end)
	var wg sync.WaitGroup
	for i := range f.slots {
		wg.Go(func() {
			if err := f.start(i); err != nil {
				t.Errorf("replica %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return f
}

// start starts a process in an empty slot and waits until it serves.
func (f *fleet) start(i int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"=replica", "GOMAXPROCS=2")
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	fail := func(err error) error {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // which ends what writes to said
		return fmt.Errorf("%w: %s", err, &said)
	}
	o := f.world.orders(i)
	o.MaxStale = f.maxStale
	if err := json.NewEncoder(in).Encode(&o); err != nil {
		return fail(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fail(errors.New("it ended before it served"))
	}
	s := f.slots[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.in, s.url = cmd, in, strings.TrimSpace(url)
	s.gen++
	return nil
}

// kill ends a replica as kill -9 does.
func (f *fleet) kill(i int) {
	s := f.slots[i]
	s.mu.Lock()
	cmd, in := s.cmd, s.in
	s.cmd, s.url = nil, ""
	s.gen++
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_ = in.Close()
}

// restart starts a replica as a supervisor does: again and again, while its source is
// away.
func (f *fleet) restart(ctx context.Context, i int) error {
	for {
		err := f.start(i)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (f *fleet) end() {
	var wg sync.WaitGroup
	for i := range f.slots {
		wg.Go(func() { f.kill(i) })
	}
	wg.Wait()
	f.client.CloseIdleConnections()
}

var errGone = errors.New("the replica was killed")

// ask posts to a replica. errGone says that it was killed before it answered.
func (f *fleet) ask(i int, path string, body, answer any) error {
	url, gen := f.slots[i].now()
	if url == "" {
		return errGone
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	err = f.post(url+path, text, answer)
	if _, now := f.slots[i].now(); err != nil && now != gen {
		return errGone
	}
	return err
}

func (f *fleet) post(url string, body []byte, answer any) error {
	resp, err := f.client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// report is what /readyz of a replica says.
func (f *fleet) report(ctx context.Context, i int) (*readyz.Report, error) {
	url, _ := f.slots[i].now()
	rep, err := readyz.Fetch(ctx, f.client, url)
	if err == nil && len(rep.Rings) != 1 {
		err = fmt.Errorf("%d rings", len(rep.Rings))
	}
	return rep, err
}

// alert reports whether the metric of a replica says that its ring is not ready.
func (f *fleet) alert(i int) (bool, error) {
	url, _ := f.slots[i].now()
	resp, err := f.client.Get(url + "/metrics")
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, err
	}
	text := "\n" + string(page)
	switch {
	case strings.Contains(text, "\nfoil_ring_ready{name=\"tokens\"} 0\n"):
		return true, nil
	case strings.Contains(text, "\nfoil_ring_ready{name=\"tokens\"} 1\n"):
		return false, nil
	}
	return false, fmt.Errorf("no metric tells whether the ring is ready:\n%s", page)
}
