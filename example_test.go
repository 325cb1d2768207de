package foil_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/signed"
)

// A Guard without any SDK: seal the state of a question, open it with the answer.
// A second presentation, and one of other arguments, are refused.
func Example() {
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{
		Audience: "storage",
		Replay:   replay.NewMemory(nil),
		Logger:   slog.New(slog.DiscardHandler), // refusals are logged otherwise
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	const question = `{"method":"elicitation/create","params":{"mode":"form","message":"Purge logs/?","requestedSchema":{"type":"object"}}}`
	request := foil.Request{
		Method:    foil.MethodToolsCall,
		Target:    "purge",
		Arguments: []byte(`{"prefix":"logs/"}`),
		Principal: foil.OAuth("app", "https://issuer.example", "alice"),
	}
	token, err := guard.Seal(ctx, request, foil.Outgoing{State: "plan 7", Questions: []byte(`{"confirm":` + question + `}`)})
	if err != nil {
		log.Fatal(err)
	}

	request.Answers = []byte(`{"confirm":{"action":"accept"}}`)
	other := request
	other.Arguments = []byte(`{"prefix":"secrets/"}`)
	_, err = guard.Open(ctx, other, token)
	fmt.Println("other arguments:", foil.Wire(err).Message, "- because of", foil.ReasonOf(err))

	opened, err := guard.Open(ctx, request, token)
	if err != nil {
		log.Fatal(err)
	}
	answer, status := opened.Answer("confirm", []byte(question))
	fmt.Println(opened.State(), status, string(answer))

	_, err = guard.Open(ctx, request, token)
	fmt.Println("again:", foil.Wire(err).Message, "- because of", foil.ReasonOf(err))
	// Output:
	// other arguments: Invalid or expired requestState - because of arguments
	// plan 7 answered {"action":"accept"}
	// again: Invalid or expired requestState - because of replayed
}

// Tools differ in what a confirmation is worth: a cheap question need not cost a
// durable write, and a dangerous one may have less time.
func ExampleOptions_policyFor() {
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{
		Audience: "storage",
		Replay:   replay.NewMemory(nil),
		PolicyFor: func(method, target string) foil.Policy {
			switch target {
			case "choose_colour":
				return foil.Policy{Once: foil.Off}
			case "purge":
				return foil.Policy{TTL: 2 * time.Minute, MaxRounds: 2}
			}
			return foil.Policy{}
		},
	})
	fmt.Println(guard, err)
	// Output: foil.Guard <nil>
}

// What is dangerous stays on the server: the state carries a claim check, and the
// presentation that was accepted redeems it, once.
func ExampleOpened_Claims() {
	claims := claimcheck.NewMemory(nil)
	guard, err := foil.New(aesgcm.Ephemeral(), &foil.Options{NoAudience: true, Replay: replay.NewMemory(nil), Claims: claims})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	request := foil.Request{Method: foil.MethodToolsCall, Target: "purge", Principal: foil.Fixed("local")}
	claim, err := claims.Issue(ctx, []byte("logs/a.log logs/b.log"), time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	token, err := guard.Seal(ctx, request, foil.Outgoing{State: claim})
	if err != nil {
		log.Fatal(err)
	}
	opened, err := guard.Open(ctx, request, token)
	if err != nil {
		log.Fatal(err)
	}
	plan, err := opened.Claims().Redeem(ctx, opened.State())
	fmt.Println(string(plan), err)
	_, err = guard.Claims().Redeem(ctx, claim) // somebody else
	fmt.Println(err == claimcheck.ErrRedeemed)
	// Output:
	// logs/a.log logs/b.log <nil>
	// true
}

// A fleet moves from tokens that anyone can read to sealed ones: for an hour both
// are accepted.
func ExampleMigrate() {
	keys := keyring.Fixed(keyring.NewEphemeral())
	from, err := signed.New(keys, nil)
	if err != nil {
		log.Fatal(err)
	}
	to, err := aesgcm.New(keys, nil)
	if err != nil {
		log.Fatal(err)
	}
	codec, err := foil.Migrate(to, from, time.Now().Add(time.Hour), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	old, err := from.Seal(ctx, []byte("in flight"), time.Now().Add(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	payload, err := codec.Open(ctx, old)
	fmt.Println(string(payload), err)
	token, err := codec.Seal(ctx, []byte("new"), time.Now().Add(time.Minute))
	fmt.Println(token[:3], err)
	// Output:
	// in flight <nil>
	// v1. <nil>
}
