// Command storagejanitor serves the tools list_objects and purge_objects for a
// directory: on stdio to the program that started it, or over Streamable HTTP to
// whoever has a token. Run it with -help for its flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/foilmcp/foil"
)

// Exit codes.
const (
	exitOK     = 0
	exitUsage  = 2
	exitSystem = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// A config is what the flags say.
type config struct {
	bucket      string
	stdio       bool
	listen      string
	ring        string
	store       string
	storageRing string
	tokens      string
	anonymous   bool
	audience    string
	once        foil.Once
	ttl         time.Duration
	lease       time.Duration
	log         *slog.Logger
}

// run is the program. It ends when ctx does, or on stdio when the input ends.
func run(ctx context.Context, args []string, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) int {
	c, err := parseFlags(args, stderr)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return fail(stderr, exitUsage, err)
	}
	// Standard output belongs to the protocol on stdio; the log never goes there.
	c.log = slog.New(slog.NewTextHandler(stderr, nil))
	if c.stdio {
		err = serveStdio(ctx, c, stdin, stdout)
	} else {
		err = serveHTTP(ctx, c)
	}
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return fail(stderr, exitUsage, err)
	case err != nil:
		return fail(stderr, exitSystem, err)
	}
	return exitOK
}

// A usageError is a mistake in the flags that shows only when they are used.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// fail says why the program ends. Errors of the package have its name already.
func fail(stderr io.Writer, code int, err error) int {
	fmt.Fprintln(stderr, "storagejanitor:", strings.TrimPrefix(err.Error(), "storagejanitor: "))
	return code
}

const usage = `Serve the objects of a directory to MCP clients, and purge those that a person confirms.

  storagejanitor -bucket DIR -stdio
  storagejanitor -bucket DIR -ring RING -store FILE -tokens FILE [-listen ADDRESS]
                 [-once settle [-lease DURATION]] [-storage-ring RING]

Keep the rings, the store, the tokens and this program out of the bucket, where they
would be objects.

Flags:
`

func parseFlags(args []string, stderr io.Writer) (*config, error) {
	c := &config{once: foil.Redeem}
	f := flag.NewFlagSet("storagejanitor", flag.ContinueOnError)
	var quiet strings.Builder // the flag package would print mistakes a second time
	f.SetOutput(&quiet)
	f.StringVar(&c.bucket, "bucket", "", "`directory` whose files are the objects")
	f.BoolVar(&c.stdio, "stdio", false, "speak to the program that started this one, whose user is the one user; keys and memory end with the process")
	f.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`address` for Streamable HTTP, at the path /mcp")
	f.StringVar(&c.ring, "ring", "", "key ring shared by all replicas: a `file`, file:PATH or env:NAME; foil keys new makes one")
	f.StringVar(&c.store, "store", "", "SQLite `file` of spent confirmations, parked plans and operations, shared by all replicas on the machine")
	f.StringVar(&c.storageRing, "storage-ring", "", "key ring that seals what the store keeps: a `file`, file:PATH or env:NAME; foil keys new --storage makes one; without it names of objects lie in the store as they are")
	f.StringVar(&c.tokens, "tokens", "", "`file` of bearer tokens: lines of a user's name and a token, mode 0600")
	f.BoolVar(&c.anonymous, "anonymous", false, "do without a login: whoever reaches the address may purge, and states are bound to nobody")
	f.StringVar(&c.audience, "audience", "storage-janitor", "`name` of this service, the same on all replicas")
	f.DurationVar(&c.ttl, "ttl", 2*time.Minute, "how long a person may take for one answer")
	f.DurationVar(&c.lease, "lease", foil.DefaultLease, "with -once settle, how long a replica that purges may be silent before its purge counts as cut off")
	f.Func("once", "`how` often a state may be presented: redeem; settle to tell the outcome to whoever asks again with the same answers, and to finish a purge that was cut off; off for a demonstration of the claim check (default redeem)", func(s string) (err error) {
		c.once, err = foil.ParseOnce(s)
		return err
	})
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, usage)
			f.SetOutput(stderr)
			f.PrintDefaults()
		}
		return nil, err
	}
	set := make(map[string]bool)
	f.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if err := c.check(f.Args(), set); err != nil {
		return nil, err
	}
	return c, c.checkApart()
}

// check says which flags are missing or do not go together.
func (c *config) check(rest []string, set map[string]bool) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case c.bucket == "":
		return errors.New("-bucket is missing: name the directory whose files are the objects")
	case c.ttl <= 0:
		return errors.New("-ttl must be positive")
	case c.audience == "":
		return errors.New("-audience must not be empty")
	case c.once == foil.Deferred:
		return errors.New("-once deferred is for tools that write to a database; a purge is redeem, settle or off")
	case c.lease < time.Second:
		return errors.New("-lease must be at least 1s")
	case set["lease"] && c.once != foil.Settle:
		return errors.New("-lease goes with -once settle")
	case c.anonymous && c.once == foil.Settle:
		return errors.New("-once settle needs a login: with -anonymous whoever holds a state could ask for its outcome")
	case c.stdio:
		for _, name := range []string{"listen", "ring", "store", "storage-ring", "tokens", "anonymous"} {
			if set[name] {
				return fmt.Errorf("-%s is for HTTP and does not go with -stdio", name)
			}
		}
	case c.ring == "":
		return errors.New("-ring is missing: make a key ring with \"foil keys new\", or use -stdio")
	case c.store == "":
		return errors.New("-store is missing: name the SQLite file of spent confirmations, or use -stdio")
	case c.store == "memory" || strings.HasPrefix(c.store, "memory:"):
		return errors.New("-store memory: a memory of spent confirmations dies with its process and is not seen by the other replicas: name a file, or use -stdio")
	case c.tokens == "" && !c.anonymous:
		return errors.New("-tokens is missing: name the file of bearer tokens, or say -anonymous to do without a login")
	case c.tokens != "" && c.anonymous:
		return errors.New("-tokens and -anonymous exclude each other")
	}
	return nil
}
