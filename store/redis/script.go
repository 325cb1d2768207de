package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// A script runs in the server as one step. All keys have one hash tag, so those
// that a script makes from the first are where it is.
type script struct {
	name  string
	oom   bool // it runs in a server that is full
	again bool // asking again after a lost answer gives the same answer
	write bool // its answer must be as durable as promised

	prod, test func() form
}

type form struct{ source, sha string }

// Scripts refuse to run where they could not write: on a replica, and in a server
// that cannot write its log. What only reads refuses too, as a replica may be behind.
// In a full server only what was begun may end.
var (
	all []*script

	create = &script{name: "create"} // before everything else, so it is not in all

	scriptUse    = add(script{name: "use", again: true, write: true}, "prelude", "sweep_lib")
	scriptPut    = add(script{name: "put", again: true, write: true}, "prelude", "sweep_lib")
	scriptGet    = add(script{name: "get", oom: true, again: true, write: true}, "prelude")
	scriptRedeem = add(script{name: "redeem", oom: true, again: true, write: true}, "prelude")
	scriptRevoke = add(script{name: "revoke", oom: true, again: true, write: true}, "prelude", "sweep_lib")
	scriptPing   = add(script{name: "ping", again: true, write: true}, "prelude", "sweep_lib")
	scriptTouch  = add(script{name: "touch", oom: true}, "prelude")

	scriptBegin     = add(script{name: "begin", again: true, write: true}, "prelude", "sweep_lib", "op_lib")
	scriptOpGet     = add(script{name: "op_get", oom: true, again: true, write: true}, "prelude", "op_lib")
	scriptRenew     = add(script{name: "renew", oom: true, again: true, write: true}, "prelude", "op_lib")
	scriptResume    = add(script{name: "resume", oom: true, write: true}, "prelude", "op_lib")
	scriptStepBegin = add(script{name: "step_begin", again: true, write: true}, "prelude", "op_lib")
	scriptStepEnd   = add(script{name: "step_end", oom: true, write: true}, "prelude", "op_lib")
	scriptFinish    = add(script{name: "finish", oom: true, again: true, write: true}, "prelude", "op_lib")
	scriptResolve   = add(script{name: "resolve", oom: true, write: true}, "prelude", "op_lib")
	scriptOpList    = add(script{name: "op_list", oom: true, again: true}, "prelude")
	scriptOpCount   = add(script{name: "op_count", oom: true, again: true}, "prelude")

	scriptSweep    = add(script{name: "sweep", oom: true, again: true, write: true}, "prelude", "sweep_lib")
	scriptStats    = add(script{name: "stats", oom: true, again: true}, "prelude")
	scriptRestored = add(script{name: "restored", oom: true, again: true, write: true}, "prelude", "sweep_lib")
	scriptRows     = add(script{name: "rows", oom: true, again: true}, "prelude")
	scriptOpSteps  = add(script{name: "op_steps", oom: true, again: true}, "prelude")
	scriptTotals   = add(script{name: "totals", oom: true, again: true}, "prelude")
)

func init() {
	create.prod = sync.OnceValue(func() form { return create.build("") })
}

// add puts a script together from its parts, when it is first needed.
func add(s script, parts ...string) *script {
	out := &s
	out.prod = sync.OnceValue(func() form { return out.build("clock", parts...) })
	// A test gives the time in the last two arguments.
	out.test = sync.OnceValue(func() form { return out.build("", parts...) })
	all = append(all, out)
	return out
}

func (s *script) build(clock string, parts ...string) form {
	var b strings.Builder
	b.WriteString("#!lua")
	if s.oom {
		b.WriteString(" flags=allow-oom")
	}
	b.WriteByte('\n')
	if clock == "" && len(parts) > 0 {
		b.WriteString("local usUp, us = tonumber(table.remove(ARGV)), tonumber(table.remove(ARGV))\n")
		parts = append([]string{}, parts...)
	} else if clock != "" {
		parts = append([]string{clock}, parts...)
	}
	for _, part := range append(parts, s.name) {
		text, err := lua.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // the file is embedded, or the package is broken
		}
		b.Write(text)
	}
	sum := sha1.Sum([]byte(b.String())) // what Redis names scripts by
	return form{b.String(), hex.EncodeToString(sum[:])}
}

func (s *script) form(test bool) form {
	if test {
		return s.test()
	}
	return s.prod()
}

func (s *script) source(test bool) string { return s.form(test).source }

// load gives every script to the server, which keeps them until it restarts.
func (s *Store) load(ctx context.Context, node *redis.Client) error {
	pipe := node.Pipeline()
	for _, sc := range all {
		pipe.ScriptLoad(ctx, sc.source(s.clock != nil))
	}
	_, err := pipe.Exec(ctx)
	return err
}
