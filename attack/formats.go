package attack

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"iter"
	"strings"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/aesgcm"
	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/signed"
)

// A Format is a token format with keys from a ring.
type Format uint8

const (
	AESGCM Format = iota // v1, encrypted
	Signed               // h1, which anyone can read
)

func (f Format) codec(keys keyring.Current) (foil.Codec, error) {
	if f == Signed {
		return signed.New(keys, nil)
	}
	return aesgcm.New(keys, nil)
}

// A rawFormat is what an attacker knows of a format. It is written out here, so
// that the attacks do not lean on the codec under attack.
type rawFormat struct {
	info, label string
	seal        func(key, kid, payload []byte) (string, error)
}

var (
	rawV1 = rawFormat{"mcp/request-state/v1/aes-256-gcm", "mcp/request-state/v1/kid:", sealV1}
	rawH1 = rawFormat{"foil/request-state/h1/hmac-sha-256", "foil/request-state/h1/kid:", sealH1}
)

// other is the format that a server with this one is not configured to open.
func (f Format) other() *rawFormat {
	if f == Signed {
		return &rawV1
	}
	return &rawH1
}

// key derives the key of a secret.
func (r *rawFormat) key(secret []byte) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, nil, r.info, 32)
}

func (r *rawFormat) kid(key []byte) []byte {
	sum := sha256.Sum256(append([]byte(r.label), key...))
	return sum[:4]
}

// under seals with a secret.
func (r *rawFormat) under(secret, payload []byte) (string, error) {
	k, err := r.key(secret)
	if err != nil {
		return "", err
	}
	return r.seal(k, r.kid(k), payload)
}

// sealV1 writes a token of the format v1 (docs/wire.md) under any key.
func sealV1(key, kid, payload []byte) (string, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return "", err
	}
	ad := append([]byte("v1."), kid...)
	raw := append(append([]byte(nil), kid...), make([]byte, 12)...)
	raw = gcm.Seal(raw, raw[len(kid):], payload, ad)
	return "v1." + base64.RawURLEncoding.EncodeToString(raw), nil
}

// sealH1 does so in the format h1.
func sealH1(key, kid, payload []byte) (string, error) {
	text := "h1." + base64.RawURLEncoding.EncodeToString(append(append([]byte(nil), kid...), payload...))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// An anatomy is a token taken apart: a prefix in clear, bytes in base64, and
// for h1 a MAC after them.
type anatomy struct {
	prefix string
	enc    *base64.Encoding
	raw    []byte
	mac    []byte // nil if the format has none of its own
}

// dissect takes a token apart. The formats v1 and h1 end their prefix with a
// dot and use base64url, Transit's ends with a colon.
func dissect(token string) anatomy {
	a := anatomy{enc: base64.RawURLEncoding}
	body := token
	if i := strings.LastIndexByte(token, ':'); i >= 0 {
		a.prefix, body, a.enc = token[:i+1], token[i+1:], base64.StdEncoding
	} else if i := strings.IndexByte(token, '.'); i >= 0 {
		a.prefix, body = token[:i+1], token[i+1:]
	}
	if body, mac, ok := strings.Cut(body, "."); ok && a.prefix == "h1." {
		a.raw, _ = a.enc.DecodeString(body)
		a.mac, _ = a.enc.DecodeString(mac)
		return a
	}
	a.raw, _ = a.enc.DecodeString(body)
	return a
}

// with is the token with other bytes, and the MAC that it had.
func (a anatomy) with(raw []byte) string {
	s := a.prefix + a.enc.EncodeToString(raw)
	if a.mac != nil {
		s += "." + a.enc.EncodeToString(a.mac)
	}
	return s
}

// withMAC is the token with another MAC.
func (a anatomy) withMAC(mac []byte) string {
	a.mac = mac
	return a.with(a.raw)
}

// bytes is how many there are, the MAC's behind the others.
func (a anatomy) bytes() int { return len(a.raw) + len(a.mac) }

// flipped is the token with one bit of one byte changed.
func (a anatomy) flipped(i int) string {
	flip := func(b []byte, i int) []byte {
		b = append([]byte(nil), b...)
		b[i] ^= 1 << (i % 8)
		return b
	}
	if i < len(a.raw) {
		return a.with(flip(a.raw, i))
	}
	return a.withMAC(flip(a.mac, i-len(a.raw)))
}

// part names where in a token a byte lies.
func (a anatomy) part(i int) string {
	known := a.prefix == "v1." || a.prefix == "h1."
	switch {
	case known && i < 4:
		return "key id"
	case a.prefix == "v1." && i < 16:
		return "nonce"
	case a.prefix == "v1." && i >= len(a.raw)-16, i >= len(a.raw):
		return "tag"
	}
	return "body"
}

const b64chars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// ends are the positions in a token of the last characters of its base64.
func ends(token string) []int {
	all := []int{len(token) - 1}
	if a := dissect(token); a.mac != nil {
		all = append(all, strings.LastIndexByte(token, '.')-1)
	}
	return all
}

// spare is how many bits of the base64 character at the end of a part belong to
// no byte.
func spare(token string, end int) int {
	start := len(dissect(token).prefix)
	if dot := strings.LastIndexByte(token[:end], '.'); dot >= 0 {
		start = dot + 1
	}
	return map[int]int{2: 4, 3: 2}[(end+1-start)%4]
}

// hasSpare reports whether the token has all the stray bits that it can have.
func hasSpare(token string) bool {
	for _, end := range ends(token) {
		if spare(token, end) == 0 {
			return false
		}
	}
	return true
}

// strays are the spellings with other bits where no byte has any.
func strays(token string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, end := range ends(token) {
			n := strings.IndexByte(b64chars, token[end])
			for i := 1; n >= 0 && i < 1<<spare(token, end); i++ {
				if !yield("stray bits in the last character", token[:end]+string(b64chars[n|i])+token[end+1:]) {
					return
				}
			}
		}
	}
}

// errFormat says that an attack cannot take a token apart.
var errFormat = errors.New("the token is of a format whose key id the attack does not know")
