package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/foilmcp/foil/store/sqlite"
)

// One file is the memory of all replicas of a machine.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "foil")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	for range 2 { // a restart forgets nothing
		store, err := sqlite.Open(ctx, filepath.Join(dir, "foil.db"), nil)
		if err != nil {
			log.Fatal(err)
		}
		first, err := store.Replay().Use(ctx, []byte("an identity"), time.Now().Add(10*time.Minute))
		fmt.Println(first, err)
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// true <nil>
	// false <nil>
}
