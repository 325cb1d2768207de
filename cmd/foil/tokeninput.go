package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/canonjson"
)

// A tokenInput is the JSON object on standard input.
type tokenInput struct {
	method     string
	rawParams  []byte
	target     string
	arguments  []byte
	answers    []byte
	principal  foil.Principal
	foreign    bool // the principal is a string that OAuth does not write
	audience   string
	noAudience bool
	token      string
	state      *string
	ambiguous  bool
	seen       map[string]bool
}

const maxInput = 8 << 20

var inputLimits = canonjson.Limits{MaxBytes: maxInput, MaxDepth: 80}

// readTokenInput reads the object; need names the members that must be there.
func readTokenInput(c *cobra.Command, need ...string) (*tokenInput, error) {
	if isTerminal(c.InOrStdin()) {
		fmt.Fprintln(c.ErrOrStderr(), "foil: reading one JSON object from the terminal, to be ended with Ctrl-D; 'foil token --help' says what is in it")
	}
	text, err := io.ReadAll(io.LimitReader(c.InOrStdin(), maxInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("standard input: %w", err)
	case len(text) > maxInput:
		return nil, usagef("standard input has more than %d bytes", maxInput)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, usagef("standard input is empty: it must be one JSON object, as 'foil token --help' says")
	}
	in := &tokenInput{principal: foil.Anonymous(), noAudience: true, seen: map[string]bool{}}
	var bad error
	err = canonjson.Object(text, &inputLimits, func(key string, value []byte) bool {
		if in.seen[key] {
			bad = fmt.Errorf("the member %q is given twice", key)
			return false
		}
		in.seen[key] = true
		if err := in.set(key, value); err != nil {
			bad = fmt.Errorf("the member %q %w", key, err)
		}
		return bad == nil
	})
	if err != nil && bad == nil {
		return nil, usagef("standard input is not one JSON object: %s", plain(err))
	}
	if bad == nil {
		bad = in.params()
	}
	if bad == nil {
		bad = in.missing(need)
	}
	if bad != nil {
		return nil, usagef("standard input: %w", bad)
	}
	if in.foreign && slices.Contains(need, "principal") {
		fmt.Fprintln(c.ErrOrStderr(), `foil: warning: the principal is used as it is, and is none that foil's logins give: those are compact JSON arrays ["client_id","issuer","subject"], see 'foil token --help'`)
	}
	return in, nil
}

// missing names the first member that must be there and is not.
func (in *tokenInput) missing(need []string) error {
	for _, key := range need {
		switch {
		case in.seen[key]:
		case key == "token":
			return errors.New(`the member "token" is missing, and params have no requestState`)
		case key == "principal" || key == "audience":
			return fmt.Errorf("the member %q is missing: null says that there is none", key)
		default:
			return fmt.Errorf("the member %q is missing", key)
		}
	}
	return nil
}

// set takes a member. Its errors go on from the member's name.
func (in *tokenInput) set(key string, value []byte) (err error) {
	switch key {
	case "method":
		in.method, err = str(value)
	case "params":
		in.rawParams = value
	case "principal":
		err = in.setPrincipal(value)
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
	case "jsonrpc", "id": // of a whole request
	default:
		err = errors.New("is none of method, params, principal, audience, state and token")
	}
	return err
}

func (in *tokenInput) setPrincipal(value []byte) error {
	switch {
	case isNull(value):
	case value[0] == '"':
		s, err := str(value)
		if err != nil {
			return err
		}
		in.principal, in.foreign = foil.PrincipalString(s), !ofLogin(s)
	case value[0] == '{':
		var parts struct{ client, issuer, subject string }
		if err := principalParts(value, map[string]*string{"client_id": &parts.client, "issuer": &parts.issuer, "subject": &parts.subject}); err != nil {
			return err
		}
		in.principal = foil.OAuth(parts.client, parts.issuer, parts.subject)
		if in.principal.IsZero() {
			return errors.New("names nobody: give a client_id, or an issuer and a subject; null is a server without login")
		}
	default:
		return errors.New("must be an object, a string or null")
	}
	return nil
}

// principalParts reads an object of strings into their places. null leaves one empty.
func principalParts(object []byte, to map[string]*string) error {
	var bad error
	err := canonjson.Object(object, &inputLimits, func(key string, value []byte) bool {
		part := to[key]
		switch {
		case part == nil:
			bad = fmt.Errorf("has a part %q, which is none of client_id, issuer and subject, or is given twice", key)
		case !isNull(value):
			if *part, bad = str(value); bad != nil {
				bad = fmt.Errorf("has a part %q that %w", key, bad)
			}
		}
		delete(to, key)
		return bad == nil
	})
	if bad != nil {
		return bad
	}
	return err
}

// ofLogin reports whether s is a string that foil.OAuth writes.
func ofLogin(s string) bool {
	var parts []*string
	if json.Unmarshal([]byte(s), &parts) != nil || len(parts) != 3 || parts[0] == nil {
		return false
	}
	b := canonjson.AppendString([]byte("["), *parts[0])
	for _, p := range parts[1:] {
		b = append(b, ',')
		switch {
		case p == nil:
			b = append(b, "null"...)
		case *p == "":
			return false // OAuth writes null
		default:
			b = canonjson.AppendString(b, *p)
		}
	}
	return s == string(append(b, ']')) && s != `["",null,null]`
}

// params picks out what a state is bound to; of duplicates the last wins, as in
// the Python SDK.
func (in *tokenInput) params() error {
	if len(in.rawParams) == 0 || isNull(in.rawParams) {
		return nil
	}
	var name, uri, token []byte
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
		case "requestState":
			token = v
		}
		return true
	})
	if err != nil {
		return fmt.Errorf(`the member "params" must be a JSON object: %s`, plain(err))
	}
	target, what := name, "name"
	if in.method == foil.MethodResourcesRead {
		target, what = uri, "uri"
		in.arguments = nil
	}
	if target != nil {
		if in.target, err = str(target); err != nil {
			return fmt.Errorf("params: the %s %w", what, err)
		}
	}
	if token != nil && !in.seen["token"] {
		if in.token, err = str(token); err != nil {
			return fmt.Errorf("params: the requestState %w", err)
		}
		in.seen["token"] = true
	}
	if in.arguments != nil {
		// What cannot be summed is refused where it is used.
		sums, err := canonjson.Sum(in.arguments, nil)
		in.ambiguous = err == nil && sums.Ambiguous
	}
	return nil
}

// sealable says what is wrong with a request that no server would seal a state for.
func (in *tokenInput) sealable() error {
	switch in.method {
	case foil.MethodToolsCall, foil.MethodPromptsGet:
		if in.target == "" {
			return usagef("standard input: params have no name, which %s has", in.method)
		}
	case foil.MethodResourcesRead:
		if in.target == "" {
			return usagef("standard input: params have no uri, which %s has", in.method)
		}
	default:
		return usagef("standard input: the method is none of %s, %s and %s", foil.MethodToolsCall, foil.MethodPromptsGet, foil.MethodResourcesRead)
	}
	return nil
}

func (in *tokenInput) request() foil.Request {
	return foil.Request{Method: in.method, Target: in.target, Arguments: in.arguments, Principal: in.principal, Answers: in.answers}
}

// str reads a string. Its errors go on from the name of what is read.
func str(value []byte) (string, error) {
	if len(value) == 0 || value[0] != '"' {
		return "", errors.New("must be a string")
	}
	s, _, err := canonjson.DecodeString(value)
	if err != nil {
		return "", fmt.Errorf("is no string: %s", plain(err))
	}
	return s, nil
}

// plain takes the name of a package that nobody has to know off its error.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "canonjson: ") }

func isNull(value []byte) bool { return bytes.Equal(value, []byte("null")) }
