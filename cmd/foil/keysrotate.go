package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/keyring"
)

// maxJitter is the longest that rotate --every waits unless told otherwise.
const maxJitter = 10 * time.Second

func newKeysRotateCmd() *cobra.Command {
	var ring ringFlag
	var asJSON bool
	var every, jitter time.Duration
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Add a key that takes over when every server knows it",
		Long: `Add a key that takes over when every server knows it, and let the keys before it
open for as long as anything they sealed may come back. Nothing else is to be done.

With --every the ring is rotated only if its newest key is at least that old, so
that a timer on every server may run this, all at once: one of them rotates, and the
others find that it did. It waits a little first, at random, so that they do not all
write.

A Transit key gets a version that seals everywhere at once; with --every (an hour at
least) OpenBao rotates it by itself from then on.

The keys of a storage ring open until 'foil keys drop'. An interop ring rotates in
three steps, by hand: stage, activate, retire.`,
		Example: `  foil keys rotate --ring file:ring.json
  foil keys rotate --every 24h --ring openbao:foil/ring
  foil keys rotate --ring transit:transit/state
  foil keys rotate stage --ring file:interop.json`,
		Args: noOtherCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			f := c.Flags()
			switch {
			case f.Changed("every") && every <= 0:
				return usagef("--every must be more than zero")
			case f.Changed("jitter") && every == 0:
				return usagef("--jitter is for --every")
			case jitter < 0:
				return usagef("--jitter must not be negative")
			}
			if path, ok := ring.transitPath(); ok {
				return rotateTransit(c, asJSON, path, every)
			}
			kept := fmt.Sprintf("not rotated, the newest key is younger than %v", every)
			if every > 0 {
				r, err := ring.load(c.Context())
				if err != nil {
					return err
				}
				ch, err := r.Rotate(time.Now(), every)
				if err != nil {
					return ringError(err)
				}
				if !ch.Changed() { // as on most runs, and nothing was written to find out
					return printChange(c, asJSON, ring.name(), ch, kept)
				}
				if !f.Changed("jitter") {
					jitter = min(every/100, maxJitter)
				}
				if err := sleep(c.Context(), rand.N(jitter+1)); err != nil {
					return err
				}
			}
			return ring.change(c, asJSON, func(r *keyring.Ring, now time.Time) (*keyring.Change, error) {
				return r.Rotate(now, every)
			}, func(ch *keyring.Change) string {
				if !ch.Changed() {
					return kept
				}
				return fmt.Sprintf("rotated, key %s seals from %s%s", ch.Added, utcTime(ch.SealFrom), removed(ch))
			})
		},
	}
	ring.add(c)
	addJSON(c, &asJSON)
	c.Flags().DurationVar(&every, "every", 0, "rotate only if the newest key is at least this old")
	c.Flags().DurationVar(&jitter, "jitter", 0, "with --every, wait up to so long before a rotation, at random (default a hundredth of --every, at most 10s)")
	c.AddCommand(newKeysStageCmd(), newKeysActivateCmd(), newKeysRetireCmd())
	return c
}

func newKeysStageCmd() *cobra.Command {
	var ring ringFlag
	var asJSON bool
	c := &cobra.Command{
		Use:   "stage",
		Short: "Interop, step 1: add a key that only opens",
		Long: `Add a key to an interop ring that opens and does not seal yet. Then give every
server that reads its keys at start the new export and restart it, all of them,
before the next step.`,
		Example: `  foil keys rotate stage --ring file:interop.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return ring.change(c, asJSON, (*keyring.Ring).Stage, func(ch *keyring.Change) string {
				return fmt.Sprintf("staged key %s, which opens\n%s", ch.Added, ring.restart("When all have", "activate"))
			})
		},
	}
	ring.add(c)
	addJSON(c, &asJSON)
	return c
}

func newKeysActivateCmd() *cobra.Command {
	var ring ringFlag
	var asJSON bool
	c := &cobra.Command{
		Use:   "activate",
		Short: "Interop, step 2: let the staged key seal",
		Long: `Let the staged key of an interop ring seal: in the export at once, and on servers
that follow the ring when every one of them knows it. Every server that reads its
keys at start must have been restarted since the key was staged. Then give those
servers the new export and restart them, all of them, before the next step.`,
		Example: `  foil keys rotate activate --ring file:interop.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return ring.change(c, asJSON, (*keyring.Ring).Activate, func(ch *keyring.Change) string {
				return fmt.Sprintf("activated key %s, which seals from %s\n%s", ch.Added, utcTime(ch.SealFrom),
					ring.restart(fmt.Sprintf("%v after the last restart", ch.Ring.MaxTTL()), "retire"))
			})
		},
	}
	ring.add(c)
	addJSON(c, &asJSON)
	return c
}

func newKeysRetireCmd() *cobra.Command {
	var ring ringFlag
	var asJSON, force bool
	c := &cobra.Command{
		Use:   "retire",
		Short: "Interop, step 3: take the old keys out",
		Long: `Take the keys before the sealing one out of an interop ring. Every server that
reads its keys at start must have been restarted since the activation, and the
longest life of a token have passed after that. Of that time the ring knows only its
own part: it refuses while tokens of servers that follow it may be under way.`,
		Example: `  foil keys rotate retire --ring file:interop.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return ring.change(c, asJSON, func(r *keyring.Ring, now time.Time) (*keyring.Change, error) {
				return r.Retire(now, force)
			}, func(ch *keyring.Change) string {
				return "retired" + removed(ch) + "\n" + ring.restart("", "")
			})
		},
	}
	ring.add(c)
	addJSON(c, &asJSON)
	c.Flags().BoolVar(&force, "force", false, "retire although tokens of the old keys may be under way: they will be refused")
	return c
}

func newKeysRevokeCmd() *cobra.Command {
	var ring ringFlag
	var asJSON, force bool
	c := &cobra.Command{
		Use:   "revoke KEY",
		Short: "Withdraw a key: nothing sealed under it opens any more",
		Long: `Withdraw a key, for example because its secret got out. Servers that follow the
ring stop honouring it with their next refresh, and without one after an hour at the
latest (their MaxStale). KEY is the key's name in 'foil keys show', and not the KID of
tokens and logs, which two keys can share. If it is the key that seals, a new one takes over at once.

What that costs is printed: honest flows that are under way are refused and begin
again.

In a storage ring it costs every row that is still sealed under the key, so it needs
--force. It is right only if whoever has the secret can also write to the store; if
not, rotate, and drop the key when no row uses it.

Of a Transit key KEY is a version, such as 3: it and all before it open nothing from
then on, anywhere. In OpenBao the older documents of a ring, which still hold the key,
are destroyed.`,
		Example: `  foil keys revoke 2026-11-30a --ring file:ring.json
  foil keys revoke 2026-11-30a --ring openbao:foil/ring
  foil keys revoke 3 --ring transit:transit/state
  foil keys revoke 2026-11-30a --force --ring file:rows.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if path, ok := ring.transitPath(); ok {
				if force {
					return usagef("--force is for storage rings, and this is none")
				}
				return revokeTransit(c, asJSON, path, args[0])
			}
			return ring.change(c, asJSON, func(r *keyring.Ring, now time.Time) (*keyring.Change, error) {
				revoke := r.Revoke
				switch {
				case force && !r.Storage():
					return nil, usagef("--force is for storage rings, and this is none")
				case force:
					revoke = r.RevokeStored
				case r.Storage() && r.Key(args[0]) != nil:
					return nil, usagef("this is a storage ring: revoking %s loses every row that is still sealed under it. Rotate, and drop the key when no row uses it; or add --force", args[0])
				}
				ch, err := revoke(now, args[0])
				if errors.Is(err, keyring.ErrUnknownKey) {
					if err := ring.notKID(r, "revoke", args[0]); err != nil {
						return nil, err
					}
				}
				return ch, err
			}, func(ch *keyring.Change) string {
				if !ch.Changed() {
					return fmt.Sprintf("key %s was revoked before", args[0])
				}
				words := "revoked key " + ch.Revoked
				if ch.Added != "" {
					words += fmt.Sprintf("; key %s seals from %s", ch.Added, utcTime(ch.SealFrom))
				}
				if ch.Lost > 0 {
					words += fmt.Sprintf("\nThis costs at most %s of flows: those under way are refused and begin again.", minutes(ch.LostMinutes()))
				}
				if ch.Ring.Storage() {
					words += "\nWhatever is still sealed under it can no longer be read."
				}
				if ch.Ring.Interop() {
					words += "\n" + ring.restart("", "")
				}
				return words
			})
		},
	}
	ring.add(c)
	addJSON(c, &asJSON)
	c.Flags().BoolVar(&force, "force", false, "revoke a key of a storage ring: every row that is sealed under it is lost")
	return c
}

// change applies fn to the ring in its store and reports what that did.
func (r *ringFlag) change(c *cobra.Command, asJSON bool, fn func(*keyring.Ring, time.Time) (*keyring.Change, error), words func(*keyring.Change) string) error {
	var ch *keyring.Change
	err := r.update(c.Context(), func(ring *keyring.Ring) (*keyring.Ring, error) {
		var err error
		if ch, err = fn(ring, time.Now()); err != nil {
			return nil, err
		}
		return ch.Ring, nil
	})
	if err != nil {
		return ringError(err)
	}
	return printChange(c, asJSON, r.name(), ch, words(ch))
}

// sleep waits, and not longer than ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func removed(ch *keyring.Change) string {
	if len(ch.Removed) == 0 {
		return ""
	}
	s := ", removed"
	for _, id := range ch.Removed {
		s += " " + id
	}
	return s
}

// restart says what is to be done by hand after a change of an interop ring.
func (r *ringFlag) restart(when, step string) string {
	s := "Now run: foil keys export --format python --ring " + quote(r.spec) +
		"\nand restart with that every server that reads its keys at start."
	if step != "" {
		s += fmt.Sprintf("\n%s, run: foil keys rotate %s --ring %s", when, step, quote(r.spec))
	}
	return s
}

// notKID refuses the KID of a key of the ring in the place of the key's name: two keys
// can have the same.
func (r *ringFlag) notKID(ring *keyring.Ring, verb, kid string) error {
	var ids []string
	for _, k := range ring.Keys() {
		kids, err := kidsOf(ring, k)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(kids, func(of string) bool { return strings.EqualFold(of, kid) }) {
			ids = append(ids, k.ID())
		}
	}
	switch len(ids) {
	case 0:
		return nil
	case 1:
		return usagef("that is the KID of %s: foil keys %s %s --ring %s", ids[0], verb, ids[0], quote(r.spec))
	}
	return usagef("that is the KID of %s: name the one to %s", strings.Join(ids, " and of "), verb)
}

func minutes(n int) string {
	if n == 1 {
		return "1 minute"
	}
	return fmt.Sprintf("%d minutes", n)
}
