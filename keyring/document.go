package keyring

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/foilmcp/foil/internal/secret"
)

const (
	documentVersion = 1
	maxDocument     = 1 << 20      // bytes
	maxSerial       = 1<<53 - 1    // what every JSON reader keeps exactly
	maxUnix         = 253402300799 // 9999-12-31T23:59:59Z
)

// Parse reads a ring document. It is strict: unknown, missing, misspelt or
// duplicate members, trailing data, numbers out of range, secrets shorter than
// [MinSecretLen], duplicate ids and duplicate secrets are errors. An error says
// where the fault is, by member, index and id, and never repeats a value that
// could be a secret.
func Parse(doc []byte) (*Ring, error) {
	if len(doc) > maxDocument {
		return nil, fmt.Errorf("keyring: document has more than %d bytes", maxDocument)
	}
	obj, err := object(doc, "version", "serial", "interop", "storage", "propagation", "skew", "max_ttl", "keep", "keys", "revoked")
	if err != nil {
		return nil, fmt.Errorf("keyring: document: %w", err)
	}
	p := parser{obj: obj}
	if string(obj["version"]) != strconv.Itoa(documentVersion) {
		p.fail("version must be %d", documentVersion)
	}
	r := &Ring{
		serial:      p.number("serial", 1, maxSerial),
		interop:     p.boolean("interop"),
		storage:     obj["storage"] != nil && p.boolean("storage"),
		propagation: p.seconds("propagation"),
		skew:        p.seconds("skew"),
		maxTTL:      p.seconds("max_ttl"),
		keep:        p.seconds("keep"),
	}
	keys := p.array("keys")
	for i, raw := range p.array("revoked") {
		var id string
		if !isString(raw) || json.Unmarshal(raw, &id) != nil {
			p.fail("revoked[%d] must be a string", i)
		}
		r.revoked = append(r.revoked, id)
	}
	if p.err != nil {
		return nil, fmt.Errorf("keyring: document: %w", p.err)
	}
	for i, raw := range keys {
		k, err := parseKey(raw)
		if err != nil {
			return nil, fmt.Errorf("keyring: keys[%d]%w", i, err)
		}
		k.revoked = slices.Contains(r.revoked, k.id)
		r.keys = append(r.keys, k)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// parseKey's errors start with what follows "keys[i]".
func parseKey(raw json.RawMessage) (*Key, error) {
	obj, err := object(raw, "id", "secret", "seal_from", "open_until")
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	p := parser{obj: obj}
	id := p.text("id")
	if p.err != nil || !validID(id) {
		return nil, errors.New(": id must be 1 to 32 of A-Z a-z 0-9 . _ -")
	}
	text := p.text("secret")
	k := &Key{id: id, from: p.optionalTime("seal_from"), until: p.optionalTime("open_until")}
	if p.err != nil {
		return nil, fmt.Errorf(" (%q): %w", id, p.err)
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	// The decoder alone skips line breaks and accepts stray trailing bits.
	if err != nil || base64.RawURLEncoding.EncodeToString(b) != text {
		return nil, fmt.Errorf(" (%q): secret must be base64url without padding", id)
	}
	k.secret = secret.New(b)
	return k, nil
}

// Marshal returns the document, secrets included: indented JSON that Parse reads
// back as the same ring.
func (r *Ring) Marshal() []byte {
	type key struct {
		ID        string `json:"id"`
		Secret    string `json:"secret"`
		SealFrom  *int64 `json:"seal_from,omitempty"`
		OpenUntil *int64 `json:"open_until,omitempty"`
	}
	doc := struct {
		Version     int      `json:"version"`
		Serial      int64    `json:"serial"`
		Interop     bool     `json:"interop"`
		Storage     bool     `json:"storage,omitempty"`
		Propagation int64    `json:"propagation"`
		Skew        int64    `json:"skew"`
		MaxTTL      int64    `json:"max_ttl"`
		Keep        int64    `json:"keep"`
		Keys        []key    `json:"keys"`
		Revoked     []string `json:"revoked"`
	}{
		documentVersion, r.serial, r.interop, r.storage, int64(r.propagation / time.Second), int64(r.skew / time.Second),
		int64(r.maxTTL / time.Second), int64(r.keep / time.Second), nil, append([]string{}, r.revoked...),
	}
	unix := func(t time.Time) *int64 {
		if t.IsZero() {
			return nil
		}
		s := t.Unix()
		return &s
	}
	for _, k := range r.keys {
		doc.Keys = append(doc.Keys, key{k.id, base64.RawURLEncoding.EncodeToString(k.secret.Reveal()), unix(k.from), unix(k.until)})
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic("keyring: cannot happen: " + err.Error()) // strings and integers only
	}
	return append(out, '\n')
}

// object reads one JSON object with exactly these member names possible, each at
// most once, and nothing behind it. Package json alone would take duplicates and
// other spellings in upper and lower case.
func object(raw []byte, names ...string) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	// Errors of package json quote the input, so none is passed on.
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("must be a JSON object")
	}
	obj := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, fmt.Errorf("not JSON near byte %d", dec.InputOffset())
		}
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown member near byte %d; known are %v", dec.InputOffset(), names)
		}
		if _, dup := obj[name]; dup {
			return nil, fmt.Errorf("duplicate member %q", name)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, fmt.Errorf("not JSON in member %q near byte %d", name, dec.InputOffset())
		}
		obj[name] = v
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("not JSON near byte %d", dec.InputOffset())
	}
	if len(bytes.TrimLeft(raw[dec.InputOffset():], " \t\r\n")) > 0 {
		return nil, errors.New("data after the JSON object")
	}
	return obj, nil
}

// A parser reads members of obj and keeps the first error.
type parser struct {
	obj map[string]json.RawMessage
	err error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// number reads an integer written as plain digits: no sign, fraction or exponent.
func (p *parser) number(name string, lo, hi int64) int64 {
	raw := string(p.obj[name])
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n < lo || n > hi || strconv.FormatInt(n, 10) != raw {
		p.fail("%s must be an integer between %d and %d", name, lo, hi)
		return 0
	}
	return n
}

func (p *parser) seconds(name string) time.Duration {
	return time.Duration(p.number(name, 0, int64(maxDuration/time.Second))) * time.Second
}

func (p *parser) optionalTime(name string) time.Time {
	if p.obj[name] == nil {
		return time.Time{}
	}
	return time.Unix(p.number(name, 0, maxUnix), 0).UTC()
}

func (p *parser) boolean(name string) bool {
	switch raw := string(p.obj[name]); raw {
	case "true":
		return true
	case "false":
		return false
	default:
		p.fail("%s must be true or false", name)
		return false
	}
}

func (p *parser) text(name string) string {
	var s string
	if raw := p.obj[name]; !isString(raw) || json.Unmarshal(raw, &s) != nil {
		p.fail("%s must be a string", name)
	}
	return s
}

func (p *parser) array(name string) []json.RawMessage {
	var list []json.RawMessage
	if raw := p.obj[name]; len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		p.fail("%s must be an array", name)
	}
	return list
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }
