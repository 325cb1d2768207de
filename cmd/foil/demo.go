package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/store/dsn"
)

// demoFlags are the flags of foil demo.
type demoFlags struct {
	replicas int
	once     string
	without  string
	codec    codecFlag
	store    string
	json     bool
	serve    bool
}

const maxReplicas = 16

func newDemoCmd() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Attack a protected MCP server and show what is refused",
		Long: `demo starts a real MCP server in several replicas, plays a client that confirms
a deletion, and then plays the attacker: it changes, replays, forges, moves and
delays the requestState that the client carries.

The server is the storage janitor of the examples on a directory of files, over
Streamable HTTP (MCP 2026-07-28). Its replicas are processes of this program on
loopback ports; they share a key ring and one SQLite file, and requests go to
them in turn. Everything is in a temporary directory and is gone afterwards.

With --store the replicas share that store instead, and what they write stays
in it. One attack takes the store away for some seconds, from all of its users:
name none that others use. The tables of PostgreSQL are created, in the schema
foil; what is parked or recorded in any store is sealed under a key that ends
with the demo.

Each line tells the attack, what came of it, and the layer that stops it. A
retry that is refused must spend nothing: after each refusal the honest retry is
presented, and has to work.

Exit codes: 0 all as expected, 1 not, 2 usage, 3 system failure.`,
		Example: `  foil demo
  foil demo --once off            # what binding and expiry alone let through
  foil demo --once settle         # a lost answer is told again, and executes nothing
  foil demo --without principal   # what gets through when a binding is off
  foil demo --codec signed        # states that the client can read
  foil demo --replicas 3 --json
  foil demo --store sqlite:/tmp/spent.db
  foil demo --once settle --store postgres://demo@localhost/demo
  foil demo --serve               # keep the server up for a client of your own`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			mode, store, err := f.check()
			if err != nil {
				return err
			}
			return runDemo(c, &f, mode, store)
		},
	}
	fl := c.Flags()
	fl.IntVar(&f.replicas, "replicas", 2, "number of server processes, from 2 (1 with --serve)")
	fl.StringVar(&f.once, "once", "redeem", "single use: redeem, settle to record outcomes, or off to see what passes without it")
	_ = c.RegisterFlagCompletionFunc("once", cobra.FixedCompletions([]string{"redeem", "settle", "off"}, cobra.ShellCompDirectiveNoFileComp))
	fl.StringVar(&f.without, "without", "", "bindings to switch off, to see what gets through: principal,expiry,request,audience,questions")
	f.codec.add(c)
	fl.StringVar(&f.store, "store", "", "store that the replicas share, "+dsn.Forms+"; by default a SQLite file in a temporary directory")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.BoolVar(&f.serve, "serve", false, "attack nothing: stay up and print how to connect a client")
	c.AddCommand(newDemoReplicaCmd())
	return c
}

// check reads the flags.
func (f *demoFlags) check() (mode attack.Mode, store string, err error) {
	no := func(format string, args ...any) (attack.Mode, string, error) {
		return attack.Mode{}, "", usagef(format, args...)
	}
	if mode.Once, err = foil.ParseOnce(f.once); err != nil {
		return no("--once: %s", strings.TrimPrefix(err.Error(), "foil: "))
	}
	if mode.Without, err = foil.ParseBindings(f.without); err != nil {
		return no("--without: %s", strings.TrimPrefix(err.Error(), "foil: "))
	}
	if mode.Once == foil.Deferred {
		return no("--once deferred: the state is then spent in the tool's own database transaction, and the demo's tool deletes files: use redeem, settle or off")
	}
	least := 2
	if f.serve {
		least = 1
	}
	if f.replicas < least || f.replicas > maxReplicas {
		return no("--replicas is between %d and %d: the retry has to land on another process than the question", least, maxReplicas)
	}
	if f.json && f.serve {
		return no("--json and --serve exclude each other: --serve has no results")
	}
	switch {
	case f.store == "":
	case f.store == "memory" || strings.HasPrefix(f.store, "memory:"):
		return no("--store memory: a memory of spent states dies with its process and is not seen by the other replicas, so a state could be replayed after a restart or elsewhere: use %s, or leave it out", dsn.Forms)
	default:
		// What was given may hold a password.
		if _, err := dsn.Backend(f.store); err != nil {
			return no("--store is %s", dsn.Forms)
		}
	}
	return mode, f.store, nil
}

func runDemo(c *cobra.Command, f *demoFlags, mode attack.Mode, store string) (err error) {
	defer stoppable(c)()
	ctx := c.Context()
	var logs io.Writer
	if f.serve {
		logs = c.ErrOrStderr()
	}
	start := time.Now()
	fleet, err := startFleet(ctx, f.replicas, mode, f.codec.tokenFormat, store, logs)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() {
		if e := fleet.Close(); e != nil && err == nil {
			err = fmt.Errorf("clean up: %w", e)
		}
	}()
	if f.serve {
		return serveDemo(ctx, fleet, mode, f.codec.tokenFormat, c.OutOrStdout())
	}
	show := newDemoReport(c.OutOrStdout(), c.ErrOrStderr(), f.json)
	in, err := introduce(ctx, fleet.bucket, fleet.URLs())
	if err != nil {
		return interrupted(ctx, err)
	}
	show.introduce(in)
	if err := show.start(f.replicas, mode, f.codec.tokenFormat, fleet.order.backend()); err != nil {
		return err
	}
	attacks := attack.Battery()
	results, err := attack.Run(ctx, &attack.Config{
		Door: fleet, App: fleet.bucket, Minter: fleet.minter, Logs: fleet, Store: fleet.order.seam(), Mode: mode,
		Progress: show.progress(len(attacks)),
	}, attacks)
	if err != nil {
		return interrupted(ctx, err)
	}
	return show.end(results, time.Since(start))
}

// interrupted says in plain words that somebody stopped the demo.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &exitError{exitSystem, errors.New("interrupted")}
	}
	return err
}
