package baotest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A transitKey is a key of the stand-in's Transit engine, AES-256-GCM.
type transitKey struct {
	name                      string
	versions                  []*transitVersion // the first is 1
	minOpen, minSeal, minHave int
	auto                      int
}

type transitVersion struct {
	aead cipher.AEAD
	made time.Time
}

func (k *transitKey) rotate() {
	secret := make([]byte, 32)
	rand.Read(secret)
	block, _ := aes.NewCipher(secret)
	aead, _ := cipher.NewGCM(block)
	k.versions = append(k.versions, &transitVersion{aead, time.Now()})
}

func (s *standIn) transit(c *call, keys map[string]*transitKey, rest string) *reply {
	part := strings.Split(rest, "/")
	if len(part) < 2 {
		return s.as("denied")
	}
	k := keys[part[1]]
	if part[0] == "keys" && len(part) == 2 && c.method == http.MethodPost {
		if k == nil {
			k = &transitKey{name: part[1], minOpen: 1}
			k.rotate()
			keys[part[1]] = k
		}
		return s.key(k)
	}
	switch {
	case k == nil && part[0] == "keys":
		return s.as("transit none")
	case k == nil:
		return s.as("decrypt no key")
	case part[0] == "encrypt":
		return s.encrypt(c, k)
	case part[0] == "decrypt":
		return s.decrypt(c, k)
	case len(part) == 2:
		return s.key(k)
	}
	switch part[2] {
	case "rotate":
		k.rotate()
	case "config":
		for name, to := range map[string]*int{"min_decryption_version": &k.minOpen, "min_encryption_version": &k.minSeal} {
			if n, ok := c.body[name].(float64); ok {
				*to = int(n)
			}
		}
		if text, ok := c.body["auto_rotate_period"].(string); ok {
			d, _ := time.ParseDuration(text)
			k.auto = int(d / time.Second)
		}
	case "trim":
		if k.minSeal == 0 {
			return s.as("transit trim refused")
		}
		n, _ := c.body["min_available_version"].(float64)
		k.minHave = int(n)
	}
	return s.key(k)
}

func (s *standIn) key(k *transitKey) *reply {
	made := make(map[string]any)
	for i, v := range k.versions {
		if i+1 >= k.minOpen {
			made[strconv.Itoa(i+1)] = v.made.Unix()
		}
	}
	return s.as("transit key").set(k.name, "data", "name").set(made, "data", "keys").set(len(k.versions), "data", "latest_version").
		set(k.minOpen, "data", "min_decryption_version").set(k.minSeal, "data", "min_encryption_version").
		set(k.minHave, "data", "min_available_version").set(k.auto, "data", "auto_rotate_period")
}

func batch(c *call) []map[string]any {
	var items []map[string]any
	list, _ := c.body["batch_input"].([]any)
	for _, x := range list {
		m, _ := x.(map[string]any)
		items = append(items, m)
	}
	return items
}

func (s *standIn) encrypt(c *call, k *transitKey) *reply {
	version := len(k.versions)
	aead := k.versions[version-1].aead
	r := s.as("encrypt")
	var results []any
	for _, it := range batch(c) {
		plain, _ := base64.StdEncoding.DecodeString(fmt.Sprint(it["plaintext"]))
		ad, _ := base64.StdEncoding.DecodeString(fmt.Sprint(it["associated_data"]))
		nonce := make([]byte, aead.NonceSize())
		rand.Read(nonce)
		text := fmt.Sprintf("vault:v%d:%s", version, base64.StdEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, ad)))
		results = append(results, fill(r, 0, "ciphertext", text, "key_version", version))
	}
	return r.set(results, "data", "batch_results")
}

// fill copies item i of a recorded batch and sets some of its fields.
func fill(r *reply, i int, pairs ...any) map[string]any {
	item := make(map[string]any)
	for name, v := range r.body["data"].(map[string]any)["batch_results"].([]any)[i].(map[string]any) {
		item[name] = v
	}
	for j := 0; j < len(pairs); j += 2 {
		item[pairs[j].(string)] = pairs[j+1]
	}
	return item
}

// The items of the recorded answer "decrypt some".
const (
	opened = iota
	tampered
	tooOld
	tooNew
)

func (s *standIn) decrypt(c *call, k *transitKey) *reply {
	r := s.as("decrypt some")
	var results []any
	good := false
	for _, it := range batch(c) {
		plain, what := k.open(fmt.Sprint(it["ciphertext"]), fmt.Sprint(it["associated_data"]))
		if what != opened {
			results = append(results, fill(r, what))
			continue
		}
		good = true
		results = append(results, fill(r, opened, "plaintext", base64.StdEncoding.EncodeToString(plain)))
	}
	if !good {
		r = s.as("decrypt none")
	}
	return r.set(results, "data", "batch_results")
}

func (k *transitKey) open(token, ad64 string) (plain []byte, what int) {
	digits, body, _ := strings.Cut(strings.TrimPrefix(token, "vault:v"), ":")
	version, _ := strconv.Atoi(digits)
	switch {
	case version > len(k.versions):
		return nil, tooNew
	case version < k.minOpen:
		return nil, tooOld
	}
	aead := k.versions[version-1].aead
	raw, err := base64.StdEncoding.DecodeString(body)
	ad, _ := base64.StdEncoding.DecodeString(ad64)
	if err != nil || len(raw) < aead.NonceSize() {
		return nil, tampered
	}
	plain, err = aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], ad)
	if err != nil {
		return nil, tampered
	}
	return plain, opened
}
