package claims

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/foilmcp/foil/internal/canonjson"
)

// ErrMalformed is returned for a payload that is not of this form.
var ErrMalformed = errors.New("claims: malformed payload")

// A payload comes out of an authenticated token; the bounds are there so that
// a mistake of a minting peer stays cheap.
var limits = canonjson.Limits{MaxBytes: 1 << 20, MaxDepth: 16}

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

func claimOf(key string) seen {
	switch key {
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

// Parse reads a payload. Claims it does not know are ignored, as the Python SDK
// does; a claim that is given twice, is missing, or is of another type is an
// error, and so is a payload with only some of foil's own claims.
func Parse(payload []byte) (*Claims, error) {
	c := new(Claims)
	var have seen
	bad := false
	err := canonjson.Object(payload, &limits, func(key string, value []byte) bool {
		claim := claimOf(key)
		if claim == 0 {
			return true
		}
		if have&claim != 0 || !c.set(claim, value) {
			bad = true
			return false
		}
		have |= claim
		return true
	})
	if err != nil || bad || have&required != required {
		return nil, ErrMalformed
	}
	switch have & own {
	case own:
		c.Own = true
	case 0:
	default:
		return nil, ErrMalformed
	}
	return c, nil
}

func (c *Claims) set(claim seen, v []byte) bool {
	switch claim {
	case seenV:
		return string(v) == "1"
	case seenIat:
		return number(v, &c.IssuedAt)
	case seenExp:
		return number(v, &c.Expires)
	case seenM:
		return text(v, &c.Method)
	case seenT:
		return text(v, &c.Target)
	case seenA:
		return raw(v, c.Arguments[:])
	case seenS:
		return text(v, &c.State)
	case seenAud:
		c.Audience = new(string)
		return text(v, c.Audience)
	case seenP:
		c.Principal = make([]byte, saltSize+tagSize)
		return raw(v, c.Principal)
	case seenAx:
		return raw(v, c.Exact[:])
	case seenJti:
		return raw(v, c.ID[:])
	case seenFid:
		return raw(v, c.Flow[:])
	case seenRnd:
		n, err := strconv.Atoi(string(v))
		c.Round = n
		return err == nil && n >= 1 && string(strconv.AppendInt(nil, int64(n), 10)) == string(v)
	case seenDl:
		return number(v, &c.Deadline)
	case seenK:
		return c.questions(v)
	}
	return false
}

// number takes any JSON number that is finite as a float64.
func number(v []byte, out *float64) bool {
	if len(v) == 0 || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	*out = f
	return err == nil
}

func text(v []byte, out *string) bool {
	if len(v) == 0 || v[0] != '"' {
		return false
	}
	s, n, err := canonjson.DecodeString(v)
	*out = s
	return err == nil && n == len(v)
}

// raw decodes a quoted base64url text of exactly len(out) bytes. No base64
// character needs a JSON escape, so the quoted text is taken as it is.
func raw(v []byte, out []byte) bool {
	if len(v) < 2 || v[0] != '"' || len(v)-2 != b64.EncodedLen(len(out)) {
		return false
	}
	n, err := b64.Decode(out, v[1:len(v)-1])
	return err == nil && n == len(out)
}

func (c *Claims) questions(v []byte) bool {
	if len(v) == 0 || v[0] != '{' {
		return false
	}
	good := true
	err := canonjson.Object(v, &limits, func(key string, value []byte) bool {
		q := Asked{Key: key}
		good = len(value) > 2 && value[0] == '"'
		if !good {
			return false
		}
		// The kind's letter stands where the opening quote would: put it
		// aside and read the rest as a quoted text.
		q.Kind = Kind(value[1])
		quoted := append([]byte{'"'}, value[2:]...)
		good = (q.Kind == Elicitation || q.Kind == Sampling || q.Kind == Roots) && raw(quoted, q.Digest[:])
		c.Questions = append(c.Questions, q)
		return good
	})
	if err != nil || !good {
		return false
	}
	slices.SortFunc(c.Questions, func(a, b Asked) int { return strings.Compare(a.Key, b.Key) })
	for i := 1; i < len(c.Questions); i++ {
		if c.Questions[i-1].Key == c.Questions[i].Key {
			return false
		}
	}
	return true
}
