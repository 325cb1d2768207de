package bench

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"

	"aidanwoods.dev/go-paseto"
	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/securecookie"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Each peer keeps what its interface lets it keep from one call to the next,
// and is set up as its documentation does it.

type securecookies struct{ sc *securecookie.SecureCookie }

// newSecurecookie uses AES-256-CTR and HMAC-SHA-256, with JSON in place of gob.
func newSecurecookie() (contestant, error) {
	sc := securecookie.New(key(64), key(32))
	sc.SetSerializer(securecookie.JSONEncoder{})
	sc.MaxAge(int(ttl.Seconds()))
	return securecookies{sc}, nil
}

const cookieName = "requestState"

func (s securecookies) seal(_ context.Context, req *request, state string) (string, error) {
	w, err := mint(req, state)
	if err != nil {
		return "", err
	}
	return s.sc.Encode(cookieName, w)
}

func (s securecookies) open(_ context.Context, req *request, token string) (string, error) {
	var w wire
	if err := s.sc.Decode(cookieName, token, &w); err != nil {
		return "", err
	}
	return w.State, w.check(req)
}

type jwe struct {
	key       []byte
	encrypter jose.Encrypter
}

func newJWE() (contestant, error) {
	k := key(32)
	e, err := jose.NewEncrypter(jose.A256GCM, jose.Recipient{Algorithm: jose.DIRECT, Key: k}, nil)
	return jwe{k, e}, err
}

var (
	jweKeys    = []jose.KeyAlgorithm{jose.DIRECT}
	jweContent = []jose.ContentEncryption{jose.A256GCM}
)

func (j jwe) seal(_ context.Context, req *request, state string) (string, error) {
	payload, err := encode(req, state)
	if err != nil {
		return "", err
	}
	sealed, err := j.encrypter.Encrypt(payload)
	if err != nil {
		return "", err
	}
	return sealed.CompactSerialize()
}

func (j jwe) open(_ context.Context, req *request, token string) (string, error) {
	parsed, err := jose.ParseEncryptedCompact(token, jweKeys, jweContent)
	if err != nil {
		return "", err
	}
	payload, err := parsed.Decrypt(j.key)
	if err != nil {
		return "", err
	}
	return decode(req, payload)
}

type pasetoV4 struct {
	key    paseto.V4SymmetricKey
	parser paseto.Parser
}

// newPaseto has the claims as one claim of a v4.local token: they are encoded
// once, and their own times are compared in place of the registered ones.
func newPaseto() (contestant, error) {
	return pasetoV4{paseto.NewV4SymmetricKey(), paseto.NewParserWithoutExpiryCheck()}, nil
}

func (p pasetoV4) seal(_ context.Context, req *request, state string) (string, error) {
	w, err := mint(req, state)
	if err != nil {
		return "", err
	}
	t := paseto.NewToken()
	if err := t.Set("state", w); err != nil {
		return "", err
	}
	return t.V4Encrypt(p.key, nil), nil
}

func (p pasetoV4) open(_ context.Context, req *request, token string) (string, error) {
	t, err := p.parser.ParseV4Local(p.key, token, nil)
	if err != nil {
		return "", err
	}
	var w wire
	if err := t.Get("state", &w); err != nil {
		return "", err
	}
	return w.State, w.check(req)
}

type tinkAEAD struct{ aead tink.AEAD }

func newTink() (contestant, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, err
	}
	a, err := aead.New(handle)
	return tinkAEAD{a}, err
}

var tinkData = []byte("requestState")

func (t tinkAEAD) seal(_ context.Context, req *request, state string) (string, error) {
	payload, err := encode(req, state)
	if err != nil {
		return "", err
	}
	sealed, err := t.aead.Encrypt(payload, tinkData)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

func (t tinkAEAD) open(_ context.Context, req *request, token string) (string, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return "", err
	}
	payload, err := t.aead.Decrypt(sealed, tinkData)
	if err != nil {
		return "", err
	}
	return decode(req, payload)
}

func encode(req *request, state string) ([]byte, error) {
	w, err := mint(req, state)
	if err != nil {
		return nil, err
	}
	return json.Marshal(w)
}

func decode(req *request, payload []byte) (string, error) {
	var w wire
	if err := json.Unmarshal(payload, &w); err != nil {
		return "", err
	}
	return w.State, w.check(req)
}

func key(n int) []byte {
	k := make([]byte, n)
	rand.Read(k)
	return k
}
