//go:build linux || darwin

package linear_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
	"github.com/foilmcp/foil/ledger"
)

// payload is what every claim is for.
const payload = "plan"

// A cell is what a store that does one thing after the other keeps under one key.
type cell struct {
	Spent   bool   // replay
	By      string // claims
	Revoked bool
	Op      op // ledger
}

type op struct {
	State   ledger.State // 0: there is none
	Fence   uint64
	Outcome string
	Found   bool // by an operator
	Done    bool // the step
	Result  string
}

// model is the sequential store.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := make(map[int][]porcupine.Operation)
		for _, o := range history {
			k := o.Input.(in).Key
			byKey[k] = append(byKey[k], o)
		}
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return cell{} },
	Step: func(state, input, output any) (bool, any) {
		got := output.(out)
		want, next := state.(cell).step(input.(in))
		switch {
		case got.Open:
			return true, next // nobody heard of it: it may have given anything
		case next.Op.Found && input.(in).Op == finish && want.OK:
			// No process has the fence of an operator's finding. Whether it is
			// "recorded already" for one that says so is left to the store.
			return got == want || got == out{Refused: true}, next
		}
		return got == want, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
}

// step is what a call gives, and what it leaves behind.
func (c cell) step(i in) (want out, next cell) {
	o := &c.Op
	mine := o.State != 0 && o.Fence == i.Fence
	executing := mine && o.State == ledger.Executing
	refused := out{Refused: true}
	switch i.Op {
	case use:
		want = out{OK: !c.Spent}
		c.Spent = true
	case redeem:
		if c.Revoked || c.By != "" && c.By != i.By {
			return refused, c
		}
		c.By, want = i.By, out{OK: true, Text: payload}
	case revoke:
		c.Revoked, want = true, out{OK: true}
	case begin:
		want.OK = o.State == 0
		if want.OK {
			*o = op{State: ledger.Executing, Fence: 1}
		}
		want.see(o.view())
	case get:
		if o.State == 0 {
			return refused, c
		}
		want.OK = true
		want.see(o.view())
	case beginStep:
		if !executing {
			return refused, c
		}
		want = out{OK: true, Text: o.Result}
	case endStep:
		if !executing || o.Done {
			return refused, c
		}
		o.Done, o.Result, want = true, i.Text, out{OK: true}
	case finish:
		if !mine || o.State == ledger.Succeeded && o.Outcome != i.Text {
			return refused, c
		}
		o.State, o.Outcome, want = ledger.Succeeded, i.Text, out{OK: true}
	case unsure:
		if !mine || o.State == ledger.Succeeded {
			return refused, c
		}
		o.State, want = ledger.Unknown, out{OK: true}
	case resume:
		if !mine || o.State != ledger.Unknown {
			return refused, c
		}
		o.State, o.Fence, want = ledger.Executing, o.Fence+1, out{OK: true}
		want.see(o.view())
	case resolve:
		if !mine || o.State != ledger.Unknown {
			return refused, c
		}
		o.State, o.Outcome, o.Found = ledger.Succeeded, i.Text, true
		o.Fence, want = o.Fence+1, out{OK: true}
	}
	return want, c
}

func (o op) view() *ledger.Operation {
	return &ledger.Operation{State: o.State, Fence: o.Fence, Outcome: []byte(o.Outcome)}
}

// history is what the checker reads of the calls to one object.
func history(all []call, object string) (h []porcupine.Operation) {
	for _, c := range all {
		if c.Object != object {
			continue
		}
		o := porcupine.Operation{ClientId: c.Client, Input: c.in, Call: c.Began, Output: c.Out, Return: c.Returned}
		if c.Out.Open {
			// Its error says nothing, and it may still be under way.
			o.Return, o.Output = math.MaxInt64, out{Open: true}
		}
		h = append(h, o)
	}
	return h
}

// contended is how many keys of an object two processes used at the same moment.
func contended(all []call, object string) int {
	keys := make(map[int]bool)
	byKey := make(map[int][]call)
	for _, c := range all {
		if c.Object == object && !c.Out.Open {
			byKey[c.Key] = append(byKey[c.Key], c)
		}
	}
	for key, calls := range byKey {
		slices.SortFunc(calls, func(a, b call) int { return int(a.Began - b.Began) })
		var last call // of those so far the one that returned last
		for _, c := range calls {
			if c.Began < last.Returned && c.Process != last.Process {
				keys[key] = true
			}
			if c.Returned > last.Returned {
				last = c
			}
		}
	}
	return len(keys)
}
