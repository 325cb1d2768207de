//go:build linux || darwin

package linear_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/dsn"
)

// The objects that are looked at, each for itself.
const (
	replays = "replay"
	claims  = "claims"
	ledgers = "ledger"
)

// What is called.
const (
	use       = "Use"
	redeem    = "Redeem"
	revoke    = "Revoke"
	begin     = "Begin"
	get       = "Get"
	beginStep = "BeginStep"
	endStep   = "EndStep"
	finish    = "Finish"
	unsure    = "Finish as unknown"
	resume    = "Resume"
	resolve   = "Resolve"
)

// An in is what a call asks for.
type in struct {
	Object, Op string
	Key        int
	By         string // Redeem
	Fence      uint64
	Text       string // the outcome
}

// An out is what a call gave. Open is set if nobody knows whether it happened.
type out struct {
	Open    bool
	OK      bool // first, started, done, or not refused
	Refused bool // ErrRedeemed, ErrFenced or ErrNotFound
	State   ledger.State
	Fence   uint64
	Text    string
	Error   string
}

// A call is one call of one client, from Began to Returned.
type call struct {
	in
	Number          int64
	Process, Client int
	Began, Returned int64
	Out             out
}

func draw(rnd *rand.Rand, object string, key int, seen map[int]uint64, first bool) in {
	c := in{Object: object, Key: key}
	switch object {
	case replays:
		c.Op = use
	case claims:
		c.Op, c.By = redeem, string(rune('a'+rnd.IntN(4)))
		if rnd.IntN(30) == 0 {
			c.Op = revoke
		}
	case ledgers:
		ops := []string{begin, begin, get, get, beginStep, endStep, unsure, unsure, resume, resume, resume, finish, resolve}
		c.Op = ops[rnd.IntN(len(ops))]
		c.Fence = max(1, seen[key])
		if rnd.IntN(4) == 0 {
			c.Fence = 1 + uint64(rnd.IntN(4))
		}
		if (c.Op == finish || c.Op == resolve) && rnd.IntN(3) > 0 {
			c.Op = get // or every operation would end at once
		}
		if first {
			c.Op = begin // all at once
		}
		c.Text = string(rune('x' + rnd.IntN(2)))
	}
	return c
}

// objects are the faces of a store.
type objects struct {
	run    []byte
	claim  []string
	replay replay.Store
	claims claimcheck.Store
	ledger ledger.Store
}

const hour = time.Hour

func openObjects(ctx context.Context, p *plan) (*objects, error) {
	s, err := dsn.Open(ctx, p.DSN, &dsn.Options{PlainAtRest: true, Timeout: time.Minute, Migrate: true})
	if err != nil {
		return nil, err
	}
	o := &objects{run: p.Run, claim: p.Claims, replay: s.Replay(), claims: s.Claims(), ledger: s.Ledger()}
	switch p.Fault {
	case "reads, then writes":
		o.replay, o.ledger = &readThenWriteReplay{ledger: s.Ledger()}, &readThenWriteLedger{s.Ledger()}
	case "keeps who redeemed to itself":
		o.claims = &forgetful{Store: s.Claims(), bound: make(map[string]string)}
	case "accepts an old fence":
		o.ledger = &unfenced{s.Ledger()}
	case "answers from a copy":
		o.ledger = &stale{Store: s.Ledger(), copies: make(map[[16]byte]*ledger.Operation)}
	}
	return o, nil
}

// id is that of a key in this run; it is minted now, as far as a store cares.
func (o *objects) id(key int) (id [16]byte) {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(append([]byte(nil), o.run...), uint32(key)))
	copy(id[:], sum[:])
	copy(id[:6], o.run[:6])
	return id
}

func (o *objects) do(ctx context.Context, c *in) (r out) {
	id := o.id(c.Key)
	var err error
	switch c.Op {
	case use:
		r.OK, err = o.replay.Use(ctx, id[:], time.Now().Add(hour))
	case redeem:
		var payload []byte
		payload, err = o.claims.Redeem(ctx, o.claim[c.Key], c.By)
		r.OK, r.Text = err == nil, string(payload)
	case revoke:
		err = o.claims.Revoke(ctx, o.claim[c.Key])
		r.OK = err == nil
	case begin:
		var op *ledger.Operation
		op, r.OK, err = o.ledger.Begin(ctx, &ledger.Start{
			ID: id, Flow: id, Round: 1, Method: "tools/call", Expires: time.Now().Add(hour), Keep: time.Now().Add(hour), Lease: hour,
		})
		r.see(op)
	case get:
		var op *ledger.Operation
		op, err = o.ledger.Get(ctx, id)
		r.OK = err == nil
		r.see(op)
	case beginStep:
		var s ledger.Step
		s, err = o.ledger.BeginStep(ctx, id, c.Fence, "step", hour)
		r.OK = err == nil
		r.Text = string(s.Result)
	case endStep:
		err = o.ledger.EndStep(ctx, id, c.Fence, "step", []byte(c.Text), hour)
		r.OK = err == nil
	case finish:
		err = o.ledger.Finish(ctx, id, c.Fence, ledger.Finish{State: ledger.Succeeded, Outcome: []byte(c.Text)})
		r.OK = err == nil
	case unsure:
		err = o.ledger.Finish(ctx, id, c.Fence, ledger.Finish{State: ledger.Unknown})
		r.OK = err == nil
	case resume:
		var op *ledger.Operation
		op, err = o.ledger.Resume(ctx, id, c.Fence, hour)
		r.OK = err == nil
		r.see(op)
	case resolve:
		err = o.ledger.Resolve(ctx, id, c.Fence, ledger.Resolution{State: ledger.Succeeded, Outcome: []byte(c.Text), By: "operator"})
		r.OK = err == nil
	}
	return settled(r, err)
}

func (r *out) see(op *ledger.Operation) {
	if op != nil {
		r.State, r.Fence, r.Text = op.State, op.Fence, string(op.Outcome)
	}
}

func settled(r out, err error) out {
	switch {
	case err == nil:
	case errors.Is(err, claimcheck.ErrRedeemed), errors.Is(err, ledger.ErrFenced), errors.Is(err, ledger.ErrNotFound):
		r = out{Refused: true}
	default:
		r = out{Open: true, Error: err.Error()}
	}
	return r
}
