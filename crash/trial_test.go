//go:build unix

package crash_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/store/dsn"
)

// What is done to a process that has come to its point.
const (
	kill    = "kill"    // kill -9
	stop    = "stop"    // SIGSTOP past the lease, then somebody else asks, then SIGCONT
	resolve = "resolve" // SIGSTOP past the lease, then an operator resolves, then SIGCONT
	// overtake is stop, but the first goes on while another is at work.
	overtake = "overtake"
	linger   = "linger" // nothing: the handler takes longer than the lease
)

// anytime is no point: the process is killed some time after the request.
const anytime = "anytime"

const lease = time.Second

// A spec is one trial: each of its points is where another process is struck.
type spec struct {
	tool, action string
	points       []string
}

func (s spec) String() string { return s.tool + "/" + s.action + "/" + strings.Join(s.points, "+") }

func parseSpec(text string) (s spec, err error) {
	p := strings.Split(text, "/")
	if len(p) != 3 {
		return s, fmt.Errorf("a trial is tool/action/point+point, not %q", text)
	}
	return spec{p[0], p[1], strings.Split(p[2], "+")}, nil
}

// A site is a store, its provider, and two replicas that nobody strikes.
type site struct {
	provider *process
	keys     string
	dsn      string
	store    dsn.Store
	replicas [2]*process
}

func (s *site) worker(point string) (*process, error) {
	return start("worker", "FOIL_CRASH_PROVIDER="+s.provider.url, "FOIL_CRASH_KEYS="+s.keys, "FOIL_CRASH_DSN="+s.dsn,
		"FOIL_CRASH_LEASE="+lease.String(), "FOIL_CRASH_POINT="+point)
}

// A trial is one approval and what happens to those who carry it out.
type trial struct {
	spec
	*site
	name   string
	state  string
	fate   fate
	struck []int // the process IDs
	kills  int
	flow   string
	first  answer // what retries are told
}

// run makes the trial. An error is what must not happen.
func (t *trial) run(ctx context.Context) error {
	t.name = rand.Text()
	asked, err := call(ctx, t.replicas[0].url, t.tool, t.name, "", "")
	if err != nil {
		return err
	}
	if t.state = asked.state; t.state == "" {
		return fmt.Errorf("the tool did not ask: %v", asked)
	}
	for _, point := range t.points {
		var err error
		switch {
		case point == anytime:
			err = t.strikeAnytime(ctx)
		case t.action == kill:
			err = t.kill(ctx, point)
		default:
			err = t.halt(ctx, point)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", point, err)
		}
	}
	if t.first.kind == "" {
		if t.first, err = t.retries(ctx); err != nil {
			return err
		}
		t.fate.run(t.tool, "") // the replica that went on, if there was anything to do
	}
	return t.judge(ctx)
}

// A told is what a call returned.
type told struct {
	answer
	err error
}

// present presents the state to a process.
func (t *trial) present(ctx context.Context, p *process) <-chan told {
	c := make(chan told, 1)
	go func() {
		a, err := call(ctx, p.url, t.tool, t.name, t.state, "accept")
		c <- told{a, err}
	}()
	return c
}

// bring lets a new process go to a point. It is nil if it does not come by.
func (t *trial) bring(ctx context.Context, point string) (*process, <-chan told, error) {
	p, err := t.worker(point)
	if err != nil {
		return nil, nil, err
	}
	for {
		c := t.present(ctx, p)
		select {
		case flow := <-p.at:
			if flow != "" {
				t.flow = flow
			}
			t.struck = append(t.struck, p.pid())
			return p, c, nil
		case a := <-c:
			switch {
			case a.err != nil:
				p.kill()
				return nil, nil, a.err
			case a.final():
				p.kill()
				return nil, nil, nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// kill brings a process to a point and kills it there.
func (t *trial) kill(ctx context.Context, point string) error {
	reached := t.fate.run(t.tool, point)
	p, c, err := t.bring(ctx, point)
	if err != nil {
		return err
	}
	if (p != nil) != reached {
		return fmt.Errorf("came by this point: %v, want %v", p != nil, reached)
	}
	if p == nil {
		return nil
	}
	if p.kill() {
		t.kills++
	}
	if a := <-c; a.err == nil {
		return fmt.Errorf("a process that was killed before it answered said %v", a.answer)
	}
	return nil
}

// strikeAnytime kills a process some time after it was asked.
func (t *trial) strikeAnytime(ctx context.Context) error {
	p, err := t.worker("")
	if err != nil {
		return err
	}
	c := t.present(ctx, p)
	var b [1]byte
	_, _ = rand.Read(b[:])
	time.Sleep(time.Duration(b[0]) * time.Millisecond / 4)
	t.struck = append(t.struck, p.pid())
	if p.kill() {
		t.kills++
	}
	if a := <-c; a.err == nil {
		t.first = a.answer // it was faster: its answer must be what retries get
	}
	return nil
}

// halt brings a process to a point, keeps it there for longer than its lease, lets
// something else happen meanwhile, and lets it go on.
func (t *trial) halt(ctx context.Context, point string) error {
	if !t.fate.run(t.tool, point) {
		return errors.New("no process comes by this point")
	}
	p, c, err := t.bring(ctx, point)
	if err != nil || p == nil {
		return errors.Join(err, errors.New("it did not come by"))
	}
	defer p.kill()
	switch t.action {
	case linger:
		return t.linger(ctx, p, c)
	case overtake:
		return t.overtake(ctx, point, p, c)
	}
	if err := p.stop(); err != nil {
		return err
	}
	pending := t.fate.pending()
	var want string // that the process which was stopped is told
	switch {
	case pending && t.action == resolve:
		want = isUnknown
		if err := t.resolve(ctx); err != nil {
			return err
		}
		t.fate.fence++
		t.fate.finished = true
		t.fate.fenced(point)
	case pending && (t.tool == steps || point == beforeRecord):
		want = isUnknown // for the latter, the time to record it in was over
	default:
		want = isResult
	}
	if t.first, err = t.retries(ctx); err != nil {
		return err
	}
	t.fate.run(t.tool, "")
	if pending && t.action != resolve {
		if t.tool == steps {
			t.fate.fenced(point)
		} else if t.first.kind != isUnknown {
			return fmt.Errorf("a retry of what is cut off got %v", t.first)
		}
	}
	if err := p.letGo(); err != nil {
		return err
	}
	a := <-c
	if a.err != nil || a.kind != want {
		return fmt.Errorf("the process that was stopped said %v, %v; want %s", a.answer, a.err, want)
	}
	if pending && t.tool == whole && t.action == stop && want == isResult {
		// Nobody had taken it over: its own late outcome is the outcome.
		t.first = a.answer
		t.fate = fate{}
		t.fate.run(t.tool, "")
	}
	if t.first.kind == isUnknown {
		// It may have renewed its lease before it found that it was too late, and
		// what it gave up to record may have been recorded.
		if t.first, err = t.retries(ctx); err != nil {
			return err
		}
		t.fate.finished = t.first.kind == isResult
	}
	if a.kind == isResult && a.body != t.first.body {
		return fmt.Errorf("the process that was stopped said %v, and retries get %v", a.answer, t.first)
	}
	return nil
}

// overtake lets a process go on that was stopped, while another has taken over and is
// at work. It must do nothing more, and the other finishes as if it were alone.
func (t *trial) overtake(ctx context.Context, point string, p *process, c <-chan told) error {
	if err := p.stop(); err != nil {
		return err
	}
	t.fate.run(t.tool, afterResume)
	second, answers, err := t.bring(ctx, afterResume)
	if err != nil || second == nil {
		return errors.Join(err, errors.New("nobody took over"))
	}
	defer second.kill()
	if err := p.letGo(); err != nil {
		return err
	}
	t.fate.fenced(point)
	if a := <-c; a.err != nil || a.kind != isUnknown {
		return fmt.Errorf("the process that was overtaken said %v, %v", a.answer, a.err)
	}
	if err := second.letGo(); err != nil {
		return err
	}
	a := <-answers
	if a.err != nil || a.kind != isResult {
		return fmt.Errorf("the process that took over said %v, %v", a.answer, a.err)
	}
	t.first = a.answer
	t.fate.fence-- // it has resumed once
	t.fate.run(t.tool, "")
	return nil
}

// linger lets the handler take longer than its lease, while others ask.
func (t *trial) linger(ctx context.Context, p *process, c <-chan told) error {
	for end := time.Now().Add(2*lease + lease/2); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, r := range t.replicas {
			if a, err := call(ctx, r.url, t.tool, t.name, t.state, "accept"); err != nil || a.kind != isInProgress {
				return fmt.Errorf("a retry while the handler runs got %v, %v", a, err)
			}
		}
	}
	if err := p.letGo(); err != nil {
		return err
	}
	a := <-c
	if a.err != nil || a.kind != isResult {
		return fmt.Errorf("the handler that took long ended with %v, %v", a.answer, a.err)
	}
	t.first = a.answer
	t.fate = fate{}
	t.fate.run(t.tool, "")
	return nil
}

// retries lets both replicas ask at once until each has an outcome, which must be
// the same.
func (t *trial) retries(ctx context.Context) (answer, error) {
	var got [2]told
	var wg sync.WaitGroup
	for i, r := range t.replicas {
		wg.Go(func() {
			got[i].answer, got[i].err = outcome(ctx, r.url, t.tool, t.name, t.state)
		})
	}
	wg.Wait()
	if err := errors.Join(got[0].err, got[1].err); err != nil {
		return answer{}, err
	}
	if got[0].body != got[1].body {
		return answer{}, fmt.Errorf("one replica said %v, the other %v", got[0].answer, got[1].answer)
	}
	return got[0].answer, nil
}

const found = `{"content":[{"type":"text","text":"found by the operator"}]}`

// resolve waits until the operation is unknown and resolves it as an operator does.
func (t *trial) resolve(ctx context.Context) error {
	op, err := t.unknown(ctx)
	if err != nil {
		return err
	}
	return t.store.Ledger().Resolve(ctx, op.ID, op.Fence, ledger.Resolution{
		State: ledger.Succeeded, Outcome: foil.EncodeOutcome([]byte(found)), By: "operator",
	})
}

// unknown waits until the operation is unknown. What a retry was told may be undone
// once by a renewal that was under way, and lasts when that has lapsed.
func (t *trial) unknown(ctx context.Context) (*ledger.Operation, error) {
	for {
		op, err := t.operation(ctx)
		if err != nil || op.State == ledger.Unknown {
			return op, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return op, fmt.Errorf("the operation is still %v: %w", op.State, ctx.Err())
		}
	}
}

// operation is the one operation of the flow.
func (t *trial) operation(ctx context.Context) (*ledger.Operation, error) {
	flow, err := flowID(t.flow)
	if err != nil {
		return nil, err
	}
	page, _, err := t.store.Ledger().List(ctx, ledger.Query{Flow: flow})
	if err != nil || len(page) != 1 {
		return nil, fmt.Errorf("the flow has %d operations, %v", len(page), err)
	}
	return &page[0], nil
}

// listed reports whether the operation is among the unknown ones.
func (t *trial) listed(ctx context.Context) (bool, error) {
	q := ledger.Query{State: ledger.Unknown, Limit: 1000}
	for {
		page, next, err := t.store.Ledger().List(ctx, q)
		if err != nil {
			return false, err
		}
		flow, err := flowID(t.flow)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(page, func(op ledger.Operation) bool { return string(op.Flow[:]) == string(flow) }) {
			return true, nil
		}
		if next == "" {
			return false, nil
		}
		q.After = next
	}
}
