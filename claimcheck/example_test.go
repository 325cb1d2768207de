package claimcheck_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/foilmcp/foil/claimcheck"
)

func ExampleMemory() {
	ctx := context.Background()
	store := claimcheck.NewMemory(nil)
	claim, err := store.Issue(ctx, []byte("the plan"), time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	plan, err := store.Redeem(ctx, claim, "operation 1")
	fmt.Println(string(plan), err)
	plan, err = store.Redeem(ctx, claim, "operation 1") // its answer was lost
	fmt.Println(string(plan), err)
	_, err = store.Redeem(ctx, claim, "operation 2")
	fmt.Println(errors.Is(err, claimcheck.ErrRedeemed))
	// Output:
	// the plan <nil>
	// the plan <nil>
	// true
}
