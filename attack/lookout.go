package attack

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
)

// lookouts only look at what they get.
func lookouts() []Attack {
	return []Attack{
		{
			Name: "claim-theft", Does: "reads the state, and the claim check in it, out of the token, or out of two", StoppedBy: "codec",
			must: []string{Holds}, run: runTheft,
		},
		{
			Name: "oracle", Does: "compares the replies to all refused states", StoppedBy: "one wire error",
			must: []string{Holds}, run: runOracle,
		},
	}
}

func runTheft(b *bout) (string, error) {
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	state, err := b.Minter.Read(b.ctx, f.token)
	if err != nil {
		return "", fmt.Errorf("read the honest token: %w", err)
	}
	b.hide("a state", state)
	// What a client makes of the token without a key: as it is, and decoded.
	texts := [][]byte{[]byte(f.token), dissect(f.token).raw}
	for part := range strings.SplitSeq(f.token, ".") {
		if raw, err := base64.RawURLEncoding.DecodeString(part); err == nil {
			texts = append(texts, raw)
		}
	}
	if finding, err := b.alike(f.token); finding != "" || err != nil {
		return finding, err
	}
	// The state lies in the payload as a JSON string.
	quoted := strings.Trim(quote(state), `"`)
	readable := false
	for _, text := range texts {
		if bytes.Contains(text, []byte(claimcheck.Prefix)) {
			return "the token shows a claim check", nil
		}
		readable = readable || len(quoted) >= 8 && bytes.Contains(text, []byte(quoted))
	}
	if !b.Minter.readable() {
		if readable {
			return "the token shows the state", nil
		}
		b.note("nothing of the state can be read")
		return Holds, nil
	}
	// Whoever has the token can read it: then no claim must get into one.
	_, err = b.Minter.Mint(b.ctx, Minting{Call: f.call, Login: f.login, State: claimcheck.Prefix + strings.Repeat("A", 32), Questions: f.questions})
	if err == nil {
		return "a claim check was sealed into a token that can be read", nil
	}
	b.note("the state can be read, and claim checks are refused at sealing")
	return Holds, nil
}

// alike says what one token tells of another: what lies under one nonce can be read
// once one of the two is known, and one tag for one person tells whose they are.
func (b *bout) alike(token string) (string, error) {
	other, err := b.begin()
	if err != nil {
		return "", err
	}
	const kid, nonce = 4, 12
	x, y := dissect(token), dissect(other.token)
	if x.prefix == "v1." && len(x.raw) > kid+nonce && len(y.raw) > kid+nonce && bytes.Equal(x.raw[kid:kid+nonce], y.raw[kid:kid+nonce]) {
		return "two tokens have one nonce", nil
	}
	mine, err := b.lineage(token)
	if err != nil {
		return "", err
	}
	its, err := b.lineage(other.token)
	if err != nil {
		return "", err
	}
	// The claim begins with its salt, eight bytes that are eleven characters.
	const salt = 10
	if len(mine.Holder) > salt && len(its.Holder) > salt && mine.Holder[:salt] == its.Holder[:salt] {
		return "two tokens name their holder alike", nil
	}
	if mine.ID == its.ID || mine.Flow == its.Flow {
		return "two tokens have one identity", nil
	}
	return "", nil
}

// causes are presentations that are refused, each for another reason.
func (b *bout) causes() []variant {
	return []variant{
		b.changed("no token at all", func(f *flow) *Request { return f.with("x") }),
		b.changed("a tampered token", func(f *flow) *Request { return f.with(f.token[:len(f.token)-1]) }),
		b.changed("a token that is too long", func(f *flow) *Request { return f.with(strings.Repeat("A", 1<<17)) }),
		b.minted("an unknown key", func(m *Minting) { m.Key = Unknown }),
		b.minted("a retired key", func(m *Minting) { m.Key = Retired }),
		b.minted("an expired token", func(m *Minting) { m.At = b.Minter.now().Add(-b.Minter.ttl() - time.Minute) }),
		b.minted("a token of the future", func(m *Minting) { m.At = b.Minter.now().Add(time.Hour) }),
		b.minted("another audience", func(m *Minting) { m.Audience = "another-service" }),
		b.minted("another tool", func(m *Minting) { m.Call.Target += "-not" }),
		b.minted("another method", func(m *Minting) { m.Call.Method = "completion/complete" }),
		b.minted("other arguments", func(m *Minting) { m.Call = m.Call.With("x", "1") }),
		b.minted("another principal", func(m *Minting) { m.Login = Bob }),
		b.minted("too many rounds", func(m *Minting) { m.Round = b.Minter.maxRounds() + 1 }),
		b.minted("a flow past its deadline", func(m *Minting) {
			m.At, m.FlowLimit = b.Minter.now().Add(-time.Minute), time.Second
		}),
		{what: "a spent token", make: func() (*flow, *Request, error) {
			f, err := b.spend(0)
			if err != nil {
				return nil, nil, err
			}
			return f, f.retry(), nil
		}},
		{what: "a spent token with other answers", make: func() (*flow, *Request, error) {
			f, err := b.spend(0)
			if err != nil {
				return nil, nil, err
			}
			no, err := declined(f.questions)
			if err != nil {
				return nil, nil, err
			}
			return f, f.answering(no), nil
		}},
	}
}

func runOracle(b *bout) (string, error) {
	variants := b.causes()
	var first *Reply
	compared := 0
	for _, v := range variants {
		_, req, err := v.make()
		if err != nil {
			return "", fmt.Errorf("%s: %w", v.what, err)
		}
		o, err := b.send(req)
		if err != nil {
			return "", fmt.Errorf("%s: %w", v.what, err)
		}
		if o.kind == Accepted || o.kind == AskedAgain {
			continue // a layer is off; its own row says so
		}
		if o.kind == Unavailable && b.Mode.Without.Has(foil.BindExpiry) {
			continue // a store's sweep mark stands in for it
		}
		compared++
		if first == nil {
			first = o.reply
			continue
		}
		if what := differ(first, o.reply); what != "" {
			b.note("with %s", v.what)
			return "the replies differ in " + what, nil
		}
	}
	if compared < 2 {
		return "fewer than two refusals to compare", nil
	}
	b.note("%d causes, one reply", compared)
	return Holds, nil
}

// differ names in what two refusals with one JSON-RPC id differ.
func differ(a, b *Reply) string {
	if a.Status != b.Status {
		return "the status"
	}
	if !bytes.Equal(compact(a.Body), compact(b.Body)) {
		return "the body"
	}
	ha, hb := maps.Clone(a.Header), maps.Clone(b.Header)
	for _, h := range []map[string][]string{ha, hb} {
		delete(h, "Date")
	}
	if !maps.EqualFunc(ha, hb, slices.Equal) {
		return "the headers"
	}
	return ""
}

func compact(text []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}
