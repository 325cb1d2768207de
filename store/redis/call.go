package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxBatch and maxBatchBytes bound how much goes to the server at one time.
	maxBatch      = 128
	maxBatchBytes = 4 << 20

	// maxWorkers is how many batches may be under way. While there are fewer a
	// call goes at once, so nobody waits for company.
	maxWorkers = 4
)

var errSlow = errors.New("server is too slow: no answer within the timeout")

// What has become of a call. The step from waiting is taken once, either by its
// caller, who gives up, or by a worker, which then sends it.
const (
	callWaiting = iota
	callSent
	callAbandoned
)

// call is one run of a script.
type call struct {
	script *script
	args   []any
	size   int
	state  atomic.Int32
	done   chan struct{} // closed when reply and err are set
	reply  []any
	err    error
}

// do runs a script and returns its reply, the first element of which says what
// became of it. Concurrent calls share the way to the server and back.
//
// The call may outlive its caller, so args hold nothing that is the caller's.
//
// A connection that is lost on the way leaves open whether the script ran. One that
// may be asked again is, once: the attempt mark in its arguments tells the server
// that it is the same call.
func (s *Store) do(ctx context.Context, sc *script, args ...any) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Timeout, errSlow)
	defer cancel()
	c := &call{script: sc, args: append([]any{s.id}, args...), done: make(chan struct{})}
	for _, a := range args {
		switch a := a.(type) {
		case []byte:
			c.size += len(a)
		case string:
			c.size += len(a)
		}
	}
	if !s.enqueue(c) {
		return nil, ErrClosed
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.state.CompareAndSwap(callWaiting, callAbandoned) {
			return nil, fmt.Errorf("redis: nothing was sent: %w", context.Cause(ctx))
		}
		select {
		case <-c.done:
		default:
			return nil, fmt.Errorf("redis: the call is under way, its outcome unknown: %w", context.Cause(ctx))
		}
	}
	if c.err != nil {
		return nil, readable(c.err)
	}
	switch text(c.reply[0]) {
	case "gone":
		return nil, ErrReplaced
	case "damaged":
		return nil, errors.New("redis: spent IDs were taken out of the database by somebody else; see foil store fsck")
	}
	return c.reply, nil
}

// enqueue adds c and starts a worker unless enough are at it.
func (s *Store) enqueue(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.queue = append(s.queue, c)
	if s.workers < maxWorkers {
		s.workers++
		s.idle.Go(s.work)
	}
	return true
}

func (s *Store) work() {
	for {
		batch := s.take()
		if batch == nil {
			return
		}
		s.carryOut(batch)
	}
}

// take removes a batch from the queue. With none left it returns nil, and the
// worker is done.
func (s *Store) take() []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, 0
	for n < len(s.queue) && n < maxBatch && (n == 0 || size+s.queue[n].size <= maxBatchBytes) {
		size += s.queue[n].size
		n++
	}
	if n == 0 {
		s.queue = nil
		s.workers--
		return nil
	}
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	return batch
}

// carryOut answers every call of batch.
func (s *Store) carryOut(batch []*call) {
	live := batch[:0]
	for _, c := range batch {
		if c.state.CompareAndSwap(callWaiting, callSent) {
			live = append(live, c)
		}
	}
	if len(live) == 0 {
		return
	}
	// Not a caller's context: one that gives up must not tear the others' way.
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.opts.Timeout, errSlow)
	defer cancel()
	s.send(ctx, live)
	var again []*call
	for _, c := range live {
		lost := c.err != nil && !refused(c.err) && !errors.Is(c.err, ErrServer) && !errors.Is(c.err, ErrReplicas)
		if lost {
			s.checked.Store(0) // whoever answers next may be another server
		}
		if lost && c.script.again || says(c.err, "NOSCRIPT", "MOVED") {
			again = append(again, c)
		}
	}
	if len(again) > 0 && ctx.Err() == nil {
		if err := s.prepare(ctx, again); err != nil {
			for _, c := range again {
				c.err = err
			}
		} else {
			s.send(ctx, again)
		}
	}
	for _, c := range live {
		if c.err == nil && len(c.reply) == 0 {
			c.err = errors.New("empty reply")
		}
		close(c.done)
	}
}

// prepare makes ready for sending calls again.
func (s *Store) prepare(ctx context.Context, calls []*call) error {
	for _, c := range calls {
		if cluster, ok := s.client.(*redis.ClusterClient); ok && !says(c.err, "NOSCRIPT") {
			cluster.ReloadState(ctx)
			break
		}
	}
	node, err := s.node(ctx)
	if err != nil {
		return err
	}
	if err := s.load(ctx, node); err != nil {
		return err
	}
	return nil
}

// send sends calls over one connection and sets their replies and errors. With
// Options.Replicas a write and WAIT follow on the same connection, so that what others
// wrote and these have read is covered as well.
func (s *Store) send(ctx context.Context, calls []*call) {
	fail := func(err error) {
		for _, c := range calls {
			c.reply, c.err = nil, err
		}
	}
	node, err := s.node(ctx)
	if err == nil {
		err = s.look(ctx, node)
	}
	if err != nil {
		fail(err)
		return
	}
	pipe := node.Pipeline()
	write := false
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		write = write || c.script.write
		cmds[i] = s.eval(ctx, pipe, c.script, c.args)
	}
	var touch, wait *redis.Cmd
	if write && s.opts.Replicas > 0 {
		touch = s.eval(ctx, pipe, scriptTouch, []any{s.id})
		wait = pipe.Do(ctx, "WAIT", s.opts.Replicas, s.opts.WaitTimeout.Milliseconds())
	}
	_, err = pipe.Exec(ctx)
	for i, c := range calls {
		c.reply, c.err = cmds[i].Slice()
		if c.err == nil && err != nil && !refused(err) {
			c.err = err // the connection ended in the midst: trust none of it
		}
	}
	if wait == nil {
		return
	}
	for _, c := range calls {
		if c.err == nil && c.script.write {
			c.err = quorum(touch, wait, s.opts.Replicas)
		}
		if c.err != nil {
			c.reply = nil
		}
	}
}

// quorum reports whether enough replicas have what was written.
func quorum(touch, wait *redis.Cmd, want int) error {
	if err := touch.Err(); err != nil {
		return err
	}
	n, err := wait.Int()
	if err != nil {
		return err
	}
	if n < want {
		return fmt.Errorf("%w: %d of %d", ErrReplicas, n, want)
	}
	return nil
}

func (s *Store) eval(ctx context.Context, pipe redis.Pipeliner, sc *script, args []any) *redis.Cmd {
	if s.clock != nil {
		now := s.clock()
		args = append(args[:len(args):len(args)], now.UnixMicro(), now.Add(time.Microsecond-1).UnixMicro())
	}
	return pipe.EvalSha(ctx, sc.form(s.clock != nil).sha, []string{s.meta}, args...)
}

// text is an element of a reply; "" if there is none.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// number is an element of a reply that is a number, as Redis has it or as text.
func number(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, errors.New("redis: a number in the database is none")
		}
		return n, nil
	}
	return 0, errors.New("redis: a number is missing in the database")
}

// field returns the element of a list, nil beyond its end.
func field(reply []any, i int) any {
	if i >= len(reply) {
		return nil
	}
	return reply[i]
}

// sinceSweep counts a write and returns how many rows to sweep in passing: twice as
// many as were written since the last time, so that it keeps up, and mostly none.
func (s *Store) sinceSweep() int64 {
	const every = 256
	if s.uses.Add(1)%every == 1 {
		return 2 * every
	}
	return 0
}

// attemptLen is the length of the name of one presentation.
const attemptLen = 16

// ended tells a server that is out of memory.
func isFull(err error) bool { return says(err, "OOM") }

// makeRoom sweeps once, for a server that is full, and reports whether that helped.
func (s *Store) makeRoom(ctx context.Context) bool {
	n, err := s.sweep(ctx, sweepChunk)
	return err == nil && n.Spent+n.Claims+n.Handles+n.Operations > 0
}

// room runs a script that needs room, and once more if sweeping made some.
func (s *Store) room(ctx context.Context, sc *script, args ...any) ([]any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Timeout, errSlow) // for all of it
	defer cancel()
	reply, err := s.do(ctx, sc, args...)
	if isFull(err) && s.makeRoom(ctx) {
		reply, err = s.do(ctx, sc, args...)
	}
	return reply, err
}

// timeAt is a moment that a script wrote; the zero time if it wrote none.
func timeAt(v any) (time.Time, error) {
	if v == nil {
		return time.Time{}, nil
	}
	ms, err := number(v)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(ms), nil
}
