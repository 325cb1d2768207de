package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/canonjson"
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
  principal   the principal's string, or null for none
  audience    the service, or null for none
  state       seal: the handler's state
  token       open, inspect: the requestState

Duplicate keys in the arguments, which a server refuses, are allowed here and
reported as "ambiguous":true.`,
		Example: `  foil token open --ring file:ring.json <request.json
  foil token open --ring file:ring.json --at 2026-11-30T14:02:00Z <request.json
  echo '{"token":"v1.…"}' | foil token inspect`,
	}
	c.AddCommand(newSealCmd(), newOpenCmd(), newInspectCmd())
	return group(c)
}

func newSealCmd() *cobra.Command {
	var k keyFlags
	var codec codecFlag
	var at string
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "seal",
		Short: "Seal a state: prints {\"token\":…}",
		Example: `  echo '{"method":"tools/call","params":{"name":"purge","arguments":{"prefix":"logs/"}},
    "principal":null,"audience":null,"state":"s"}' | foil token seal --ring file:ring.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in, err := readTokenInput(c.InOrStdin(), "state")
			if err != nil {
				return err
			}
			g, _, err := in.guard(c, &k, codec.tokenFormat, at, ttl)
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
	addAt(c, &at)
	c.Flags().DurationVar(&ttl, "ttl", 0, "life of the token (default: 10m, or the ring's max_ttl if that is shorter)")
	return c
}

func newOpenCmd() *cobra.Command {
	var k keyFlags
	var format codecFlag
	var at string
	c := &cobra.Command{
		Use:   "open",
		Short: "Open a token as a server would: prints its state, or the reason",
		Long: `Open a token for a request as a server with every binding in force would, but
without asking or telling any store of spent tokens. Prints

  {"ok":true,"state":…,"claims":{…}}   exit code 0
  {"ok":false,"reason":…}              exit code 1`,
		Example: `  foil token open --ring file:ring.json <request.json
  foil token open --secret-file key.bin --at 1790495435.5 <request.json
  foil token open --codec signed --ring file:ring.json <request.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in, err := readTokenInput(c.InOrStdin(), "token")
			if err != nil {
				return err
			}
			g, codec, err := in.guard(c, &k, format.tokenFormat, at, 0)
			if err != nil {
				return err
			}
			return in.open(c.Context(), g, codec, c.OutOrStdout())
		},
	}
	k.add(c)
	format.add(c)
	addAt(c, &at)
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
func (in *tokenInput) guard(c *cobra.Command, k *keyFlags, format *tokenFormat, at string, ttl time.Duration) (*foil.Guard, foil.Codec, error) {
	now, err := clockAt(at)
	if err != nil {
		return nil, nil, err
	}
	codec, err := k.codec(c, format, now)
	if err != nil {
		return nil, nil, err
	}
	if codec == nil {
		return nil, nil, usagef("no keys: give --ring SOURCE, --secret-file PATH or --secret-hex HEX")
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

// A tokenInput is the JSON object on standard input.
type tokenInput struct {
	method     string
	rawParams  []byte
	target     string
	arguments  []byte
	answers    []byte
	principal  foil.Principal
	audience   string
	noAudience bool
	token      string
	state      *string
	ambiguous  bool
}

const maxInput = 8 << 20

var inputLimits = canonjson.Limits{MaxBytes: maxInput, MaxDepth: 80}

// readTokenInput reads the object; need names the member that must be there.
func readTokenInput(r io.Reader, need string) (*tokenInput, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	in := &tokenInput{principal: foil.Anonymous(), noAudience: true}
	seen := map[string]bool{}
	var bad error
	err = canonjson.Object(text, &inputLimits, func(key string, value []byte) bool {
		if seen[key] {
			bad = fmt.Errorf("the member %q is given twice", key)
			return false
		}
		seen[key] = true
		if bad = in.set(key, value); bad != nil {
			bad = fmt.Errorf("%s: %w", key, bad)
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err == nil {
		if err = in.params(); err != nil {
			err = fmt.Errorf("params: %w", err)
		}
	}
	if err == nil && !seen[need] {
		err = fmt.Errorf("the member %q is missing", need)
	}
	if err != nil {
		return nil, usagef("standard input: %w; it must be one JSON object, see 'foil token --help'", err)
	}
	return in, nil
}

func (in *tokenInput) set(key string, value []byte) (err error) {
	switch key {
	case "method":
		in.method, err = str(value)
	case "params":
		in.rawParams = value
	case "principal":
		if !isNull(value) {
			var p string
			p, err = str(value)
			in.principal = foil.PrincipalString(p)
		}
	case "audience":
		if !isNull(value) {
			in.audience, err = str(value)
			in.noAudience = false
			if err == nil && in.audience == "" {
				err = errors.New("must not be empty; null is none")
			}
		}
	case "token":
		in.token, err = str(value)
	case "state":
		in.state = new(string)
		*in.state, err = str(value)
	default:
		err = errors.New("no such member")
	}
	return err
}

// params picks out what a state is bound to; of duplicates the last wins, as in
// the Python SDK.
func (in *tokenInput) params() error {
	if len(in.rawParams) == 0 || isNull(in.rawParams) {
		return nil
	}
	var name, uri []byte
	err := canonjson.Object(in.rawParams, &inputLimits, func(key string, v []byte) bool {
		switch key {
		case "name":
			name = v
		case "uri":
			uri = v
		case "arguments":
			in.arguments = v
		case "inputResponses":
			in.answers = v
		}
		return true
	})
	if err != nil {
		return err
	}
	target := name
	if in.method == foil.MethodResourcesRead {
		target = uri
		in.arguments = nil
	}
	if target != nil {
		if in.target, err = str(target); err != nil {
			return fmt.Errorf("name or uri: %w", err)
		}
	}
	if in.arguments != nil {
		// What cannot be summed is refused where it is used.
		sums, err := canonjson.Sum(in.arguments, nil)
		in.ambiguous = err == nil && sums.Ambiguous
	}
	return nil
}

func (in *tokenInput) request() foil.Request {
	return foil.Request{Method: in.method, Target: in.target, Arguments: in.arguments, Principal: in.principal, Answers: in.answers}
}

func str(value []byte) (string, error) {
	if len(value) == 0 || value[0] != '"' {
		return "", errors.New("must be a string")
	}
	s, _, err := canonjson.DecodeString(value)
	return s, err
}

func isNull(value []byte) bool { return bytes.Equal(value, []byte("null")) }
