package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// tokenIssuer is the issuer of every login from the token file: what tells its
// users from those of any other login with the same names.
const tokenIssuer = "storage-janitor token file"

const (
	minToken    = 24      // characters: long enough not to be guessed if random
	maxTokenDoc = 1 << 20 // bytes of the file
)

// users are the logins of a token file. It stands in for a real authorization
// server; only digests of the tokens are kept.
type users []login

type login struct {
	name   string
	digest [sha256.Size]byte
}

// readTokens reads lines of a name and a token. Empty lines and those that begin
// with # are skipped. Its errors name lines, never tokens.
func readTokens(path string) (users, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: set its mode to 0600", path)
	}
	doc, err := io.ReadAll(io.LimitReader(f, maxTokenDoc+1))
	if err != nil {
		return nil, err
	}
	if len(doc) > maxTokenDoc {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxTokenDoc)
	}
	u, err := parseTokens(string(doc))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return u, nil
}

func parseTokens(doc string) (users, error) {
	var u users
	seen := make(map[[sha256.Size]byte]bool)
	n := 0
	for line := range strings.Lines(doc) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: want a name and a token", n)
		}
		if len(fields[1]) < minToken {
			return nil, fmt.Errorf("line %d: the token has fewer than %d characters", n, minToken)
		}
		l := login{fields[0], sha256.Sum256([]byte(fields[1]))}
		if seen[l.digest] {
			return nil, fmt.Errorf("line %d: the token is there twice", n)
		}
		seen[l.digest] = true
		u = append(u, l)
	}
	if len(u) == 0 {
		return nil, errors.New("there is no token in it")
	}
	return u, nil
}

// verify is an auth.TokenVerifier. The user is the name, whatever the token, so
// that a person with a new token is the same person.
func (u users) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	digest := sha256.Sum256([]byte(token))
	name := ""
	for _, l := range u {
		if subtle.ConstantTimeCompare(l.digest[:], digest[:]) == 1 {
			name = l.name
		}
	}
	if name == "" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: name}, nil
}
