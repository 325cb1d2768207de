package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/signed"
)

// A ringCodec is a codec with the keys of a ring.
type ringCodec interface {
	foil.Codec
	foil.Prefixer
}

// A tokenFormat is a codec by name.
type tokenFormat struct {
	name   string // as in --codec
	short  string // as in the output of inspect
	attack attack.Format
	parse  func(token string) (kid string, err error)
	kid    func(*keyring.Key) (string, error)
	open   func(keyring.Current, func() time.Time) (ringCodec, error)
}

// tokenFormats are the codecs with keys from a ring; the first is the default.
var tokenFormats = []*tokenFormat{
	{"aesgcm", "v1", attack.AESGCM, aesgcm.Parse, aesgcm.KID, func(k keyring.Current, now func() time.Time) (ringCodec, error) {
		return aesgcm.New(k, &aesgcm.Options{Now: now})
	}},
	{"signed", "h1", attack.Signed, signed.Parse, signed.KID, func(k keyring.Current, now func() time.Time) (ringCodec, error) {
		return signed.New(k, &signed.Options{Now: now})
	}},
}

// codecFlag is the choice of one codec.
type codecFlag struct{ *tokenFormat }

func (f *codecFlag) add(c *cobra.Command) {
	f.tokenFormat = tokenFormats[0]
	c.Flags().Var(f, "codec", "format of tokens: aesgcm (encrypted), or signed (anyone can read them)")
	_ = c.RegisterFlagCompletionFunc("codec", cobra.FixedCompletions([]string{"aesgcm", "signed"}, cobra.ShellCompDirectiveNoFileComp))
}

// Set implements pflag.Value.
func (f *codecFlag) Set(name string) error {
	for _, t := range tokenFormats {
		if t.name == name {
			f.tokenFormat = t
			return nil
		}
	}
	return errors.New("must be aesgcm or signed")
}

func (f *codecFlag) String() string {
	if f.tokenFormat == nil {
		return ""
	}
	return f.name
}

// Type names the value in the help.
func (f *codecFlag) Type() string { return "name" }

// keyFlags are the ways to give foil token its keys.
type keyFlags struct {
	ring        string
	secretHex   []string
	secretFiles []string
}

func (k *keyFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&k.ring, "ring", "", "key ring: "+ringForms)
	f.StringArrayVar(&k.secretHex, "secret-hex", nil, "a secret in hex, as an interop ring; repeatable, the first seals (visible to other users of this machine)")
	f.StringArrayVar(&k.secretFiles, "secret-file", nil, "a file whose bytes are a secret, as an interop ring; repeatable, the first seals")
	c.MarkFlagsMutuallyExclusive("ring", "secret-hex", "secret-file")
}

// load returns the ring with the keys, or nil if none were given.
func (k *keyFlags) load(c *cobra.Command) (*keyring.Ring, error) {
	switch {
	case k.ring != "":
		return (&ringFlag{k.ring}).load(c.Context())
	case len(k.secretHex) > 0:
		fmt.Fprintln(c.ErrOrStderr(), "foil: warning: --secret-hex shows the secret to everyone who can list this machine's processes; --secret-file does not")
		secrets := make([][]byte, len(k.secretHex))
		for i, h := range k.secretHex {
			b, err := hex.DecodeString(h)
			if err != nil {
				// The library's error would quote a digit of the secret.
				return nil, usagef("--secret-hex number %d is not hex", i+1)
			}
			secrets[i] = b
		}
		return fromSecrets(secrets)
	case len(k.secretFiles) > 0:
		secrets := make([][]byte, len(k.secretFiles))
		for i, path := range k.secretFiles {
			b, err := readSecret(path)
			if err != nil {
				return nil, err
			}
			if bytes.HasSuffix(b, []byte("\n")) {
				fmt.Fprintf(c.ErrOrStderr(), "foil: warning: %s ends in a line end, which is part of the secret\n", path)
			}
			secrets[i] = b
		}
		return fromSecrets(secrets)
	}
	return nil, nil
}

func fromSecrets(secrets [][]byte) (*keyring.Ring, error) {
	ring, err := keyring.FromSecrets(secrets...)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return ring, nil
}

func readSecret(path string) ([]byte, error) {
	const most = 1 << 16
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if len(b) > most {
		return nil, usagef("%s has more than %d bytes: that is no secret", path, most)
	}
	return b, nil
}

// atFlag is a time that is taken for the present.
type atFlag struct {
	given bool
	time  time.Time
}

func (f *atFlag) add(c *cobra.Command) {
	c.Flags().Var(f, "at", "take this for the present: RFC 3339, or Unix seconds with fractions")
	_ = c.RegisterFlagCompletionFunc("at", cobra.NoFileCompletions)
}

// Set implements pflag.Value.
func (f *atFlag) Set(at string) error {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		s, ferr := strconv.ParseFloat(at, 64)
		if ferr != nil || math.IsNaN(s) || math.Abs(s) > 1<<40 {
			return errors.New("it is neither RFC 3339, as 2026-11-30T14:02:00Z, nor Unix seconds, as 1790495435.5")
		}
		whole := math.Floor(s)
		t = time.Unix(int64(whole), int64(math.Round((s-whole)*1e9)))
	}
	f.given, f.time = true, t
	return nil
}

func (f *atFlag) String() string {
	if !f.given {
		return ""
	}
	return f.time.Format(time.RFC3339Nano)
}

// Type names the value in the help.
func (f *atFlag) Type() string { return "time" }

// clock returns a clock that stands at the given time, or the real one.
func (f *atFlag) clock() func() time.Time {
	if !f.given {
		return time.Now
	}
	t := f.time
	return func() time.Time { return t }
}
