package attack

import (
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// integrity are the attacks on the token itself.
func integrity() []Attack {
	onToken := func(name, does, by string, forms func(b *bout, f *flow) (iter.Seq2[string, string], error)) Attack {
		return Attack{
			Name: name, Does: does, StoppedBy: by, must: []string{Refused},
			run: func(b *bout) (string, error) {
				f, err := b.begin()
				if err != nil {
					return "", err
				}
				seq, err := forms(b, f)
				if err != nil {
					return "", err
				}
				return b.tokens(f, seq)
			},
		}
	}
	plain := func(forms func(token string) iter.Seq2[string, string]) func(*bout, *flow) (iter.Seq2[string, string], error) {
		return func(_ *bout, f *flow) (iter.Seq2[string, string], error) { return forms(f.token), nil }
	}
	return []Attack{
		onToken("tamper-each-part", "flips one bit in prefix, key id, nonce, body, tag; at every position", "integrity", plain(flips)),
		onToken("truncate", "cuts the token at every length, from either end", "integrity", plain(cuts)),
		onToken("extend", "appends to the token", "integrity", plain(extensions)),
		onToken("tampered-suffix", "appends -TAMPERED", "integrity", plain(func(token string) iter.Seq2[string, string] {
			return list("-TAMPERED", token+"-TAMPERED")
		})),
		{
			Name: "alias-spelling", Does: "the same token in another spelling: padding, alphabet, white space, stray bits, escapes",
			StoppedBy: "strict decode", must: []string{Refused}, run: runAliases,
		},
		onToken("version-swap", "another format's prefix", "integrity", plain(otherPrefixes)),
		onToken("kid-swap", "another key's id", "integrity", kidSwaps),
		onToken("forge-unkeyed", "forges the claims without the key: plain, alg none, an all-zero key, the prefix as key", "integrity", forgeries),
		onToken("cross-format", "the same claims under the same secret in a format that is not configured", "integrity",
			func(b *bout, f *flow) (iter.Seq2[string, string], error) {
				payload, err := b.Minter.Payload(b.ctx, f.token)
				if err != nil {
					return nil, err
				}
				if b.Minter.Foreign == nil {
					return nil, errors.New("the minter cannot seal in another format")
				}
				token, err := b.Minter.Foreign(payload)
				b.hide("a token of another format", token)
				return list("the other format", token), err
			}),
	}
}

func list(pairs ...string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := 0; i < len(pairs); i += 2 {
			if !yield(pairs[i], pairs[i+1]) {
				return
			}
		}
	}
}

// flips changes one bit of every decoded byte, and of every character.
func flips(token string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		a := dissect(token)
		for i := range a.bytes() {
			if !yield(fmt.Sprintf("a bit of byte %d flipped (%s)", i, a.part(i)), a.flipped(i)) {
				return
			}
		}
		for i := range len(token) {
			text := []byte(token)
			// A lower bit of a character makes another character that
			// JSON can carry as it is, but for two.
			for bit := byte(1); ; bit <<= 1 {
				if text[i] = token[i] ^ bit; text[i] >= ' ' && text[i] != '"' && text[i] != '\\' && text[i] < 0x7f {
					break
				}
			}
			if !yield(fmt.Sprintf("a bit of character %d flipped", i), string(text)) {
				return
			}
		}
	}
}

func cuts(token string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		// An empty token is one that is absent: no-state presents that.
		for n := 1; n < len(token); n++ {
			if !yield(fmt.Sprintf("the first %d characters alone", n), token[:n]) {
				return
			}
		}
		for _, n := range []int{1, 2, 3, 4, 8, len(token) / 2, len(token) - 1} {
			if !yield(fmt.Sprintf("the first %d characters missing", n), token[n:]) {
				return
			}
		}
	}
}

func extensions(token string) iter.Seq2[string, string] {
	a := dissect(token)
	longer := func(more ...byte) string { return a.with(append(append([]byte(nil), a.raw...), more...)) }
	return list(
		"one character more", token+"A",
		"two characters more", token+"AA",
		"three characters more", token+"AAA",
		"four characters more", token+"AAAA",
		"a dot", token+".",
		"a signature's place", token+".AAAA",
		"a NUL", token+"\x00",
		"a byte more inside", longer(0),
		"three bytes more inside", longer(0, 0, 0),
		"itself", token+token,
		"itself after a dot", token+"."+token,
		"itself after a comma", token+","+token,
		"a byte in front", "A"+token,
	)
}

// aliases are other spellings that a lenient decoder would take for the token.
func aliases(token string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		a := dissect(token)
		body := token[len(a.prefix):]
		half := len(token) / 2
		forms := []string{
			"padding", token + strings.Repeat("=", (4-len(body[strings.LastIndexByte(body, '.')+1:])%4)%4),
			"padding too many", token + "==",
			"the other alphabet", a.prefix + strings.NewReplacer("-", "+", "_", "/", "+", "-", "/", "_").Replace(body),
			"a space in front", " " + token,
			"a space behind", token + " ",
			"a space after the prefix", a.prefix + " " + body,
			"a space inside", token[:half] + " " + token[half:],
			"a tab behind", token + "\t",
			"a line feed behind", token + "\n",
			"a line feed inside", token[:half] + "\n" + token[half:],
			"a carriage return inside", token[:half] + "\r" + token[half:],
			"CR LF behind", token + "\r\n",
			"CR LF after the prefix", a.prefix + "\r\n" + body,
			"a NUL behind", token + "\x00",
			"a no-break space behind", token + "\u00a0",
			"a byte order mark in front", "\ufeff" + token,
			"percent-encoding of the prefix", strings.ReplaceAll(token, ".", "%2E"),
			"a percent-encoded space in front", "%20" + token,
			"a plus in front", "+" + token,
			"percent-encoding of a character", token[:half] + fmt.Sprintf("%%%02X", token[half]) + token[half+1:],
			"quotes", `"` + token + `"`,
			"single quotes", "'" + token + "'",
			"an upper-case prefix", strings.ToUpper(a.prefix) + body,
			"a full-width prefix", "ｖ" + token[1:],
			"a scheme", "Bearer " + token,
		}
		if letter, ok := strings.CutSuffix(a.prefix, "1."); ok {
			forms = append(forms, "a leading zero in the version", letter+"01."+body, "a sign in the version", letter+"+1."+body)
		}
		if first, mac, ok := strings.Cut(body, "."); ok {
			forms = append(forms,
				"padding before the mac", a.prefix+first+strings.Repeat("=", (4-len(first)%4)%4)+"."+mac,
				"a line feed before the mac", a.prefix+first+"\n."+mac,
				"a line feed in front of the mac", a.prefix+first+".\n"+mac,
				"a dot more before the mac", a.prefix+first+".."+mac,
			)
		}
		if rest, ok := strings.CutPrefix(token, "vault:v"); ok {
			forms = append(forms, "a leading zero in the version", "vault:v0"+rest, "a sign in the version", "vault:v+"+rest)
		}
		for i := 0; i < len(forms); i += 2 {
			if !yield(forms[i], forms[i+1]) {
				return
			}
		}
		// The last character of a base64 group may hold bits of no byte.
		for what, alias := range strays(token) {
			if !yield(what, alias) {
				return
			}
		}
	}
}

func runAliases(b *bout) (string, error) {
	// The calls have names of different lengths, so that the token of one of
	// them ends with stray bits.
	picks := []func(*Scene) Call{
		nil,
		func(s *Scene) Call { return s.Free },
		func(s *Scene) Call { return s.Prompt },
		func(s *Scene) Call { return s.OtherPrompt },
		func(s *Scene) Call { return s.Resource },
		func(s *Scene) Call { return s.OtherResource },
	}
	for _, pick := range picks {
		f, err := b.beginAs(Alice, pick)
		if err != nil {
			return "", err
		}
		if hasSpare(f.token) {
			return b.tokens(f, aliases(f.token))
		}
	}
	return "", errors.New("every token of this server ends without stray bits")
}

func otherPrefixes(token string) iter.Seq2[string, string] {
	body := token[len(dissect(token).prefix):]
	var pairs []string
	for _, p := range []string{"v0.", "v1.", "v2.", "v11.", "v1", "v1:", "V1.", "h1.", "r1.", "s1.", "vault:v1:", "vault:v2:", ".", ""} {
		pairs = append(pairs, fmt.Sprintf("the prefix %q", p), p+body)
	}
	return list(pairs...)
}

// kidSwaps put the key ids of other keys in front of a good token, and the
// good key id in front of tokens under other keys.
func kidSwaps(b *bout, f *flow) (iter.Seq2[string, string], error) {
	a := dissect(f.token)
	if a.part(0) != "key id" || len(a.raw) < 4 {
		return nil, errFormat
	}
	pairs := []string{
		"a key id of zeros", a.with(append(make([]byte, 4), a.raw[4:]...)),
		"no key id", a.with(a.raw[4:]),
	}
	for _, k := range []Key{Retired, Revoked, Unknown} {
		other, err := b.mint(f, func(m *Minting) { m.Key = k })
		if err != nil {
			return nil, err
		}
		o := dissect(other)
		pairs = append(pairs,
			"another key's id", a.with(append(o.raw[:4:4], a.raw[4:]...)),
			"another key's token under the good id", o.with(append(a.raw[:4:4], o.raw[4:]...)))
		if a.mac != nil {
			pairs = append(pairs, "another key's mac", a.withMAC(o.mac), "the good mac on another key's token", o.withMAC(a.mac))
		}
	}
	return list(pairs...), nil
}

// forgeries are what an attacker who knows the format and all the claims can
// make without a key.
func forgeries(b *bout, f *flow) (iter.Seq2[string, string], error) {
	payload, err := b.Minter.Payload(b.ctx, f.token)
	if err != nil {
		return nil, err
	}
	url64, std64 := base64.RawURLEncoding.EncodeToString, base64.StdEncoding.EncodeToString
	a := dissect(f.token)
	head := append([]byte(nil), a.raw[:min(16, len(a.raw))]...)
	none := url64([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + url64(payload) + "."
	pairs := []string{
		"the claims as they are", string(payload),
		"the claims in base64url", url64(payload),
		"the claims in base64", std64(payload),
		"the claims behind the prefix", a.prefix + url64(payload),
		"the claims after key id and nonce", a.prefix + url64(append(head[:len(head):len(head)], payload...)),
		"the claims with a tag of zeros", a.prefix + url64(append(append(head[:len(head):len(head)], payload...), make([]byte, 16)...)),
		"alg none", none,
		"alg none behind the prefix", a.prefix + none,
		"h1 with a mac of zeros", "h1." + url64(append(make([]byte, 4), payload...)) + "." + url64(make([]byte, 32)),
		"an empty mac", "h1." + url64(append(make([]byte, 4), payload...)) + ".",
		"h1 under the good key id with a mac of zeros", "h1." + url64(append(head[:min(4, len(head)):min(4, len(head))], payload...)) + "." + url64(make([]byte, 32)),
	}
	zeros := make([]byte, 32)
	byPrefix := make([]byte, 32)
	copy(byPrefix, a.prefix)
	for _, format := range []*rawFormat{&rawV1, &rawH1} {
		weak := []struct {
			what string
			key  []byte
		}{{"an all-zero key", zeros}, {"the prefix as key", byPrefix}}
		for what, secret := range list("an all-zero", string(zeros), "an empty", "", "the prefix as", a.prefix) {
			key, err := format.key([]byte(secret))
			if err != nil {
				return nil, err
			}
			weak = append(weak, struct {
				what string
				key  []byte
			}{"a key from " + what + " secret", key})
		}
		for _, k := range weak {
			// Under its own key id, and under the one in force.
			for _, kid := range [][]byte{format.kid(k.key), head[:min(4, len(head))]} {
				t, err := format.seal(k.key, kid, payload)
				if err != nil {
					return nil, err
				}
				pairs = append(pairs, k.what, t)
			}
		}
	}
	return list(pairs...), nil
}
