package foil

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/claims"
)

// An Opened is a state that passed every check. It prints as its flow and
// round; it must not be kept beyond the request.
type Opened struct {
	claims   claims.Claims
	answers  map[string]json.RawMessage
	compared bool // the questions are known and compared
	limits   *canonjson.Limits
	dropped  int // answers that nobody had asked for
	checks   *ClaimChecks

	g        *Guard
	exec     *Execution // Settle: this presentation executes
	recorded *Recorded  // Settle: an earlier one has
	deferral *deferral  // Deferred
}

// newOpened takes memory for a state and its claim checks at once.
func newOpened(g *Guard) *Opened {
	both := new(struct {
		opened Opened
		checks ClaimChecks
	})
	both.checks.g = g
	both.opened.g, both.opened.limits, both.opened.checks = g, &g.limits, &both.checks
	return &both.opened
}

// State returns what the handler gave to Seal.
func (o *Opened) State() string { return o.claims.State }

// Flow returns the identity of the chain of rounds this one belongs to. It is
// no secret: it joins log lines.
func (o *Opened) Flow() string { return flowID(&o.claims) }

// Round returns how many times the flow has asked, from 1.
func (o *Opened) Round() int { return o.claims.Round }

// Expires returns when this round ended to be presentable.
func (o *Opened) Expires() time.Time { return claims.Time(o.claims.Expires) }

// Deadline returns when the whole flow ends.
func (o *Opened) Deadline() time.Time { return claims.Time(o.claims.Deadline) }

// Answers returns the answers to what was asked, as raw JSON by key. Whatever
// the client sent beyond that has been dropped. The map is the caller's.
func (o *Opened) Answers() map[string]json.RawMessage { return maps.Clone(o.answers) }

// Has reports whether an answer under this key was kept.
func (o *Opened) Has(key string) bool {
	_, ok := o.answers[key]
	return ok
}

// An AnswerStatus says what [Opened.Answer] found.
type AnswerStatus uint8

const (
	// Missing: there is no answer under this key. Ask.
	Missing AnswerStatus = iota
	// Answered: the person answered just this question.
	Answered
	// Reworded: the question that was answered is not the one the handler
	// would ask now: its wording, price or schema changed. Ask again.
	Reworded
)

// String gives the status in lower case.
func (s AnswerStatus) String() string {
	switch s {
	case Missing:
		return "missing"
	case Answered:
		return "answered"
	case Reworded:
		return "reworded"
	}
	return fmt.Sprintf("AnswerStatus(%d)", uint8(s))
}

// Answer returns the raw answer under key, if it is an answer to question: the
// raw JSON of the request object {"method","params"} that the handler would
// send now. For any status but Answered the answer is nil, so that consent to
// something else cannot be taken for consent to this.
//
// For a token of a replica that does not record its questions, and with
// BindQuestions switched off, the question is not compared.
func (o *Opened) Answer(key string, question []byte) (answer json.RawMessage, status AnswerStatus) {
	a, ok := o.answers[key]
	if !ok {
		return nil, Missing
	}
	if !o.compared {
		return a, Answered
	}
	q, ok := o.claims.Find(key)
	if !ok {
		return nil, Missing
	}
	digest, err := questionDigest(question, o.limits)
	if err != nil || subtle.ConstantTimeCompare(digest[:], q.Digest[:]) != 1 {
		return nil, Reworded
	}
	return a, Answered
}

// Claims returns the claim checks of the Guard's store for this presentation.
func (o *Opened) Claims() *ClaimChecks { return o.checks }

// String tells the flow and the round.
func (o Opened) String() string { return fmt.Sprintf("flow %s round %d", o.Flow(), o.Round()) }

// Format prints the flow and the round, never the state or an answer.
func (o Opened) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(o.String())) }

// MarshalText gives what String gives.
func (o Opened) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// LogValue gives the flow and the round.
func (o Opened) LogValue() slog.Value {
	return slog.GroupValue(slog.String("flow", o.Flow()), slog.Int("round", o.Round()))
}

// Claims returns the claim checks of the Guard's store for one call that opens
// no state, such as a flow that never leaves the process. Every call of Claims
// is another presentation: what one redeems is spent for all others. For a
// state that was opened use [Opened.Claims].
func (g *Guard) Claims() *ClaimChecks { return &ClaimChecks{g: g} }

// ClaimChecks redeem and revoke claims on behalf of one presentation. They are
// safe for concurrent use.
type ClaimChecks struct {
	g    *Guard     // nil: there is no store
	exec *Execution // Settle: what is redeemed is kept with the operation
	once sync.Once
	by   string // random, so that no other presentation can give it, or the operation
}

var errNoClaims = errors.New("foil: Options.Claims is nil: give the Guard the store that issued the claim")

// Redeem returns what was parked under claim and spends it. It is final:
// another presentation gets [claimcheck.ErrRedeemed], whatever the cause. This
// one may ask again and gets the same answer.
func (c *ClaimChecks) Redeem(ctx context.Context, claim string) ([]byte, error) {
	store, err := c.store()
	if err != nil {
		return nil, err
	}
	c.once.Do(func() {
		if c.by == "" {
			c.by = rand.Text()
		}
	})
	// Under Settle the payload is the operation's input: it is kept with it, as
	// a step, for whoever resumes it after the claim has ended.
	return c.exec.input(ctx, inputStep(claim), func(ctx context.Context) ([]byte, error) {
		began := c.g.begin()
		payload, err := store.Redeem(ctx, claim, c.by)
		c.g.storeCall(ctx, "claimcheck", "redeem", began, err)
		return payload, err
	})
}

// inputStep names the step under which a claim's payload is kept. It does not
// tell the claim.
func inputStep(claim string) string {
	sum := sha256.Sum256([]byte("foil/claim-input/v1:" + claim))
	return "input " + hex.EncodeToString(sum[:16])
}

// Revoke makes the claim worthless; for a decline. A claim that is unknown or
// spent is no error.
func (c *ClaimChecks) Revoke(ctx context.Context, claim string) error {
	store, err := c.store()
	if err != nil {
		return err
	}
	began := c.g.begin()
	err = store.Revoke(ctx, claim)
	c.g.storeCall(ctx, "claimcheck", "revoke", began, err)
	return err
}

func (c *ClaimChecks) store() (claimcheck.Store, error) {
	if c.g == nil || c.g.o.Claims == nil {
		return nil, errNoClaims
	}
	return c.g.o.Claims, nil
}

// String tells nothing.
func (c *ClaimChecks) String() string { return redacted }

// Format prints [redacted].
func (c *ClaimChecks) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }
