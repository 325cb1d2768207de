// Package plain is a codec that protects nothing, so that a test can show what
// integrity and strict decoding stop. It is for tests alone: never use it in a
// server.
package plain

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/foilmcp/foil"
)

// A Codec writes tokens that look like those of package aesgcm and hold the
// payload in clear. It opens whatever still has a payload in it.
type Codec struct{}

var _ foil.Codec = Codec{}

const (
	prefix = "v1."
	head   = 4 + 12 // where a key id and a nonce would be
	tail   = 16     // where a tag would be
)

// Seal writes a token.
func (Codec) Seal(_ context.Context, payload []byte, _ time.Time) (string, error) {
	raw := make([]byte, head, head+len(payload)+tail)
	raw = append(append(raw, payload...), make([]byte, tail)...)
	return prefix + base64.RawURLEncoding.EncodeToString(raw), nil
}

// Open finds a payload in a token, however it is spelt.
func (Codec) Open(_ context.Context, token string) ([]byte, error) {
	// From the last dot on, in any alphabet of base64, with anything between.
	body := token[strings.LastIndexByte(token, '.')+1:]
	body = strings.Map(func(r rune) rune {
		switch {
		case r == '+':
			return '-'
		case r == '/':
			return '_'
		case r == '-', r == '_', '0' <= r && r <= '9', 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z':
			return r
		}
		return -1
	}, body)
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if _, corrupt := errors.AsType[base64.CorruptInputError](err); err != nil && !corrupt {
		return nil, foil.Reject(foil.ReasonMalformed)
	}
	from, to := bytes.IndexByte(raw, '{'), bytes.LastIndexByte(raw, '}')
	if from < 0 || to < from {
		return nil, foil.Reject(foil.ReasonMalformed)
	}
	return raw[from : to+1], nil
}
