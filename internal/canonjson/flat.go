package canonjson

import (
	"bytes"
	"crypto/sha256"
	"strconv"
)

// Most arguments are a short, compact object of strings, integers and literals.
// Such a document needs no buffers but those on the stack. Whatever is not
// certainly one, or not certainly right, is left to the parser.

const (
	flatBytes   = 384
	flatMembers = 16
	flatDigits  = 18
)

// A flatMember is a member by the first eight bytes of its key and by place in
// the text, 16 bits each: its start, the ends of its key and of its value, and
// the first digit of an integer, else 0.
type flatMember struct{ prefix, places uint64 }

func (m flatMember) start() int  { return int(m.places & 0xffff) }
func (m flatMember) keyEnd() int { return int(m.places >> 16 & 0xffff) }
func (m flatMember) end() int    { return int(m.places >> 32 & 0xffff) }
func (m flatMember) digits() int { return int(m.places >> 48) }

// sumFlat returns the sums of a document of this kind. If ok is false, it says
// nothing about the text.
func sumFlat(text []byte, lim *Limits) (s Sums, ok bool) {
	if len(text) > min(flatBytes, lim.MaxBytes) || len(text) < 2 || text[0] != '{' {
		return Sums{}, false
	}
	var stack [flatMembers]flatMember
	members := stack[:0]
	numbers := false
	for at := 1; ; at++ {
		if len(members) == flatMembers {
			return Sums{}, false
		}
		m, end := readFlat(text, at, lim)
		if end == 0 || end == len(text) {
			return Sums{}, false
		}
		at = end
		numbers = numbers || m.digits() > 0
		members = members[:len(members)+1]
		i := len(members) - 1
		for ; i > 0; i-- {
			c := compareFlat(text, m, members[i-1])
			if c == 0 {
				return Sums{}, false // a key twice
			}
			if c > 0 {
				break
			}
			members[i] = members[i-1]
		}
		members[i] = m
		if text[at] == '}' {
			if at+1 < len(text) {
				return Sums{}, false
			}
			break
		}
		if text[at] != ',' {
			return Sums{}, false
		}
	}

	// An exact integer has an e more and an exponent of two digits at most.
	var buf [flatBytes + 3*flatMembers]byte
	out := buf[:0]
	for _, m := range members {
		out = append(append(out, ','), text[m.start():m.end()]...)
	}
	out[0] = '{'
	s.Python = sha256.Sum256(append(out, '}'))
	if s.Exact = s.Python; !numbers { // both texts are the same
		return s, true
	}
	out = buf[:0]
	for _, m := range members {
		out = append(out, ',')
		if m.digits() == 0 {
			out = append(out, text[m.start():m.end()]...)
			continue
		}
		// One of no value is "0e0": all others begin with another digit.
		n := m.end()
		for n > m.digits()+1 && text[n-1] == '0' {
			n--
		}
		out = append(append(out, text[m.start():n]...), 'e')
		out = strconv.AppendInt(out, int64(m.end()-n), 10)
	}
	out[0] = '{'
	s.Exact = sha256.Sum256(append(out, '}'))
	return s, true
}

// readFlat reads the member at place at and returns where it ends, or 0.
func readFlat(text []byte, at int, lim *Limits) (m flatMember, end int) {
	if at >= len(text) || text[at] != '"' {
		return m, 0
	}
	keyEnd := plainEnd(text, at+1)
	if keyEnd+2 >= len(text) || text[keyEnd] != '"' || text[keyEnd+1] != ':' || hasFold(text[at+1:keyEnd]) {
		return m, 0
	}
	end = keyEnd + 2
	digits := 0
	switch c := text[end]; {
	case c == '"':
		if end = plainEnd(text, end+1); end == len(text) || text[end] != '"' {
			return m, 0
		}
		end++
	case c == '0':
		digits, end = end, end+1 // no other digit may follow, and none does
	case c == '-' || '1' <= c && c <= '9':
		if c == '-' {
			end++
		}
		digits = end
		end = digitsEnd(text, end)
		if n := end - digits; n == 0 || n > min(flatDigits, lim.MaxIntDigits) || text[digits] == '0' {
			return m, 0
		}
	case bytes.HasPrefix(text[end:], []byte("true")), bytes.HasPrefix(text[end:], []byte("null")):
		end += 4
	case bytes.HasPrefix(text[end:], []byte("false")):
		end += 5
	default:
		return m, 0
	}
	m.places = uint64(at) | uint64(keyEnd)<<16 | uint64(end)<<32 | uint64(digits)<<48
	m.prefix = prefixOf(text, at+1, keyEnd-at-1)
	return m, end
}

// compareFlat orders members by their keys.
func compareFlat(text []byte, a, b flatMember) int {
	if a.prefix < b.prefix {
		return -1
	}
	if a.prefix > b.prefix {
		return 1
	}
	return bytes.Compare(text[a.start()+1:a.keyEnd()], text[b.start()+1:b.keyEnd()])
}
