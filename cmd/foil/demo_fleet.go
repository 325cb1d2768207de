package main

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
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/attack/httpdoor"
	"github.com/foilmcp/foil/store/dsn"
)

// A demoFleet is the replicas of the demo, as processes, and the files that they
// share. It is the battery's Door, with replicas that can die.
type demoFleet struct {
	*httpdoor.Door
	bucket *demoBucket
	minter *attack.Minter

	dir    string // holds everything but a store that the user named
	order  replicaOrder
	stderr io.Writer // nil: each replica has a log in dir

	mu       sync.Mutex
	replicas []*demoReplica
	urls     []string
}

type demoReplica struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

var (
	_ attack.Crasher = (*demoFleet)(nil)
	_ attack.Logs    = (*demoFleet)(nil)
)

const (
	startTimeout = 15 * time.Second
	stopTimeout  = 5 * time.Second
)

// startFleet makes the shared files and starts the replicas. The store is in a
// directory of its own unless it is named.
func startFleet(ctx context.Context, n int, mode attack.Mode, format *tokenFormat, store string, stderr io.Writer) (f *demoFleet, err error) {
	f = &demoFleet{stderr: stderr, replicas: make([]*demoReplica, n), urls: make([]string, n)}
	if f.dir, err = os.MkdirTemp("", "foil-demo-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	f.order = replicaOrder{Scratch: f.dir, Debug: stderr == nil, demoSetup: demoSetup{
		Ring: filepath.Join(f.dir, "ring.json"), Storage: filepath.Join(f.dir, "storage.json"), Store: store, Bucket: filepath.Join(f.dir, "bucket"),
		Once: mode.Once.String(), Without: mode.Without.String(),
		Codec: format.name,
	}}
	if store == "" {
		f.order.Store = dsn.SQLite + ":" + filepath.Join(f.dir, "store.db")
	}
	document, minter, err := attack.NewRingFor(time.Now(), format.attack)
	if err != nil {
		return f, err
	}
	minter.Audience = demoAudience
	f.minter, f.bucket = minter, &demoBucket{dir: f.order.Bucket}
	if err := os.WriteFile(f.order.Ring, document, 0o600); err != nil {
		return f, err
	}
	if err := os.Mkdir(f.order.Bucket, 0o700); err != nil {
		return f, err
	}
	storage, err := f.order.prepare(ctx)
	if err != nil {
		return f, err
	}
	minter.Secrets = append(minter.Secrets, storage)
	if f.Door, err = httpdoor.New(make([]string, n)...); err != nil {
		return f, err
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f.Start(ctx, i+1) })
	}
	wg.Wait()
	return f, errors.Join(errs...)
}

// Start starts a replica and waits until it serves.
func (f *demoFleet) Start(ctx context.Context, n int) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	// The name it was called by stays, for a binary that goes by its name.
	cmd := &exec.Cmd{Path: exe, Args: []string{os.Args[0], "demo", "replica"}}
	log, err := f.log(n)
	if err != nil {
		return err
	}
	if cmd.Stderr = f.stderr; log != nil {
		defer log.Close()
		cmd.Stderr = log
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start replica %d: %w", n, err)
	}
	r := &demoReplica{cmd, stdin}
	url, err := r.welcome(ctx, &f.order, stdout)
	if err != nil {
		err = errors.Join(err, r.kill())
		return fmt.Errorf("start replica %d: %w%s", n, err, f.complaint(n))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas[n-1], f.urls[n-1] = r, url
	f.Move(n, url)
	return nil
}

// welcome gives a replica its orders and waits for its report.
func (r *demoReplica) welcome(ctx context.Context, order *replicaOrder, stdout io.Reader) (url string, err error) {
	if err := printJSON(r.stdin, order); err != nil {
		return "", err
	}
	type answer struct {
		report replicaReport
		err    error
	}
	got := make(chan answer, 1)
	go func() { // ends with the replica's report or its death
		var a answer
		line, err := bufio.NewReader(stdout).ReadBytes('\n')
		if a.err = err; err == nil {
			a.err = json.Unmarshal(line, &a.report)
		} else if errors.Is(err, io.EOF) {
			a.err = errors.New("it ended before it served")
		}
		got <- a
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case a := <-got:
		return a.report.URL, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (f *demoFleet) log(n int) (*os.File, error) {
	if f.stderr != nil {
		return nil, nil
	}
	return os.OpenFile(f.logName(n), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

func (f *demoFleet) logName(n int) string {
	return filepath.Join(f.dir, fmt.Sprintf("replica-%d.log", n))
}

// Written returns what the replicas have written: their logs, and their metrics.
func (f *demoFleet) Written(ctx context.Context) ([]attack.Writing, error) {
	var all []attack.Writing
	for i, u := range f.URLs() {
		text, err := os.ReadFile(f.logName(i + 1))
		if err != nil {
			return nil, err
		}
		all = append(all, attack.Writing{Name: fmt.Sprintf("the log of replica %d", i+1), Text: text})
		if text, err = fetchMetrics(ctx, u); err != nil {
			return nil, err
		}
		all = append(all, attack.Writing{Name: fmt.Sprintf("the metrics of replica %d", i+1), Text: text})
	}
	return all, nil
}

// fetchMetrics gets the metrics page of the replica that serves MCP at u.
func fetchMetrics(ctx context.Context, u string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(u, demoPath)+demoMetrics, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s", resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// complaint is the end of a replica's log.
func (f *demoFleet) complaint(n int) string {
	text, err := os.ReadFile(f.logName(n))
	if err != nil {
		return ""
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return ""
	}
	return "\n" + string(text[max(0, len(text)-2000):])
}

// Kill ends a replica at once, as a crash does.
func (f *demoFleet) Kill(_ context.Context, n int) error {
	f.mu.Lock()
	r := f.replicas[n-1]
	f.replicas[n-1] = nil
	f.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.kill()
}

func (r *demoReplica) kill() error {
	err := r.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = r.cmd.Wait() // it says that it was killed
	return errors.Join(err, closePipe(r.stdin))
}

func closePipe(c io.Closer) error {
	if err := c.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// stop lets a replica end by itself, and not for long.
func (r *demoReplica) stop() error {
	_, _ = io.WriteString(r.stdin, farewell) // a dead one needs none
	late := time.AfterFunc(stopTimeout, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	err := closePipe(r.stdin)
	if wait := r.cmd.Wait(); wait != nil {
		err = errors.Join(err, fmt.Errorf("a replica ended badly: %w", wait))
	}
	return err
}

// Close ends the replicas and removes what they shared.
func (f *demoFleet) Close() error {
	f.mu.Lock()
	replicas := f.replicas
	f.replicas = make([]*demoReplica, len(replicas))
	f.mu.Unlock()
	errs := make([]error, len(replicas)+1)
	var wg sync.WaitGroup
	for i, r := range replicas {
		if r != nil {
			wg.Go(func() { errs[i] = r.stop() })
		}
	}
	wg.Wait()
	if f.Door != nil {
		f.Door.Close()
	}
	errs[len(replicas)] = os.RemoveAll(f.dir)
	return errors.Join(errs...)
}

// URLs returns where the replicas are.
func (f *demoFleet) URLs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.urls...)
}
