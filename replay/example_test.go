package replay_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/foilmcp/foil/replay"
)

func ExampleMemory_Use() {
	store := replay.NewMemory(nil)
	expires := time.Now().Add(10 * time.Minute)
	for range 2 {
		first, err := store.Use(context.Background(), []byte("an identity"), expires)
		if err != nil {
			log.Fatal(err) // it could not decide: refuse
		}
		fmt.Println(first)
	}
	// Output:
	// true
	// false
}
