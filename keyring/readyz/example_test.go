package readyz_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/keyring/readyz"
)

// A server tells load balancers, and foil keys status, whether it follows its ring.
func ExampleHandler() {
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
	codec, err := aesgcm.New(keys, nil)
	if err != nil {
		log.Fatal(err)
	}
	ready, err := readyz.Handler(&readyz.Options{
		Rings: []readyz.Ring{{Name: "tokens", Status: keys.Status, Seals: codec.SealsByKey}},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/readyz", ready)

	server := httptest.NewServer(mux)
	defer server.Close()
	report, err := readyz.Fetch(ctx, nil, server.URL)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Ready, report.Rings[0].Name, report.Rings[0].Serial)
	// Output: true tokens 1
}
