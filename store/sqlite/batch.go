package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// maxBatch bounds how many calls share one commit.
const maxBatch = 256

// errLocked is the cause when a call's own timeout ends it.
var errLocked = errors.New("database is locked, or too slow: no turn to write within the timeout")

// What has become of an op. The step from waiting is taken once, either by its
// caller, who gives up, or by run, which then carries it out.
const (
	opWaiting = iota
	opRunning
	opAbandoned
)

// op is one call that waits to be carried out in somebody's transaction.
type op struct {
	fn    func(*conn) error
	state atomic.Int32
	done  chan error // of capacity 1, so that an abandoned op blocks nobody
}

// slow is the timeout of what operators ask for, which may change every row.
const slow = time.Hour

// write carries fn out in a transaction that it shares with other calls, and
// returns once that transaction is committed. An error from fn undoes the whole
// transaction, so fn returns one only for what SQLite reports; its own findings
// it leaves in variables, which are good if and only if write returns nil. fn
// may still run after write has returned an error.
func (s *Store) write(ctx context.Context, fn func(*conn) error) error {
	return s.writeWithin(ctx, s.opts.Timeout, fn)
}

// writeWithin is write with another timeout.
func (s *Store) writeWithin(ctx context.Context, timeout time.Duration, fn func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errLocked)
	defer cancel()
	o := &op{fn: fn, done: make(chan error, 1)}
	if !s.enqueue(o) {
		return ErrClosed
	}
	var err error
	select {
	case err = <-o.done:
	case <-ctx.Done():
		if o.state.CompareAndSwap(opWaiting, opAbandoned) {
			return fmt.Errorf("sqlite: nothing was written: %w", context.Cause(ctx))
		}
		select {
		case err = <-o.done:
		default:
			return fmt.Errorf("sqlite: the write is under way, its outcome unknown: %w", context.Cause(ctx))
		}
	}
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}

// enqueue adds o and, if nobody is at it, starts a goroutine that works until
// the queue is empty. That it is not the caller's own lets every caller return
// as soon as its context ends.
func (s *Store) enqueue(o *op) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.queue = append(s.queue, o)
	if !s.running {
		s.running = true
		go s.run()
	}
	return true
}

func (s *Store) run() {
	for {
		batch := s.take()
		if batch == nil {
			return
		}
		s.carryOut(batch)
		// Let the callers that were just answered come back first: they then
		// share the next commit instead of waiting for the one after it.
		runtime.Gosched()
	}
}

// take removes up to maxBatch ops from the queue. With none left it returns
// nil, and run is over.
func (s *Store) take() []*op {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), maxBatch)
	if n == 0 {
		s.queue = nil
		s.running = false
		if s.closed {
			close(s.idle)
		}
		return nil
	}
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	return batch
}

// carryOut answers every op of batch.
func (s *Store) carryOut(batch []*op) {
	live, err := s.begin(batch)
	if err == nil && len(live) > 0 {
		err = s.commit(live)
	}
	for _, o := range live {
		o.done <- err
	}
	if s.onBatch != nil && len(live) > 0 {
		s.onBatch(len(live))
	}
}

// begin starts a transaction and returns the ops that did not give up before
// it began. It tries for as long as somebody waits: each op has its timeout.
func (s *Store) begin(batch []*op) (live []*op, err error) {
	bg := context.Background() // the callers' contexts must not tear a shared transaction
	for {
		err = s.connected()
		if err == nil {
			_, err = s.conn.begin.ExecContext(bg)
		}
		if err == nil || !isBusy(err) {
			break
		}
		waiting := batch[:0]
		for _, o := range batch {
			if o.state.Load() == opWaiting {
				waiting = append(waiting, o)
			}
		}
		if batch = waiting; len(batch) == 0 {
			return nil, nil
		}
		if s.conn == nil {
			time.Sleep(lockWait / 5) // not every step of connecting waits by itself
		}
	}
	for _, o := range batch {
		if o.state.CompareAndSwap(opWaiting, opRunning) {
			live = append(live, o)
		}
	}
	if err != nil {
		s.drop()
		return live, plain(err)
	}
	if len(live) == 0 {
		s.rollback()
	}
	return live, nil
}

// commit carries out live in the transaction that has begun. On an error
// nothing of it is in the file, except if COMMIT itself failed: then that is
// unknown.
func (s *Store) commit(live []*op) (err error) {
	bg := context.Background()
	defer func() {
		if err != nil {
			s.rollback()
			s.salvage()
		}
	}()
	if err := s.checkFiles(); err != nil {
		return err
	}
	c := s.conn
	if err := c.readMarks.QueryRowContext(bg).Scan(&c.marks.spent, &c.marks.operations, &c.marks.restored); err != nil {
		return fmt.Errorf("reading the marks: %w", plain(err))
	}
	for _, o := range live {
		if err := o.fn(c); err != nil {
			return plain(err)
		}
	}
	if err := s.sweepInPassing(c); err != nil {
		return plain(err)
	}
	if _, err := c.commit.ExecContext(bg); err != nil {
		return fmt.Errorf("commit: %w", plain(err))
	}
	return nil
}

// rollback ends the transaction. If it cannot, for instance because SQLite has
// done so already, the connection goes: closing it rolls back for certain.
func (s *Store) rollback() {
	if _, err := s.conn.rollback.ExecContext(context.Background()); err != nil {
		s.drop()
	}
}

func (s *Store) drop() {
	s.conn.close()
	s.lock.drop()
	s.conn = nil
}

// connected connects again after the connection was dropped.
func (s *Store) connected() (err error) {
	if s.conn == nil {
		s.conn, err = s.connect(context.Background())
	}
	return err
}
