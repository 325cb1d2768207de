//go:build unix

package crash_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/mcpsdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The points at which a process can be caught, in the order in which it comes by
// them. None of them is in the code under test: they are in a ledger around the
// ledger, in middleware around Protect and within, and in the handler.
const (
	arrive        = "arrive" // outside of Protect
	beforeBegin   = "before begin"
	afterBegin    = "after begin" // it is written down, and the process does not know yet
	beforeResume  = "before resume"
	afterResume   = "after resume"
	beforeHandler = "before handler"
	beforeInput   = "before input" // the claim is redeemed, and not kept yet
	afterInput    = "after input"
	afterHandler  = "after handler"
	beforeRecord  = "before record"
	afterRecord   = "after record"
	beforeReply   = "before reply"
)

func beforeStep(i int) string   { return fmt.Sprintf("before step %d", i) }
func afterStep(i int) string    { return fmt.Sprintf("after step %d", i) } // its begin is written down
func beforeEffect(i int) string { return fmt.Sprintf("before effect %d", i) }
func afterEffect(i int) string  { return fmt.Sprintf("after effect %d", i) }
func beforeDone(i int) string   { return fmt.Sprintf("before done %d", i) }
func afterDone(i int) string    { return fmt.Sprintf("after done %d", i) }

// The tools, and the steps of the one that has any.
const (
	whole = "whole" // one effect, not resumable
	steps = "steps" // resumable
	parts = 3
)

func stepName(i int) string { return fmt.Sprintf("step %d", i) }

// pointsOf are the points that one process alone comes by.
func pointsOf(tool string) []string {
	all := []string{arrive, beforeBegin, afterBegin, beforeHandler}
	if tool == whole {
		all = append(all, beforeEffect(0), afterEffect(0))
	} else {
		all = append(all, beforeInput, afterInput)
		for i := range parts {
			all = append(all, beforeStep(i), afterStep(i), beforeEffect(i), afterEffect(i), beforeDone(i), afterDone(i))
		}
	}
	return append(all, afterHandler, beforeRecord, afterRecord, beforeReply)
}

// A pause is the point at which this process waits for its parent, once.
type pause struct {
	point string
	hit   atomic.Bool
	goOn  chan struct{}
}

func newPause() *pause {
	return &pause{point: os.Getenv("FOIL_CRASH_POINT"), goOn: make(chan struct{})}
}

func (p *pause) here(point, flow string) {
	if p.point == point && p.hit.CompareAndSwap(false, true) {
		fmt.Println("at", flow)
		<-p.goOn
	}
}

// A pausing ledger stops before and after the calls of another. It also knows which
// fence this process has, which no handler is told.
type pausing struct {
	ledger.Store
	*pause
	slow func(time.Duration) // is told how long each renewal took

	mu     sync.Mutex
	flows  map[[ledger.IDLen]byte]string
	fences map[string]uint64
}

func (p *pausing) took(op *ledger.Operation) string {
	flow := base64.RawURLEncoding.EncodeToString(op.Flow[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flows[op.ID], p.fences[flow] = flow, op.Fence
	return flow
}

func (p *pausing) flow(id [ledger.IDLen]byte) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flows[id]
}

func (p *pausing) fence(flow string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fences[flow]
}

func (p *pausing) Begin(ctx context.Context, s *ledger.Start) (*ledger.Operation, bool, error) {
	p.here(beforeBegin, base64.RawURLEncoding.EncodeToString(s.Flow[:]))
	op, started, err := p.Store.Begin(ctx, s)
	if started {
		p.here(afterBegin, p.took(op))
	}
	return op, started, err
}

func (p *pausing) Resume(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) (*ledger.Operation, error) {
	p.here(beforeResume, "")
	op, err := p.Store.Resume(ctx, id, fence, lease)
	if err == nil {
		p.here(afterResume, p.took(op))
	}
	return op, err
}

func (p *pausing) Renew(ctx context.Context, id [ledger.IDLen]byte, fence uint64, lease time.Duration) error {
	began := time.Now()
	err := p.Store.Renew(ctx, id, fence, lease)
	p.slow(time.Since(began))
	return err
}

func (p *pausing) BeginStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, lease time.Duration) (ledger.Step, error) {
	p.here("before "+name, p.flow(id))
	s, err := p.Store.BeginStep(ctx, id, fence, name, lease)
	p.here("after "+name, p.flow(id))
	return s, err
}

func (p *pausing) EndStep(ctx context.Context, id [ledger.IDLen]byte, fence uint64, name string, result []byte, lease time.Duration) error {
	what := "input"
	if i, ok := strings.CutPrefix(name, "step "); ok {
		what = "done " + i
	}
	p.here("before "+what, p.flow(id))
	err := p.Store.EndStep(ctx, id, fence, name, result, lease)
	p.here("after "+what, p.flow(id))
	return err
}

func (p *pausing) Finish(ctx context.Context, id [ledger.IDLen]byte, fence uint64, f ledger.Finish) error {
	p.here(beforeRecord, p.flow(id))
	err := p.Store.Finish(ctx, id, fence, f)
	p.here(afterRecord, p.flow(id))
	return err
}

// outside stands around Protect.
func (w *worker) outside(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, ok := req.(*mcp.CallToolRequest)
		if !ok || r.Params.RequestState == "" {
			return next(ctx, method, req)
		}
		w.here(arrive, "")
		res, err := next(ctx, method, req)
		w.here(beforeReply, "")
		return res, err
	}
}

// inside stands between Protect and the handler, and tells the provider of every
// handler that is to execute.
func (w *worker) inside(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		o := mcpsdk.Opened(ctx)
		if o == nil || o.Execution() == nil {
			return next(ctx, method, req)
		}
		e := w.event(ctx, "start", req.(*mcp.CallToolRequest))
		if _, err := tell(context.WithoutCancel(ctx), w.provider, e); err != nil {
			return nil, err
		}
		w.here(beforeHandler, e.Flow)
		res, err := next(ctx, method, req)
		e.Kind = "end"
		if _, err := tell(context.WithoutCancel(ctx), w.provider, e); err != nil {
			return nil, err
		}
		w.here(afterHandler, e.Flow)
		return res, err
	}
}
