// Package claims reads and writes the payload that every codec protects: a
// compact JSON object whose first part is the format of the MCP Python SDK and
// whose second part is foil's own (docs/wire.md). It knows the form of each
// claim and nothing of what it must equal; that is the Guard's work.
package claims

import (
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/foilmcp/foil/internal/b64u"
	"github.com/foilmcp/foil/internal/canonjson"
)

// Version is the only value of the claim v.
const Version = 1

// IDSize is the length of a token's and of a flow's identity in bytes.
const IDSize = 16

// A Kind is the letter that stands for a question's method in the claim k.
type Kind byte

// The kinds of questions that MCP 2026-07-28 knows.
const (
	Elicitation Kind = 'e'
	Sampling    Kind = 's'
	Roots       Kind = 'r'
)

// An Asked is one question as it went out.
type Asked struct {
	Key    string
	Kind   Kind
	Digest [32]byte // SHA-256 of the canonical request object
}

// Claims are what a token says. Strings are WTF-8; times are seconds since the
// Unix epoch, with fractions.
type Claims struct {
	IssuedAt, Expires float64
	Method, Target    string
	Arguments         [16]byte // python-v1 digest, cut
	State             string
	Audience          string
	HasAudience       bool
	Principal         [saltSize + tagSize]byte // salt, then tag
	HasPrincipal      bool

	// Own is whether the token has foil's claims. A replica of the Python
	// SDK mints without them.
	Own       bool
	Exact     [32]byte
	ID, Flow  [IDSize]byte
	Round     int
	Deadline  float64
	Questions []Asked // sorted by key; empty: nothing was asked
}

// Seconds is a time as tokens carry it.
func Seconds(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}

// Time is the time that a token carries. What lies beyond the years 1 to 9999,
// where calendars and stores end, is cut to them.
func Time(seconds float64) time.Time {
	const first, last = -62135596800, 253402300799
	whole, frac := math.Modf(max(first, min(last, seconds)))
	return time.Unix(int64(whole), int64(math.Round(frac*1e9)))
}

// Append appends the payload to dst.
func (c *Claims) Append(dst []byte) []byte {
	dst = append(dst, `{"v":1,"iat":`...)
	dst = appendTime(dst, c.IssuedAt)
	dst = append(dst, `,"exp":`...)
	dst = appendTime(dst, c.Expires)
	dst = append(dst, `,"m":`...)
	dst = canonjson.AppendString(dst, c.Method)
	dst = append(dst, `,"t":`...)
	dst = canonjson.AppendString(dst, c.Target)
	dst = append(dst, `,"a":"`...)
	dst = b64u.Append(dst, c.Arguments[:])
	dst = append(dst, `","s":`...)
	dst = canonjson.AppendString(dst, c.State)
	if c.HasAudience {
		dst = append(dst, `,"aud":`...)
		dst = canonjson.AppendString(dst, c.Audience)
	}
	if c.HasPrincipal {
		dst = append(dst, `,"p":"`...)
		dst = b64u.Append(dst, c.Principal[:])
		dst = append(dst, '"')
	}
	if c.Own {
		dst = c.appendOwn(dst)
	}
	return append(dst, '}')
}

func (c *Claims) appendOwn(dst []byte) []byte {
	dst = append(dst, `,"ax":"`...)
	dst = b64u.Append(dst, c.Exact[:])
	dst = append(dst, `","jti":"`...)
	dst = b64u.Append(dst, c.ID[:])
	dst = append(dst, `","fid":"`...)
	dst = b64u.Append(dst, c.Flow[:])
	dst = append(dst, `","rnd":`...)
	dst = strconv.AppendInt(dst, int64(c.Round), 10)
	dst = append(dst, `,"dl":`...)
	dst = appendTime(dst, c.Deadline)
	dst = append(dst, `,"k":{`...)
	for i := range c.Questions {
		q := &c.Questions[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canonjson.AppendString(dst, q.Key)
		dst = append(dst, ':', '"', byte(q.Kind))
		dst = b64u.Append(dst, q.Digest[:])
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendTime is canonjson.AppendFloat, faster for whole milliseconds in reach of
// a clock: their decimal is the shortest that reads as the same float64.
func appendTime(dst []byte, seconds float64) []byte {
	ms := math.Round(seconds * 1000)
	if !(ms > 0 && ms < 1e15) || ms/1000 != seconds {
		return canonjson.AppendFloat(dst, seconds)
	}
	n := int64(ms)
	dst = strconv.AppendInt(dst, n/1000, 10)
	f := n % 1000
	dst = append(dst, '.', byte('0'+f/100))
	if f%100 != 0 {
		dst = append(dst, byte('0'+f/10%10))
	}
	if f%10 != 0 {
		dst = append(dst, byte('0'+f%10))
	}
	return dst
}

// Find returns the question with this key.
func (c *Claims) Find(key string) (*Asked, bool) {
	i, ok := slices.BinarySearchFunc(c.Questions, key, func(q Asked, k string) int { return strings.Compare(q.Key, k) })
	if !ok {
		return nil, false
	}
	return &c.Questions[i], true
}

const (
	saltSize = 8
	tagSize  = 16
	tagLabel = "mcp/request-state/principal:"
)

// SetPrincipal sets the claim p for a principal: a salt, then the tag.
func (c *Claims) SetPrincipal(salt [saltSize]byte, principal string) {
	c.Principal, c.HasPrincipal = tagged(salt, principal), true
}

// IsPrincipal reports, in constant time, whether the claim p is that of
// principal. A token without the claim is nobody's.
func (c *Claims) IsPrincipal(principal string) bool {
	want := tagged([saltSize]byte(c.Principal[:]), principal)
	return c.HasPrincipal && subtle.ConstantTimeCompare(want[:], c.Principal[:]) == 1
}

func tagged(salt [saltSize]byte, principal string) (p [saltSize + tagSize]byte) {
	b := make([]byte, 0, 192) // most fit, and stay on the stack
	b = append(b, tagLabel...)
	b = append(b, salt[:]...)
	b = append(b, principal...)
	sum := sha256.Sum256(b)
	copy(p[:], salt[:])
	copy(p[saltSize:], sum[:tagSize])
	return p
}
