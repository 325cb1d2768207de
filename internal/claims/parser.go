package claims

import (
	"strconv"

	"github.com/foilmcp/foil/internal/b64u"
	"github.com/foilmcp/foil/internal/canonjson"
)

// A parser walks over one JSON text in one pass. Each method takes what it is
// named for off the front of the rest, which begins at pos, and reports whether it
// was there; after false the text is given up, except where said.
type parser struct {
	text   []byte
	pos    int
	likely Likely
}

// at reports whether the rest begins with c.
func (p *parser) at(c byte) bool { return p.pos < len(p.text) && p.text[p.pos] == c }

func (p *parser) space() {
	for p.pos < len(p.text) && p.text[p.pos] <= ' ' {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// next takes the byte c, with white space before it; on false nothing but white
// space was taken.
func (p *parser) next(c byte) bool {
	p.space()
	if !p.at(c) {
		return false
	}
	p.pos++
	return true
}

func (p *parser) end() bool {
	p.space()
	return p.pos == len(p.text)
}

// member takes the next member of an object up to its value, which the caller
// takes; first is whether it is the first. more is false at the object's end.
func (p *parser) member(first bool) (key []byte, more, ok bool) {
	if first {
		if !p.next('{') {
			return nil, false, false
		}
		if p.next('}') {
			return nil, false, true
		}
	} else {
		if p.next('}') {
			return nil, false, true
		}
		if !p.next(',') {
			return nil, false, false
		}
	}
	key, ok = p.key()
	if !ok || !p.next(':') {
		return nil, false, false
	}
	p.space()
	return key, true, true
}

func (p *parser) key() ([]byte, bool) {
	p.space()
	if key, ok := p.plain(); ok {
		return key, true
	}
	var s string
	ok := p.str(&s, "")
	return []byte(s), ok
}

// plain takes a string of printable ASCII without escapes, without a copy; on
// false nothing was taken.
func (p *parser) plain() ([]byte, bool) {
	if !p.at('"') {
		return nil, false
	}
	start := p.pos + 1
	end := start + canonjson.Plain(p.text[start:])
	if end == len(p.text) || p.text[end] != '"' {
		return nil, false
	}
	p.pos = end + 1
	return p.text[start:end], true
}

// str takes any string. If it is likely, no memory is taken for it.
func (p *parser) str(out *string, likely string) bool {
	if s, ok := p.plain(); ok {
		if string(s) == likely {
			*out = likely
		} else {
			*out = string(s)
		}
		return true
	}
	s, n, err := canonjson.DecodeString(p.text[p.pos:])
	if err != nil {
		return false
	}
	*out = s
	p.pos += n
	return true
}

// skip takes any value.
func (p *parser) skip() bool {
	n, err := canonjson.Skip(p.text[p.pos:], &limits)
	if err != nil {
		return false
	}
	p.pos += n
	return true
}

// scalar takes the characters of a number (RFC 8259, section 6); it is empty if
// there is none.
func (p *parser) scalar() []byte {
	s, start := p.text, p.pos
	n := start
	if n < len(s) && s[n] == '-' {
		n++
	}
	if n < len(s) && s[n] == '0' {
		n++
	} else if end := digits(s, n); end > n {
		n = end
	} else {
		return nil
	}
	if n < len(s) && s[n] == '.' {
		end := digits(s, n+1)
		if end == n+1 {
			return nil
		}
		n = end
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		end := digits(s, n)
		if end == n {
			return nil
		}
		n = end
	}
	p.pos = n
	return s[start:n]
}

// digits returns where the run of digits from n on ends.
func digits(s []byte, n int) int {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func (p *parser) literal(want string) bool { return string(p.scalar()) == want }

// number takes any JSON number that is finite as a float64.
func (p *parser) number(out *float64) bool {
	s := p.scalar()
	if f, ok := short(s); ok {
		*out = f
		return true
	}
	f, err := strconv.ParseFloat(string(s), 64)
	*out = f
	return err == nil
}

// short reads a decimal of up to 15 digits, three of them behind the point, as
// every time that foil mints is. Both parts are exact, so the quotient is rightly
// rounded.
func short(s []byte) (float64, bool) {
	if len(s) == 0 || len(s) > 16 {
		return 0, false
	}
	var n, scale int64 = 0, 1
	point := false
	for _, c := range s {
		switch {
		case c == '.' && !point:
			point = true
		case c >= '0' && c <= '9':
			n = n*10 + int64(c-'0')
			if point {
				scale *= 10
			}
		default:
			return 0, false
		}
	}
	if n >= 1e15 || scale > 1000 {
		return 0, false
	}
	return float64(n) / float64(scale), true
}

// positive takes an integer from 1 on, in its one spelling.
func (p *parser) positive(out *int) bool {
	s := p.scalar()
	if len(s) == 1 && s[0] > '0' { // most flows are short
		*out = int(s[0] - '0')
		return true
	}
	n, err := strconv.Atoi(string(s))
	*out = n
	return err == nil && n >= 1 && strconv.Itoa(n) == string(s)
}

// bytes takes a string of prefix and the base64url of exactly len(out) bytes. On
// false nothing was taken.
func (p *parser) bytes(prefix string, out []byte) bool {
	// None of these characters could be written in another way: the string
	// ends where it must, or it is not this one.
	rest := p.text[p.pos:]
	end := 1 + len(prefix) + b64u.EncodedLen(len(out))
	if len(rest) <= end || rest[0] != '"' || rest[end] != '"' || string(rest[1:1+len(prefix)]) != prefix ||
		!b64u.DecodeFixed(out, rest[1+len(prefix):end]) {
		return false
	}
	p.pos += end + 1
	return true
}
