package claims

import (
	"bytes"
	"strconv"

	"github.com/foilmcp/foil/internal/canonjson"
)

// A parser walks over one JSON text in one pass. Each method takes what it is
// named for off the front of rest and reports whether it was there; after false
// the text is given up, except where said.
type parser struct {
	rest []byte
}

func (p *parser) space() {
	for len(p.rest) > 0 {
		switch p.rest[0] {
		case ' ', '\t', '\n', '\r':
			p.rest = p.rest[1:]
		default:
			return
		}
	}
}

// next takes the byte c, with white space before it; on false nothing but white
// space was taken.
func (p *parser) next(c byte) bool {
	p.space()
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *parser) end() bool {
	p.space()
	return len(p.rest) == 0
}

// object takes an object. It calls member with each decoded key, which is good
// until member returns; member takes the value.
func (p *parser) object(member func(key []byte) bool) bool {
	if !p.next('{') {
		return false
	}
	if p.next('}') {
		return true
	}
	for {
		key, ok := p.key()
		if !ok || !p.next(':') {
			return false
		}
		p.space()
		if !member(key) {
			return false
		}
		if p.next('}') {
			return true
		}
		if !p.next(',') {
			return false
		}
	}
}

func (p *parser) key() ([]byte, bool) {
	p.space()
	if key, ok := p.plain(); ok {
		return key, true
	}
	var s string
	ok := p.text(&s)
	return []byte(s), ok
}

// plain takes a string of printable ASCII without escapes, without a copy; on
// false nothing was taken.
func (p *parser) plain() ([]byte, bool) {
	if len(p.rest) == 0 || p.rest[0] != '"' {
		return nil, false
	}
	n := bytes.IndexByte(p.rest[1:], '"')
	if n < 0 {
		return nil, false
	}
	s := p.rest[1 : 1+n]
	for _, c := range s {
		if c < 0x20 || c > 0x7e || c == '\\' {
			return nil, false
		}
	}
	p.rest = p.rest[n+2:]
	return s, true
}

func (p *parser) text(out *string) bool {
	if len(p.rest) == 0 || p.rest[0] != '"' {
		return false
	}
	s, n, err := canonjson.DecodeString(p.rest)
	if err != nil {
		return false
	}
	*out, p.rest = s, p.rest[n:]
	return true
}

// skip takes any value.
func (p *parser) skip() bool {
	n, err := canonjson.Skip(p.rest, &limits)
	if err != nil {
		return false
	}
	p.rest = p.rest[n:]
	return true
}

// scalar takes the characters of a number; what they are is for the caller.
func (p *parser) scalar() []byte {
	n := 0
	for n < len(p.rest) && (p.rest[n] >= '0' && p.rest[n] <= '9' || bytes.IndexByte([]byte("+-.eE"), p.rest[n]) >= 0) {
		n++
	}
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

func (p *parser) literal(want string) bool { return string(p.scalar()) == want }

// number takes any JSON number that is finite as a float64.
func (p *parser) number(out *float64) bool {
	s := p.scalar()
	if n, err := canonjson.Skip(s, &limits); err != nil || n != len(s) {
		return false // strconv takes more than JSON does
	}
	f, err := strconv.ParseFloat(string(s), 64)
	*out = f
	return err == nil
}

// positive takes an integer from 1 on, in its one spelling.
func (p *parser) positive(out *int) bool {
	s := p.scalar()
	n, err := strconv.Atoi(string(s))
	*out = n
	return err == nil && n >= 1 && strconv.Itoa(n) == string(s)
}

// bytes takes a string of prefix and the base64url of exactly len(out) bytes. On
// false nothing was taken.
func (p *parser) bytes(prefix string, out []byte) bool {
	before := p.rest
	s, ok := p.plain()
	if ok && len(s) == len(prefix)+b64.EncodedLen(len(out)) && string(s[:len(prefix)]) == prefix {
		if n, err := b64.Decode(out, s[len(prefix):]); err == nil && n == len(out) {
			return true
		}
	}
	p.rest = before
	return false
}
