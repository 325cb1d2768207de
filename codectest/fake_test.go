package codectest_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/foilmcp/foil"
)

// keys are what instances of a fake codec share: the last one seals.
type keys struct {
	mu      sync.Mutex
	keys    [][]byte
	revoked map[string]bool
	away    bool
}

func newKeys() *keys {
	k := &keys{revoked: map[string]bool{}}
	k.rotate()
	return k
}

func (k *keys) rotate() {
	key := make([]byte, 32)
	rand.Read(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, old := range k.keys {
		k.revoked[string(old)] = true
	}
	k.keys = append(k.keys, key)
}

// fake is a correct codec, but for its fault: prefix, then in base64url key
// id, initial vector, ciphertext, MAC.
type fake struct {
	fault  string
	prefix string
	keys   *keys
	broken bool

	// What a fault keeps where it should not.
	buf    []byte
	sealed map[string][]byte
	mu     sync.Mutex
}

const (
	kidSize = 4
	ivSize  = aes.BlockSize
	macSize = sha256.Size
	floor   = kidSize + ivSize + macSize
)

func (f *fake) is(fault string) bool { return f.fault == fault }

func kidOf(key []byte) []byte {
	sum := sha256.Sum256(append([]byte("kid:"), key...))
	return sum[:kidSize]
}

func (f *fake) mac(key, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	if !f.is("ignores the prefix") && !f.is("opens every format") {
		h.Write([]byte(f.prefix))
	}
	switch f.fault {
	case "key id is not covered":
		body = body[kidSize:]
	case "body is not covered":
		body = body[:kidSize]
	}
	h.Write(body)
	return h.Sum(nil)
}

func (f *fake) crypt(key, iv, dst, src []byte) {
	if f.is("only says that it encrypts") {
		copy(dst, src)
		return
	}
	if f.is("one keystream") {
		iv = make([]byte, ivSize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	cipher.NewCTR(block, iv).XORKeyStream(dst, src)
}

var errAway = errors.New("fake: no keys")

func (f *fake) Seal(_ context.Context, payload []byte, _ time.Time) (string, error) {
	if f.is("seals in pieces") && len(payload) > 16 {
		first, err := f.seal(payload[:16])
		if err != nil {
			return "", err
		}
		rest, err := f.seal(payload[16:])
		return first + rest, err
	}
	return f.seal(payload)
}

func (f *fake) seal(payload []byte) (string, error) {
	f.keys.mu.Lock()
	key, away := f.keys.keys[len(f.keys.keys)-1], f.keys.away
	f.keys.mu.Unlock()
	switch {
	case away && f.is("token beside the error"):
		return f.prefix + "AAAA", errAway
	case away && !f.is("opens without keys"), f.broken:
		f.broken = f.is("stays broken")
		return "", errAway
	case f.is("takes 1000 bytes") && len(payload) > 1000:
		return "", errors.New("fake: too long")
	case f.is("trims payloads"):
		payload = bytes.TrimRight(payload, "\x00")
	case f.is("one key for everybody"):
		key = make([]byte, 32)
	}
	raw := make([]byte, kidSize+ivSize+len(payload), floor+len(payload))
	copy(raw, kidOf(key))
	if !f.is("one nonce") {
		rand.Read(raw[kidSize : kidSize+ivSize])
	}
	if f.is("one caller at a time") {
		f.buf = payload
		runtime.Gosched()
		if len(f.buf) < len(payload) {
			return "", errors.New("fake: another caller's payload")
		}
		payload = f.buf[:len(payload)]
	}
	if f.is("encrypts in place") {
		f.crypt(key, raw[kidSize:kidSize+ivSize], payload, payload)
		copy(raw[kidSize+ivSize:], payload)
	} else {
		f.crypt(key, raw[kidSize:kidSize+ivSize], raw[kidSize+ivSize:], payload)
	}
	raw = append(raw, f.mac(key, raw)...)
	token := f.prefix + base64.RawURLEncoding.EncodeToString(raw)
	if f.is("breaks lines") && len(token) > 76 {
		token = token[:76] + "\n" + token[76:]
	}
	if f.is("keeps the payload") {
		f.mu.Lock()
		f.sealed[token] = payload
		f.mu.Unlock()
	}
	return token, nil
}

func (f *fake) decode(token string) ([]byte, error) {
	malformed := foil.Reject(foil.ReasonMalformed)
	if f.is("garbage is a failure") {
		malformed = errors.New("fake: cannot read this")
	}
	switch f.fault {
	case "trims space":
		token = strings.TrimSpace(token)
	case "unquotes":
		token = strings.Trim(token, `"`)
	case "prefix in any case":
		if len(token) >= len(f.prefix) {
			token = strings.ToLower(token[:len(f.prefix)]) + token[len(f.prefix):]
		}
	case "reads to the first NUL":
		token, _, _ = strings.Cut(token, "\x00")
	case "adds a prefix":
		token = f.prefix + strings.TrimPrefix(token, f.prefix)
	case "breaks lines":
		token = strings.Replace(token, "\n", "", 1)
	}
	body, ok := strings.CutPrefix(token, f.prefix)
	if f.is("ignores the prefix") || f.is("opens every format") {
		_, body, ok = strings.Cut(token, ".")
		if !ok && f.is("ignores the prefix") {
			body, ok = token, true
		}
	}
	if !ok {
		return nil, malformed
	}
	enc := base64.RawURLEncoding.Strict()
	switch f.fault {
	case "accepts padding":
		body = strings.TrimRight(body, "=")
	case "skips stray bits":
		enc = base64.RawURLEncoding
	case "takes both alphabets":
		body = strings.NewReplacer("+", "-", "/", "_").Replace(body)
	case "reads to the first dot":
		body, _, _ = strings.Cut(body, ".")
	}
	if strings.ContainsAny(body, "\r\n") && !f.is("skips line ends") {
		return nil, malformed
	}
	raw, err := enc.DecodeString(body)
	if err != nil || len(raw) < floor {
		return nil, malformed
	}
	return raw, nil
}

func (f *fake) Open(_ context.Context, token string) ([]byte, error) {
	payload, err := f.open(token)
	switch {
	case err == nil:
	case f.is("payload beside the error"):
		payload = []byte("what it was")
	case f.is("refuses without a reason") && errors.Is(err, foil.ErrInvalid):
		err = foil.ErrInvalid
	case f.is("quotes the token") && errors.Is(err, foil.ErrInvalid):
		err = fmt.Errorf("%w: %s", err, token)
	case f.is("garbage is nothing") && foil.ReasonOf(err) == foil.ReasonMalformed:
		err = nil
	}
	return payload, err
}

func (f *fake) open(token string) ([]byte, error) {
	if f.is("seals in pieces") {
		if i := strings.LastIndex(token, f.prefix); i > 0 {
			first, err := f.open(token[:i])
			if err != nil {
				return nil, err
			}
			rest, err := f.open(token[i:])
			if err != nil {
				return nil, err
			}
			return append(first, rest...), nil
		}
	}
	if f.is("remembers what it opened") || f.is("keeps the payload") {
		f.mu.Lock()
		defer f.mu.Unlock()
		if p, ok := f.sealed[token]; ok {
			return p, nil
		}
	}
	f.keys.mu.Lock()
	all, away := f.keys.keys, f.keys.away
	f.keys.mu.Unlock()
	switch {
	case away && f.is("no keys is a refusal"):
		return nil, foil.Reject(foil.ReasonUnknownKey)
	case away && !f.is("opens without keys"):
		return nil, errAway
	}
	raw, err := f.decode(token)
	if err != nil {
		return nil, err
	}
	if f.is("takes what is unsigned") && bytes.Count(raw, []byte{0}) == len(raw) {
		return []byte{}, nil
	}
	if f.is("one key for everybody") {
		all = [][]byte{make([]byte, 32)}
	}
	reason := foil.ReasonUnknownKey
	for _, key := range all {
		if f.keys.revoked[string(key)] && !f.is("revoked keys open") {
			if f.is("revoked is malformed") {
				reason = foil.ReasonMalformed
			}
			continue
		}
		if !bytes.Equal(kidOf(key), raw[:kidSize]) && !f.is("key id is not covered") {
			continue
		}
		reason = foil.ReasonTampered
		body, tag := raw[:len(raw)-macSize], raw[len(raw)-macSize:]
		want := f.mac(key, body)
		switch f.fault {
		case "ignores the tag's last bit":
			tag[macSize-1] |= 1
			want[macSize-1] |= 1
		case "ignores the tag's end":
			tag, want = tag[:16], want[:16]
		}
		if hmac.Equal(tag, want) {
			payload := make([]byte, len(body)-kidSize-ivSize)
			if f.is("one buffer for all") {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.buf = append(f.buf[:0], payload...)
				payload = f.buf
			}
			f.crypt(key, body[kidSize:kidSize+ivSize], payload, body[kidSize+ivSize:])
			if f.is("remembers what it opened") {
				f.sealed[token] = payload
			}
			return payload, nil
		}
	}
	switch {
	case f.is("tampered is a failure") && reason == foil.ReasonTampered,
		f.is("foreign keys are a failure") && reason == foil.ReasonUnknownKey:
		return nil, errors.New("fake: it does not fit")
	case f.is("reason of the Guard's"):
		reason = foil.ReasonReplayed
	}
	return nil, foil.Reject(reason)
}

func (f *fake) Encrypts() bool { return true }

func (f *fake) Prefix() string {
	if f.is("prefix is a lie") {
		return "v1."
	}
	return f.prefix
}

func (f *fake) KeyLimits() foil.KeyLimits {
	return foil.KeyLimits{Ephemeral: f.is("says it is ephemeral")}
}

func (f *fake) KeyID(token string) string {
	switch f.fault {
	case "key id tells the token":
		return token[max(0, len(token)-8):]
	case "key id of anything":
		return "key"
	case "no key id":
		return ""
	}
	raw, err := f.decode(token)
	if err != nil {
		return ""
	}
	if f.is("one key id") {
		return "key"
	}
	return hex.EncodeToString(raw[:kidSize])
}
