package redis_test

import (
	"context"
	"os"
	"testing"

	client "github.com/redis/go-redis/v9"
)

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// TestMain silences the client, which reports on its own whenever it cannot connect.
func TestMain(m *testing.M) {
	client.SetLogger(quiet{})
	os.Exit(m.Run())
}
