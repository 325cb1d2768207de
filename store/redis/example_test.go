package redis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/foilmcp/foil/store/redis"
)

// One server is the memory of all replicas. It must have appendonly yes, appendfsync
// always and maxmemory-policy noeviction in its configuration.
func ExampleOpen() {
	ctx := context.Background()
	store, err := redis.Open(ctx, "rediss://foil:password@redis.internal:6379/0", &redis.Options{
		Replicas: 1, // one replica must have a token before it counts as spent
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	first, err := store.Replay().Use(ctx, []byte("an identity"), time.Now().Add(10*time.Minute))
	fmt.Println(first, err)
}
