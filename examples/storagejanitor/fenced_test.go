package storagejanitor_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/examples/storagejanitor"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/mcpsdk"
)

// A process that was stopped for so long that another took over deletes nothing
// more, wherever it was.
func TestFencedPurgeStops(t *testing.T) {
	for _, at := range []string{"end input", "begin begin", "end begin", "begin delete 2", "end delete 2"} {
		t.Run(at, func(t *testing.T) {
			f := newSettled(t)
			var log bytes.Buffer
			f.janitor.Logger = slog.New(slog.NewTextHandler(&log, nil))
			a, all := five(t, f.fixture)
			asked := purge(t, f.manual(t), a)
			s := &sleepy{dying: dying{Store: f.memory, at: at}, sleep: func(id [ledger.IDLen]byte, fence uint64) {
				f.leaseEnds()
				if _, err := f.memory.Resume(t.Context(), id, fence, time.Minute); err != nil {
					t.Error(err)
				}
			}}
			f.replica(t, s)
			_, err := retry(t, f.manual(t), a, asked, yes(""))
			noOutcome(t, err, "operation_unknown")
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "another call has taken it over") {
				t.Errorf("logged\n%s", got)
			}
			gone := 0
			switch at {
			case "begin delete 2":
				gone = 2
			case "end delete 2":
				gone = 3
			}
			f.keeps(t, all[gone:]...)
			if len(f.deleted) != gone || s.after > 0 {
				t.Errorf("deleted %q, and went on to %d steps", f.deleted, s.after)
			}
			if op := f.operation(t); op.State != ledger.Executing || op.Fence != 2 {
				t.Errorf("the other's operation is %v, fence %d", op.State, op.Fence)
			}
		})
	}
}

// A sleepy ledger lets somebody take the operation over before a call.
type sleepy struct {
	dying
	sleep func(id [ledger.IDLen]byte, fence uint64)
	after int // calls of steps that came later
}

func (s *sleepy) wake(id [ledger.IDLen]byte, fence uint64, call string) {
	switch was := s.dead; {
	case was:
		s.after++
	case s.dies(call) != nil:
		s.sleep(id, fence)
	}
}

func (s *sleepy) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	s.wake(id, fence, "begin "+name)
	return s.Store.BeginStep(ctx, id, fence, name, lease)
}

func (s *sleepy) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	s.wake(id, fence, "end "+name)
	return s.Store.EndStep(ctx, id, fence, name, result, lease)
}

func (s *sleepy) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	return s.Store.Finish(ctx, id, fence, f)
}

// A context that ends within the handler says that the operation was lost: that is
// an error, and no purge with some left. That the client goes says nothing.
func TestSettledPurgeAndContexts(t *testing.T) {
	for name, lost := range map[string]bool{"operation lost": true, "client gone": false} {
		t.Run(name, func(t *testing.T) {
			f := newSettled(t)
			a, all := five(t, f.fixture)
			var stop context.CancelCauseFunc
			f.janitor.OnDelete = func(string) { stop(ledger.ErrFenced) }
			cancelling := func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					ctx, cancel := context.WithCancelCause(ctx)
					defer cancel(nil)
					stop = cancel
					return next(ctx, method, req)
				}
			}
			j, err := storagejanitor.New(&f.janitor)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { j.Close() })
			s := mcp.NewServer(&mcp.Implementation{Name: "storage-janitor", Version: "test"}, nil)
			j.Register(s)
			within := []mcp.Middleware{mcpsdk.Protect(f.guard, &f.protect), cancelling}
			if !lost {
				slices.Reverse(within)
			}
			s.AddReceivingMiddleware(within...)
			cs := connect(t, s, newClient(&asker{}, true), modern)
			asked := purge(t, cs, a)
			res := mustRetry(t, cs, a, asked, yes(""))
			if !lost {
				output(t, res, storagejanitor.OutcomePurged)
				return
			}
			if !res.IsError || strings.Contains(textOf(res), "left") {
				t.Errorf("told %q", textOf(res))
			}
			f.keeps(t, all[1:]...)
			if op := f.operation(t); op.State != ledger.Unknown {
				t.Errorf("the operation is %v", op.State)
			}
		})
	}
}
