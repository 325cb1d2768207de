package handle_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/foilmcp/foil/handle"
)

// What the client gets holds nothing. Replicas need a store that they share; this
// one is for a single process.
func ExampleNew() {
	codec, err := handle.New(handle.NewMemory(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	token, err := codec.Seal(ctx, make([]byte, 100_000), time.Now().Add(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token[:3], len(token))
	payload, err := codec.Open(ctx, token)
	fmt.Println(len(payload), err)
	// Output:
	// r1. 46
	// 100000 <nil>
}
