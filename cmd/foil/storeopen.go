package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/store/dsn"
	"github.com/foilmcp/foil/store/redis"
)

// storeVariable names the store where no flag does: a password in it is not seen
// by who lists processes.
const storeVariable = "FOIL_STORE"

// storeFlag is the store that a command works on.
type storeFlag struct{ dsn string }

func (s *storeFlag) add(c *cobra.Command) {
	c.Flags().StringVar(&s.dsn, "store", "", "store: "+dsn.Forms+" (default: the environment's "+storeVariable+")")
	completeStore(c)
}

func completeStore(c *cobra.Command) {
	_ = c.RegisterFlagCompletionFunc("store", cobra.FixedCompletions([]string{dsn.SQLite + ":", dsn.Postgres + "://", dsn.Redis + "://"},
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// open opens the store. Unless create is set it must be there: a misspelt name would
// show an empty store, and keys drop would find no row in it.
func (s *storeFlag) open(c *cobra.Command, o *dsn.Options, create bool) (dsn.Store, error) {
	name := s.dsn
	if !c.Flags().Changed("store") {
		if name = os.Getenv(storeVariable); name == "" {
			return nil, usagef("no store: give --store DSN, or set %s; a DSN is %s", storeVariable, dsn.Forms)
		}
	} else {
		warnPassword(c, name)
	}
	return openStore(c, name, o, create)
}

// openStore opens the store that a flag or the environment names. No error holds
// the DSN, which may hold a password.
func openStore(c *cobra.Command, name string, o *dsn.Options, create bool) (dsn.Store, error) {
	backend, err := dsn.Backend(name)
	if err != nil {
		return nil, usagef("%w", err)
	}
	if file, ok := strings.CutPrefix(name, dsn.SQLite+":"); ok && backend == dsn.SQLite {
		if strings.Contains(file, "://") { // a DSN after a DSN
			return nil, usagef("a store is named by %s", dsn.Forms)
		}
	}
	var opts dsn.Options
	if o != nil {
		opts = *o
	}
	opts.Existing = !create
	s, err := dsn.Open(c.Context(), name, &opts)
	if errors.Is(err, redis.ErrMissing) {
		return nil, &because{err.Error() + " A server's Options.Prefix is said with ?" + dsn.PrefixParameter + "=… in the DSN. The first server that uses the database begins the store, or foil store migrate", err}
	}
	return s, err
}

// warnPassword says who can see a password on the command line.
func warnPassword(c *cobra.Command, name string) {
	if hasPassword(name) {
		fmt.Fprintf(c.ErrOrStderr(), "foil: warning: --store shows the store's password to everyone who can list this machine's processes; %s in the environment does not\n", storeVariable)
	}
}

func hasPassword(name string) bool {
	if strings.HasPrefix(name, dsn.SQLite+":") {
		return false
	}
	u, err := url.Parse(name)
	if err != nil {
		return true // nobody knows what is in it
	}
	password, _ := u.User.Password()
	q := u.Query()
	return password != "" || q.Get("password") != "" || q.Get("sslpassword") != ""
}

// atRestFlag is how the store keeps content.
type atRestFlag struct {
	spec  string
	plain bool
	ring  *keyring.Ring // once loaded; nil without
}

func (a *atRestFlag) add(c *cobra.Command) {
	c.Flags().StringVar(&a.spec, "storage-ring", "", "storage ring that the servers of the store have: "+ringForms)
}

// addPlain is for commands that read or write content and nothing but that.
func (a *atRestFlag) addPlain(c *cobra.Command) {
	a.add(c)
	c.Flags().BoolVar(&a.plain, "plain-at-rest", false, "the servers of the store keep content unsealed")
	c.MarkFlagsMutuallyExclusive("storage-ring", "plain-at-rest")
}

// given reports whether content can be read.
func (a *atRestFlag) given() bool { return a.plain || a.ring != nil }

// load reads the ring, if one is named, and returns what opens the store.
func (a *atRestFlag) load(c *cobra.Command) (*dsn.Options, error) {
	o := &dsn.Options{PlainAtRest: a.plain}
	if !c.Flags().Changed("storage-ring") {
		return o, nil
	}
	if err := (&ringFlag{a.spec}).check(); err != nil {
		return nil, usagef("--storage-ring: %w", err)
	}
	ring, err := (&ringFlag{a.spec}).load(c.Context())
	if err != nil {
		return nil, err
	}
	if o.AtRest, err = atrest.New(keyring.Fixed(ring)); err != nil {
		return nil, usagef("--storage-ring: %w", err)
	}
	a.ring = ring
	return o, nil
}

// busy shows on a terminal that the command is at work, until it is stopped.
func busy(c *cobra.Command, what string) (stop func()) {
	w := c.ErrOrStderr()
	if !showsColours(w) {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		began, tick := time.Now(), time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			fmt.Fprintf(w, "\rfoil: %s, %v ", what, time.Since(began).Round(time.Second))
			select {
			case <-tick.C:
			case <-done:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// closeStore closes s and keeps the error, unless there is one before it.
func closeStore(s dsn.Store, err *error) {
	if e := s.Close(); *err == nil {
		*err = e
	}
}
