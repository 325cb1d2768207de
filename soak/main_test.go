//go:build unix

package soak_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/foilmcp/foil/internal/baotest"
)

// roleEnv makes a copy of this test binary a replica.
const roleEnv = "FOIL_SOAK_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "" {
		os.Exit(baotest.Main(m))
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replica:", err)
		os.Exit(1)
	}
}
