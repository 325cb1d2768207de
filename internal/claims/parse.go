package claims

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/foilmcp/foil/internal/canonjson"
)

// ErrMalformed is returned for a payload that is not of this form.
var ErrMalformed = errors.New("claims: malformed payload")

// A payload comes out of an authenticated token, whose length is bounded by the
// Guard; here only claims that are not known are.
var limits = canonjson.Limits{MaxBytes: MaxBytes, MaxDepth: 16}

// MaxBytes is the longest payload that is read.
const MaxBytes = 64 << 20

type seen uint32

const (
	seenV seen = 1 << iota
	seenIat
	seenExp
	seenM
	seenT
	seenA
	seenS
	seenAud
	seenP
	seenAx
	seenJti
	seenFid
	seenRnd
	seenDl
	seenK

	required = seenV | seenIat | seenExp | seenM | seenT | seenA | seenS
	own      = seenAx | seenJti | seenFid | seenRnd | seenDl | seenK
)

func claimOf(key []byte) seen {
	switch string(key) {
	case "v":
		return seenV
	case "iat":
		return seenIat
	case "exp":
		return seenExp
	case "m":
		return seenM
	case "t":
		return seenT
	case "a":
		return seenA
	case "s":
		return seenS
	case "aud":
		return seenAud
	case "p":
		return seenP
	case "ax":
		return seenAx
	case "jti":
		return seenJti
	case "fid":
		return seenFid
	case "rnd":
		return seenRnd
	case "dl":
		return seenDl
	case "k":
		return seenK
	}
	return 0
}

// inOrder are the claims as Append writes them, with all that stands between one
// value and the next.
var inOrder = [...]struct {
	text  string
	claim seen
}{
	{`{"v":`, seenV},
	{`,"iat":`, seenIat},
	{`,"exp":`, seenExp},
	{`,"m":`, seenM},
	{`,"t":`, seenT},
	{`,"a":`, seenA},
	{`,"s":`, seenS},
	{`,"aud":`, seenAud},
	{`,"p":`, seenP},
	{`,"ax":`, seenAx},
	{`,"jti":`, seenJti},
	{`,"fid":`, seenFid},
	{`,"rnd":`, seenRnd},
	{`,"dl":`, seenDl},
	{`,"k":`, seenK},
}

const optional = seenAud | seenP

// A Likely is what a payload probably says. Strings that turn out so share its
// memory; it has no other effect.
type Likely struct{ Method, Target, Audience string }

// Parse reads a payload. Claims it does not know are ignored, as the Python SDK
// does; a claim that is given twice, is missing, or is of another type is an
// error, and so is a payload with only some of foil's own claims.
func Parse(payload []byte) (*Claims, error) {
	c := new(Claims)
	if err := c.Parse(payload); err != nil {
		return nil, err
	}
	return c, nil
}

// Parse is the function [Parse] into c, which must be zero and after an error is
// of no use.
func (c *Claims) Parse(payload []byte) error { return c.ParseLikely(payload, Likely{}) }

// ParseLikely is the method Parse, and faster for a payload that says likely.
func (c *Claims) ParseLikely(payload []byte, likely Likely) error {
	if len(payload) > MaxBytes {
		return ErrMalformed
	}
	p := parser{text: payload, likely: likely}
	var have seen
	next := 0 // in inOrder
	for first := true; ; first = false {
		claim, more, ok := p.claim(first, &next)
		if !ok {
			return ErrMalformed
		}
		if !more {
			break
		}
		if have&claim != 0 || claim == 0 && !p.skip() || claim != 0 && !c.set(claim, &p) {
			return ErrMalformed
		}
		have |= claim
	}
	if !p.end() || have&required != required {
		return ErrMalformed
	}
	switch have & own {
	case own:
		c.Own = true
	case 0:
	default:
		return ErrMalformed
	}
	return nil
}

// claim takes the next member up to its value and tells which claim it is, or 0.
// next is the place in inOrder that probably follows.
func (p *parser) claim(first bool, next *int) (claim seen, more, ok bool) {
	rest := p.text[p.pos:]
	for i := *next; i < len(inOrder); i++ {
		if o := &inOrder[i]; bytes.HasPrefix(rest, []byte(o.text)) && first == (i == 0) {
			p.pos += len(o.text)
			p.space()
			*next = i + 1
			return o.claim, true, true
		} else if o.claim&optional == 0 {
			break
		}
	}
	key, more, ok := p.member(first)
	return claimOf(key), more, ok
}

func (c *Claims) set(claim seen, p *parser) bool {
	switch claim {
	case seenV:
		return p.literal("1")
	case seenIat:
		return p.number(&c.IssuedAt)
	case seenExp:
		return p.number(&c.Expires)
	case seenM:
		return p.str(&c.Method, p.likely.Method)
	case seenT:
		return p.str(&c.Target, p.likely.Target)
	case seenA:
		return p.bytes("", c.Arguments[:])
	case seenS:
		return p.str(&c.State, "")
	case seenAud:
		c.HasAudience = true
		return p.str(&c.Audience, p.likely.Audience)
	case seenP:
		c.HasPrincipal = true
		return p.bytes("", c.Principal[:])
	case seenAx:
		return p.bytes("", c.Exact[:])
	case seenJti:
		return p.bytes("", c.ID[:])
	case seenFid:
		return p.bytes("", c.Flow[:])
	case seenRnd:
		return p.positive(&c.Round)
	case seenDl:
		return p.number(&c.Deadline)
	case seenK:
		return c.questions(p)
	}
	return false
}

func (c *Claims) questions(p *parser) bool {
	for first := true; ; first = false {
		key, more, ok := p.member(first)
		if !ok {
			return false
		}
		if !more {
			break
		}
		q := Asked{Key: string(key)}
		switch {
		case p.bytes("e", q.Digest[:]):
			q.Kind = Elicitation
		case p.bytes("s", q.Digest[:]):
			q.Kind = Sampling
		case p.bytes("r", q.Digest[:]):
			q.Kind = Roots
		default:
			return false
		}
		c.Questions = append(c.Questions, q)
	}
	slices.SortFunc(c.Questions, func(a, b Asked) int { return strings.Compare(a.Key, b.Key) })
	for i := 1; i < len(c.Questions); i++ {
		if c.Questions[i-1].Key == c.Questions[i].Key {
			return false
		}
	}
	return true
}
