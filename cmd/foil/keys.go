package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/openbao"
)

// The commands under foil keys make, show and change a key ring. Only export
// prints secrets.

func newKeysCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "Make, show, rotate, revoke, drop, export and watch keys",
		Long: `Make, show and change the keys of a server or a fleet.

--ring names where they are kept:

  PATH, file:PATH      a file, which must belong to the user that runs the server and
                       be readable by that user alone (the shell does not expand ~
                       after file:)
  openbao:MOUNT/PATH   a document in a KV engine of OpenBao; server and login as for
                       'foil openbao': BAO_ADDR, BAO_TOKEN or BAO_ROLE_ID …
  env:NAME             a document in an environment variable, which can be read and
                       not changed
  transit:MOUNT/KEY    a Transit key, which never leaves OpenBao: no ring, and no
                       schedule, as every server asks for each token

A rotation is one write. Servers follow it by themselves, by the clock: none needs to
be told, reloaded or restarted.

Exit codes: 0 done, or all is well; 1 refused, or status found something; 2 usage;
3 the source or the system failed.`,
		Example: `  foil keys new --ring file:ring.json
  foil keys show --ring openbao:foil/ring
  foil keys rotate --every 24h --ring file:ring.json
  foil keys status --ring openbao:foil/ring --replica http://10.0.0.7:8080 --replica http://10.0.0.8:8080
  foil keys watch --ring file:ring.json
  foil keys revoke 2026-11-30a --ring file:ring.json
  foil keys rotate --ring transit:transit/state
  foil keys drop 2026-11-30a --yes --ring file:rows.json
  foil keys export --format python --ring file:interop.json`,
	}
	c.AddCommand(newKeysNewCmd(), newKeysShowCmd(), newKeysRotateCmd(), newKeysRevokeCmd(), newKeysDropCmd(), newKeysExportCmd(), newKeysStatusCmd(), newKeysWatchCmd())
	return group(c)
}

func newKeysNewCmd() *cobra.Command {
	var ring ringFlag
	var interop, storage, asJSON bool
	var propagation, skew, maxTTL, keep time.Duration
	c := &cobra.Command{
		Use:   "new",
		Short: "Make a ring with one key that seals at once",
		Long: `Make a ring with one key that seals at once. A ring that exists is never
overwritten: that is exit code 1. The directory, or the engine of OpenBao, must
exist; 'foil openbao setup' makes engines.

With transit:MOUNT/KEY it makes the Transit key, which cannot leave OpenBao; the
flags that describe a ring are not for it.

The four durations are promises that the schedule of every rotation is built on.
They are whole seconds and the same for all servers of the ring.

With --storage the keys seal what stores keep (parked plans, recorded outcomes,
handles) and no tokens. They open until 'foil keys drop', so --max-ttl and --keep
are not for such a ring.`,
		Example: `  foil keys new --ring file:ring.json
  foil keys new --ring file:ring.json --propagation 1m --skew 5s --max-ttl 15m
  foil keys new --ring file:interop.json --interop
  foil keys new --ring file:rows.json --storage
  foil keys new --ring openbao:foil/ring
  foil keys new --ring transit:transit/state`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if path, ok := ring.transitPath(); ok {
				return newTransit(c, asJSON, path)
			}
			o := &keyring.RingOptions{Propagation: propagation, Skew: skew, MaxTTL: maxTTL, Keep: keep, Interop: interop, Storage: storage}
			// For the library zero means the default; on a command line it means zero.
			f := c.Flags()
			if storage && (f.Changed("max-ttl") || f.Changed("keep")) {
				return usagef("--max-ttl and --keep are not for a storage ring, whose keys open until they are dropped")
			}
			for _, d := range []struct {
				name string
				to   *time.Duration
			}{{"propagation", &o.Propagation}, {"skew", &o.Skew}, {"max-ttl", &o.MaxTTL}, {"keep", &o.Keep}} {
				switch {
				case !f.Changed(d.name):
					*d.to = 0
				case *d.to < 0:
					return usagef("--%s must not be negative", d.name)
				case *d.to == 0:
					*d.to = -1 // none, or an error where none makes no sense
				}
			}
			r, err := keyring.NewRing(time.Now(), o)
			if err != nil {
				return usagef("%w", err)
			}
			if err := ring.create(c.Context(), r); err != nil {
				return ringError(err)
			}
			key := r.Keys()[0]
			return printChange(c, asJSON, ring.name(), &keyring.Change{Ring: r, Added: key.ID(), SealFrom: key.SealFrom()},
				fmt.Sprintf("created with key %s, which seals from now on", key.ID()))
		},
	}
	ring.add(c)
	f := c.Flags()
	f.BoolVar(&interop, "interop", false, "share the ring with replicas that enforce neither single use nor flow limits (the Python SDK's); it rotates by hand")
	f.BoolVar(&storage, "storage", false, "make a ring for what stores keep instead of tokens")
	c.MarkFlagsMutuallyExclusive("interop", "storage")
	f.DurationVar(&propagation, "propagation", keyring.DefaultPropagation, "how long a change may take to reach every server, outages included")
	f.DurationVar(&skew, "skew", keyring.DefaultSkew, "largest difference between any two clocks, the stores' included")
	f.DurationVar(&maxTTL, "max-ttl", keyring.DefaultMaxTTL, "longest life of a token")
	f.DurationVar(&keep, "keep", keyring.DefaultKeep, "how much longer a superseded key opens, for recorded outcomes (with --interop and --storage: 0)")
	addJSON(c, &asJSON)
	return c
}

func addJSON(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// ringError gives what the ring refuses exit code 1; all else is the system's.
func ringError(err error) error {
	for _, refusal := range []error{keyring.ErrExists, keyring.ErrInterop, keyring.ErrUnknownKey,
		keyring.ErrTooEarly, keyring.ErrNoStep, keyring.ErrStorage, keyring.ErrNoSealingKey, openbao.ErrVersion, openbao.ErrKeyExists} {
		if errors.Is(err, refusal) {
			return refusedf("%w", err)
		}
	}
	return err
}

// changed is what a change prints as JSON.
type changed struct {
	OK          bool     `json:"ok"`
	Changed     bool     `json:"changed"`
	Serial      int64    `json:"serial"`
	Added       string   `json:"added,omitempty"`
	SealFrom    string   `json:"seal_from,omitempty"`
	Removed     []string `json:"removed,omitempty"`
	Revoked     string   `json:"revoked,omitempty"`
	LostMinutes int      `json:"lost_minutes,omitempty"`
}

// printChange reports a change as JSON, or in the given words.
func printChange(c *cobra.Command, asJSON bool, ring string, ch *keyring.Change, words string) error {
	if asJSON {
		return printJSON(c.OutOrStdout(), changed{true, ch.Changed(), ch.Ring.Serial(), ch.Added, utcTime(ch.SealFrom),
			ch.Removed, ch.Revoked, ch.LostMinutes()})
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s, serial %d: %s\n", ring, ch.Ring.Serial(), words)
	return err
}

// utcTime writes a time, and nothing for the zero time.
func utcTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
