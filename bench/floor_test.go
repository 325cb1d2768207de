package bench

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/internal/canonjson"
)

// A floor is the cryptography of one token and nothing around it: the bytes
// that foil seals for the reference request through one AES-256-GCM with a
// cached cipher, their base64, and the SHA-256 of both canonical texts of the
// arguments. It has no randomness, no allocation, no copy to a string, no JSON
// and no comparison, so it is no protection. Its base64 is the standard library's;
// foil's own (internal/b64u) is faster, which is in foil's favour.
type floor struct {
	aead          cipher.AEAD
	nonce, ad     []byte
	payload       []byte
	python, exact []byte // the two canonical texts
	sealed, text  []byte // buffers
	sums          [2][sha256.Size]byte
}

const prefix = "v1."

func newFloor() (*floor, error) {
	block, err := aes.NewCipher(key(32))
	if err != nil {
		return nil, err
	}
	f := &floor{nonce: key(12), ad: []byte(prefix + "kid.")}
	if f.aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	if f.payload, err = referencePayload(); err != nil {
		return nil, err
	}
	if f.python, err = canonjson.Append(nil, reference.arguments, nil); err != nil {
		return nil, err
	}
	if f.exact, err = canonjson.AppendExact(nil, reference.arguments, nil); err != nil {
		return nil, err
	}
	// Key id and nonce stand before the ciphertext, the tag behind it.
	f.sealed = append(append(make([]byte, 0, 4+12+len(f.payload)+16), "kid."...), f.nonce...)
	f.text = make([]byte, 0, len(prefix)+base64.RawURLEncoding.EncodedLen(cap(f.sealed)))
	return f, nil
}

func (f *floor) seal() (token []byte) {
	f.sums = [2][sha256.Size]byte{sha256.Sum256(f.python), sha256.Sum256(f.exact)}
	sealed := f.aead.Seal(f.sealed, f.nonce, f.payload, f.ad)
	return base64.RawURLEncoding.AppendEncode(append(f.text, prefix...), sealed)
}

func (f *floor) open(token []byte) (payload []byte, err error) {
	f.sums = [2][sha256.Size]byte{sha256.Sum256(f.python), sha256.Sum256(f.exact)}
	raw := f.text[:cap(f.text)]
	n, err := base64.RawURLEncoding.Decode(raw, token[len(prefix):])
	if err != nil {
		return nil, err
	}
	return f.aead.Open(raw[4+12:4+12], raw[4:4+12], raw[4+12:n], f.ad)
}

// referencePayload is what foil puts under the seal for the reference request.
func referencePayload() ([]byte, error) {
	var seen capture
	g, err := newFoil(&seen)
	if err != nil {
		return nil, err
	}
	if _, err := g.seal(context.Background(), &reference, state); err != nil {
		return nil, err
	}
	return seen.payload, nil
}

// capture is a codec that keeps the last payload and protects nothing.
type capture struct {
	foil.Codec
	payload []byte
}

func (c *capture) Encrypts() bool { return true }

func (c *capture) Seal(_ context.Context, payload []byte, _ time.Time) (string, error) {
	c.payload = append([]byte(nil), payload...)
	return "captured", nil
}
