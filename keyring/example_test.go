package keyring_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/foilmcp/foil/keyring"
)

// A process gives its codec a Refresher, and so follows every rotation.
func ExampleNewRefresher() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "ring")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	file := keyring.OpenFile(filepath.Join(dir, "ring.json"))
	ring, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := file.Create(ctx, ring); err != nil {
		log.Fatal(err)
	}

	keys, err := keyring.NewRefresher(ctx, file, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer keys.Close()
	fmt.Println(keys.Ready(), keys.Status().Serial)
	// Output: <nil> 1
}

// Of many replicas whose timers run this, one rotates.
func ExampleRing_Rotate() {
	daily := func(ctx context.Context, store keyring.Store) error {
		_, err := store.Update(ctx, func(r *keyring.Ring) (*keyring.Ring, error) {
			c, err := r.Rotate(time.Now(), 24*time.Hour)
			if err != nil {
				return nil, err
			}
			return c.Ring, nil
		})
		return err
	}
	_ = daily

	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ring, err := keyring.NewRing(start, nil)
	if err != nil {
		log.Fatal(err)
	}
	c, err := ring.Rotate(start.Add(24*time.Hour), 24*time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Added, "seals from", c.SealFrom.Format(time.RFC3339))
	// Output: 2026-12-01a seals from 2026-12-01T12:07:40Z
}
