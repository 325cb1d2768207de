package openbao

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/foilmcp/foil"
)

const (
	transitPrefix = "vault:v"

	// associated goes into every item of a batch, and so into every token: what
	// others encrypt under the same key opens as no token. At the top level of a
	// batch request the server ignores it without a word.
	associated = "foil/request-state/transit/v1"

	// floor is a nonce and a tag, without which there is no ciphertext.
	floor = 12 + 16

	// calls is how many batches of one kind are under way at a time, and many how many
	// callers wait before there is more than one.
	calls = 4
	many  = 32
)

// TransitOptions are the options of [NewTransit]; nil means the defaults.
type TransitOptions struct {
	// Batch is how many callers share one call at most. 1 makes a call for each
	// token. Zero means 128, which is also the most.
	Batch int
}

// A Transit is a codec whose key stays in the server: every token is sealed and
// opened there, and is Transit's own ciphertext. Calls that come at the same time
// share a request, and each token in it is judged for itself. It implements
// [foil.Codec] and is safe for concurrent use.
//
// The role of its client must not be able to read a key ring: see the role "transit"
// of [Policy].
//
// What the text of a token shows to be wrong is refused here, without a call: the
// server itself also takes other spellings of a token. The same holds for a version
// that the key does not have or that opens nothing any more, after one look at the key
// which all tokens of the moment share.
type Transit struct {
	key        *TransitKey
	seal, open *batcher
	status     latest[*KeyStatus]
	known      atomic.Pointer[KeyStatus] // as it was read last
}

var (
	_ foil.Codec         = (*Transit)(nil)
	_ foil.Encrypter     = (*Transit)(nil)
	_ foil.Prefixer      = (*Transit)(nil)
	_ foil.KeyIdentifier = (*Transit)(nil)
	_ foil.Pinger        = (*Transit)(nil)
)

// NewTransit returns a codec with the key that path names, MOUNT/KEY. It reads the key
// and refuses one whose tokens could not be bound to their use or that may leave the
// server.
func NewTransit(ctx context.Context, c *Client, path string, opts *TransitOptions) (*Transit, error) {
	var o TransitOptions
	if opts != nil {
		o = *opts
	}
	if o.Batch == 0 {
		o.Batch = maxBatch
	}
	if o.Batch < 1 || o.Batch > maxBatch {
		return nil, fmt.Errorf("openbao: TransitOptions.Batch must be 1 to %d", maxBatch)
	}
	key, err := OpenTransitKey(c, path)
	if err != nil {
		return nil, err
	}
	s, err := key.Status(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Type != "aes256-gcm96" && s.Type != "chacha20-poly1305":
		return nil, fmt.Errorf("%s: type %s is not for tokens: make a key of type aes256-gcm96", key, s.Type)
	case s.derived || s.convergent:
		return nil, fmt.Errorf("%s: a derived or convergent key is not for tokens: make one without", key)
	case s.Exportable || s.PlaintextBackup:
		return nil, fmt.Errorf("%s: the key may leave the server (exportable or allow_plaintext_backup), which cannot be taken back: make another one", key)
	}
	t := &Transit{key: key}
	t.known.Store(s)
	t.status.read = t.look
	runs, wait := calls, min(many, o.Batch)
	if o.Batch == 1 {
		runs = idleConns
	}
	t.seal = &batcher{call: t.encrypt, most: o.Batch, runs: runs, many: wait}
	t.open = &batcher{call: t.decrypt, most: o.Batch, runs: runs, many: wait}
	return t, nil
}

// look reads the key and remembers it.
func (t *Transit) look(ctx context.Context) (*KeyStatus, error) {
	s, err := t.key.Status(ctx)
	if err == nil {
		t.known.Store(s)
	}
	return s, err
}

// Prefix returns what every token begins with.
func (t *Transit) Prefix() string { return transitPrefix }

// Encrypts reports true: a client cannot read what is sealed.
func (t *Transit) Encrypts() bool { return true }

// KeyID returns the version of the key that a token names, such as "v3", or "" if the
// text is no token of this form. Whether it is genuine only Open can tell.
func (t *Transit) KeyID(token string) string {
	version, ok := parseTransit(token)
	if !ok {
		return ""
	}
	return "v" + strconv.Itoa(version)
}

// Ping reports whether the server answers for the key. It writes nothing.
func (t *Transit) Ping(ctx context.Context) error {
	_, err := t.look(ctx)
	return err
}

// String returns "transit:MOUNT/KEY".
func (t *Transit) String() string { return t.key.String() }

// Format keeps what is inside out of every verb.
func (t *Transit) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(t.String())) }

// parseTransit checks the form of a token, of which there is one spelling, and returns
// the version of the key that it names.
func parseTransit(token string) (version int, ok bool) {
	rest, ok := strings.CutPrefix(token, transitPrefix)
	if !ok {
		return 0, false
	}
	digits, body, ok := strings.Cut(rest, ":")
	if !ok || len(digits) < 1 || len(digits) > 9 || digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	version, err := strconv.Atoi(digits)
	if err != nil {
		return 0, false
	}
	raw, err := base64.StdEncoding.DecodeString(body)
	// The decoder lets stray bits, CR and LF through; encoding again lets nothing
	// through.
	if err != nil || len(raw) < floor || base64.StdEncoding.EncodeToString(raw) != body {
		return 0, false
	}
	return version, true
}

// bounded returns a context that ends with the client's deadline, waiting included.
func (t *Transit) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return t.key.c.deadline(ctx)
}

// Seal lets the server encrypt payload under the newest version of the key.
func (t *Transit) Seal(ctx context.Context, payload []byte, _ time.Time) (string, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	token, err := t.seal.do(ctx, base64.StdEncoding.EncodeToString(payload))
	if err != nil {
		return "", t.failed(ctx, "seal by Transit", err)
	}
	return token, nil
}

// Open lets the server decrypt a token that Seal returned, under any version of the
// key that still opens.
func (t *Transit) Open(ctx context.Context, token string) ([]byte, error) {
	version, ok := parseTransit(token)
	if !ok {
		return nil, foil.Reject(foil.ReasonMalformed)
	}
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	if s := t.known.Load(); version > s.Latest || version < s.MinDecryption {
		// Only what the key is like after the token came can refuse it.
		s, err := t.status.get(ctx)
		if err != nil {
			return nil, t.failed(ctx, "read Transit key", err)
		}
		if version > s.Latest || version < s.MinDecryption {
			return nil, foil.Reject(foil.ReasonUnknownKey)
		}
	}
	out, err := t.open.do(ctx, token)
	if err != nil {
		return nil, t.failed(ctx, "open by Transit", err)
	}
	payload, err := base64.StdEncoding.DecodeString(out)
	if err != nil {
		return nil, &Error{Op: "open by Transit", hint: "the answer holds no payload", cause: ErrUnavailable}
	}
	return payload, nil
}

// failed puts an ended context into the words of this package.
func (t *Transit) failed(ctx context.Context, op string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if as(err) == nil {
			return transportError(ctx, op, err)
		}
	}
	return err
}

// A transitItem is one item of a request, a transitResult of an answer.
type transitItem struct {
	Plaintext      *string `json:"plaintext,omitempty"`
	Ciphertext     string  `json:"ciphertext,omitempty"`
	AssociatedData string  `json:"associated_data"`
}

type transitResult struct {
	Plaintext  *string `json:"plaintext"`
	Ciphertext string  `json:"ciphertext"`
	KeyVersion int     `json:"key_version"`
	Error      string  `json:"error"`
}

var associatedText = base64.StdEncoding.EncodeToString([]byte(associated))

// ask sends a batch and returns a result for each item, with the status of the answer.
func (t *Transit) ask(ctx context.Context, verb string, items []transitItem) ([]transitResult, int, error) {
	op := verb + " by Transit"
	a, err := t.key.c.do(ctx, &request{
		op: op, method: "POST", path: t.key.mount + "/" + verb + "/" + t.key.name,
		// Without the code, an answer in which some items failed is a 400, as is one
		// in which all did; with it the two can be told apart.
		body: map[string]any{"batch_input": items, "partial_failure_response_code": http.StatusOK},
	})
	if a == nil {
		return nil, 0, err
	}
	var doc struct {
		Data *struct {
			Results []transitResult `json:"batch_results"`
		} `json:"data"`
	}
	if json.Unmarshal(a.body, &doc) == nil && doc.Data != nil && len(doc.Data.Results) == len(items) {
		return doc.Data.Results, a.status, nil
	}
	if err == nil {
		err = errAnswer(op, a)
	}
	return nil, a.status, err
}

func (t *Transit) encrypt(ctx context.Context, items []*item) {
	in := make([]transitItem, len(items))
	for i, it := range items {
		in[i] = transitItem{Plaintext: &it.in, AssociatedData: associatedText}
	}
	results, code, err := t.ask(ctx, "encrypt", in)
	for i, it := range items {
		if err != nil {
			it.err = err
			continue
		}
		r := results[i]
		if _, ok := parseTransit(r.Ciphertext); !ok || r.Error != "" {
			it.err = &Error{Op: "seal by Transit", Status: code, hint: "the server gave no ciphertext", cause: ErrUnavailable}
			continue
		}
		it.out = r.Ciphertext
	}
}

func (t *Transit) decrypt(ctx context.Context, items []*item) {
	in := make([]transitItem, len(items))
	for i, it := range items {
		in[i] = transitItem{Ciphertext: it.in, AssociatedData: associatedText}
	}
	results, code, err := t.ask(ctx, "decrypt", in)
	if err != nil {
		if len(items) > 1 && (code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge) {
			// One of them spoils the request in a way that is not foreseen. The
			// others must not fail with it.
			t.decrypt(ctx, items[:len(items)/2])
			t.decrypt(ctx, items[len(items)/2:])
			return
		}
		for _, it := range items {
			it.err = err
		}
		return
	}
	for i, it := range items {
		switch r := results[i]; {
		case r.Error == "" && r.Plaintext != nil:
			it.out = *r.Plaintext
		case r.Error == "":
			it.err = &Error{Op: "open by Transit", Status: code, hint: "the answer holds no payload", cause: ErrUnavailable}
		default:
			it.err = t.refused(ctx, it, r.Error, code, len(items) == 1)
		}
	}
}

// refused says what an item's error means. Where the server's words do not tell a bad
// token from a failure of its own, the token is asked for alone: then the status does.
func (t *Transit) refused(ctx context.Context, it *item, words string, code int, alone bool) error {
	switch {
	case strings.Contains(words, "version is too new"), strings.Contains(words, "(too old)"), strings.Contains(words, "no such key version"):
		return foil.Reject(foil.ReasonUnknownKey)
	case strings.Contains(words, "soft-deleted"):
		return &Error{Op: "open by Transit", Status: code, hint: "the key was deleted: an operator can restore it", cause: ErrUnavailable}
	case strings.Contains(words, "message authentication failed"), strings.Contains(words, "invalid ciphertext"):
		return foil.Reject(foil.ReasonTampered)
	case alone && code == http.StatusBadRequest:
		return foil.Reject(foil.ReasonTampered)
	case alone:
		return &Error{Op: "open by Transit", Status: code, hint: "the server could not decrypt: its log says why", cause: ErrUnavailable}
	}
	single := &item{ctx: ctx, in: it.in}
	t.decrypt(ctx, []*item{single})
	it.out = single.out
	return single.err
}
