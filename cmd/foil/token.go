package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/keyring"
)

// The commands under foil token work on one token, away from any server. They
// spend nothing: no store is ever asked.

func newTokenCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Seal, open and explain single tokens",
		Long: `Seal, open and explain single tokens, away from any server. Nothing is spent.

Each command reads one JSON object from standard input:

  method      tools/call, prompts/get or resources/read
  params      the request's params, taken as raw text
  principal   who asked: its parts, its string, or null for a server without login
  audience    the service, as in foil.Options, or null for none
  state       seal: the handler's state
  token       open, inspect: the requestState; left out, it is that of params

A whole JSON-RPC request will do with principal and audience added: its jsonrpc and
id are passed over. seal needs all members but token, open all but state, inspect the
token alone.

A principal is what the server's login knows of who asks:

  {"client_id":"app","issuer":"https://login.example","subject":"alice"}
                                                   a login; what is unknown is left out
  "[\"app\",\"https://login.example\",\"alice\"]"  the same as its string
  "[\"\",\"https://login.example\",\"alice\"]"     no client
  "[\"app\",null,null]"                            neither issuer nor subject
  "[\"\",\"fixed\",\"local\"]"                     mcpsdk.Fixed("local"), as on stdio
  null                                             mcpsdk.Anonymous

The string is a JSON array in compact form: no spaces, "" for a missing client, null
for a missing issuer or subject, and what is not ASCII as \u escapes. Any other
string is used as it is, with a warning.

Duplicate keys in the arguments, which a server refuses, are allowed here and
reported as "ambiguous":true.`,
		Example: `  foil token open --ring file:ring.json <request.json
  foil token open --ring file:ring.json --at 2026-11-30T14:02:00Z <request.json
  echo '{"token":"v1.…"}' | foil token inspect
  echo '{"method":"tools/call","params":{"name":"purge","arguments":{}},"audience":"storage",
    "principal":{"client_id":"app","issuer":"https://login.example","subject":"alice"},
    "state":"s"}' | foil token seal --ring file:ring.json
  echo '{"method":"tools/call","params":{"name":"purge","arguments":{}},"audience":"storage",
    "principal":"[\"\",\"fixed\",\"local\"]","state":"s"}' | foil token seal --ring file:ring.json`,
	}
	c.AddCommand(newSealCmd(), newOpenCmd(), newInspectCmd())
	return group(c)
}

func newSealCmd() *cobra.Command {
	var k keyFlags
	var codec codecFlag
	var at atFlag
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "seal",
		Short: "Seal a state: prints {\"token\":…}",
		Long: `Seal a state as a server would: prints {"token":…}. Without --codec the token is
encrypted. The object on standard input is described by 'foil token --help'.`,
		Example: `  echo '{"method":"tools/call","params":{"name":"purge","arguments":{"prefix":"logs/"}},
    "principal":null,"audience":null,"state":"s"}' | foil token seal --ring file:ring.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in, err := readTokenInput(c, "method", "params", "principal", "audience", "state")
			if err != nil {
				return err
			}
			if err := in.sealable(); err != nil {
				return err
			}
			g, _, err := in.guard(c, &k, codec.tokenFormat, at.clock(), ttl)
			if err != nil {
				return err
			}
			token, err := g.Seal(c.Context(), in.request(), foil.Outgoing{State: *in.state})
			if err != nil {
				if r := foil.ReasonOf(err); r != "" {
					return refusedf("not sealed: %s", r)
				}
				return err
			}
			return printJSON(c.OutOrStdout(), struct {
				Token     string `json:"token"`
				Ambiguous bool   `json:"ambiguous,omitempty"`
			}{token, in.ambiguous})
		},
	}
	k.add(c)
	codec.add(c)
	at.add(c)
	addJSONAlways(c)
	c.Flags().DurationVar(&ttl, "ttl", 0, "life of the token (default: 10m, or the ring's max_ttl if that is shorter)")
	return c
}

// revocationHasNoTime is said where --at suggests otherwise.
const revocationHasNoTime = `A ring does not record when a key was revoked. A revoked key opens nothing, whatever
--at is: also before the revocation its tokens are unknown_key.`

func newOpenCmd() *cobra.Command {
	var k keyFlags
	var format codecFlag
	var at atFlag
	c := &cobra.Command{
		Use:   "open",
		Short: "Open a token as a server would: prints its state, or the reason",
		Long: `Open a token for a request as a server with every binding in force would, but
without asking or telling any store of spent tokens. Prints

  {"ok":true,"state":…,"claims":{…}}   exit code 0
  {"ok":false,"reason":…}              exit code 1

The object on standard input is described by 'foil token --help'. Of a token with
the reason unknown_key, 'foil token inspect' tells whether the ring lists its key.

` + revocationHasNoTime,
		Example: `  foil token open --ring file:ring.json <request.json
  foil token open --secret-file key.bin --at 1790495435.5 <request.json
  foil token open --codec signed --ring file:ring.json <request.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in, err := readTokenInput(c, "token", "method", "params", "principal", "audience")
			if err != nil {
				return err
			}
			g, codec, err := in.guard(c, &k, format.tokenFormat, at.clock(), 0)
			if err != nil {
				return err
			}
			return in.open(c.Context(), g, codec, c.OutOrStdout())
		},
	}
	k.add(c)
	format.add(c)
	at.add(c)
	addJSONAlways(c)
	return c
}

func (in *tokenInput) open(ctx context.Context, g *foil.Guard, codec foil.Codec, w io.Writer) error {
	o, err := g.Open(ctx, in.request(), in.token)
	if r := foil.ReasonOf(err); r != "" {
		if err := printJSON(w, struct {
			OK        bool        `json:"ok"`
			Reason    foil.Reason `json:"reason"`
			Ambiguous bool        `json:"ambiguous,omitempty"`
		}{false, r, in.ambiguous}); err != nil {
			return err
		}
		return errRefused
	}
	if err != nil {
		return err
	}
	payload, err := codec.Open(ctx, in.token)
	if err != nil {
		return err
	}
	// The state may hold lone surrogates, which encoding/json would lose.
	b := canonjson.AppendString([]byte(`{"ok":true,"state":`), o.State())
	b = append(append(b, `,"claims":`...), payload...)
	if in.ambiguous {
		b = append(b, `,"ambiguous":true`...)
	}
	_, err = w.Write(append(b, "}\n"...))
	return err
}

// guard builds the Guard that the request would have met, with single use off
// and the clock at the given time.
func (in *tokenInput) guard(c *cobra.Command, k *keyFlags, format *tokenFormat, now func() time.Time, ttl time.Duration) (*foil.Guard, foil.Codec, error) {
	ring, err := k.load(c)
	if err != nil {
		return nil, nil, err
	}
	if ring == nil {
		return nil, nil, usagef("no keys: give --ring SOURCE, --secret-file PATH or --secret-hex HEX")
	}
	codec, err := format.open(keyring.Fixed(ring), now)
	if err != nil {
		return nil, nil, err
	}
	g, err := foil.New(codec, &foil.Options{
		Audience:           in.audience,
		NoAudience:         in.noAudience,
		Once:               foil.Off,
		TTL:                ttl,
		AmbiguousArguments: foil.Allow,
		Logger:             slog.New(slog.DiscardHandler),
		Now:                now,
	})
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	return g, codec, nil
}

// addJSONAlways takes the flag that other commands need.
func addJSONAlways(c *cobra.Command) {
	c.Flags().Bool("json", false, "print JSON, as without this flag")
}
