package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// told is a server that says of itself what it is told to say.
type told struct{ info string }

func (s told) Info(ctx context.Context, _ ...string) *redis.StringCmd {
	return redis.NewStringResult(s.info, nil)
}

func (s told) ConfigGet(ctx context.Context, name string) *redis.MapStringStringCmd {
	return redis.NewMapStringStringResult(map[string]string{}, nil)
}

func TestOldServerIsRefused(t *testing.T) {
	o, err := (&Options{Durability: None}).complete()
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(o)
	rest := "\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
	for version, good := range map[string]bool{"6.2.14": false, "5.0.0": false, "7.0.0": true, "8.2.1": true, "10.0.0": true} {
		err := s.check(t.Context(), told{"# Server\r\nredis_version:" + version + rest})
		if good && err != nil || !good && !errors.Is(err, ErrServer) {
			t.Errorf("check of Redis %s: %v", version, err)
		}
	}
	// What says nothing of itself is not trusted.
	if err := s.check(t.Context(), told{""}); !errors.Is(err, ErrServer) {
		t.Errorf("check of a server that tells nothing: %v", err)
	}
	if err := s.check(t.Context(), told{"redis_version:7.0.0\r\nrole:master\r\n"}); !errors.Is(err, ErrServer) {
		t.Errorf("check of a server that does not tell its policy: %v", err)
	}
	s.opts.Durability = Always
	if err := s.check(t.Context(), told{"redis_version:7.0.0" + rest}); !errors.Is(err, ErrServer) {
		t.Errorf("check of a server that does not tell of its log: %v", err)
	}
}

// TestScriptsNameTheSchema: a script that does not look would go on in a database
// that was migrated.
func TestScriptsNameTheSchema(t *testing.T) {
	for _, sc := range all {
		source := sc.source(false)
		if !strings.HasPrefix(source, "#!lua") || !strings.Contains(source, "if meta[1] ~= '1' or meta[2] ~= ARGV[1] then return {'gone'} end") {
			t.Errorf("%s does not look at what the database is", sc.name)
		}
		if strings.Contains(source, "no-writes") || strings.Contains(source, "allow-stale") {
			t.Errorf("%s would run on a replica", sc.name)
		}
	}
}
