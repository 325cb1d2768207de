package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
)

// keyFlags are the ways to give foil token its keys.
type keyFlags struct {
	ring        string
	secretHex   []string
	secretFiles []string
}

func (k *keyFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&k.ring, "ring", "", "key ring: a path, file:PATH or env:NAME")
	f.StringArrayVar(&k.secretHex, "secret-hex", nil, "a secret in hex, as an interop ring; repeatable, the first seals (visible to other users of this machine)")
	f.StringArrayVar(&k.secretFiles, "secret-file", nil, "a file whose bytes are a secret, as an interop ring; repeatable, the first seals")
	c.MarkFlagsMutuallyExclusive("ring", "secret-hex", "secret-file")
}

// codec returns a codec with the keys, or nil if none were given.
func (k *keyFlags) codec(c *cobra.Command, now func() time.Time) (*aesgcm.Codec, error) {
	ring, err := k.load(c)
	if err != nil || ring == nil {
		return nil, err
	}
	return aesgcm.New(keyring.Fixed(ring), &aesgcm.Options{Now: now})
}

func (k *keyFlags) load(c *cobra.Command) (*keyring.Ring, error) {
	switch {
	case k.ring != "":
		source, err := keyring.ParseSource(k.ring)
		if err != nil {
			return nil, usagef("--ring: %w", err)
		}
		return source.Load(c.Context())
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

func addAt(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "at", "", "take this for the present: RFC 3339, or Unix seconds with fractions")
}

// clockAt returns a clock that stands at the given time, or the real one.
func clockAt(at string) (func() time.Time, error) {
	if at == "" {
		return time.Now, nil
	}
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		s, ferr := strconv.ParseFloat(at, 64)
		if ferr != nil || math.IsNaN(s) || math.Abs(s) > 1<<40 {
			return nil, usagef("--at %q is neither RFC 3339, as 2026-11-30T14:02:00Z, nor Unix seconds, as 1790495435.5", at)
		}
		whole := math.Floor(s)
		t = time.Unix(int64(whole), int64(math.Round((s-whole)*1e9)))
	}
	return func() time.Time { return t }, nil
}
