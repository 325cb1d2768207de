package sqlite_test

import (
	"context"
	"database/sql"
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

// A handler of a Guard with Once: foil.Deferred spends the token in the
// transaction that pays: both happen, or neither.
func ExampleInTx() {
	dir, err := os.MkdirTemp("", "foil")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	path := filepath.Join(dir, "foil.db")
	store, err := sqlite.Open(ctx, path, nil) // first: it makes the file
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close() // before the store
	if _, err := db.ExecContext(ctx, "CREATE TABLE payment (cents INTEGER)"); err != nil {
		log.Fatal(err)
	}
	for i, commit := range []bool{false, true, true} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO payment VALUES (4200)"); err != nil {
			log.Fatal(err)
		}
		// In a handler: opened.Redeem(ctx, sqlite.InTx(tx)).
		attempt := fmt.Appendf(nil, "presentation %3d", i)
		first, err := sqlite.InTx(tx).UseAs(ctx, []byte("an identity"), time.Now().Add(10*time.Minute), attempt)
		fmt.Println(first, err)
		if first && commit {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}
