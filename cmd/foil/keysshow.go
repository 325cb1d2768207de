package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/atrest"
	"github.com/foilmcp/foil/keyring"
)

func newKeysShowCmd() *cobra.Command {
	var ring ringFlag
	var asJSON bool
	var at atFlag
	c := &cobra.Command{
		Use:   "show",
		Short: "Show which key does what, without secrets",
		Long: `Show which key does what, now or at another time, without secrets.

  sealing   seals new tokens and opens old ones
  pending   opens, and seals from its time on
  staged    opens, and seals when it is activated (interop rings)
  opening   superseded: still opens
  closed    no longer opens; leaves the ring with a later rotation
  revoked   withdrawn: opens nothing

KID is how tokens and log lines name the key: one for each format of tokens, aesgcm
and signed, or the one of sealed rows for a storage ring. 'foil keys revoke' and
'foil keys drop' take KEY.

Of a Transit key the versions are shown: tokens say which sealed them (vault:v3:…).`,
		Example: `  foil keys show --ring file:ring.json
  foil keys show --ring file:ring.json --at 2026-11-30T14:02:00Z
  foil keys show --ring openbao:foil/ring
  foil keys show --ring transit:transit/state
  foil keys show --ring env:FOIL_RING --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if path, ok := ring.transitPath(); ok {
				if at.given {
					return usagef("--at is for rings: a Transit key has no schedule")
				}
				return showTransit(c, asJSON, path)
			}
			r, err := ring.load(c.Context())
			if err != nil {
				return err
			}
			shown, err := describe(r, at.clock()())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), shown)
			}
			return shown.print(c, &ring)
		},
	}
	ring.add(c)
	at.add(c)
	addJSON(c, &asJSON)
	return c
}

type shownRing struct {
	Serial      int64      `json:"serial"`
	Interop     bool       `json:"interop"`
	Storage     bool       `json:"storage"`
	Propagation int64      `json:"propagation"`
	Skew        int64      `json:"skew"`
	MaxTTL      int64      `json:"max_ttl"`
	Keep        int64      `json:"keep"`
	Sealing     *string    `json:"sealing"` // null: nothing seals
	Keys        []shownKey `json:"keys"`
	Revoked     []string   `json:"revoked"`
}

type shownKey struct {
	ID        string `json:"id"`
	KID       string `json:"kid,omitempty"`         // as in tokens and logs: aesgcm
	KIDSigned string `json:"kid_signed,omitempty"`  // signed
	KIDAtRest string `json:"kid_at_rest,omitempty"` // of a storage ring, as in sealed rows
	State     string `json:"state"`
	SealFrom  string `json:"seal_from,omitempty"`
	OpenUntil string `json:"open_until,omitempty"`
}

func describe(r *keyring.Ring, now time.Time) (*shownRing, error) {
	seconds := func(d time.Duration) int64 { return int64(d / time.Second) }
	s := &shownRing{
		Serial: r.Serial(), Interop: r.Interop(), Storage: r.Storage(), Propagation: seconds(r.Propagation()), Skew: seconds(r.Skew()),
		MaxTTL: seconds(r.MaxTTL()), Keep: seconds(r.Keep()), Revoked: append([]string{}, r.RevokedIDs()...),
	}
	if sealing, err := r.Sealing(now); err == nil {
		id := sealing.ID()
		s.Sealing = &id
	}
	for _, k := range r.Keys() {
		kids, err := kidsOf(r, k)
		if err != nil {
			return nil, err
		}
		shown := shownKey{ID: k.ID(), State: keyState(r, k, now), SealFrom: utcTime(k.SealFrom())}
		if until, ok := k.OpenUntil(); ok && !k.Revoked() { // which opens nothing, whatever the schedule was
			shown.OpenUntil = utcTime(until)
		}
		if s.Storage {
			shown.KIDAtRest = kids[0]
		} else {
			shown.KID, shown.KIDSigned = kids[0], kids[1]
		}
		s.Keys = append(s.Keys, shown)
	}
	return s, nil
}

// kidsOf returns how a key of the ring is named by what it seals: by tokens, in the
// order of tokenFormats, or by rows.
func kidsOf(r *keyring.Ring, k *keyring.Key) ([]string, error) {
	if r.Storage() {
		kid, err := atrest.KeyIDOf(k)
		return []string{kid}, err
	}
	var kids []string
	for _, f := range tokenFormats {
		kid, err := f.kid(k)
		if err != nil {
			return nil, err
		}
		kids = append(kids, kid)
	}
	return kids, nil
}

// keyState says what a key of the ring does at now.
func keyState(r *keyring.Ring, k *keyring.Key, now time.Time) string {
	sealing, _ := r.Sealing(now) // nil: none
	switch {
	case k.Revoked():
		return "revoked"
	case !k.Opens(now):
		return "closed"
	case k == sealing:
		return "sealing"
	case k.SealFrom().IsZero():
		return "staged"
	case k.SealFrom().After(now):
		return "pending"
	default:
		return "opening"
	}
}

func (s *shownRing) print(c *cobra.Command, ring *ringFlag) error {
	kind := ""
	switch {
	case s.Interop:
		kind = ", interop"
	case s.Storage:
		kind = ", storage"
	}
	length := func(seconds int64) time.Duration { return time.Duration(seconds) * time.Second }
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s, serial %d%s\n", ring.name(), s.Serial, kind)
	fmt.Fprintf(w, "propagation %v, skew %v", length(s.Propagation), length(s.Skew))
	if s.Storage {
		fmt.Fprint(w, "; keys open until they are dropped\n\nKEY\tKID\tSTATE\tSEALS FROM\n")
	} else {
		fmt.Fprintf(w, ", max ttl %v, keep %v\n\nKEY\tKID AESGCM\tKID SIGNED\tSTATE\tSEALS FROM\tOPENS UNTIL\n", length(s.MaxTTL), length(s.Keep))
	}
	dash := func(t string) string {
		if t == "" {
			return "-"
		}
		return t
	}
	for _, k := range s.Keys {
		if s.Storage {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.ID, k.KIDAtRest, k.State, dash(k.SealFrom))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.KID, k.KIDSigned, k.State, dash(k.SealFrom), dash(k.OpenUntil))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if s.Sealing == nil {
		fmt.Fprintln(c.ErrOrStderr(), "foil: warning: no key of this ring seals at that time: rotate it")
	}
	return nil
}

func newKeysExportCmd() *cobra.Command {
	var ring ringFlag
	var format string
	c := &cobra.Command{
		Use:   "export",
		Short: "Print the keys, secrets included, for another program",
		Long: `Print the keys to standard output, SECRETS INCLUDED.

  --format python   what to paste into a server of the Python SDK: the key that
                    seals first, then all others that open. Interop rings only,
                    as that SDK enforces neither single use nor flow limits.
  --format ring     the ring document, for example for an environment variable`,
		Example: `  foil keys export --format python --ring file:interop.json >keys.py
  FOIL_RING="$(foil keys export --format ring --ring file:ring.json)" server`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "python" && format != "ring" {
				return usagef("--format must be python or ring")
			}
			if _, ok := ring.transitPath(); ok {
				return usagef("--ring: %s: a Transit key never leaves OpenBao: there is nothing to export; a server of another program calls Transit itself", ring.name())
			}
			r, err := ring.load(c.Context())
			if err != nil {
				return err
			}
			text := string(r.Marshal())
			if format == "python" {
				if text, err = r.ExportPython(time.Now()); err != nil {
					return ringError(err)
				}
			}
			if isTerminal(c.OutOrStdout()) {
				fmt.Fprintln(c.ErrOrStderr(), "foil: warning: these are the secrets of the ring, and now they are on this terminal and in its history")
			}
			_, err = fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
	ring.add(c)
	c.Flags().StringVar(&format, "format", "", "python or ring (required)")
	_ = c.MarkFlagRequired("format") // fails for an unknown flag only
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"python", "ring"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}
