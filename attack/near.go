package attack

import (
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/foilmcp/foil"
)

// near are texts that a careless comparison takes for another one: shorter, longer,
// in other letters, empty, with white space around.
func near(text string) iter.Seq2[string, string] {
	other := strings.ToUpper(text)
	if other == text {
		other = strings.ToLower(text)
	}
	return func(yield func(string, string) bool) {
		for what, x := range list(
			"shorter by a character", text[:max(0, len(text)-1)], "longer by a character", text+"2", "in other letters", other,
			"empty", "", "white space before", " "+text, "white space behind", text+" ",
		) {
			if x != text && !yield(what, x) {
				return
			}
		}
	}
}

// A closeToken is a token that differs in little from that of a flow.
type closeToken struct {
	what string
	make func(f *flow) (token string, err error)
}

// closeTo is a token that is minted with a change.
func (b *bout) closeTo(what string, change func(*Minting)) closeToken {
	return closeToken{what, func(f *flow) (string, error) { return b.mintOfMany(f, change) }}
}

// andClose plays the variants, and then on one more flow the tokens, each in the
// first and in later rounds. Where the variants get through, so would these.
func (b *bout) andClose(tokens []closeToken, variants ...variant) (string, error) {
	said := len(b.notes)
	v, err := b.each(variants...)
	if err != nil || v != Refused {
		return v, err
	}
	f, err := b.begin()
	if err != nil {
		return "", err
	}
	var pairs []string
	for _, x := range tokens {
		token, err := x.make(f)
		if err != nil {
			return "", err
		}
		pairs = append(pairs, x.what, token)
		for _, round := range b.laterRounds() {
			later, err := b.inRound(token, round)
			if err != nil {
				return "", err
			}
			if later != "" {
				pairs = append(pairs, fmt.Sprintf("%s, in round %d", x.what, round), later)
			}
		}
	}
	if v, err = b.tokens(f, list(pairs...)); err == nil && v == Refused {
		b.notes = b.notes[:said]
		b.note("%d forms", len(variants)+len(pairs)/2)
	}
	return v, err
}

// closeNames are tokens of an Alice who is spelt a little differently.
func (b *bout) closeNames(names iter.Seq2[string, string], whose func(name string) foil.Principal) []closeToken {
	var tokens []closeToken
	for what, name := range names {
		if who := whose(name); !who.IsZero() {
			tokens = append(tokens, b.closeTo(what, func(m *Minting) { m.Login.Principal = who }))
		}
	}
	return tokens
}

// closeTargets are tokens of targets whose names are nearly that of the call.
func (b *bout) closeTargets() []closeToken {
	var tokens []closeToken
	// Which ones there are does not depend on the name, which differs by scene.
	for what := range near("name") {
		tokens = append(tokens, b.closeTo("a target "+what, func(m *Minting) {
			for w, target := range near(m.Call.Target) {
				if w == what {
					m.Call.Target = target
					return
				}
			}
		}))
	}
	return tokens
}

// closeMethods are tokens of methods whose names are nearly that of the call.
func (b *bout) closeMethods() []closeToken {
	var tokens []closeToken
	for what, method := range near(b.Mode.kind()) {
		tokens = append(tokens, b.closeTo("a method "+what, func(m *Minting) { m.Call.Method = method }))
	}
	return tokens
}

// closeAudiences are tokens of services whose names are nearly that of this one, and
// one of none.
func (b *bout) closeAudiences() []closeToken {
	tokens := []closeToken{b.audienced("no audience", noAudience)}
	for what, x := range near(b.Minter.Audience) {
		tokens = append(tokens, b.audienced("an audience "+what, x))
	}
	return tokens
}

// noAudience stands for a token that does not say whose it is. No audience is text
// of this kind, since a Guard refuses to be given one that is not Unicode.
const noAudience = "\xff"

// In a string the quotes would be escaped, so this is the claim.
var audienceClaim = regexp.MustCompile(`,"aud":"(?:[^"\\]|\\.)*"`)

// withAudience is a payload with another audience. No Guard would mint some of them.
func withAudience(payload []byte, audience string) []byte {
	claim := ""
	if audience != noAudience {
		claim = `,"aud":` + quote(audience)
	}
	return audienceClaim.ReplaceAllLiteral(payload, []byte(claim))
}

// audienced is the token with another audience.
func (b *bout) audienced(what, audience string) closeToken {
	return closeToken{what, func(f *flow) (string, error) {
		return b.edited(f.token, func(payload []byte) []byte { return withAudience(payload, audience) })
	}}
}
