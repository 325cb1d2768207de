//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/foilmcp/foil/ledger"
)

// errBusy says that a process was held up for so long by the machine that its lease
// may have lapsed, so that what a trial found proves nothing.
var errBusy = errors.New("the machine is too busy")

// excuse gives errBusy instead of err if a process that nobody had struck was held
// up during the trial.
func (t *trial) excuse(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	events, jerr := journalOf(ctx, t.provider.url, t.name)
	if jerr != nil {
		return errors.Join(err, jerr)
	}
	for _, e := range events {
		if e.Kind == "stall" && (!slices.Contains(t.struck, e.PID) || t.action == linger || t.action == kill) {
			return fmt.Errorf("%w: %w", errBusy, err)
		}
	}
	return err
}

// judge compares what happened with what had to.
func (t *trial) judge(ctx context.Context) error {
	events, err := journalOf(ctx, t.provider.url, t.name)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Kind == "start" {
			t.flow = e.Flow
		}
	}
	if t.flow == "" {
		t.flow = t.first.flow
	}
	if err := t.dispatches(events); err != nil {
		return err
	}
	receipts, err := t.effects(events)
	if err != nil {
		return err
	}
	loose := slices.Contains(t.points, anytime)
	op, err := t.operation(ctx)
	if err != nil {
		return err
	}
	if !loose && op.Fence != t.fate.fence {
		return fmt.Errorf("the fence is %d, want %d", op.Fence, t.fate.fence)
	}
	resolved := t.action == resolve && t.fate.fence > 1 && op.ResolvedBy != ""
	switch t.first.kind {
	case isResult:
		if !loose && !t.fate.finished {
			return fmt.Errorf("retries get %v of an operation that was cut off", t.first)
		}
		if op.State != ledger.Succeeded {
			return fmt.Errorf("the ledger says %v, and retries get %v", op.State, t.first)
		}
		if want, _ := json.Marshal(receipts); !resolved && t.first.text != string(want) {
			return fmt.Errorf("retries get %v, the receipts are %s", t.first, want)
		}
	case isUnknown:
		if t.tool == steps || !loose && t.fate.finished {
			return fmt.Errorf("retries get %v of an operation that could be carried out", t.first)
		}
		if _, err := t.unknown(ctx); err != nil || t.first.flow != t.flow {
			return fmt.Errorf("flow %s: retries get %v, %v", t.flow, t.first, err)
		}
		if in, err := t.listed(ctx); err != nil || !in {
			return fmt.Errorf("the unknown operation is listed: %v, %v", in, err)
		}
	default:
		return fmt.Errorf("retries get %v", t.first)
	}
	return t.after(ctx)
}

// dispatches checks that every handler that was started had a fence of its own, and
// that the one before had ended or been struck.
func (t *trial) dispatches(events []event) error {
	var running *event
	last := uint64(0)
	for _, e := range events {
		switch e.Kind {
		case "start":
			if e.Fence <= last {
				return fmt.Errorf("a handler started under fence %d after one under %d", e.Fence, last)
			}
			if running != nil && !slices.Contains(t.struck, running.PID) {
				return fmt.Errorf("a handler started under fence %d while that under %d was alive", e.Fence, running.Fence)
			}
			last, running = e.Fence, &e
		case "end":
			if running != nil && running.PID == e.PID {
				running = nil
			}
		}
		if e.Flow != "" && e.Flow != t.flow {
			return fmt.Errorf("one approval has flows %s and %s", t.flow, e.Flow)
		}
	}
	return nil
}

// effects checks that nothing was done twice and as often asked for as it had to be,
// and that nobody went on after another had taken over but with the one call that
// it was about to make.
func (t *trial) effects(events []event) (receipts []string, err error) {
	n := parts
	if t.tool == whole {
		n = 1
	}
	loose := slices.Contains(t.points, anytime)
	var late, current uint64
	for i := range n {
		calls, keys := 0, make(map[string]string)
		for _, e := range events {
			if e.Kind == "effect" && e.Step == stepName(i) {
				calls++
				if !e.Again && keys[e.Key] != "" {
					return nil, fmt.Errorf("%s was done again under the same key", e.Step)
				}
				keys[e.Key] = e.Receipt
			}
		}
		if len(keys) > 1 {
			return nil, fmt.Errorf("%s was done %d times, under as many keys", stepName(i), len(keys))
		}
		for _, r := range keys {
			receipts = append(receipts, r)
		}
		want := t.fate.calls[i]
		switch {
		case t.tool == whole && calls > 1:
			return nil, fmt.Errorf("what cannot be resumed was called %d times", calls)
		case loose:
			if t.tool == steps && (calls < 1 || calls > 2) {
				return nil, fmt.Errorf("%s was called %d times after one kill", stepName(i), calls)
			}
		case t.tool == whole && t.action == resolve && t.points[0] == beforeHandler && calls == 1:
			// It had been dispatched, and its context ended too late.
		case calls != want:
			return nil, fmt.Errorf("%s was called %d times, want %d", stepName(i), calls, want)
		}
	}
	for _, e := range events {
		switch {
		case e.Kind == "start":
			current = e.Fence
		case e.Kind == "effect" && e.Fence < current:
			if late++; late > 1 || t.action == kill {
				return nil, fmt.Errorf("a process under fence %d went on after %d had started", e.Fence, current)
			}
		}
	}
	return receipts, nil
}

// after checks what holds once there is an outcome: the same bytes for everybody
// who asks again, and nothing for other answers; and that an operator ends what is
// unknown.
func (t *trial) after(ctx context.Context) error {
	for range 2 {
		again, err := t.retries(ctx)
		if err != nil {
			return err
		}
		if again.body != t.first.body {
			return fmt.Errorf("first %v, then %v", t.first, again)
		}
	}
	if a, err := call(ctx, t.replicas[0].url, t.tool, t.name, t.state, "decline"); err != nil || a.kind != isRefusal {
		return fmt.Errorf("other answers got %v, %v", a, err)
	}
	if t.first.kind == isUnknown {
		if err := t.resolve(ctx); err != nil {
			return err
		}
		a, err := t.retries(ctx)
		if err != nil || a.kind != isResult || a.text != "found by the operator" {
			return fmt.Errorf("after the operator resolved it a retry got %v, %v", a, err)
		}
		if in, err := t.listed(ctx); err != nil || in {
			return fmt.Errorf("what was resolved is listed as unknown: %v, %v", in, err)
		}
	}
	was, err := journalOf(ctx, t.provider.url, t.name)
	if err != nil {
		return err
	}
	_, err = t.effects(was) // nothing was done by asking
	return err
}
