package main

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/keyring"
)

func newInspectCmd() *cobra.Command {
	var k keyFlags
	var at atFlag
	c := &cobra.Command{
		Use:   "inspect",
		Short: "Tell what can be known of a token without a request",
		Long: `Tell what can be known of a token without a request. Without keys that is its
format, the key it names, and the fingerprint by which logs call it. With keys
it is also which key of the ring that is, what the token claims, and whether its
time is over. The formats are v1 (aesgcm) and h1 (signed).

A key that the ring still lists is named also if it opens nothing any more:

  "opens":false,"reason":"unknown_key","key":"2026-11-30a","key_state":"revoked"

The states are those of 'foil keys show'.

` + revocationHasNoTime + `

Exit code 0 if the token is well-formed and, with keys, opens; else 1.`,
		Example: `  echo '{"token":"v1.…"}' | foil token inspect
  echo '{"token":"v1.…"}' | foil token inspect --ring file:ring.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in, err := readTokenInput(c, "token")
			if err != nil {
				return err
			}
			ring, err := k.load(c)
			if err != nil {
				return err
			}
			format, known := formatOf(in.token)
			report, err := inspect(c, in.token, format, ring, at.clock())
			if err == nil && known {
				report.Format = format.short
			}
			if err != nil {
				return err
			}
			if err := printJSON(c.OutOrStdout(), report); err != nil {
				return err
			}
			if report.Reason != "" {
				return errRefused
			}
			return nil
		},
	}
	k.add(c)
	at.add(c)
	addJSONAlways(c)
	return c
}

// An inspection is the output of foil token inspect; its form is stable.
type inspection struct {
	Format      string          `json:"format"`
	Bytes       int             `json:"bytes"`
	Fingerprint string          `json:"fingerprint"`
	KID         string          `json:"kid,omitempty"`
	Opens       *bool           `json:"opens,omitempty"`
	Reason      foil.Reason     `json:"reason,omitempty"`
	Key         string          `json:"key,omitempty"`
	KeyState    string          `json:"key_state,omitempty"`
	Claims      json.RawMessage `json:"claims,omitempty"`
	Issued      string          `json:"issued,omitempty"`
	Expires     string          `json:"expires,omitempty"`
	Deadline    string          `json:"deadline,omitempty"`
	InTime      *bool           `json:"in_time,omitempty"`
}

// formatOf returns the format that the token's own prefix names, as there is no
// server here that was set to one. What has none of them is measured by the
// default.
func formatOf(token string) (f *tokenFormat, known bool) {
	for _, f := range tokenFormats {
		if strings.HasPrefix(token, f.short+".") {
			return f, true
		}
	}
	return tokenFormats[0], false
}

func inspect(c *cobra.Command, token string, format *tokenFormat, ring *keyring.Ring, now func() time.Time) (*inspection, error) {
	r := &inspection{Format: "unknown", Bytes: len(token), Fingerprint: foil.Fingerprint(token)}
	if len(token) > foil.DefaultMaxToken {
		r.Reason = foil.ReasonTooLarge
		return r, nil
	}
	kid, err := format.parse(token)
	if err != nil {
		r.Reason = foil.ReasonOf(err)
		return r, nil
	}
	r.KID = kid
	if ring == nil {
		return r, nil
	}
	codec, err := format.open(keyring.Fixed(ring), now)
	if err != nil {
		return nil, err
	}
	if r.Key, r.KeyState, err = named(ring, format, kid, now()); err != nil {
		return nil, err
	}
	payload, err := codec.Open(c.Context(), token)
	opens := err == nil
	r.Opens = &opens
	if err != nil {
		if r.Reason = foil.ReasonOf(err); r.Reason == "" {
			return nil, err
		}
		return r, nil
	}
	r.Claims = payload
	cl, err := claims.Parse(payload)
	if err != nil {
		if !errors.Is(err, claims.ErrMalformed) {
			return nil, err
		}
		r.Reason = foil.ReasonMalformed
		return r, nil
	}
	r.Issued, r.Expires = stamp(cl.IssuedAt), stamp(cl.Expires)
	at := claims.Seconds(now())
	in := at < cl.Expires
	if cl.Own {
		r.Deadline = stamp(cl.Deadline)
		in = in && at < cl.Deadline
	}
	r.InTime = &in
	return r, nil
}

// named returns the keys of the ring that a token calls kid, and what they do: one,
// as a rule, also if it no longer opens.
func named(ring *keyring.Ring, format *tokenFormat, kid string, now time.Time) (ids, states string, err error) {
	var id, state []string
	for _, k := range ring.Keys() {
		switch of, err := format.kid(k); {
		case err != nil:
			return "", "", err
		case of == kid:
			id, state = append(id, k.ID()), append(state, keyState(ring, k, now))
		}
	}
	return strings.Join(id, ","), strings.Join(state, ","), nil
}

// stamp is a claim's time for people.
func stamp(s float64) string { return claims.Time(s).UTC().Format(time.RFC3339Nano) }
