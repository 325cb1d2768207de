package aesgcm_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
)

// Replicas share a ring. A server keeps it fresh with keyring.NewRefresher; here
// it stays as it is.
func ExampleNew() {
	ring, err := keyring.NewRing(time.Now(), nil)
	if err != nil {
		log.Fatal(err)
	}
	codec, err := aesgcm.New(keyring.Fixed(ring), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	token, err := codec.Seal(ctx, []byte("payload"), time.Now().Add(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	payload, err := codec.Open(ctx, token)
	fmt.Println(string(payload), err)
	_, err = codec.Open(ctx, token+"-TAMPERED")
	fmt.Println(foil.ReasonOf(err) != "")
	// Output:
	// payload <nil>
	// true
}
