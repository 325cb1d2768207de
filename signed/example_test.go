package signed_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/foilmcp/foil/signed"
)

// Anyone can read what is signed, and nobody can change it.
func ExampleEphemeral() {
	codec := signed.Ephemeral()
	token, err := codec.Seal(context.Background(), []byte(`{"public":true}`), time.Now().Add(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	body := strings.Split(token, ".")[1]
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(raw[4:])) // after the key's id
	// Output: {"public":true}
}
