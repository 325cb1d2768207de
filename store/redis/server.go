package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// schemaVersion is the schema that this program knows; the scripts name it too.
const schemaVersion = 1

// recheck is how old a look at the server may be before a call looks again.
const recheck = 5 * time.Second

// open looks at the server and makes the database ready.
func (s *Store) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	node, err := s.node(ctx)
	if err != nil {
		return readable(err)
	}
	if err := s.check(ctx, node); err != nil {
		return readable(err)
	}
	var b [16]byte
	rand.Read(b[:])
	reply, err := node.Eval(ctx, create.source(false), []string{s.meta}, hex.EncodeToString(b[:]), !s.opts.Existing).Slice()
	if err != nil {
		return readable(err)
	}
	if len(reply) == 1 && text(reply[0]) == "missing" {
		return ErrMissing
	}
	version, id := 0, ""
	if len(reply) == 3 {
		version, err = strconv.Atoi(text(reply[1]))
		id = text(reply[2])
	}
	switch {
	case err != nil || version < 1 || len(id) != 2*len(b):
		return errors.New("redis: the database has another program's data under this prefix; not touched")
	case version > schemaVersion:
		return fmt.Errorf("redis: schema version %d is newer than this program knows (%d); use a newer foil", version, schemaVersion)
	}
	s.id = id
	if err := s.load(ctx, node); err != nil {
		return readable(err)
	}
	return nil
}

// node returns the client of the server that has the keys.
func (s *Store) node(ctx context.Context) (*redis.Client, error) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, s.meta)
	}
	return s.client.(*redis.Client), nil
}

// asker is what check needs: a client, or one connection of it.
type asker interface {
	Info(ctx context.Context, sections ...string) *redis.StringCmd
	ConfigGet(ctx context.Context, parameter string) *redis.MapStringStringCmd
}

// check reports whether the server is set up for what was asked of it.
func (s *Store) check(ctx context.Context, c asker) error {
	text, err := c.Info(ctx).Result()
	if err != nil {
		return err
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[k] = v
		}
	}
	if major, _, _ := strings.Cut(info["redis_version"], "."); len(major) == 1 && major < "7" {
		return unreliable("it is Redis %s, and 7.0 or newer is needed", info["redis_version"])
	}
	if role := info["role"]; role != "master" {
		return unreliable("its role is %q, and only a primary takes writes", role)
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" && info["maxmemory"] != "0" {
		return unreliable("maxmemory-policy is %q, so it would forget spent tokens to make room; set noeviction", policy)
	}
	if s.opts.Durability != None && !s.opts.Unchecked {
		if err := s.checkLog(ctx, c); err != nil {
			return err
		}
	}
	s.checked.Store(time.Now().UnixNano())
	return nil
}

func (s *Store) checkLog(ctx context.Context, c asker) error {
	for _, p := range []struct{ name, want, also string }{
		{"appendonly", "yes", ""},
		{"appendfsync", "always", ""},
		// With it the log is not synced for as long as it is being rewritten.
		{"no-appendfsync-on-rewrite", "no", ""},
	} {
		if p.name == "appendfsync" && s.opts.Durability == Everysec {
			p.also = "everysec"
		}
		m, err := c.ConfigGet(ctx, p.name).Result()
		if refused(err) {
			return unreliable("it does not tell its configuration (%v); Options.Unchecked takes the operator's word", err)
		}
		if err != nil {
			return err
		}
		if v := m[p.name]; v != p.want && (p.also == "" || v != p.also) {
			return unreliable("%s is %q, want %s; or choose a lower Options.Durability by name", p.name, v, p.want)
		}
	}
	return nil
}

// serverError is an [ErrServer] with its reason. It has no Unwrap, as the client
// passes on only what is wrapped in an error of a new connection.
type serverError struct{ why string }

func unreliable(format string, args ...any) error {
	return &serverError{fmt.Sprintf(format, args...)}
}

func (e *serverError) Error() string        { return ErrServer.Error() + ": " + e.why }
func (e *serverError) Is(target error) bool { return target == ErrServer }

// look checks the server again if the last look at it is old.
func (s *Store) look(ctx context.Context, node *redis.Client) error {
	if since := time.Now().UnixNano() - s.checked.Load(); since >= 0 && since < int64(recheck) {
		return nil
	}
	return s.check(ctx, node)
}

// refused reports whether the server answered, with an error.
func refused(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok && !errors.Is(err, redis.Nil)
}

// says reports whether the server answered with an error of this kind.
func says(err error, kinds ...string) bool {
	answer, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	for _, kind := range kinds {
		if strings.HasPrefix(answer.Error(), kind+" ") {
			return true
		}
	}
	return false
}

// readable prefixes an error once. The texts of the client and the server hold
// neither the password nor what a script was given.
func readable(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return ErrClosed
	}
	if strings.HasPrefix(err.Error(), "redis: ") {
		return err
	}
	return fmt.Errorf("redis: %w", err)
}
