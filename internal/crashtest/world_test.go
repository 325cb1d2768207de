package crashtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/ledger"
)

const lease = time.Second

// durable hides that a memory store dies with the process: so does the test.
type durable struct{ ledger.Store }

// A world is one approval, the stores, the provider, and all workers that were
// given the token.
type world struct {
	steps   bool // the tool is resumable and made of steps
	codec   foil.Codec
	ledger  ledger.Store
	claims  *claimcheck.Memory
	token   string
	workers []*worker
	wg      sync.WaitGroup

	mu       sync.Mutex // of what workers and driver both change
	receipts map[string]string
	calls    map[string]int // of the provider, by step
	keys     map[string]string
	told     string // the result that somebody was told
	resolved bool
	log      strings.Builder
	wrong    []error
}

// plan is what the approval is for.
func plan(steps bool) []string {
	if steps {
		return []string{"a", "b", "c"}
	}
	return []string{"a"}
}

func request(answered bool) foil.Request {
	r := foil.Request{
		Method: foil.MethodToolsCall, Target: "purge", Arguments: []byte(`{"n":1}`),
		Principal: foil.OAuth("app", "https://login.example", "ann"),
	}
	if answered {
		r.Answers = []byte(`{"confirm":{"action":"accept"}}`)
	}
	return r
}

// newWorld makes the stores, and a token that was sealed by one more replica.
func newWorld(steps bool, broken func(ledger.Store) ledger.Store) (*world, error) {
	ring, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		return nil, err
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		return nil, err
	}
	w := &world{
		steps: steps, codec: codec, ledger: durable{broken(ledger.NewMemory(nil))}, claims: claimcheck.NewMemory(nil),
		receipts: make(map[string]string), calls: make(map[string]int), keys: make(map[string]string),
	}
	guard, err := foil.New(codec, &foil.Options{Audience: "crash", Once: foil.Settle, Ledger: w.ledger})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	claim, err := w.claims.Issue(ctx, []byte(strings.Join(plan(steps), " ")), time.Hour)
	if err != nil {
		return nil, err
	}
	w.token, err = guard.Seal(ctx, request(false), foil.Outgoing{
		State:     claim,
		Questions: []byte(`{"confirm":{"method":"elicitation/create","params":{"mode":"form","message":"Purge?","requestedSchema":{"type":"object"}}}}`),
	})
	return w, err
}

func (w *world) logf(format string, args ...any) { fmt.Fprintf(&w.log, format+"\n", args...) }

// fail notes what must not happen. The caller holds w.mu or is the driver.
func (w *world) fail(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Errorf(format, args...))
}

// operation is the approval's one operation, nil before it began.
func (w *world) operation() *ledger.Operation {
	page, _, err := w.ledger.List(context.Background(), ledger.Query{})
	switch {
	case err != nil || len(page) > 1:
		w.wrong = append(w.wrong, fmt.Errorf("one approval has %d operations, %v", len(page), err))
	case len(page) == 1:
		return &page[0]
	}
	return nil
}

func (w *world) fence() uint64 {
	if op := w.operation(); op != nil {
		return op.Fence
	}
	return 0
}

// dispatched checks that whoever was let into the handler before is no longer in
// it, or is dead, or stands still, or has been told to stop.
func (w *world) dispatched(p *worker, ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logf("  %v is dispatched under fence %d", p, p.fence)
	if ctx.Err() == nil {
		for _, q := range w.workers {
			if q.running && !q.dead && q.thaw == nil && q.ctx.Err() == nil {
				w.fail("%v is dispatched under fence %d while %v is alive under %d", p, p.fence, q, q.fence)
			}
		}
	}
	p.ctx, p.running = ctx, true
}

// provide is the provider, which honours idempotency keys.
func (w *world) provide(p *worker, step, key string) (string, error) {
	fence := w.fence()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logf("  %v under fence %d of %d: effect %s", p, p.fence, fence, step)
	w.calls[step]++
	if was := w.keys[step]; was != "" && was != key {
		w.fail("step %s was asked for under two keys", step)
	}
	w.keys[step] = key
	switch {
	case !w.steps && w.calls[step] > 1:
		w.fail("what cannot be resumed was called %d times", w.calls[step])
	case fence == p.fence:
	case !p.froze:
		w.fail("%v goes on under fence %d after it rose to %d", p, p.fence, fence)
	case w.steps && p.began[step] != p.fence:
		w.fail("%v under fence %d begins step %s, which it was let begin when the fence was %d", p, p.fence, step, p.began[step])
	}
	if w.receipts[key] == "" {
		w.receipts[key] = fmt.Sprintf("%s-%d", step, w.calls[step])
	}
	return w.receipts[key], nil
}

// tell takes what a client was told.
func (w *world) tell(p *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logf("  %v tells: %s", p, p.told)
	result, isResult := strings.CutPrefix(p.told, "result ")
	switch {
	case isResult && w.told == "":
		w.told = result
	case isResult && w.told != result:
		w.fail("%v told %q, and another %q", p, result, w.told)
	case isResult:
	case strings.HasPrefix(p.told, refused):
		w.fail("%v was %s", p, p.told)
	case p.told == unavailable && !p.hurt:
		w.fail("%v told that the store is away, which it was not", p)
	case p.told == "error" && !p.hurt && p.ctx.Err() == nil:
		w.fail("%v told an error out of nothing", p)
	case p.late && p.told != unavailable:
		w.fail("%v told %q although the outcome had been told before", p, p.told)
	}
}

// A move is something that the driver may do next.
type move struct {
	name string
	do   func() error
}

// moves are what can happen now, the likely ones more than once.
func (w *world) moves() (all []move) {
	add := func(times int, name string, do func() error) {
		for range times {
			all = append(all, move{name, do})
		}
	}
	living := 0
	for _, p := range w.workers {
		p := p
		if p.dead || p.ended {
			continue
		}
		living++
		if p.thaw != nil {
			add(2, fmt.Sprintf("%v goes on after a stop", p), func() error { w.wake(p); return nil })
			add(1, fmt.Sprintf("%v dies while stopped", p), func() error { w.kill(p); return nil })
			continue
		}
		add(6, fmt.Sprintf("%v leaves %q", p, p.at), func() error { p.orders <- goOn; return nil })
		add(1, fmt.Sprintf("%v dies at %q", p, p.at), func() error { w.kill(p); return nil })
		add(1, fmt.Sprintf("%v stops at %q", p, p.at), func() error { w.stop(p); return nil })
		if name, ok := strings.CutPrefix(p.at, "before "); ok && !slices.Contains([]string{"dispatch", "handler", "reply"}, name) {
			add(1, fmt.Sprintf("%v loses %s", p, name), func() error { p.hurt = true; p.orders <- lose; return nil })
			add(1, fmt.Sprintf("%v loses the reply to %s", p, name), func() error { p.hurt = true; p.orders <- loseReply; return nil })
		}
		if !p.cut {
			add(1, fmt.Sprintf("%v cannot renew", p), func() error { w.set(p, true); return nil })
		} else {
			add(1, fmt.Sprintf("%v can renew", p), func() error { w.set(p, false); return nil })
		}
	}
	if living < 3 {
		add(4-living, "the token is presented", w.newWorker)
	}
	for _, d := range []time.Duration{lease / 20, lease / 10, lease / 2, lease, 2 * lease} {
		add(1, fmt.Sprintf("%v pass", d), func() error { time.Sleep(d); return nil })
	}
	if op := w.operation(); op != nil && op.State == ledger.Unknown {
		add(1, "the operator resolves", func() error { return w.resolve(op) })
	}
	return all
}

func (w *world) set(p *worker, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.cut, p.hurt = cut, true
}

func (w *world) stop(p *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.thaw, p.froze = make(chan struct{}), true
	p.hurt = true // whatever it does now may be too late
}

func (w *world) wake(p *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(p.thaw)
	p.thaw = nil
}

// kill ends a worker as kill -9 does.
func (w *world) kill(p *worker) {
	w.mu.Lock()
	p.dead = true
	if p.thaw != nil {
		close(p.thaw)
		p.thaw = nil
	}
	w.mu.Unlock()
	p.orders <- die
}

const byOperator = "found by the operator"

func (w *world) resolve(op *ledger.Operation) error {
	err := w.ledger.Resolve(context.Background(), op.ID, op.Fence, ledger.Resolution{
		State: ledger.Succeeded, Outcome: foil.EncodeOutcome([]byte(byOperator)), By: "operator",
	})
	if err == nil {
		w.resolved = true
	}
	return err
}

// run makes the moves that script says, lets everything come to its end, and
// returns what went wrong.
func (w *world) run(script []byte) error {
	defer w.end()
	for _, b := range script {
		all := w.moves()
		if err := w.make(all[int(b)%len(all)]); err != nil {
			return err
		}
	}
	return w.settle()
}

func (w *world) make(m move) error {
	w.logf("%s", m.name)
	err := m.do()
	synctest.Wait()
	return errors.Join(append(w.wrong, err)...)
}

// end lets nothing live on.
func (w *world) end() {
	for _, p := range w.workers {
		if !p.dead && !p.ended {
			w.kill(p)
		}
	}
	w.wg.Wait()
}

// finish lets one worker go on to its end.
func (w *world) finish(p *worker) error {
	if p.thaw != nil {
		w.wake(p)
	}
	w.set(p, false)
	for !p.ended && !p.dead {
		if err := w.make(move{fmt.Sprintf("%v leaves %q", p, p.at), func() error { p.orders <- goOn; return nil }}); err != nil {
			return err
		}
	}
	return nil
}

// settle lets every worker end, and checks what is left.
func (w *world) settle() error {
	for _, p := range w.workers {
		if err := w.finish(p); err != nil {
			return err
		}
	}
	time.Sleep(2 * lease)
	first, err := w.retry()
	if err != nil {
		return err
	}
	before := fmt.Sprint(w.calls)
	if again, err := w.retry(); err != nil || again != first {
		return errors.Join(err, fmt.Errorf("first %q, then %q", first, again))
	}
	if after := fmt.Sprint(w.calls); after != before {
		return fmt.Errorf("asking again changed the calls from %s to %s", before, after)
	}
	return w.judge(first)
}

// retry presents the token once more, and nothing interferes.
func (w *world) retry() (string, error) {
	if err := w.make(move{"the token is presented", w.newWorker}); err != nil {
		return "", err
	}
	p := w.workers[len(w.workers)-1]
	err := w.finish(p)
	return p.told, err
}

// judge compares the last answer with what was done.
func (w *world) judge(last string) error {
	op := w.operation()
	if op == nil {
		return errors.New("there is no operation")
	}
	unknowns, _, err := w.ledger.List(context.Background(), ledger.Query{State: ledger.Unknown})
	if err != nil {
		return err
	}
	result, isResult := strings.CutPrefix(last, "result ")
	if listed := len(unknowns) == 1; listed == isResult {
		return fmt.Errorf("a retry was told %q, and the operation is listed as unknown: %v", last, listed)
	}
	switch {
	case !isResult && (last != unknown || w.steps):
		return fmt.Errorf("a retry was told %q", last)
	case !isResult:
		return nil
	case op.State != ledger.Succeeded:
		return fmt.Errorf("a retry was told %q of an operation that is %v", last, op.State)
	case w.resolved:
		if result != byOperator {
			return fmt.Errorf("a retry was told %q of what an operator has resolved", last)
		}
		return nil
	}
	var want []string
	for _, step := range plan(w.steps) {
		if w.calls[step] == 0 {
			return fmt.Errorf("step %s was never done", step)
		}
		want = append(want, w.receipts[w.keys[step]])
	}
	if !bytes.Equal([]byte(result), []byte(strings.Join(want, ","))) {
		return fmt.Errorf("a retry was told %q, the receipts are %q", result, want)
	}
	return nil
}
