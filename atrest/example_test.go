package atrest_test

import (
	"fmt"
	"time"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/keyring"
)

func Example() {
	// foil keys new --storage makes the ring; a keyring.Refresher follows it.
	ring, err := keyring.NewRing(time.Now(), &keyring.RingOptions{Storage: true})
	if err != nil {
		panic(err)
	}
	sealer, err := atrest.New(keyring.Fixed(ring))
	if err != nil {
		panic(err)
	}
	sealed, err := sealer.Seal("plans", []byte("row 7"), "payload", []byte("delete 3 objects"))
	if err != nil {
		panic(err)
	}
	plan, err := sealer.Open("plans", []byte("row 7"), "payload", sealed)
	fmt.Printf("%s, %v\n", plan, err)
	_, err = sealer.Open("plans", []byte("row 8"), "payload", sealed)
	fmt.Println(err)
	// Output:
	// delete 3 objects, <nil>
	// atrest: not sealed for this place under a key of the ring
}
