package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/ledger"
)

// principalFlag selects the operations of one principal. A store has only salted
// tags of them, so each row is compared.
type principalFlag struct {
	given     bool
	anonymous bool
	text      string // as it is tagged
}

func (f *principalFlag) add(c *cobra.Command) {
	c.Flags().Var(f, "principal", `only of this principal: its string, as ["app","https://login.example","alice"], or as 'foil token --help' has it`)
	_ = c.RegisterFlagCompletionFunc("principal", cobra.NoFileCompletions)
}

// Set implements pflag.Value. What begins as JSON of an object or a string is that,
// null is anonymous, and everything else is the principal's string itself.
func (f *principalFlag) Set(s string) (err error) {
	*f = principalFlag{given: true, text: s}
	switch {
	case s == "null":
		f.anonymous = true
	case strings.HasPrefix(s, `"`):
		n := 0
		if f.text, n, err = canonjson.DecodeString([]byte(s)); err != nil || n != len(s) {
			return fmt.Errorf("a string must be one JSON string")
		}
	case strings.HasPrefix(s, "{"):
		var client, issuer, subject string
		if err := principalParts([]byte(s), map[string]*string{"client_id": &client, "issuer": &issuer, "subject": &subject}); err != nil {
			return fmt.Errorf("it %s", plain(err))
		}
		if f.text = loginString(client, issuer, subject); f.text == "" {
			return fmt.Errorf("it names nobody: give a client_id, or an issuer and a subject; null is a server without login")
		}
	}
	return nil
}

func (f *principalFlag) String() string { return f.text }

// Type names the value in the help.
func (f *principalFlag) Type() string { return "principal" }

// warn says that nobody may have this string.
func (f *principalFlag) warn(c *cobra.Command) {
	if f.given && !f.anonymous && !ofLogin(f.text) {
		fmt.Fprintln(c.ErrOrStderr(), `foil: warning: the principal is used as it is, and is none that foil's logins give: those are compact JSON arrays ["client_id","issuer","subject"], see 'foil token --help'`)
	}
}

// selects reports whether the operation is this principal's. The comparison takes
// the same time wherever tags differ.
func (f *principalFlag) selects(op *ledger.Operation) bool {
	switch {
	case !f.given:
		return true
	case f.anonymous || len(op.Principal) != ledger.PrincipalLen:
		return f.anonymous && len(op.Principal) == 0
	}
	c := claims.Claims{Principal: [ledger.PrincipalLen]byte(op.Principal), HasPrincipal: true}
	return c.IsPrincipal(f.text)
}

// loginString is the string that foil.OAuth gives these parts, "" if they name
// nobody.
func loginString(client, issuer, subject string) string {
	if client+issuer+subject == "" {
		return ""
	}
	b := canonjson.AppendString([]byte("["), client)
	for _, part := range []string{issuer, subject} {
		b = append(b, ',')
		if part == "" {
			b = append(b, "null"...)
		} else {
			b = canonjson.AppendString(b, part)
		}
	}
	return string(append(b, ']'))
}

// momentFlag is a time, or how long ago it was by this machine's clock.
type momentFlag struct{ atFlag }

func (f *momentFlag) add(c *cobra.Command, name, usage string) {
	c.Flags().Var(f, name, usage+": RFC 3339, Unix seconds, or an age as 2h")
	_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
}

// Set implements pflag.Value.
func (f *momentFlag) Set(s string) error {
	if f.atFlag.Set(s) == nil {
		return nil
	}
	age, err := time.ParseDuration(s)
	if err != nil || age < 0 || age == math.MaxInt64 {
		return fmt.Errorf("it is neither RFC 3339, as 2026-11-30T14:02:00Z, nor Unix seconds, nor an age, as 2h or 90m")
	}
	f.given, f.time = true, time.Now().Add(-age)
	return nil
}
